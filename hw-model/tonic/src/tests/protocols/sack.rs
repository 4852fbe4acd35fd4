//! RFC 6675, compared with a walk over the scoreboard.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::protocols::{Sack, Tcp};
use crate::{IncomingRecord, Segment};

use super::{Session, tcp};

#[test]
fn a_loss_is_repaired_when_three_above_have_arrived() {
    let mut session = Session::new(Sack(tcp()));
    session.sent();
    // 0 is lost. Each arrival allows one more segment (RFC 6675, 5, step 3).
    session.sack(0, 1);
    session.sack(0, 2);
    assert_eq!(session.sent(), [10, 11]);
    session.sack(0, 3);
    let user = session.status().user;
    assert_eq!((user.in_recovery.0, user.cwnd.0, user.ssthresh.0, user.recovery_point.0), (1, 5, 5, 12));
    assert_eq!(session.sent(), [0]);
    // Nine segments are in the pipe, including the retransmission. The pipe must fall below five.
    for segment in 4..=7 {
        session.sack(0, segment);
        assert!(session.sent().is_empty(), "{segment}");
    }
    session.sack(0, 8);
    assert_eq!(session.sent(), [12]);
    session.sack(0, 9);
    assert_eq!(session.sent(), [13]);
    session.ack(12);
    let user = session.status().user;
    assert_eq!((user.in_recovery.0, user.cwnd.0), (0, 5));
    assert_eq!(session.sent(), [14, 15, 16]);
}

#[test]
fn several_losses_are_repaired_in_one_round_trip() {
    let mut session = Session::new(Sack(tcp()));
    session.sent();
    // 0, 2 and 4 are lost.
    for segment in [1, 3, 5] {
        session.sack(0, segment);
    }
    assert_eq!(session.sent(), [10, 11, 0]);
    let mut sent = Vec::new();
    for segment in [6, 7, 8, 9, 10, 11] {
        session.sack(0, segment);
        sent.extend(session.sent());
    }
    assert_eq!(sent, [2, 4, 12, 13], "in the order of their numbers, before new ones");
}

/// The end of the data: there is nothing new to send, and the last segment is lost too.
#[test]
fn the_rescue_retransmission() {
    let mut session = Session::with(Sack(tcp()), Some(10));
    session.sent();
    // 0 and 9 are lost. Nothing above 9 ever arrives.
    for segment in 1..=8 {
        session.sack(0, segment);
    }
    assert_eq!(session.sent(), [0, 9], "NextSeg (4)");
    // This happens once per recovery.
    session.packet(crate::Kind::Ack, 9, None, 0);
    assert!(session.sent().is_empty());
    session.ack(10);
    assert_eq!(session.status().timer, None);
}

#[test]
fn a_timeout_ends_recovery_and_sends_all_that_is_missing() {
    let mut session = Session::new(Sack(tcp()));
    for segment in [1, 3, 5] {
        session.sack(0, segment);
    }
    session.sent();
    session.wait_for_timeout();
    let user = session.status().user;
    assert_eq!((user.in_recovery.0, user.cwnd.0, user.recovery_point.0), (0, 1, 12));
    assert_eq!(session.sent(), [0]);
    session.ack(2);
    assert_eq!(session.sent(), [2], "3 has arrived");
    // Half of five is two. Congestion avoidance starts there.
    session.ack(4);
    assert_eq!(session.sent(), [4], "5 has arrived");
    // No recovery begins before the recovery point of the timeout is passed.
    for segment in [7, 8, 9] {
        session.sack(6, segment);
    }
    assert_eq!(session.status().user.in_recovery.0, 0);
}

/// The functions of the RFC as written there, over a set.
struct Scoreboard<'a> {
    /// HighACK plus 1.
    start: u32,
    /// HighData plus 1.
    high_data: u32,
    sacked: &'a BTreeSet<u32>,
}

impl Scoreboard<'_> {
    fn is_lost(&self, segment: u32) -> bool {
        self.sacked.range(segment + 1..).count() >= 3
    }

    fn missing(&self) -> impl Iterator<Item = u32> {
        (self.start..self.high_data).filter(|segment| !self.sacked.contains(segment))
    }

    /// `high_rxt` is one after HighRxt.
    fn pipe(&self, high_rxt: u32) -> usize {
        let not_lost = self.missing().filter(|segment| !self.is_lost(*segment)).count();
        not_lost + self.missing().filter(|segment| *segment < high_rxt).count()
    }

    /// NextSeg (1) and (3).
    fn next(&self, high_rxt: u32, must_be_lost: bool) -> Option<u32> {
        let highest = self.sacked.last().copied().unwrap_or(0);
        self.missing().find(|segment| {
            *segment >= high_rxt && *segment < highest && (!must_be_lost || self.is_lost(*segment))
        })
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// The n-th missing segment arrives and causes a selective or a cumulative acknowledgment.
    Arrives(usize),
    /// The first missing segment arrives.
    Repaired,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![5 => (0..40usize).prop_map(Event::Arrives), 1 => Just(Event::Repaired)]
}

/// Sends one packet. Returns the record, and the segments that were sent because of it.
fn arrives(
    session: &mut Session<Sack>,
    arrived: &mut BTreeSet<u32>,
    start: u32,
    segment: u32,
) -> IncomingRecord {
    arrived.insert(segment);
    let mut next = start;
    while arrived.contains(&next) {
        next += 1;
    }
    arrived.retain(|segment| *segment >= next);
    if segment > next { session.sack(next, segment) } else { session.ack(next) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// In recovery, the segments that NextSeg names are sent in its order, as far as the pipe allows. If many may
    /// be sent at once, some wait for the next acknowledgment, but never all.
    #[test]
    fn recovery_sends_what_next_seg_names(
        window in 8u16..40, data in 40u32..200, events in prop::collection::vec(event(), 1..60),
    ) {
        let config = Tcp { initial_window: window, initial_rto: 10_000_000, min_rto: 10_000_000, ..tcp() };
        let mut session = Session::with(Sack(config), Some(data));
        let mut arrived = BTreeSet::new();
        session.sent();
        for event in events {
            let before = session.status();
            let (start, high_data) = (before.window_start.0, before.next_new.0);
            let missing: Vec<_> = (start..high_data).filter(|segment| !arrived.contains(segment)).collect();
            let segment = match event {
                Event::Arrives(n) if !missing.is_empty() => missing[n % missing.len()],
                Event::Repaired if !missing.is_empty() => missing[0],
                _ => break,
            };
            arrives(&mut session, &mut arrived, start, segment);
            let sent = session.sent();
            let after = session.status();
            if after.user.in_recovery.0 == 0 {
                continue;
            }
            let start = after.window_start.0;
            let entered = before.user.in_recovery.0 == 0;
            let board = Scoreboard { start, high_data, sacked: &arrived };
            let mut high_rxt = if entered { start } else { (before.user.high_rxt.0 as u32).max(start) };
            let (pipe, cwnd) = (board.pipe(high_rxt), after.user.cwnd.0 as usize);
            let allowed = cwnd.saturating_sub(pipe).max(entered.into());
            prop_assert!(sent.len() <= allowed, "{sent:?}, but {pipe} are in the pipe of {cwnd}");
            let mut new = high_data;
            let mut named = Vec::new();
            for _ in 0..allowed {
                let lost = board.next(high_rxt, true);
                if lost.is_none() && new < data && new - start < 128 {
                    named.push(new);
                    new += 1;
                } else if let Some(segment) = lost.or_else(|| board.next(high_rxt, false)) {
                    named.push(segment);
                    high_rxt = segment + 1;
                } else {
                    let rescues = before.user.rescued.0 == 0 && named.is_empty();
                    named.extend(board.missing().last().filter(|_| rescues));
                    break;
                }
            }
            let in_order = sent.iter().all(|segment| named.contains(segment));
            prop_assert!(in_order, "{sent:?} against {named:?}");
            prop_assert_eq!(sent.is_empty(), named.is_empty(), "{:?} against {:?}", sent, named);
            prop_assert_eq!(sent.first(), named.first());
        }
    }
}

#[test]
fn a_record_shows_the_marked_range() {
    let mut session = Session::new(Sack(tcp()));
    session.sack(0, 1);
    session.sack(0, 2);
    assert_eq!(session.sack(0, 3).mark, Some((Segment(0), Segment(1))));
}
