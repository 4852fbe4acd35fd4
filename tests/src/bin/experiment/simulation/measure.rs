//! Measurements in a part of a run.

use datacentre::{DataCentre, FlowSample, Record};
use fabric_model::{Egress, LinkStats, Rate, Time};
use lab_report::mean;

use super::series::{micros, packets};

/// A sample of the counters of a link.
pub(crate) struct Mark {
    time: Time,
    link: LinkStats,
}

/// The activity of a link between two times.
pub(crate) struct Carried {
    /// Used share of its rate, 0 to 1.
    pub(crate) utilisation: f64,
    /// Share of the offered frames that found its queue full, 0 to 1; none if no frame was offered.
    pub(crate) loss: Option<f64>,
}

/// Returns the present counters of `egress`.
pub(crate) fn mark(data_centre: &DataCentre, egress: Egress) -> Mark {
    let stats = data_centre.fabric_stats();
    let link = match egress {
        Egress::Host(port) => &stats.towards[usize::from(port.0)],
        Egress::Trunk(trunk) => &stats.trunks[usize::from(trunk.0)],
    };
    Mark { time: data_centre.now(), link: link.clone() }
}

/// Returns the activity of the link since `from`.
pub(crate) fn since(data_centre: &DataCentre, egress: Egress, from: &Mark, rate: Rate) -> Carried {
    let to = mark(data_centre, egress);
    let seconds = to.time.since(from.time).0 as f64 / 1e12;
    let bits = (to.link.delivered_bytes - from.link.delivered_bytes) as f64 * 8.0;
    let offered = to.link.offered - from.link.offered;
    let dropped = to.link.queue_dropped - from.link.queue_dropped;
    Carried {
        utilisation: bits / seconds / rate.bits_per_second() as f64,
        loss: (offered > 0).then(|| dropped as f64 / offered as f64),
    }
}

/// Returns the samples of a flow from one time to another, both included; none if the second is before the first.
pub(crate) fn samples(record: &Record, flow: usize, from: Time, to: Time) -> &[FlowSample] {
    let begin = record.times.partition_point(|time| *time < from);
    let end = record.times.partition_point(|time| *time <= to);
    &record.flows[flow][begin..end.max(begin)]
}

/// Returns the user data that a flow delivered from one time to another, Gb/s; none without two samples.
pub(crate) fn goodput(record: &Record, flow: usize, from: Time, to: Time) -> Option<f64> {
    let between = samples(record, flow, from, to);
    let times = record.times.iter().filter(|time| (from..=to).contains(time));
    let (first, last) = (between.first()?, between.last()?);
    let duration = times.clone().next_back()?.since(*times.clone().next()?);
    (duration.0 > 0).then(|| (last.received - first.received) as f64 * 8_000.0 / duration.0 as f64)
}

/// Returns the mean fabric window in packets, and the mean fabric delay in microseconds.
pub(crate) fn mean_window_and_delay(samples: &[FlowSample]) -> (Option<f64>, Option<f64>) {
    let windows = samples.iter().map(|sample| packets(sample.fcwnd));
    let delays = samples.iter().filter_map(|sample| sample.mean_delay).map(micros);
    (mean(windows), mean(delays))
}

/// Returns the mean round trip time, microseconds.
pub(crate) fn mean_rtt(samples: &[FlowSample]) -> Option<f64> {
    mean(samples.iter().filter(|sample| sample.rtt.0 > 0).map(|sample| sample.rtt.as_nanos() as f64 / 1e3))
}

/// Returns the number of copies sent, for every reason.
pub(crate) fn retransmissions(record: &Record) -> f64 {
    let last = record.flows.iter().filter_map(|samples| samples.last());
    last.map(|sample| sample.retransmissions).sum::<u64>() as f64
}
