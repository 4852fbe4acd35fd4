//! The source of receive timestamps.

use serde::{Deserialize, Serialize};

/// The clock from which T2 and T4 are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum TimestampSource {
    /// The card's clock, when the frame arrives from the wire.
    Hardware,
    /// The monotonic clock, when the XDP program receives the frame.
    #[default]
    Software,
}

/// Information about receive timestamps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveTimestamps {
    /// The clock that is used now.
    pub source: TimestampSource,
    /// Why the card's clock is not used, if so.
    pub reason: Option<String>,
    /// The card's clock, if it is used.
    pub clock: Option<CardClock>,
    /// Counters. `None` if the programs do not read timestamps from the driver.
    pub packets: Option<StampedPackets>,
}

/// Information about the card's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardClock {
    /// Device of the clock.
    pub device: String,
    /// Monotonic clock minus the card's clock, nanoseconds.
    pub offset_ns: i64,
    /// Drift of the monotonic clock against the card's clock, parts in 10^9.
    pub drift_ppb: i64,
    /// Largest error of the offset, nanoseconds.
    pub error_ns: u64,
}

/// Number of packets by the source of their receive timestamp, since the node came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampedPackets {
    /// Packets with a timestamp of the card.
    pub hardware: u64,
    /// Packets with a software timestamp: the driver had none for the packet.
    pub absent: u64,
    /// Packets with a software timestamp: the relation between the card's clock and the monotonic clock was not
    /// known.
    pub clock_unknown: u64,
    /// Packets with a software timestamp: the card's timestamp was in the future.
    pub in_future: u64,
    /// Packets with a software timestamp: the card's timestamp was too old.
    pub too_old: u64,
}
