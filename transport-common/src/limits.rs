//! Ranges of a connection's settings: the only definition, for the node file, the library and the core.

use crate::units::{Fcwnd, Ticks};

/// The smallest and the largest value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Smallest value, in the unit that the constant's documentation names.
    pub least: u64,
    /// Largest value, in the same unit.
    pub most: u64,
    /// The range as a text for people, with the unit.
    pub text: &'static str,
}

impl Limit {
    const fn new(least: u64, most: u64, text: &'static str) -> Self {
        Self { least, most, text }
    }

    /// Returns whether `value` is in the range.
    pub const fn contains(&self, value: u64) -> bool {
        value >= self.least && value <= self.most
    }

    /// Returns whether a duration is in a range whose unit is the nanosecond. Ticks are coarser, so the ends are
    /// rounded in the same way as a setting.
    pub const fn contains_ticks(&self, value: Ticks) -> bool {
        value.0 >= Ticks::from_nanos(self.least).0 && value.0 <= Ticks::from_nanos(self.most).0
    }
}

/// Fabric window, in 1/1024 packet, the unit of its 11.10 fixed-point format (D-79).
pub const FCWND: Limit = Limit::new(1, Fcwnd::MAX.0 as u64, "1/1024 to 2047.999 packets");
/// NIC window, packets: the 11 bits of the event and the result entry (F-10.6.2.1-6, D-65).
pub const NCWND: Limit = Limit::new(1, 2047, "1 to 2047 packets");
/// Retransmission timeout, nanoseconds: the 24 bits of the result entry (D-69).
pub const RTO: Limit = Limit::new(1_000, 2_199_000_000, "1 us to 2.199 s");
/// Request transmit window, packets (D-27).
pub const REQUEST_WINDOW: Limit = Limit::new(1, 64, "1 to 64 packets");
/// Data transmit window, packets (D-27).
pub const DATA_WINDOW: Limit = Limit::new(1, 128, "1 to 128 packets");
/// Timeout retransmissions, counted in 16 bits (D-46).
pub const RETRANSMIT_ATTEMPTS: Limit = Limit::new(0, 65_535, "0 to 65535");
/// ACK coalescing time, nanoseconds. With a longer one every sender would time out first.
pub const ACK_COALESCING: Limit = Limit::new(0, 1_000_000_000, "0 to 1 s");
/// Out-of-order distance of early retransmission, packets. The data window's bitmap has no more bits (D-36).
pub const OOO_THRESHOLD: Limit = Limit::new(0, 127, "0 to 127 packets");
/// Fabric window up to which every packet carries AR, packets (F-9.1.3.1-2).
pub const ACK_REQUEST_THRESHOLD: Limit = Limit::new(0, 2047, "0 to 2047 packets");
/// Percent of packets that carry AR (D-81).
pub const ACK_REQUEST_PERCENT: Limit = Limit::new(0, 100, "0 to 100");
/// RNR timeout code, 5 bits (F-7.8-4).
pub const RNR_TIMEOUT_CODE: Limit = Limit::new(0, 31, "0 to 31");
/// Transaction timeout, nanoseconds: at most half of the 563 s after which Falcon time wraps (D-12).
pub const TRANSACTION_TIMEOUT: Limit = Limit::new(1_000, 281_000_000_000, "1 us to 281 s");
/// Replay protection margin, nanoseconds: 2^32 packets at line rate take at least 20 s (D-56).
pub const REPLAY_MARGIN: Limit = Limit::new(0, 10_000_000_000, "0 to 10 s");
/// Weight of a new value in the smoothed occupancy, in 1/256 (F-10.2-2).
pub const OCCUPANCY_WEIGHT: Limit = Limit::new(1, 256, "1 to 256");
/// Requests held for the ULP at which the packet pool counts as full (D-76).
pub const FULL_PACKET_POOL: Limit = Limit::new(1, 128, "1 to 128 requests");
/// Receive cells in use at which the buffer pool counts as full (D-76).
pub const FULL_BUFFER_POOL: Limit = Limit::new(1, 2048, "1 to 2048 cells");
/// Destination function, 24 bits (D-15).
pub const FUNCTION: Limit = Limit::new(0, 0x00ff_ffff, "24 bits");
/// Event queue (F-10.6.2.1-11).
pub const EVENT_QUEUE: Limit = Limit::new(0, 3, "0 to 3");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::entry::MAX_NCWND;
    use crate::congestion::nic_time::NicTime;
    use crate::congestion::queues::EVENT_QUEUES;
    use crate::{connection, queues};

    #[test]
    fn limits_are_those_of_the_fields_and_tables() {
        assert_eq!(NCWND.most, MAX_NCWND.into());
        assert_eq!(REQUEST_WINDOW.most, connection::REQUEST_WINDOW.into());
        assert_eq!(DATA_WINDOW.most, connection::DATA_WINDOW.into());
        assert_eq!(OOO_THRESHOLD.most + 1, connection::DATA_WINDOW.into());
        assert_eq!(FULL_PACKET_POOL.most, connection::DATA_WINDOW.into());
        assert_eq!(FULL_BUFFER_POOL.most, queues::CELLS as u64);
        assert_eq!(EVENT_QUEUE.most + 1, EVENT_QUEUES as u64);
        assert!(Ticks::from_nanos(RTO.most).0 <= NicTime::MASK);
        assert!(Ticks::from_nanos(TRANSACTION_TIMEOUT.most).0 < 1 << 31);
    }

    #[test]
    fn the_ends_are_inside() {
        assert!(NCWND.contains(1) && NCWND.contains(2047) && !NCWND.contains(0) && !NCWND.contains(2048));
        assert!(RTO.contains_ticks(Ticks::from_nanos(1_000)) && !RTO.contains_ticks(Ticks(0)));
        assert!(RTO.contains_ticks(Ticks::from_nanos(2_199_000_000)) && !RTO.contains_ticks(Ticks(1 << 24)));
    }
}
