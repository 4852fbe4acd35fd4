//! Events for packets that the security checks of a connection refuse (F-11-12, D-59).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};
use transport_common::counters::Counter;
use transport_common::ids::Cid;
use transport_common::security::SecurityDrops;

use super::admission::Source;
use super::host::Host;
use super::node_state::Refusals;
use super::origin::{Level, Origin};
use super::shared::Shared;

/// Time between two looks. So one connection and cause have at most one event per second (D-59).
const LOOK: Duration = Duration::from_secs(1);
/// Longest time between two events of packets that keep coming. With one per second, an attack would soon push all other
/// events out of the log.
const LONGEST: Duration = Duration::from_secs(64);
const CAUSES: usize = SecurityDrops::CAUSES.len();

/// Looks every second, until it is aborted. Also tells of events that were left out.
pub(super) async fn watch<H: Host>(shared: Arc<Shared<H>>) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = Known::default();
    loop {
        ticks.tick().await;
        shared.events.tell_suppressed();
        let (all, now) = (shared.host.refusals(), Instant::now());
        if all.is_empty() {
            continue;
        }
        known.0.retain(|cid, _| all.iter().any(|refusals| refusals.cid == *cid));
        for refusals in &all {
            let origin = Origin::Peer(Source::of(refusals.peer));
            let news = known.news(refusals, now).into_iter();
            news.for_each(|text| shared.events.add(origin, Level::Warning, || text));
        }
    }
}

/// What was told of each connection.
#[derive(Default)]
struct Known(HashMap<Cid, Told>);

struct Told {
    generation: u32,
    causes: [Cause; CAUSES],
}

#[derive(Clone, Copy, Default)]
struct Cause {
    /// The packets of which events have told.
    packets: u64,
    /// When the last event was, and how long the next one waits after it.
    last: Option<(Instant, Duration)>,
}

impl Known {
    /// Returns the texts of the events that are due.
    fn news(&mut self, refusals: &Refusals, now: Instant) -> Vec<String> {
        let Refusals { cid, generation, .. } = *refusals;
        let fresh = || Told { generation, causes: Default::default() };
        let told = self.0.entry(cid).or_insert_with(fresh);
        if told.generation != generation {
            *told = fresh();
        }
        let all = SecurityDrops::CAUSES.into_iter().zip(refusals.drops.counts()).zip(&mut told.causes);
        all.filter_map(|((cause, packets), told)| {
            let new = told.due(packets, now)?;
            Some(text(refusals, cause, new))
        })
        .collect()
    }
}

impl Cause {
    /// Returns the number of packets since the last event, if an event is due.
    fn due(&mut self, packets: u64, now: Instant) -> Option<u64> {
        let new = packets.saturating_sub(self.packets);
        let pause = match self.last {
            _ if new == 0 => return None,
            None => LOOK,
            Some((last, pause)) if now - last < pause => return None,
            Some((last, pause)) if now - last < 2 * pause => (2 * pause).min(LONGEST),
            Some(_) => LOOK,
        };
        *self = Self { packets, last: Some((now, pause)) };
        Some(new)
    }
}

fn text(refusals: &Refusals, cause: Counter, packets: u64) -> String {
    let Refusals { cid: Cid(cid), peer, .. } = refusals;
    let why = match cause {
        Counter::DropSource => "they come from another address than the peer's",
        Counter::DropTunnel => "their inner addresses are not the connection's",
        Counter::DropSpi => "their SPI is not the connection's",
        Counter::DropReplay => "their IV is old, so they are replays",
        Counter::DropIvAhead => "their IV is further ahead than the peer's clock can be",
        _ => "their PSP version is not the connection's",
    };
    let packets = if packets == 1 { "1 packet".to_owned() } else { format!("{packets} packets") };
    format!("connection {cid} to {peer} refused {packets}: {why} ({})", cause.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusals(generation: u32, drops: SecurityDrops) -> Refusals {
        Refusals { cid: Cid(5), generation, peer: "10.7.0.2".parse().expect("an address"), drops }
    }

    /// D-59: per connection and cause.
    #[test]
    fn each_cause_has_its_event() {
        let mut known = Known::default();
        let now = Instant::now();
        assert!(known.news(&refusals(1, SecurityDrops::default()), now).is_empty());
        let drops = SecurityDrops { source: 1, tunnel: 2, spi: 3, replay: 4, iv_ahead: 5, version: 6 };
        let texts = known.news(&refusals(1, drops), now);
        assert_eq!(texts.len(), CAUSES);
        assert_eq!(
            texts[0],
            "connection 5 to 10.7.0.2 refused 1 packet: they come from another address than the peer's (drop_source)"
        );
        for (text, (cause, packets)) in texts.iter().zip(SecurityDrops::CAUSES.iter().zip(1..)) {
            assert!(text.contains(&format!("refused {packets} packet")), "{text}");
            assert!(text.ends_with(&format!("({})", cause.name())), "{text}");
        }
        let distinct: std::collections::BTreeSet<_> = texts.iter().collect();
        assert_eq!(distinct.len(), CAUSES);
    }

    /// A flood has an event at once, then fewer and fewer, and each tells of all packets since the last one.
    #[test]
    fn a_flood_does_not_fill_the_log() {
        let mut known = Known::default();
        let start = Instant::now();
        let mut told = Vec::new();
        for second in 0..600u64 {
            let drops = SecurityDrops { spi: 1_000_000 * (second + 1), ..SecurityDrops::default() };
            let texts = known.news(&refusals(1, drops), start + Duration::from_secs(second));
            told.extend(texts.into_iter().map(|text| (second, text)));
        }
        let seconds: Vec<_> = told.iter().map(|(second, _)| *second).take(8).collect();
        assert_eq!(seconds, [0, 1, 3, 7, 15, 31, 63, 127]);
        assert!(told[2].1.contains("refused 2000000 packets"), "{}", told[2].1);
        assert_eq!(told.len(), 15, "one in 64 seconds");
        // After silence, the next packet is told at once.
        let drops = SecurityDrops { spi: 600_000_001, ..SecurityDrops::default() };
        let later = start + Duration::from_secs(2000);
        assert_eq!(known.news(&refusals(1, drops), later).len(), 1);
    }

    #[test]
    fn another_connection_in_the_slot_starts_from_zero() {
        let mut known = Known::default();
        let now = Instant::now();
        let drops = |replay| SecurityDrops { replay, ..SecurityDrops::default() };
        assert_eq!(known.news(&refusals(1, drops(9)), now).len(), 1);
        assert!(known.news(&refusals(2, drops(0)), now).is_empty());
        assert!(known.news(&refusals(3, drops(2)), now)[0].contains("refused 2 packets"));
    }
}
