//! The options of the connection manager.

use std::ops::RangeInclusive;
use std::time::Duration;

use tiercel::Tuning;

use super::admission::Limits;

/// Time after which a peer of which nothing arrives counts as dead, unless it is set.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(5);
/// The shortest and the longest patience.
pub const PATIENCE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Heartbeats in the time of the patience. One may be late by an outage that is almost as long.
const HEARTBEATS: u32 = 10;

/// Options of the connection manager. By default the system chooses the port.
#[derive(Clone, Copy, Debug, Default)]
pub struct ManagerOptions {
    /// TCP port to listen on. With 0 the system chooses a port.
    pub port: u16,
    /// Tuning of the connections that the manager opens.
    pub tuning: Tuning,
    /// Heartbeats and time limits.
    pub timing: Timing,
    /// Limits for peers.
    pub limits: Limits,
}

/// Heartbeats and time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Longest time between heartbeats. Default 500 ms. There are at least ten in the time of the patience.
    pub heartbeat: Duration,
    /// A peer of which nothing arrives for this time, neither a whole message nor a Falcon packet, counts as dead. So does
    /// one that does not read for twice the time. Default 5 s. The connecting end decides for both ends, by
    /// `Terms::patience` or by this. A handshake may take this time for each of its messages.
    pub patience: Duration,
    /// A peer that connects and does not send its first message within this time is disconnected. Default 1 s.
    pub first_message: Duration,
    /// Longest time in which the packets that prove the data path of a new connection have to be acknowledged. Default 5 s. The
    /// other end may take as long beyond the patience to say what came of its own.
    pub proof: Duration,
}

/// The default times. Tests use shorter ones.
impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: heartbeat(DEFAULT_PATIENCE),
            patience: DEFAULT_PATIENCE,
            first_message: Duration::from_secs(1),
            proof: Duration::from_secs(5),
        }
    }
}

/// Returns the time between two heartbeats of a connection with this patience.
pub(super) fn heartbeat(patience: Duration) -> Duration {
    patience / HEARTBEATS
}
