//! RFC 5681, RFC 3042, RFC 6298.

use crate::Segment;
use crate::protocols::{Reno, Tcp};

use super::{Session, tcp};

#[test]
fn slow_start_adds_a_segment_an_acknowledgment() {
    let mut session = Session::new(Reno(tcp()));
    assert_eq!(session.sent(), (0..10).collect::<Vec<_>>());
    session.ack(1);
    assert_eq!(session.sent(), [10, 11]);
    session.ack(4);
    assert_eq!(session.sent(), [12, 13, 14, 15], "three have left, and one more");
    assert_eq!(session.status().user.cwnd.0, 12);
}

#[test]
fn congestion_avoidance_adds_a_segment_a_window() {
    let mut session = Session::new(Reno(Tcp { initial_ssthresh: 10, ..tcp() }));
    for segment in 1..=9 {
        session.ack(segment);
        assert_eq!(session.status().user.cwnd.0, 10);
    }
    session.ack(10);
    assert_eq!(session.status().user.cwnd.0, 11);
    session.ack(20);
    assert_eq!((session.status().user.cwnd.0, session.status().user.acked_count.0), (11, 10));
    session.ack(21);
    assert_eq!((session.status().user.cwnd.0, session.status().user.acked_count.0), (12, 0));
}

#[test]
fn fast_retransmit_and_fast_recovery() {
    let mut session = Session::new(Reno(tcp()));
    session.sent();
    // RFC 3042: each of the first two duplicates allows one new segment, and changes nothing else.
    assert_eq!(session.ack(0).mark, None);
    assert_eq!(session.sent(), [10]);
    session.ack(0);
    assert_eq!(session.sent(), [11]);
    assert_eq!(session.status().user.cwnd.0, 10);
    // The third duplicate: half of the ten in flight, without those of limited transmit, and three more.
    assert_eq!(session.ack(0).mark, Some((Segment(0), Segment(1))));
    assert_eq!((session.status().user.ssthresh.0, session.status().user.cwnd.0), (5, 8));
    assert_eq!(session.sent(), [0]);
    // Each further duplicate adds one. New segments follow when the window exceeds the twelve that were sent.
    for cwnd in 9..=12 {
        session.ack(0);
        assert_eq!(session.status().user.cwnd.0, cwnd);
        assert!(session.sent().is_empty());
    }
    session.ack(0);
    assert_eq!(session.sent(), [12]);
    // New data is acknowledged: the window is deflated, and recovery ends.
    session.ack(12);
    assert_eq!((session.status().user.cwnd.0, session.status().window_size), (5, 5));
    assert_eq!(session.sent(), [13, 14, 15, 16]);
    session.ack(13);
    assert_eq!(session.status().user.cwnd.0, 5, "at the threshold: congestion avoidance");
}

#[test]
fn a_timeout_begins_again_with_one_segment() {
    let mut session = Session::new(Reno(tcp()));
    session.sent();
    let first = session.wait_for_timeout();
    // The timer started with the decrement of the first segment in cycle 19.
    assert!(first.0 >= 19 + 30_000 && first.0 < 19 + 30_000 + 8);
    let status = session.status();
    assert_eq!((status.user.ssthresh.0, status.user.cwnd.0, status.window_size), (5, 1, 1));
    assert_eq!(session.sent(), [0]);
    // The timeout is doubled, and the threshold is held for the same segment (RFC 5681, 3.1).
    let second = session.wait_for_timeout();
    assert!((60_000..60_100).contains(&(second - first)), "{}", second - first);
    assert_eq!(session.status().user.ssthresh.0, 5);
    assert_eq!(session.sent(), [0]);
    let third = session.wait_for_timeout();
    assert!((100_000..100_100).contains(&(third - second)), "the upper bound");
    session.ack(0);
    session.wait_for_timeout();
    assert_eq!(session.status().user.ssthresh.0, 5, "a duplicate acknowledges nothing");
    session.sent();
    // Slow start over the outstanding segments.
    session.ack(1);
    assert_eq!(session.sent(), [1, 2]);
    session.ack(3);
    assert_eq!(session.sent(), [3, 4, 5]);
    session.ack(6);
    session.ack(10);
    assert_eq!(session.status().user.cwnd.0, 5);
    assert_eq!(session.sent(), [6, 7, 8, 9, 10, 11, 12, 13, 14]);
}

/// RFC 6298, 2.2 and 2.3, computed by hand: R = 4000, then 8000.
#[test]
fn the_timeout_follows_the_round_trip_time() {
    let mut session = Session::new(Reno(Tcp { min_rto: 1, ..tcp() }));
    let echo = |session: &Session<Reno>, sample: u64| {
        // The programmable stage is three cycles after the pins.
        (session.clock.now().0 + 3).wrapping_sub(sample) as u32
    };
    session.wait(10_000);
    let sample = echo(&session, 4_000);
    session.packet(crate::Kind::Ack, 1, None, sample);
    // SRTT = R, RTTVAR = R / 2, RTO = SRTT + 4 RTTVAR.
    assert_eq!(session.status().user.smoothed_rtt.0, 4_000 * 8);
    assert_eq!(session.status().user.rtt_variation.0, 2_000 * 4);
    let now = session.clock.now().0;
    let timer = session.status().timer.expect("segments are outstanding");
    assert_eq!(timer.0, now - 61 + 3 + 12_000, "restarted in the programmable stage");
    let sample = echo(&session, 8_000);
    session.packet(crate::Kind::Ack, 2, None, sample);
    // RTTVAR = 3/4 * 2000 + 1/4 * 4000, SRTT = 7/8 * 4000 + 1/8 * 8000.
    assert_eq!(session.status().user.rtt_variation.0, 2_500 * 4);
    assert_eq!(session.status().user.smoothed_rtt.0, 4_500 * 8);
    // A duplicate is not a measurement.
    let sample = echo(&session, 1);
    session.packet(crate::Kind::Ack, 2, None, sample);
    assert_eq!(session.status().user.smoothed_rtt.0, 4_500 * 8);
}
