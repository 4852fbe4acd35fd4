//! RFC 6582.

use crate::Segment;
use crate::protocols::NewReno;

use super::{Session, tcp};

/// Segments 0 and 1 are acknowledged. The window has twelve segments, and 2 to 13 are in flight.
fn established() -> Session<NewReno> {
    let mut session = Session::new(NewReno(tcp()));
    session.ack(1);
    session.ack(2);
    assert_eq!(session.status().next_new, Segment(14));
    session.sent();
    session
}

fn duplicates(session: &mut Session<NewReno>, of: u32, count: usize) {
    for _ in 0..count {
        session.ack(of);
    }
}

#[test]
fn partial_acknowledgments_repair_one_loss_each() {
    let mut session = established();
    duplicates(&mut session, 2, 3);
    // Limited transmit sends two segments, then the first loss is repaired.
    assert_eq!(session.sent(), [14, 15, 2]);
    let user = session.status().user;
    assert_eq!((user.ssthresh.0, user.cwnd.0, user.recover.0), (6, 9, 16));
    duplicates(&mut session, 2, 4);
    assert_eq!(session.status().user.cwnd.0, 13);
    assert!(session.sent().is_empty(), "14 segments are in flight");
    duplicates(&mut session, 2, 2);
    assert_eq!(session.sent(), [16]);

    // A partial acknowledgment: segment 5 is the next loss. The window is deflated by three segments, and one is
    // added.
    let record = session.ack(5);
    assert_eq!(record.mark, Some((Segment(5), Segment(6))));
    assert!(record.reset_timer, "the first partial acknowledgment restarts the timer");
    assert_eq!(session.status().user.cwnd.0, 13);
    assert_eq!(session.sent(), [5, 17]);
    // The second one does not.
    let record = session.ack(9);
    assert_eq!((record.mark, record.reset_timer), (Some((Segment(9), Segment(10))), false));
    assert_eq!(session.status().user.cwnd.0, 10);
    assert_eq!(session.sent(), [9, 18]);

    // A full acknowledgment of all segments sent when recovery began: min(ssthresh, max(flight, 1) + 1).
    let record = session.ack(16);
    assert_eq!((record.mark, record.reset_timer), (None, true));
    let user = session.status().user;
    assert_eq!((user.in_recovery.0, user.cwnd.0), (0, 4), "three were in flight");
}

#[test]
fn a_full_acknowledgment_with_much_in_flight_ends_at_the_threshold() {
    let mut session = established();
    duplicates(&mut session, 2, 14);
    assert!(session.status().next_new.after(Segment(16)) > 5);
    session.ack(16);
    assert_eq!(session.status().user.cwnd.0, 6);
}

/// Section 4: ack - 1 > recover. Duplicates at the end of a recovery do not begin another one.
#[test]
fn no_second_fast_retransmit_before_recover_is_passed() {
    let mut session = established();
    duplicates(&mut session, 2, 3);
    session.ack(16);
    let ssthresh = session.status().user.ssthresh.0;
    session.sent();
    for _ in 0..5 {
        assert_eq!(session.ack(16).mark, None);
    }
    assert_eq!((session.status().user.in_recovery.0, session.status().user.ssthresh.0), (0, ssthresh));
    // Later duplicates do.
    session.ack(17);
    assert_eq!(session.ack(17).mark, None);
    assert_eq!(session.ack(17).mark, None);
    assert_eq!(session.ack(17).mark, Some((Segment(17), Segment(18))));
}

/// Three duplicates after a partial acknowledgment do not begin another recovery either. During recovery, only
/// partial acknowledgments repair losses. (The published hardware retransmits, and reduces the threshold again.)
#[test]
fn no_second_fast_retransmit_inside_recovery() {
    let mut session = established();
    duplicates(&mut session, 2, 3);
    session.ack(5);
    let ssthresh = session.status().user.ssthresh.0;
    for _ in 0..4 {
        assert_eq!(session.ack(5).mark, None);
    }
    assert_eq!(session.status().user.ssthresh.0, ssthresh);
}

/// Step 1: "recover" starts as the initial sequence number. Duplicates for the first segment do not cover more
/// than that. The timer repairs its loss.
#[test]
fn the_first_segments_loss_is_left_to_the_timer() {
    let mut session = Session::new(NewReno(tcp()));
    for _ in 0..5 {
        assert_eq!(session.ack(0).mark, None);
    }
    session.sent();
    session.wait_for_timeout();
    assert_eq!(session.sent(), [0]);
}

/// Step 4: after a timeout there is no fast retransmit for segments sent before it.
#[test]
fn a_timeout_ends_recovery_and_raises_recover() {
    let mut session = established();
    duplicates(&mut session, 2, 3);
    session.wait_for_timeout();
    let user = session.status().user;
    assert_eq!((user.in_recovery.0, user.recover.0, user.cwnd.0), (0, 16, 1));
    session.ack(5);
    for _ in 0..5 {
        assert_eq!(session.ack(5).mark, None);
    }
}
