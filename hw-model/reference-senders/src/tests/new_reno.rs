//! RFC 6582 and RFC 5681, checked with values computed by hand.

use fabric_model::{Span, Time};

use crate::{LossEvent, NewRenoConfig, NewRenoSender};

use super::TIMEOUT;

const SEGMENT: u64 = 1_000;

/// A sender, and a clock that advances by one microsecond per acknowledgment.
struct Session {
    sender: NewRenoSender,
    now: Time,
}

impl Session {
    fn new(initial_window: u64) -> Self {
        let config = NewRenoConfig {
            segment: SEGMENT,
            initial_window: initial_window * SEGMENT,
            receive_window: 100 * SEGMENT,
            timeout: TIMEOUT,
        };
        Self { sender: NewRenoSender::new(config), now: Time::ZERO }
    }

    /// Returns the segments that are sent now. A retransmission of segment n is shown as -n - 1.
    fn sent(&mut self) -> Vec<i64> {
        let now = self.now;
        let number = |sequence: u64| (sequence / SEGMENT) as i64;
        std::iter::from_fn(|| self.sender.transmit(now))
            .map(|sent| if sent.retransmission { -number(sent.sequence) - 1 } else { number(sent.sequence) })
            .collect()
    }

    /// Acknowledges all segments before `next`.
    fn ack(&mut self, next: u64) -> Option<LossEvent> {
        self.now = self.now + Span::from_micros(1);
        self.sender.on_ack(self.now, next * SEGMENT, Some(Span::from_micros(10)))
    }

    /// Sends `count` duplicate acknowledgments. Returns the segments sent after each.
    fn duplicates(&mut self, next: u64, count: usize) -> Vec<Vec<i64>> {
        let mut sent = vec![];
        for _ in 0..count {
            self.ack(next);
            sent.push(self.sent());
        }
        sent
    }

    /// Returns cwnd and ssthresh in segments.
    fn windows(&self) -> (u64, u64) {
        (self.sender.cwnd() / SEGMENT, self.sender.ssthresh() / SEGMENT)
    }
}

/// Two losses in one window: segments 1 and 4 of segments 0 to 9.
#[test]
fn two_losses_in_a_window() {
    let mut session = Session::new(8);
    assert_eq!(session.sent(), [0, 1, 2, 3, 4, 5, 6, 7]);
    session.ack(1);
    assert_eq!((session.sent(), session.windows().0), (vec![8, 9], 9), "slow start");
    // RFC 3042: segments 2 and 3 have arrived.
    assert_eq!(session.duplicates(1, 2), [[10], [11]]);
    // Nine segments are in flight. Two more were sent by limited transmit and do not count. Half of 9 is 4 whole
    // segments.
    assert_eq!(session.ack(1), Some(LossEvent::FastRetransmit));
    assert_eq!(session.windows(), (4 + 3, 4));
    assert_eq!(session.sent(), [-2], "segment 1");
    // Six more duplicates, caused by segments 6 to 11: cwnd is 13, and 1 + 13 allows segments 12 and 13.
    assert_eq!(session.duplicates(1, 6), [vec![], vec![], vec![], vec![], vec![12], vec![13]]);
    // The retransmission has arrived and causes a partial acknowledgment of 3 segments: 13 - 3 + 1.
    session.ack(4);
    assert_eq!(session.windows(), (11, 4));
    assert_eq!(session.sent(), [-5, 14], "segment 4, and the segment that the window allows");
    assert_eq!(session.duplicates(4, 2), [[15], [16]], "duplicates caused by 12 and 13");
    assert!(session.sender.in_fast_recovery());
    // A full acknowledgment, of all segments up to 13. Three are in flight, and min(4, 3 + 1) is 4.
    session.ack(14);
    assert_eq!((session.windows(), session.sender.in_fast_recovery()), ((4, 4), false));
    assert_eq!(session.sent(), [17]);
    // Congestion avoidance: after four acknowledged segments the window grows to five.
    session.ack(16);
    assert_eq!(session.windows(), (4, 4));
    session.ack(18);
    assert_eq!(session.windows(), (5, 4));
}

/// RFC 6582, 3.2, step 2: duplicates that cover no more than "recover" do not start a fast retransmit. Here they
/// come after a timeout.
#[test]
fn a_timeout_and_duplicates_behind_it() {
    let mut session = Session::new(4);
    session.sent();
    session.ack(2);
    assert_eq!(session.sent(), [4, 5, 6]);
    let due = session.sender.timer().expect("segments are in flight");
    assert_eq!(due, session.now + Span::from_millis(200), "restarted by the acknowledgment");
    assert_eq!(session.sender.on_timer(session.now), None, "too early");
    session.now = due;
    assert_eq!(session.sender.on_timer(due), Some(LossEvent::Timeout));
    // Five segments are in flight: half is 2.
    assert_eq!(session.windows(), (1, 2));
    assert_eq!(session.sent(), [-3], "segment 2");
    assert_eq!(session.sender.timer(), Some(due + Span::from_millis(400)));
    // A second timeout of the same segment: ssthresh is held constant (RFC 5681, 3.1).
    session.now = due + Span::from_millis(400);
    session.sender.on_timer(session.now);
    assert_eq!((session.windows(), session.sent()), ((1, 2), vec![-3]));
    session.ack(3);
    assert_eq!((session.windows(), session.sent()), ((2, 2), vec![-4, -5]), "slow start, go-back-N");
    let sent = session.duplicates(3, 4);
    assert_eq!(sent, [vec![-6], vec![-7], vec![], vec![]], "limited transmit, no fast retransmit");
    session.ack(7);
    assert_eq!(session.sent(), [7, 8, 9]);
    // "Recover" is 6. The acknowledgment must cover more than that, so the duplicates of 8 start a fast
    // retransmit.
    session.ack(8);
    session.sent();
    session.duplicates(8, 2);
    assert_eq!(session.ack(8), Some(LossEvent::FastRetransmit));
}

#[test]
fn the_timer_runs_while_something_is_in_flight() {
    let mut session = Session::new(2);
    assert_eq!(session.sender.timer(), None);
    session.sent();
    assert_eq!(session.sender.timer(), Some(Time::ZERO + Span::from_millis(1_000)));
    session.ack(2);
    assert_eq!(session.sender.timer(), None);
    assert_eq!(session.ack(1), None, "an old acknowledgment");
    assert_eq!(session.ack(50), None, "an acknowledgment of data never sent");
    assert_eq!(session.sender.unacknowledged(), 2 * SEGMENT);
}

/// RFC 6582, 3.2, step 3: only the first partial acknowledgment restarts the timer.
#[test]
fn the_impatient_variant() {
    let mut session = Session::new(10);
    session.sent();
    session.ack(1);
    session.sent();
    session.duplicates(1, 3);
    session.ack(3);
    let restarted = session.sender.timer();
    assert_eq!(restarted, Some(session.now + Span::from_millis(200)));
    session.sent();
    session.ack(5);
    assert_eq!(session.sender.timer(), restarted);
}
