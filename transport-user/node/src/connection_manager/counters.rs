//! The counters of the connection manager.

use std::sync::atomic::{AtomicU64, Ordering};

pub use tiercel::status::ManagerStatistics;

use super::message::WireError;

macro_rules! counters {
    ($($name:ident),+ $(,)?) => {
        /// The counters behind [`ManagerStatistics`], which says what each of them counts.
        #[derive(Debug, Default)]
        pub(super) struct Counters { $(pub(super) $name: AtomicU64),+ }

        impl Counters {
            pub(super) fn read(&self) -> ManagerStatistics {
                ManagerStatistics { $($name: self.$name.load(Ordering::Relaxed)),+ }
            }
        }
    };
}

counters! {
    tcp_accepted,
    established,
    refused_busy,
    displaced,
    garbage,
    oversize,
    wrong_version,
    silent,
    broken_off,
    asked,
    declined,
    unproven,
    closed_by_peer,
    closed_here,
    peer_died,
    path_lost,
    fatal,
}

/// Adds one to a counter.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    /// Counts why a handshake or a session ended, unless its TCP connection did.
    pub(super) fn wire_error(&self, error: &WireError) {
        match error {
            WireError::Ended(_) => {}
            WireError::Silent(_) => count(&self.silent),
            WireError::TooLong(_) => count(&self.oversize),
            WireError::Garbage(_) => count(&self.garbage),
            WireError::Version(_) => count(&self.wrong_version),
            WireError::Capability(_) => count(&self.declined),
        }
    }
}
