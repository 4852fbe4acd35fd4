//! The counters and the event log of the connection manager.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::lock;

/// Number of events that are kept. Older events are dropped.
const REMEMBERED: usize = 256;
/// Shortest time between two events that peers can cause in any number.
const FLOOD: Duration = Duration::from_secs(1);

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Text of the event.
    pub text: String,
}

/// A bounded list of events. Each event is also logged.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    events: Mutex<VecDeque<Event>>,
    /// Time of the last event of [`Self::flood`].
    flooded: Mutex<Option<Instant>>,
}

impl EventLog {
    /// Adds an ordinary event.
    pub(super) fn note(&self, text: String) {
        info!("{text}");
        self.push(text);
    }

    /// Adds an event that needs attention.
    pub(super) fn warn(&self, text: String) {
        warn!("{text}");
        self.push(text);
    }

    /// Adds an event that peers can cause in any number. At most one per second is kept. The counters count all of
    /// them.
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

    /// Returns the kept events, oldest first.
    pub(super) fn list(&self) -> Vec<Event> {
        lock(&self.events).iter().cloned().collect()
    }
}

macro_rules! statistics {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The counters of the connection manager.
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
    /// Handshakes rejected because the peer had too many unfinished handshakes.
    refused_busy,
    /// Handshakes ended to make place for newer ones, silent ones first.
    displaced,
    /// Handshakes or sessions ended because a message was not a message of the protocol.
    garbage,
    /// Handshakes or sessions ended because a message was too long.
    oversize,
    /// Handshakes or sessions ended because the peer uses another version of the protocol.
    wrong_version,
    /// Handshakes or sessions ended because no whole message arrived in time.
    silent,
    /// Handshakes whose TCP connection ended.
    broken_off,
    /// Offers that this end rejected.
    declined,
    /// Handshakes ended because the data path does not carry Falcon packets of full size in both directions.
    unproven,
    /// Sessions ended by a `Close` of the peer.
    closed_by_peer,
    /// Sessions ended by this end.
    closed_here,
    /// Sessions ended because the TCP connection broke, or the peer was silent or violated the protocol.
    peer_died,
    /// Sessions ended by this end because the data path does not carry the connection's packets any more.
    path_lost,
    /// Sessions ended because packet delivery failed (F-11-6).
    fatal,
}

/// Adds one to a counter.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
