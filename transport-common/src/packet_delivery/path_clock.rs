//! Times of the path, as congestion control keeps them and packet delivery asks for them.

use crate::units::{FalconTime, Ticks};

/// The times of the path that congestion control keeps.
pub trait PathClock {
    /// Returns the retransmission timeout.
    fn rto(&self) -> Ticks;

    /// Returns the times for RACK-TLP. Asked only while that is on.
    fn times(&self, now: FalconTime) -> PathTimes;
}

/// Times of the path that RACK-TLP uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTimes {
    /// Now.
    pub now: FalconTime,
    /// Smallest round trip time of the last seconds; 0 before the first measurement.
    pub min_rtt: Ticks,
    /// Smoothed round trip time; 0 before the first measurement.
    pub smoothed_rtt: Ticks,
    /// Retransmission timeout.
    pub rto: Ticks,
}

/// When an acknowledgement arrived, and the round trip that its T1 measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Now.
    pub now: FalconTime,
    /// The round trip time. A piggyback has no T1: then this is the longest time.
    pub rtt: Ticks,
}
