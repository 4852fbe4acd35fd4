//! Lines for figures, from the record of a run. Times are milliseconds.

use datacentre::{FlowSample, Record};
use fabric_model::{Span, Time};
use transport_common::units::Fcwnd;

/// Points of a line.
pub(crate) type Points = Vec<[f64; 2]>;

/// Label of the axis of time.
pub(crate) const TIME: &str = "time (ms)";

/// Milliseconds.
pub(crate) fn millis(time: Time) -> f64 {
    time.0 as f64 / 1e9
}

/// Microseconds.
pub(crate) fn micros(span: Span) -> f64 {
    span.0 as f64 / 1e6
}

/// A window in packets.
pub(crate) fn packets(window: Fcwnd) -> f64 {
    f64::from(window.0) / f64::from(1u32 << Fcwnd::FRACTION_BITS)
}

/// Returns a number of each sample of a flow that has it.
fn of_flow(record: &Record, flow: usize, number: impl Fn(&FlowSample) -> Option<f64>) -> Points {
    let samples = record.times.iter().zip(&record.flows[flow]);
    samples.filter_map(|(time, sample)| Some([millis(*time), number(sample)?])).collect()
}

/// Fabric window, packets.
pub(crate) fn fcwnd(record: &Record, flow: usize) -> Points {
    of_flow(record, flow, |sample| Some(packets(sample.fcwnd)))
}

/// NIC window, packets.
pub(crate) fn ncwnd(record: &Record, flow: usize) -> Points {
    of_flow(record, flow, |sample| Some(sample.ncwnd.into()))
}

/// Returns the fabric delay, microseconds. If no acknowledgement arrived for a tenth of the time, the line has
/// a gap.
pub(crate) fn delay(record: &Record, flow: usize) -> Points {
    let longest = record.times.last().map_or(0.0, |time| millis(*time)) / 10.0;
    let mut points: Points = vec![];
    for point in of_flow(record, flow, |sample| sample.mean_delay.map(micros)) {
        if let Some(last) = points.last().filter(|last| point[0] - last[0] > longest) {
            points.push([f64::midpoint(last[0], point[0]), f64::NAN]);
        }
        points.push(point);
    }
    points
}

/// Goodput over `group` samples each, Gb/s.
pub(crate) fn goodput(record: &Record, flow: usize, group: usize) -> Points {
    let samples: Vec<_> = record.times.iter().zip(&record.flows[flow]).step_by(group.max(1)).collect();
    let rate = |pair: &[(&Time, &FlowSample)]| {
        let [(from, before), (to, after)] = [pair[0], pair[1]];
        let picoseconds = to.since(*from).0 as f64;
        [millis(*to), (after.received - before.received) as f64 * 8_000.0 / picoseconds]
    };
    samples.windows(2).map(rate).collect()
}

/// Returns an observed queue, or a receive buffer, in KiB.
pub(crate) fn kibibytes(record: &Record, bytes: &[u64]) -> Points {
    let samples = record.times.iter().zip(bytes);
    samples.map(|(time, bytes)| [millis(*time), *bytes as f64 / 1024.0]).collect()
}
