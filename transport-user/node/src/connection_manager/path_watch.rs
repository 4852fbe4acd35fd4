//! Watches whether the data path of every connection still carries its packets.
//!
//! The connection manager's TCP connection says nothing about that, and a static connection has none. So the manager looks
//! at what the datapath has sent again. A connection whose oldest packet was sent again some times without an answer is
//! *stalled* (the rule of RFC 8899, 4.3, for black holes). It is an event. If the next hop has another MAC address, the
//! connection goes on with that ([`super::next_hop`]). Otherwise its session finds out why ([`super::path_check`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};
use transport_common::ids::Cid;
use transport_common::wire::udp::FALCON_UDP_PORT;

use super::admission::Source;
use super::host::Host;
use super::next_hop::NextHops;
use super::node_state::PathState;
use super::origin::{Level, Origin};
use super::path_signals::{Heard, Stall};
use super::shared::Shared;
use crate::common::mutex::lock;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// A connection is stalled if its oldest packet was sent again so often without an answer, and for so long.
const STALLED: (u64, Duration) = (3, Duration::from_millis(500));
/// Shortest time between two events of one connection that it is stalled.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks at all connections until it is aborted.
pub(super) async fn watch<H: Host>(shared: Arc<Shared<H>>) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut known, mut next_hops) = (Known::default(), NextHops::default());
    loop {
        ticks.tick().await;
        follow_interface(&shared);
        // Before the connections are read, so that a change is seen by one of the two.
        next_hops.begin(shared.host.next_hops_changed());
        let (all, now) = (shared.host.paths(), Instant::now());
        known.0.retain(|cid, _| all.iter().any(|state| state.cid == *cid));
        next_hops.retain(&all);
        let mut served = Vec::new();
        for state in &all {
            // Who sets a connection up sees for itself what passes.
            if lock(&shared.proving).contains(&state.cid) {
                continue;
            }
            let session = lock(&shared.sessions).get(&state.cid).cloned();
            let (news, stall) = known.look(state, now);
            // What becomes of a session's connection is an event of the session.
            let own = !matches!(news, Some(News::Failed)) || session.is_none();
            if let Some(news) = news.filter(|_| own) {
                let origin =
                    session.as_ref().map_or(Origin::Peer(Source::of(state.peer)), |session| session.origin());
                shared.events.add(origin, Level::Warning, || text(state, news));
            }
            let unheard = session.as_ref().is_some_and(|session| session.path.was_unheard());
            next_hops.check(state, stall.is_some() || unheard);
            served.push((state, session, stall));
        }
        next_hops.read(&shared).await;
        for (state, session, stall) in served {
            let moved = next_hops.follow(&shared, state);
            if let Some(session) = session {
                // What is sent again to another next hop may well pass.
                session.path.stalls(stall.filter(|_| !moved));
            }
        }
    }
}

/// Tells what has changed of this end's interface, and shortens the packets of the connections for which it has become too
/// small.
fn follow_interface<H: Host>(shared: &Shared<H>) {
    let news = shared.host.news();
    if news.is_empty() {
        return;
    }
    news.into_iter().for_each(|text| shared.events.warn(text));
    let mtu = shared.host.local().mtu;
    let sessions = lock(&shared.sessions).clone();
    for session in sessions.values() {
        session.path.interface_has_mtu(mtu);
    }
    // The peer of a static connection cannot be told. What is too long already ends with its operation.
    for PathState { cid, .. } in shared.host.paths().iter().filter(|path| !sessions.contains_key(&path.cid)) {
        shared.host.narrow(*cid, mtu);
    }
}

/// What was seen of each connection.
#[derive(Default)]
struct Known(HashMap<Cid, Seen>);

struct Seen {
    generation: u32,
    /// What changes when the peer answers.
    answered: ([u32; 2], u64),
    /// The state at the last answer, and when it was seen.
    then: PathState,
    since: Instant,
    /// Whether there was an event that it is stalled, and when the last one was.
    stalled: bool,
    told: Option<Instant>,
    failed: bool,
}

/// What there is to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Stalled(Stall),
    Goes(Duration),
    Failed,
}

impl Known {
    fn look(&mut self, state: &PathState, now: Instant) -> (Option<News>, Option<Stall>) {
        let answered = (state.oldest, state.nacks);
        let PathState { generation, .. } = *state;
        let fresh = || Seen {
            generation,
            answered,
            then: *state,
            since: now,
            stalled: false,
            told: None,
            failed: false,
        };
        let seen = self.0.entry(state.cid).or_insert_with(fresh);
        if seen.generation != generation {
            *seen = fresh();
        }
        if state.failed {
            let news = (!seen.failed).then_some(News::Failed);
            seen.failed = true;
            return (news, None);
        }
        let lasts = now - seen.since;
        if state.outstanding == 0 || seen.answered != answered {
            let news = seen.stalled.then_some(News::Goes(lasts));
            *seen = Seen { told: seen.told, ..fresh() };
            return (news, None);
        }
        if state.timeouts.saturating_sub(seen.then.timeouts) < STALLED.0 || lasts < STALLED.1 {
            return (None, None);
        }
        let heard = match state.heard {
            0 => Heard::Never,
            heard if heard == seen.then.heard => Heard::NoLonger,
            _ => Heard::Some,
        };
        let stall = Stall { lasts, heard };
        let tell = !seen.stalled && seen.told.is_none_or(|told| now - told >= PAUSE);
        if tell {
            (seen.stalled, seen.told) = (true, Some(now));
        }
        (tell.then_some(News::Stalled(stall)), Some(stall))
    }
}

fn text(state: &PathState, news: News) -> String {
    let PathState { cid: Cid(cid), peer, .. } = state;
    let name = format!("connection {cid} to {peer}");
    match news {
        News::Stalled(Stall { lasts, heard }) => {
            let lasts = lasts.as_millis();
            let why = match heard {
                Heard::Never => format!(
                    "no Falcon packet of the peer has ever arrived: check that its end is open, and that UDP port \
                     {FALCON_UDP_PORT} passes in both directions"
                ),
                Heard::NoLonger => format!(
                    "no Falcon packet of the peer arrives any more: check that the peer is up, that UDP port \
                     {FALCON_UDP_PORT} still passes in both directions, and that the MTU of the path has not become smaller"
                ),
                Heard::Some => {
                    "other packets of the peer arrive: check whether the MTU of the path has become \
                                smaller, or whether it loses most packets"
                        .to_owned()
                }
            };
            format!("{name}: its packets have not been acknowledged for {lasts} ms, and {why}")
        }
        News::Goes(lasted) => format!("{name}: its packets pass again after {} ms", lasted.as_millis()),
        News::Failed => format!(
            "{name} failed: the peer does not acknowledge its packets; when the peer is back, reset a static connection with \
             `tiercel conn reset {cid}`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiercel::Mac;

    fn state() -> PathState {
        PathState {
            cid: Cid(5),
            generation: 1,
            peer: "10.7.0.2".parse().expect("an address"),
            next_hop: Mac([2, 0, 0, 0, 0, 2]),
            follows: true,
            failed: false,
            outstanding: 1,
            oldest: [7, 9],
            timeouts: 0,
            heard: 0,
            nacks: 0,
        }
    }

    /// Looks four times per second at what `at` returns for each number of a check. Returns the texts.
    fn looks(known: &mut Known, numbers: std::ops::Range<u32>, at: impl Fn(u32) -> PathState) -> Vec<String> {
        let start = Instant::now();
        let look = |number| {
            let state = at(number);
            known.look(&state, start + number * LOOK).0.map(|news| text(&state, news))
        };
        numbers.filter_map(look).collect()
    }

    /// A static connection whose data path never worked: one event, and one when the datapath gives it up.
    #[test]
    fn a_path_that_never_worked_is_told_once() {
        let at = |number: u32| PathState { timeouts: (10 * number).into(), failed: number > 8, ..state() };
        let texts = looks(&mut Known::default(), 0..20, at);
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(
            texts[0]
                .starts_with("connection 5 to 10.7.0.2: its packets have not been acknowledged for 500 ms")
        );
        assert!(texts[0].contains("no Falcon packet of the peer has ever arrived"), "{}", texts[0]);
        assert!(texts[1].contains("failed") && texts[1].contains("conn reset 5"), "{}", texts[1]);
    }

    #[test]
    fn what_still_arrives_is_told() {
        for (heard, expected) in [(0, "arrives any more"), (1, "other packets of the peer arrive")] {
            let at = |number: u32| {
                let number = u64::from(number);
                PathState { timeouts: 10 * number, heard: 5 + heard * number, ..state() }
            };
            let texts = looks(&mut Known::default(), 0..20, at);
            assert!(texts.len() == 1 && texts[0].contains(expected), "{texts:?}");
        }
    }

    /// Whoever has nothing outstanding, gets answers or NACKs, or was not patient for three timeouts, is not stalled.
    #[test]
    fn a_path_that_works_is_not_told() {
        let cases: [fn(u32) -> PathState; 4] = [
            |number| PathState { timeouts: number.into(), outstanding: 0, ..state() },
            |number| PathState { timeouts: number.into(), oldest: [7, number], ..state() },
            |number| PathState { timeouts: number.into(), nacks: number.into(), ..state() },
            |number| PathState { timeouts: number.min(2).into(), ..state() },
        ];
        for (number, at) in cases.into_iter().enumerate() {
            let texts = looks(&mut Known::default(), 0..40, at);
            assert!(texts.is_empty(), "case {number}: {texts:?}");
        }
    }

    /// The end of a stall is told. A path that stalls again and again does not fill the log. Another connection in the slot
    /// begins again.
    #[test]
    fn the_end_of_a_stall_is_told_and_not_each_begin() {
        let mut known = Known::default();
        // Stalled for a second, then fine for a second.
        let at = |number: u32| PathState {
            timeouts: (10 * number).into(),
            oldest: [number / 4 % 2, number / 8],
            ..state()
        };
        let stalls = |number: u32| PathState { oldest: [number / 5, 0], ..at(number) };
        let texts = looks(&mut known, 0..39, stalls);
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[1].contains("pass again after 1250 ms"), "{texts:?}");
        let other = |number: u32| PathState { generation: 2, timeouts: (10 * number).into(), ..state() };
        assert_eq!(looks(&mut known, 40..50, other).len(), 1);
    }
}
