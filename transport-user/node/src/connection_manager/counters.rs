//! The counters of the connection manager.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

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
    /// Questions of peers whether a connection is alive, over a TCP connection of their own.
    asked,
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
