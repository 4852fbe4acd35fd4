//! What the connection manager counts and remembers for people.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::lock;

/// Events remembered; older ones are forgotten.
const REMEMBERED: usize = 256;
/// Events of which there may be a flood are kept this far apart.
const FLOOD: Duration = Duration::from_secs(1);

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// What, for people.
    pub text: String,
}

/// Bounded memory of events; each is also logged.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    events: Mutex<VecDeque<Event>>,
    /// The last event of [`Self::flood`].
    flooded: Mutex<Option<Instant>>,
}

impl EventLog {
    /// Something ordinary.
    pub(super) fn note(&self, text: String) {
        info!("{text}");
        self.push(text);
    }

    /// Something a person should look at.
    pub(super) fn warn(&self, text: String) {
        warn!("{text}");
        self.push(text);
    }

    /// Something that a stranger can cause as often as he likes: at most one a second is kept. Counters have them all.
    pub(super) fn flood(&self, text: impl FnOnce() -> String) {
        {
            let mut last = lock(&self.flooded);
            if last.is_some_and(|last| last.elapsed() < FLOOD) {
                return;
            }
            *last = Some(Instant::now());
        }
        self.warn(text());
    }

    fn push(&self, text: String) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut events = lock(&self.events);
        if events.len() == REMEMBERED {
            events.pop_front();
        }
        events.push_back(Event { time_ms: since.as_millis() as u64, text });
    }

    /// All that is remembered, oldest first.
    pub(super) fn list(&self) -> Vec<Event> {
        lock(&self.events).iter().cloned().collect()
    }
}

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What the connection manager counts.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct ManagerStatistics { $($(#[$doc])* pub $name: u64),+ }

        /// The counters behind [`ManagerStatistics`].
        #[derive(Debug, Default)]
        pub(super) struct Counters { $(pub(super) $name: AtomicU64),+ }

        impl Counters {
            pub(super) fn read(&self) -> ManagerStatistics {
                ManagerStatistics { $($name: self.$name.load(Ordering::Relaxed)),+ }
            }
        }
    };
}

statistics! {
    /// TCP connections accepted.
    tcp_accepted,
    /// Connections established, by either end.
    established,
    /// Handshakes refused because the peer had too many under way.
    refused_busy,
    /// Handshakes that gave way to newer ones, silent ones first.
    displaced,
    /// Handshakes or sessions ended because a message was no message of the protocol.
    garbage,
    /// Ended because a message was too long.
    oversize,
    /// Ended because the peer speaks another version.
    wrong_version,
    /// Ended because no whole message came in time.
    silent,
    /// Handshakes the peer broke off.
    broken_off,
    /// Offers declined.
    declined,
    /// Sessions ended by the peer's `Close`.
    closed_by_peer,
    /// Sessions ended by this end.
    closed_here,
    /// Sessions ended because the peer died.
    peer_died,
    /// Sessions ended because packet delivery gave up (F-11-6).
    fatal,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
