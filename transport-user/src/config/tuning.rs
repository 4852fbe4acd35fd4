//! `[connection.tuning]`: the numbers of a connection that this end may choose alone.

use std::time::Duration;

use transport_common::connection::{DATA_WINDOW, REQUEST_WINDOW};

use super::reader::Reader;

/// Smallest and largest retransmission timeout; the result entry's field ends at 2.199 s (D-69).
const RTO_RANGE: (Duration, Duration) = (Duration::from_micros(1), Duration::from_secs(2));
/// Longest transaction timeout: half of the 563 s after which Falcon time wraps (D-12).
const LONGEST_TIMEOUT: Duration = Duration::from_secs(281);
/// Longest ACK coalescing time: beyond it every sender would time out first.
const LONGEST_COALESCING: Duration = Duration::from_millis(100);
/// Longest replay margin: 2^32 packets at line rate take 20 s and more (D-56).
const LONGEST_MARGIN: Duration = Duration::from_secs(10);
/// Largest NIC window, packets: that of the largest transmit window (D-27).
const LARGEST_NCWND: u64 = 1024;
/// Fabric windows, packets: one step of the 11.10 fixed point, and its largest whole number (D-79).
const FCWND_RANGE: (f64, f64) = (1.0 / 1024.0, 2047.0);
/// RNR timeout codes have 5 bits (F-7.8-4).
const LARGEST_RNR_CODE: u64 = 31;
/// Most timeout retransmissions: the datapath counts them in 16 bits.
const MOST_ATTEMPTS: u64 = 65_535;
/// Largest out-of-order distance: the data window's bitmap has no bit beyond.
const LARGEST_DISTANCE: u64 = 127;

/// Tuning of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tuning {
    /// What the connection starts with.
    pub connection: crate::Tuning,
    /// How far congestion control may take it.
    pub limits: Limits,
}

/// Limits within which windows and timeout move; the defaults are D-78's. As long as both are constant, what a
/// connection starts with is checked against them and nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The fabric window never falls below, packets.
    pub min_fcwnd: f64,
    /// The fabric window never rises above, packets.
    pub max_fcwnd: f64,
    /// The NIC window never falls below, packets.
    pub min_ncwnd: u32,
    /// The NIC window never rises above, packets.
    pub max_ncwnd: u32,
    /// The retransmission timeout never falls below.
    pub min_rto: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min_fcwnd: 0.01,
            max_fcwnd: 256.0,
            min_ncwnd: 1,
            max_ncwnd: 256,
            min_rto: Duration::from_millis(1),
        }
    }
}

impl Tuning {
    /// Reads a `tuning` table; what it leaves out comes from `base`. Complaints go to the reader.
    pub(super) fn read(table: &mut Reader<'_, '_>, base: Self) -> Self {
        let limits = Limits::read(table, base.limits);
        let connection = read_connection(table, base.connection);
        let tuning = Self { connection, limits };
        tuning.check_order(table);
        tuning
    }

    /// Complains about a minimum, start and maximum that contradict each other.
    fn check_order(&self, table: &mut Reader<'_, '_>) {
        let Self { connection: c, limits } = self;
        if !(limits.min_fcwnd..=limits.max_fcwnd).contains(&c.fcwnd) {
            table.complain(
                "initial_fcwnd",
                "must lie between min_fcwnd and max_fcwnd: change one of the three",
            );
        }
        if !(limits.min_ncwnd..=limits.max_ncwnd).contains(&c.ncwnd) {
            table.complain(
                "initial_ncwnd",
                "must lie between min_ncwnd and max_ncwnd: change one of the three",
            );
        }
        if limits.min_rto > c.rto {
            table.complain(
                "rto",
                "must not be below min_rto (default \"1ms\"): lower min_rto as well, or raise rto",
            );
        }
    }
}

impl Limits {
    fn read(table: &mut Reader<'_, '_>, base: Self) -> Self {
        let (least, most) = FCWND_RANGE;
        Self {
            min_fcwnd: table.number("min_fcwnd", least, most).unwrap_or(base.min_fcwnd),
            max_fcwnd: table.number("max_fcwnd", least, most).unwrap_or(base.max_fcwnd),
            min_ncwnd: count(table, "min_ncwnd", 1, LARGEST_NCWND, base.min_ncwnd),
            max_ncwnd: count(table, "max_ncwnd", 1, LARGEST_NCWND, base.max_ncwnd),
            min_rto: table.duration("min_rto", RTO_RANGE.0, RTO_RANGE.1).unwrap_or(base.min_rto),
        }
    }
}

fn read_connection(table: &mut Reader<'_, '_>, base: crate::Tuning) -> crate::Tuning {
    let mut duration = |name, low, high, default| table.duration(name, low, high).unwrap_or(default);
    let rto = duration("rto", RTO_RANGE.0, RTO_RANGE.1, base.rto);
    let zero = Duration::ZERO;
    let ack_coalescing = duration("ack_coalescing_time", zero, LONGEST_COALESCING, base.ack_coalescing);
    let replay_margin = duration("replay_margin", zero, LONGEST_MARGIN, base.replay_margin);
    let shortest = Duration::from_millis(1);
    let transaction_timeout =
        duration("transaction_timeout", shortest, LONGEST_TIMEOUT, base.transaction_timeout);
    let (requests, data) = (u64::from(REQUEST_WINDOW), u64::from(DATA_WINDOW));
    let attempts = base.max_retransmit_attempts;
    crate::Tuning {
        fcwnd: table.number("initial_fcwnd", FCWND_RANGE.0, FCWND_RANGE.1).unwrap_or(base.fcwnd),
        ncwnd: count(table, "initial_ncwnd", 1, LARGEST_NCWND, base.ncwnd),
        rto,
        request_window: count(table, "request_transmit_window", 1, requests, base.request_window), // D-27
        data_window: count(table, "data_transmit_window", 1, data, base.data_window),
        // D-46: no attempts at all is legal.
        max_retransmit_attempts: count(table, "max_retransmit_attempts", 0, MOST_ATTEMPTS, attempts),
        ack_coalescing,
        ooo_threshold: count(table, "ooo_threshold", 0, LARGEST_DISTANCE, base.ooo_threshold),
        ack_request_threshold: count(table, "ar_threshold", 0, LARGEST_NCWND, base.ack_request_threshold),
        ack_request_percent: count(table, "ar_percent", 0, 100, base.ack_request_percent.into()) as u8,
        rnr_timeout_code: count(table, "rnr_code", 0, LARGEST_RNR_CODE, base.rnr_timeout_code.into()) as u8,
        transaction_timeout,
        replay_margin,
    }
}

fn count(table: &mut Reader<'_, '_>, name: &'static str, low: u64, high: u64, default: u32) -> u32 {
    table.integer(name, low, high).map_or(default, |value| value as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_lie_within_their_limits() {
        // D-78
        let Tuning { connection, limits } = Tuning::default();
        assert!((limits.min_fcwnd..=limits.max_fcwnd).contains(&connection.fcwnd));
        assert!((limits.min_ncwnd..=limits.max_ncwnd).contains(&connection.ncwnd));
        assert!(limits.min_rto <= connection.rto);
    }
}
