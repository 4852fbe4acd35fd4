//! The events of the connection manager: a list that clients see, and the log.
//!
//! Peers cause most events, and any host can cause some. So each event has an [`Origin`]. [`LogLimit`] limits how many
//! events an origin may have in a time, and the list gives each origin its share: nobody can push the events of
//! others out of it.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use tiercel::status::Event;
use tracing::{info, warn};

use super::log_limit::LogLimit;
use super::origin::{Level, Origin};
use crate::common::mutex::lock;

/// Number of events that are kept.
const REMEMBERED: usize = 256;
/// Number of events of strangers that are kept, of all together.
const OF_STRANGERS: usize = REMEMBERED / 4;

/// A bounded list of events. Each event is also logged.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    events: Mutex<VecDeque<(Origin, Event)>>,
    limit: Mutex<LogLimit>,
}

impl EventLog {
    /// Adds an ordinary event of the node.
    pub(super) fn note(&self, text: String) {
        self.add(Origin::Node, Level::Note, || text);
    }

    /// Adds an event of the node that needs attention.
    pub(super) fn warn(&self, text: String) {
        self.add(Origin::Node, Level::Warning, || text);
    }

    /// Adds an event that hosts can cause in any number, and that names none of them.
    pub(super) fn flood(&self, text: impl FnOnce() -> String) {
        self.add(Origin::Strangers, Level::Warning, text);
    }

    /// Adds an event, unless its origin has too many of them. The counters count all that has happened.
    pub(super) fn add(&self, origin: Origin, level: Level, text: impl FnOnce() -> String) {
        if let Some(text) = self.admit(origin, text) {
            say(level, &text);
            self.keep(origin, text);
        }
    }

    /// Logs a line that is no event, unless its origin has too many of them.
    pub(super) fn log(&self, origin: Origin, level: Level, text: impl FnOnce() -> String) {
        if let Some(text) = self.admit(origin, text) {
            say(level, &text);
        }
    }

    /// Tells how many events were suppressed since the last one, of origins that have no new events.
    pub(super) fn tell_suppressed(&self) {
        let calmed = lock(&self.limit).calmed(Instant::now());
        for (origin, suppressed) in calmed {
            let text = match origin {
                Origin::Peer(source) | Origin::Stranger(source) => {
                    format!("{source}: {suppressed} more events suppressed")
                }
                Origin::Node | Origin::Peers => format!("{suppressed} more events of peers suppressed"),
                Origin::Strangers => format!("{suppressed} more events of strangers suppressed"),
            };
            say(Level::Warning, &text);
            self.keep(origin, text);
        }
    }

    /// Returns the kept events, oldest first.
    pub(super) fn list(&self) -> Vec<Event> {
        lock(&self.events).iter().map(|(_, event)| event.clone()).collect()
    }

    fn admit(&self, origin: Origin, text: impl FnOnce() -> String) -> Option<String> {
        match lock(&self.limit).admit(origin, Instant::now())? {
            0 => Some(text()),
            suppressed => Some(format!("{} ({suppressed} more suppressed)", text())),
        }
    }

    fn keep(&self, origin: Origin, text: String) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let event = Event { time_ms: since.as_millis() as u64, text };
        let mut events = lock(&self.events);
        let of_strangers = events.iter().filter(|(origin, _)| origin.is_stranger()).count();
        let leaves = if origin.is_stranger() && of_strangers >= OF_STRANGERS {
            oldest_of_largest(&events, |other| other.is_stranger())
        } else if events.len() >= REMEMBERED {
            oldest_of_largest(&events, |_| true)
        } else {
            None
        };
        if let Some(index) = leaves {
            events.remove(index);
        }
        events.push_back((origin, event));
    }
}

/// Returns the index of the oldest event of that origin which has most of them, among the origins that count.
fn oldest_of_largest(events: &VecDeque<(Origin, Event)>, counts: impl Fn(Origin) -> bool) -> Option<usize> {
    let of = |origin: Origin| events.iter().filter(|(other, _)| *other == origin).count();
    let candidates = (0..events.len()).filter(|index| counts(events[*index].0));
    // `max_by_key` returns the last of several equal elements, so the order is reversed.
    candidates.rev().max_by_key(|index| of(events[*index].0))
}

fn say(level: Level, text: &str) {
    match level {
        Level::Note => info!("{text}"),
        Level::Warning => warn!("{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission::Source;
    use super::*;

    fn source(number: u8) -> Source {
        Source::of([10, 0, 0, number].into())
    }

    /// What a peer does fills its own part of the list only.
    #[test]
    fn nobody_pushes_the_events_of_others_out() {
        let log = EventLog::default();
        log.add(Origin::Node, Level::Note, || "the node is up".into());
        log.keep(Origin::Peer(source(1)), "connection 1".into());
        for round in 0..2 * REMEMBERED {
            log.keep(Origin::Peer(source(2)), format!("noise {round}"));
            log.keep(Origin::Stranger(source(3)), format!("garbage {round}"));
        }
        let list = log.list();
        assert_eq!(list.len(), REMEMBERED);
        assert_eq!((list[0].text.as_str(), list[1].text.as_str()), ("the node is up", "connection 1"));
        let of = |begin: &str| list.iter().filter(|event| event.text.starts_with(begin)).count();
        assert_eq!(of("garbage"), OF_STRANGERS);
        // The newest of each are kept.
        let last = format!("noise {}", 2 * REMEMBERED - 1);
        assert!(list.iter().any(|event| event.text == last), "{last}");
    }

    /// Strangers share a quarter of the list, each from an address of its own.
    #[test]
    fn many_strangers_have_a_part_of_the_list() {
        let log = EventLog::default();
        for number in 0..=255 {
            log.keep(Origin::Peer(source(1)), format!("peer {number}"));
        }
        for number in 0..=255 {
            log.keep(Origin::Stranger(source(number)), "garbage".into());
        }
        let list = log.list();
        assert_eq!(list.len(), REMEMBERED);
        assert_eq!(list.iter().filter(|event| event.text == "garbage").count(), OF_STRANGERS);
    }

    /// What is left out is counted, and told with the next event.
    #[test]
    fn a_flood_is_told_by_its_number() {
        let log = EventLog::default();
        let stranger = Origin::Stranger(source(1));
        for _ in 0..10_000 {
            log.add(stranger, Level::Warning, || "garbage".into());
        }
        let told = log.list().len();
        assert!(told < 32, "{told}");
        log.add(Origin::Node, Level::Warning, || "the node goes on".into());
        assert_eq!(log.list().len(), told + 1);
    }
}
