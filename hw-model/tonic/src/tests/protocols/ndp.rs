//! NDP.

use crate::protocols::Ndp;
use crate::{Kind, Segment};

use super::{CLOCK, Session};

fn session() -> Session<Ndp> {
    let mut session = Session::new(Ndp { initial_window: 6, rto: 20_000, ..Ndp::new(CLOCK) });
    assert_eq!(session.sent(), [0, 1, 2, 3, 4, 5], "the first window, without a pull");
    session
}

#[test]
fn a_segment_for_each_pull() {
    let mut session = session();
    session.packet(Kind::Ack, 1, None, 0);
    assert!(session.sent().is_empty(), "an acknowledgment is no grant");
    session.packet(Kind::Pull, 0, None, 1);
    assert_eq!(session.sent(), [6]);
    // Pulls 2 and 3 are lost, and 4 replaces them. Then 3 arrives late, and 4 again.
    session.packet(Kind::Pull, 0, None, 4);
    assert_eq!(session.sent(), [7, 8, 9]);
    session.packet(Kind::Pull, 0, None, 3);
    session.packet(Kind::Pull, 0, None, 4);
    assert!(session.sent().is_empty());
}

#[test]
fn a_trimmed_segment_goes_out_with_the_next_pull() {
    let mut session = session();
    session.packet(Kind::Nack, 0, None, 3);
    session.packet(Kind::Nack, 0, None, 2);
    assert!(session.sent().is_empty());
    // Segment 6 was generated before the negative acknowledgment arrived, and waits for credit. The lost segments
    // come after those that already wait.
    session.packet(Kind::Pull, 0, None, 20);
    let sent = session.sent();
    let at = |segment: u32| sent.iter().position(|sent| *sent == segment).expect("it was sent");
    assert!(at(2) < at(3), "in the order of their numbers");
    assert!(at(21) < at(2) && at(3) < at(22), "before all new ones: {sent:?}");
}

#[test]
fn silence_is_answered_by_sending_again() {
    let mut session = session();
    session.packet(Kind::Ack, 0, Some(2), 2);
    session.wait_for_timeout();
    // All unacknowledged segments, including the sixteen that wait for credit, and as many tokens.
    let sent = session.sent();
    assert_eq!(sent.len(), 21);
    for segment in [0, 1, 3, 4, 5] {
        assert!(sent.contains(&segment), "{segment} in {sent:?}");
    }
    assert!(!sent.contains(&2));
}

/// The last pulls are lost and nothing is in flight. One segment is sent, so that the receiver sends a new pull.
#[test]
fn lost_pulls_do_not_stall() {
    let mut session = Session::with(Ndp { initial_window: 1, rto: 20_000, ..Ndp::new(CLOCK) }, Some(3));
    assert_eq!(session.sent(), [0]);
    session.packet(Kind::Ack, 1, None, 0);
    session.wait_for_timeout();
    assert!(!session.sent().is_empty());
}

/// Each segment has two bits (table 2, rtx-cnt). They are cleared before the ring uses them again.
#[test]
fn retransmissions_are_counted_up_to_three() {
    let mut session = session();
    let count = |session: &Session<Ndp>, segment| {
        session.clock.block().retransmissions(super::FLOW, Segment(segment))
    };
    for (pulls, expected) in (18u32..).step_by(18).zip([1, 2, 3, 3, 3]) {
        session.packet(Kind::Nack, 0, None, 2);
        // Sixteen new segments wait in front of it.
        session.packet(Kind::Pull, 0, None, pulls);
        assert!(session.sent().contains(&2));
        assert_eq!((count(&session, 2), count(&session, 3)), (Some(expected), Some(0)));
    }
    assert_eq!(session.packet(Kind::Ack, 3, None, 0).newly_acked, 3);
    assert_eq!(count(&session, 2), None);
    // The ring wraps: segment 130 uses the bits of segment 2.
    session.packet(Kind::Pull, 0, None, 300);
    assert_eq!(count(&session, 130), Some(0));
}
