//! Numbers and lines from the samples of a run. Times are milliseconds.

use lab_report::mean;
use std::ops::Range;
use std::time::Duration;

use super::course::{FlowSample, SEGMENT, Sample};

/// Points of a line.
pub(super) type Points = Vec<[f64; 2]>;

/// Label of the axis of time.
pub(super) const TIME: &str = "time (ms)";

/// Label of an axis of delays. On this fabric they are milliseconds.
pub(super) const DELAY: &str = "delay (ms)";

/// Returns the fabric delay for such an axis.
pub(super) fn delay(flow: &FlowSample) -> f64 {
    flow.delay / 1e3
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns the samples from one time to another.
pub(super) fn between(samples: &[Sample], from: Duration, to: Duration) -> &[Sample] {
    let begin = samples.partition_point(|sample| sample.at < from);
    let end = samples.partition_point(|sample| sample.at <= to);
    &samples[begin..end.max(begin)]
}

/// Returns a number of each sample.
pub(super) fn line(samples: &[Sample], number: impl Fn(&Sample) -> f64) -> Points {
    samples.iter().map(|sample| [millis(sample.at), number(sample)]).collect()
}

/// Returns a number of a flow in each sample.
pub(super) fn of_flow(samples: &[Sample], flow: usize, number: impl Fn(&FlowSample) -> f64) -> Points {
    line(samples, |sample| number(&sample.flows[flow]))
}

/// Returns the goodput of a flow, each value over `group` samples, Mb/s.
pub(super) fn goodput(samples: &[Sample], flow: usize, group: usize) -> Points {
    rates(samples, group, |from, to| acknowledged_bits(from, to, flow) / 1e6)
}

/// Returns the rate of an observed link, each value over `group` samples, Mb/s.
pub(super) fn link_rate(samples: &[Sample], link: usize, group: usize) -> Points {
    rates(samples, group, |from, to| link_bits(from, to, link) / 1e6)
}

/// Returns the data that wait for the first observed link, KiB.
pub(super) fn queue(samples: &[Sample]) -> Points {
    line(samples, |sample| sample.links[0].queue as f64 / 1024.0)
}

fn rates(samples: &[Sample], group: usize, amount: impl Fn(&Sample, &Sample) -> f64) -> Points {
    let grouped: Vec<&Sample> = samples.iter().step_by(group.max(1)).collect();
    let rate = |pair: &[&Sample]| {
        [millis(pair[1].at), amount(pair[0], pair[1]) / (pair[1].at - pair[0].at).as_secs_f64()]
    };
    grouped.windows(2).map(rate).collect()
}

fn acknowledged_bits(from: &Sample, to: &Sample, flow: usize) -> f64 {
    let [from, to] = [from, to].map(|sample| sample.flows[flow].acknowledged);
    (u64::from(to.wrapping_sub(from)) * SEGMENT * 8) as f64
}

fn link_bits(from: &Sample, to: &Sample, link: usize) -> f64 {
    (to.links[link].stats.delivered_bytes - from.links[link].stats.delivered_bytes) as f64 * 8.0
}

/// Returns the user data of a flow acknowledged during the samples, bits per second; none without two samples.
pub(super) fn mean_goodput(samples: &[Sample], flow: usize) -> Option<f64> {
    over(samples, |from, to| acknowledged_bits(from, to, flow))
}

/// Returns the bits per second that an observed link delivered during the samples.
pub(super) fn mean_link_rate(samples: &[Sample], link: usize) -> Option<f64> {
    over(samples, |from, to| link_bits(from, to, link))
}

fn over(samples: &[Sample], amount: impl Fn(&Sample, &Sample) -> f64) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    let seconds = (last.at - first.at).as_secs_f64();
    (seconds > 0.0).then(|| amount(first, last) / seconds)
}

/// Returns the number of frames that found the queue of the first observed link full during the samples.
pub(super) fn queue_drops(samples: &[Sample]) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    let dropped = |sample: &Sample| sample.links[0].stats.queue_dropped;
    Some((dropped(last) - dropped(first)) as f64)
}

/// Returns the mean of a number over flows and samples.
pub(super) fn mean_of(
    samples: &[Sample],
    flows: Range<usize>,
    number: impl Fn(&FlowSample) -> Option<f64>,
) -> Option<f64> {
    mean(samples.iter().flat_map(|sample| &sample.flows[flows.clone()]).filter_map(number))
}

/// Returns the longest time between two samples, milliseconds. During this time the sampling thread had no CPU.
pub(super) fn longest_pause(samples: &[Sample]) -> Option<f64> {
    samples.windows(2).map(|pair| millis(pair[1].at - pair[0].at)).reduce(f64::max)
}
