//! `[connection.tuning]`: the parameters of a connection that one end chooses without the other.

use std::time::Duration;

use tiercel::Tuning;
use tiercel::congestion::{CongestionControl, CongestionParameters};
use transport_common::limits::{self, Limit};
use transport_common::units::Fcwnd;

use super::congestion::{self, Names};
use super::reader::Reader;

/// Reads the tables `congestion` and `tuning` of a node or a connection. Fields that are absent come from `base`.
pub(super) fn read_both(table: &mut Reader<'_, '_>, mut base: Tuning, names: &Names<'_>) -> Tuning {
    let congestion = |table: &mut Reader<'_, '_>| -> Option<CongestionControl> {
        Some(congestion::read(table, &base.congestion, names))
    };
    base.congestion = table.table("congestion", congestion).unwrap_or(base.congestion);
    table.table("tuning", |table| Some(read(table, base))).unwrap_or(base)
}

/// Reads a `tuning` table. Fields that are absent come from `base`. Complaints go to the reader.
pub(super) fn read(table: &mut Reader<'_, '_>, base: Tuning) -> Tuning {
    let mut tuning = read_connection(table, base);
    let parameters = &mut tuning.congestion.parameters;
    read_limits(table, parameters);
    // If `base` is already wrong, the complaint was made where it was read.
    if let Err(error) = parameters.prepare()
        && base.congestion.parameters.prepare().is_ok()
    {
        table.complain(error.name, format!("must be {}", error.range));
    }
    check_order(table, &tuning);
    tuning
}

/// Reads the limits of congestion control in a `tuning` table. They take precedence over a profile.
fn read_limits(table: &mut Reader<'_, '_>, parameters: &mut CongestionParameters) {
    let p = parameters;
    p.min_fcwnd = packets(table, "min_fcwnd", p.min_fcwnd);
    p.max_fcwnd = packets(table, "max_fcwnd", p.max_fcwnd);
    p.min_ncwnd = count(table, "min_ncwnd", limits::NCWND, p.min_ncwnd);
    p.max_ncwnd = count(table, "max_ncwnd", limits::NCWND, p.max_ncwnd);
    let (least, most) = (Duration::from_nanos(limits::RTO.least), Duration::from_nanos(limits::RTO.most));
    if let Some(min_rto) = table.duration("min_rto", least, most) {
        // A timeout that somebody chooses does not follow the path.
        (p.min_rto, p.adaptive_timeout) = (min_rto, false);
    }
}

/// Complains about a minimum, an initial value and a maximum that contradict each other.
fn check_order(table: &mut Reader<'_, '_>, tuning: &Tuning) {
    let limits = &tuning.congestion.parameters;
    if !(limits.min_fcwnd..=limits.max_fcwnd).contains(&tuning.fcwnd) {
        table.complain("initial_fcwnd", "must lie between min_fcwnd and max_fcwnd: change one of the three");
    }
    if !(limits.min_ncwnd..=limits.max_ncwnd).contains(&tuning.ncwnd) {
        table.complain("initial_ncwnd", "must lie between min_ncwnd and max_ncwnd: change one of the three");
    }
    if limits.min_rto > tuning.rto {
        table.complain(
            "rto",
            "must not be below min_rto (default \"1ms\"): lower min_rto as well, or raise rto",
        );
    }
}

fn read_connection(table: &mut Reader<'_, '_>, base: Tuning) -> Tuning {
    let attempts = base.max_retransmit_attempts;
    let percent = base.ack_request_percent.into();
    let timeout = base.transaction_timeout;
    Tuning {
        fcwnd: packets(table, "initial_fcwnd", base.fcwnd),
        ncwnd: count(table, "initial_ncwnd", limits::NCWND, base.ncwnd),
        rto: duration(table, "rto", limits::RTO, base.rto),
        request_window: count(table, "request_transmit_window", limits::REQUEST_WINDOW, base.request_window),
        data_window: count(table, "data_transmit_window", limits::DATA_WINDOW, base.data_window),
        // D-46: 0 attempts are legal.
        max_retransmit_attempts: count(
            table,
            "max_retransmit_attempts",
            limits::RETRANSMIT_ATTEMPTS,
            attempts,
        ),
        ack_coalescing: duration(table, "ack_coalescing_time", limits::ACK_COALESCING, base.ack_coalescing),
        ooo_threshold: count(table, "ooo_threshold", limits::OOO_THRESHOLD, base.ooo_threshold),
        rack_tlp: table.boolean("rack_tlp").unwrap_or(base.rack_tlp),
        ack_request_threshold: count(
            table,
            "ar_threshold",
            limits::ACK_REQUEST_THRESHOLD,
            base.ack_request_threshold,
        ),
        ack_request_percent: count(table, "ar_percent", limits::ACK_REQUEST_PERCENT, percent) as u8,
        rnr_timeout_code: count(table, "rnr_code", limits::RNR_TIMEOUT_CODE, base.rnr_timeout_code.into())
            as u8,
        transaction_timeout: duration(table, "transaction_timeout", limits::TRANSACTION_TIMEOUT, timeout),
        replay_margin: duration(table, "replay_margin", limits::REPLAY_MARGIN, base.replay_margin),
        occupancy_weight: count(table, "occupancy_weight", limits::OCCUPANCY_WEIGHT, base.occupancy_weight),
        full_packet_pool: count(table, "full_packet_pool", limits::FULL_PACKET_POOL, base.full_packet_pool),
        full_buffer_pool: count(table, "full_buffer_pool", limits::FULL_BUFFER_POOL, base.full_buffer_pool),
        congestion: base.congestion,
    }
}

fn count(table: &mut Reader<'_, '_>, name: &'static str, limit: Limit, default: u32) -> u32 {
    table.integer(name, limit.least, limit.most).map_or(default, |value| value as u32)
}

fn duration(table: &mut Reader<'_, '_>, name: &'static str, limit: Limit, default: Duration) -> Duration {
    let (least, most) = (Duration::from_nanos(limit.least), Duration::from_nanos(limit.most));
    table.duration(name, least, most).unwrap_or(default)
}

/// Reads a fabric window, in packets.
fn packets(table: &mut Reader<'_, '_>, name: &'static str, default: f64) -> f64 {
    let packets = |raw: u64| raw as f64 / f64::from(1 << Fcwnd::FRACTION_BITS);
    table.number(name, packets(limits::FCWND.least), packets(limits::FCWND.most)).unwrap_or(default)
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
        assert!(limits.min_rto <= tuning.rto);
    }
}
