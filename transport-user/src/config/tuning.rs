//! `[connection.tuning]`: the numbers of a connection that this end may choose alone.

use std::time::Duration;

use transport_common::connection::{DATA_WINDOW, REQUEST_WINDOW};
use transport_common::queues::CELLS;

use super::reader::Reader;
use crate::congestion::CongestionParameters;
use crate::parameters::Tuning;

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

/// Reads a `tuning` table; what it leaves out comes from `base`. Complaints go to the reader.
pub(super) fn read(table: &mut Reader<'_, '_>, base: Tuning) -> Tuning {
    let mut tuning = read_connection(table, base);
    let parameters = &mut tuning.congestion.parameters;
    read_limits(table, parameters);
    // What was wrong before has been complained about where it stands.
    if let Err(error) = parameters.prepare()
        && base.congestion.parameters.prepare().is_ok()
    {
        table.complain(error.name, format!("must be {}", error.range));
    }
    check_order(table, &tuning);
    tuning
}

/// The limits of congestion control that `tuning` names; they come after a profile.
fn read_limits(table: &mut Reader<'_, '_>, parameters: &mut CongestionParameters) {
    let (least, most) = FCWND_RANGE;
    let p = parameters;
    p.min_fcwnd = table.number("min_fcwnd", least, most).unwrap_or(p.min_fcwnd);
    p.max_fcwnd = table.number("max_fcwnd", least, most).unwrap_or(p.max_fcwnd);
    p.min_ncwnd = count(table, "min_ncwnd", 1, LARGEST_NCWND, p.min_ncwnd);
    p.max_ncwnd = count(table, "max_ncwnd", 1, LARGEST_NCWND, p.max_ncwnd);
    let min_rto = table.duration("min_rto", RTO_RANGE.0, RTO_RANGE.1);
    p.min_retransmission_timeout = min_rto.unwrap_or(p.min_retransmission_timeout);
}

/// Complains about a minimum, start and maximum that contradict each other.
fn check_order(table: &mut Reader<'_, '_>, tuning: &Tuning) {
    let limits = &tuning.congestion.parameters;
    if !(limits.min_fcwnd..=limits.max_fcwnd).contains(&tuning.fcwnd) {
        table.complain("initial_fcwnd", "must lie between min_fcwnd and max_fcwnd: change one of the three");
    }
    if !(limits.min_ncwnd..=limits.max_ncwnd).contains(&tuning.ncwnd) {
        table.complain("initial_ncwnd", "must lie between min_ncwnd and max_ncwnd: change one of the three");
    }
    if limits.min_retransmission_timeout > tuning.rto {
        table.complain(
            "rto",
            "must not be below min_rto (default \"1ms\"): lower min_rto as well, or raise rto",
        );
    }
}

fn read_connection(table: &mut Reader<'_, '_>, base: Tuning) -> Tuning {
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
    Tuning {
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
        occupancy_weight: count(table, "occupancy_weight", 1, 256, base.occupancy_weight), // F-10.2-2
        full_packet_pool: count(table, "full_packet_pool", 1, data, base.full_packet_pool), // D-76
        full_buffer_pool: count(table, "full_buffer_pool", 1, CELLS as u64, base.full_buffer_pool),
        congestion: base.congestion,
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
        let tuning = Tuning::default();
        let limits = &tuning.congestion.parameters;
        assert!((limits.min_fcwnd..=limits.max_fcwnd).contains(&tuning.fcwnd));
        assert!((limits.min_ncwnd..=limits.max_ncwnd).contains(&tuning.ncwnd));
        assert!(limits.min_retransmission_timeout <= tuning.rto);
    }
}
