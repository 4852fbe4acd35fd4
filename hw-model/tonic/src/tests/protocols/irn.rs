//! IRN.

use crate::protocols::Irn;
use crate::{Kind, Segment};

use super::{CLOCK, Session};

fn session(bdp_cap: u16) -> Session<Irn> {
    let irn = Irn { bdp_cap, rto_low: 5_000, rto_high: 16_000, ..Irn::new(CLOCK, 100_000_000_000) };
    let mut session = Session::new(irn);
    assert_eq!(session.sent(), (0..u32::from(bdp_cap)).collect::<Vec<_>>(), "capped by the BDP");
    session
}

#[test]
fn a_negative_acknowledgment_names_what_is_lost() {
    let mut session = session(12);
    // 0 arrives, 1 and 2 are lost, 3 arrives.
    session.packet(Kind::Ack, 1, None, 0);
    assert_eq!(session.packet(Kind::Nack, 1, Some(3), 0).mark, Some((Segment(1), Segment(3))));
    assert_eq!(session.sent(), [12, 1, 2]);
    assert_eq!((session.status().user.in_recovery.0, session.status().user.recovery.0), (1, 13));
    // 4 and 5 arrive, 6 is lost, 7 arrives: only segments not considered yet are sent again.
    session.packet(Kind::Nack, 1, Some(4), 0);
    session.packet(Kind::Nack, 1, Some(5), 0);
    assert!(session.sent().is_empty());
    session.packet(Kind::Nack, 1, Some(7), 0);
    assert_eq!(session.sent(), [6]);
    // The retransmissions arrive. Recovery ends when all segments sent before it are acknowledged.
    session.packet(Kind::Ack, 6, None, 0);
    assert_eq!(session.sent(), [13, 14, 15, 16, 17]);
    session.packet(Kind::Ack, 12, None, 0);
    assert_eq!(session.status().user.in_recovery.0, 1);
    session.packet(Kind::Ack, 13, None, 0);
    assert_eq!(session.status().user.in_recovery.0, 0);
}

/// Acknowledgments do not show the loss of a retransmission. The timer sends the window's first segment again.
#[test]
fn many_in_flight_wait_for_the_high_timeout() {
    let mut session = session(12);
    let fired = session.wait_for_timeout();
    assert!((5_000..5_100).contains(&fired.0));
    assert!(session.sent().is_empty(), "the low timeout with twelve in flight");
    let fired = session.wait_for_timeout();
    assert!((16_000..16_100).contains(&fired.0), "{fired}");
    assert_eq!(session.sent(), [0]);
    // In recovery the other gaps below the highest segment that has arrived follow.
    session.packet(Kind::Nack, 1, Some(4), 0);
    assert_eq!(session.sent(), [1, 2, 3, 12]);
}

#[test]
fn few_in_flight_wait_for_the_low_timeout() {
    let mut session = session(3);
    let fired = session.wait_for_timeout();
    assert!((5_000..5_100).contains(&fired.0));
    assert_eq!(session.sent(), [0]);
}
