//! What was recorded in a run, in the same form in either world, and measurements and lines for figures from it. Times in
//! lines are milliseconds.

use datacentre::{FlowSample, Record};
use fabric_model::{Egress, FabricStats, LinkStats, Rate, Span, Time};
use lab_report::{Case, World as Kind, mean};
use transport_common::units::Fcwnd;

use crate::kind::Units;

/// Points of a line.
pub(crate) type Points = Vec<[f64; 2]>;

/// Label of the axis of time.
pub(crate) const TIME: &str = "time (ms)";

/// Number of a case that says whether a run on real packets is valid.
pub(crate) const LOST_BY_THE_KERNEL: &str = "lost by the kernel";

/// The record of a run.
pub(crate) struct Run {
    pub(crate) kind: Kind,
    /// The samples. On real packets a delay is smoothed over some eight acknowledgements.
    pub(crate) record: Record,
    /// The counters at the start, at the marks of the description, and at the end.
    pub(crate) marks: Vec<Mark>,
    /// Paths and loads of links, if the description asks for them.
    pub(crate) observations: Vec<Observation>,
    /// When each message of each flow was complete.
    pub(crate) completions: Vec<Vec<Option<Time>>>,
    /// The links that the description watches.
    pub(crate) watch: Vec<Egress>,
    /// Frames that the kernel lost in addition to the model. If there are any, the run is invalid.
    pub(crate) lost_by_the_kernel: u64,
}

/// The counters at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) at: Time,
    pub(crate) fabric: FabricStats,
    /// Packets that a slow ULP's receive buffer had no room for.
    pub(crate) overflowed: u64,
    /// The largest number of bytes in that buffer until then.
    pub(crate) buffer_peak: u64,
}

/// The paths of all flows, and the load of the watched links.
pub(crate) struct Observation {
    pub(crate) at: Time,
    /// The first link on the path of each flow's packets.
    pub(crate) first_links: Vec<Egress>,
    /// Bytes that each watched link has delivered.
    pub(crate) delivered: Vec<u64>,
}

/// The activity of a link between two marks.
pub(crate) struct Carried {
    /// Used share of its rate, percent.
    pub(crate) utilisation: f64,
    /// Share of the offered frames that found its queue full, percent; none if no frame was offered.
    pub(crate) loss: Option<f64>,
}

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

/// Returns the counters of a link.
pub(crate) fn link(stats: &FabricStats, egress: Egress) -> &LinkStats {
    match egress {
        Egress::Host(port) => &stats.towards[usize::from(port.0)],
        Egress::Trunk(trunk) => &stats.trunks[usize::from(trunk.0)],
    }
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

/// Adds to a case on real packets what the machine did in all its runs.
pub(crate) fn with_machines<'a>(case: Case, runs: impl Iterator<Item = &'a Run>) -> Case {
    let live: Vec<&Run> = runs.filter(|run| run.kind == Kind::Live).collect();
    if live.is_empty() {
        return case;
    }
    let longest = live.iter().filter_map(|run| run.longest_pause()).reduce(f64::max);
    let lost: u64 = live.iter().map(|run| run.lost_by_the_kernel).sum();
    case.with("longest pause", longest, "ms").with(LOST_BY_THE_KERNEL, lost as f64, "frames")
}

impl Run {
    /// Returns the counters at the end.
    pub(crate) fn end(&self) -> &Mark {
        self.marks.last().expect("every run has a mark at its end")
    }

    /// Returns the activity of the first watched link, of this rate, from one mark to another.
    pub(crate) fn carried(&self, from: usize, to: usize, rate: Rate) -> Carried {
        let [from, to] =
            [from, to].map(|mark| (self.marks[mark].at, link(&self.marks[mark].fabric, self.watch[0])));
        let seconds = to.0.since(from.0).0 as f64 / 1e12;
        let bits = (to.1.delivered_bytes - from.1.delivered_bytes) as f64 * 8.0;
        let offered = to.1.offered - from.1.offered;
        let dropped = to.1.queue_dropped - from.1.queue_dropped;
        Carried {
            utilisation: bits / seconds / rate.bits_per_second() as f64 * 100.0,
            loss: (offered > 0).then(|| dropped as f64 / offered as f64 * 100.0),
        }
    }

    /// Returns the samples of a flow from one time to another, both included; none if the second is before the first.
    pub(crate) fn samples(&self, flow: usize, from: Time, to: Time) -> &[FlowSample] {
        let begin = self.record.times.partition_point(|time| *time < from);
        let end = self.record.times.partition_point(|time| *time <= to);
        &self.record.flows[flow][begin..end.max(begin)]
    }

    /// Returns the user data that a flow delivered from one time to another, in the unit of goodput; none without two
    /// samples.
    pub(crate) fn goodput(&self, flow: usize, from: Time, to: Time) -> Option<f64> {
        let between = self.samples(flow, from, to);
        let times = self.record.times.iter().filter(|time| (from..=to).contains(time));
        let (first, last) = (between.first()?, between.last()?);
        let duration = times.clone().next_back()?.since(*times.clone().next()?);
        let gigabits = |picoseconds: f64| (last.received - first.received) as f64 * 8_000.0 / picoseconds;
        (duration.0 > 0).then(|| Units::of(self.kind).rate(gigabits(duration.0 as f64)))
    }

    /// Returns the number of retransmissions, for every reason.
    pub(crate) fn retransmissions(&self) -> f64 {
        let last = self.record.flows.iter().filter_map(|samples| samples.last());
        last.map(|sample| sample.retransmissions).sum::<u64>() as f64
    }

    /// Returns when the messages of all flows were complete, in order.
    pub(crate) fn completion_times(&self) -> Vec<Time> {
        let mut times: Vec<Time> = self.completions.iter().flatten().copied().flatten().collect();
        times.sort_unstable();
        times
    }

    /// Adds to a case on real packets what the machine did.
    pub(crate) fn with_machine(&self, case: Case) -> Case {
        with_machines(case, [self].into_iter())
    }

    /// Returns the longest time between two samples, milliseconds. During this time the sampling thread had no CPU.
    fn longest_pause(&self) -> Option<f64> {
        let pauses = self.record.times.windows(2).map(|pair| micros(pair[1].since(pair[0])) / 1e3);
        pauses.reduce(f64::max)
    }

    /// Returns a number of each sample of a flow that has it.
    fn of_flow(&self, flow: usize, number: impl Fn(&FlowSample) -> Option<f64>) -> Points {
        let samples = self.record.times.iter().zip(&self.record.flows[flow]);
        samples.filter_map(|(time, sample)| Some([millis(*time), number(sample)?])).collect()
    }

    /// Fabric window, packets.
    pub(crate) fn fcwnd_line(&self, flow: usize) -> Points {
        self.of_flow(flow, |sample| Some(packets(sample.fcwnd)))
    }

    /// NIC window, packets.
    pub(crate) fn ncwnd_line(&self, flow: usize) -> Points {
        self.of_flow(flow, |sample| Some(sample.ncwnd.into()))
    }

    /// User data at the receiver, MB.
    pub(crate) fn received_line(&self, flow: usize) -> Points {
        self.of_flow(flow, |sample| Some(sample.received as f64 / 1e6))
    }

    /// Returns the fabric delay, in the unit of its axis. If no acknowledgement arrived for a tenth of the time, the line
    /// has a gap.
    pub(crate) fn delay_line(&self, flow: usize) -> Points {
        let longest = self.record.times.last().map_or(0.0, |time| millis(*time)) / 10.0;
        let units = Units::of(self.kind);
        let mut points: Points = vec![];
        for point in self.of_flow(flow, |sample| sample.mean_delay.map(|delay| units.delay(micros(delay)))) {
            if let Some(last) = points.last().filter(|last| point[0] - last[0] > longest) {
                points.push([f64::midpoint(last[0], point[0]), f64::NAN]);
            }
            points.push(point);
        }
        points
    }

    /// Goodput over `group` samples each.
    pub(crate) fn goodput_line(&self, flow: usize, group: usize) -> Points {
        let samples: Vec<_> =
            self.record.times.iter().zip(&self.record.flows[flow]).step_by(group.max(1)).collect();
        let units = Units::of(self.kind);
        let rate = |pair: &[(&Time, &FlowSample)]| {
            let [(from, before), (to, after)] = [pair[0], pair[1]];
            let picoseconds = to.since(*from).0 as f64;
            let gigabits = (after.received - before.received) as f64 * 8_000.0 / picoseconds;
            [millis(*to), units.rate(gigabits)]
        };
        samples.windows(2).map(rate).collect()
    }

    /// Rate of a watched link over `group` observations each, in the unit of goodput.
    pub(crate) fn link_line(&self, watched: usize, group: usize) -> Points {
        let grouped: Vec<_> = self.observations.iter().step_by(group.max(1)).collect();
        let units = Units::of(self.kind);
        let rate = |pair: &[&Observation]| {
            let bytes = pair[1].delivered[watched] - pair[0].delivered[watched];
            let picoseconds = pair[1].at.since(pair[0].at).0 as f64;
            [millis(pair[1].at), units.rate(bytes as f64 * 8_000.0 / picoseconds)]
        };
        grouped.windows(2).map(rate).collect()
    }

    /// Returns the queue of the first watched link, KiB.
    pub(crate) fn queue_line(&self) -> Points {
        self.kibibytes(&self.record.queues[0])
    }

    /// Returns sampled bytes in KiB.
    pub(crate) fn kibibytes(&self, bytes: &[u64]) -> Points {
        let samples = self.record.times.iter().zip(bytes);
        samples.map(|(time, bytes)| [millis(*time), *bytes as f64 / 1024.0]).collect()
    }
}

#[cfg(test)]
mod tests {
    use fabric_model::Trunk;
    use transport_common::units::Ticks;

    use super::*;

    /// A flow that delivers 1000 bytes each microsecond over a link that drops every tenth frame.
    fn run(kind: Kind) -> Run {
        let sample = |n: u64| FlowSample {
            fcwnd: Fcwnd::from_packets(2),
            ncwnd: 64,
            rtt: Ticks::from_nanos(20_000),
            mean_delay: (n != 1).then_some(Span::from_micros(10)),
            greatest_delay: None,
            received: 1000 * n,
            retransmissions: n,
            retransmitted_early: n,
            retransmitted_timeout: 0,
            tail_probes: 0,
            entropy: 50_000,
            alive: true,
        };
        let at = |n: u64| Time::ZERO + Span::from_micros(n);
        let mark = |n: u64| {
            let trunk = LinkStats {
                offered: 10 * n,
                queue_dropped: n,
                delivered_bytes: 1000 * n,
                ..LinkStats::default()
            };
            let fabric = FabricStats { trunks: vec![trunk], ..FabricStats::default() };
            Mark { at: at(n), fabric, ..Mark::default() }
        };
        let record = Record {
            times: (0..5).map(at).collect(),
            flows: vec![(0..5).map(sample).collect()],
            ..Record::default()
        };
        let first = Egress::Trunk(Trunk(0));
        let observation =
            |n: u64| Observation { at: at(n), first_links: vec![first], delivered: vec![500 * n] };
        Run {
            kind,
            record,
            marks: vec![mark(0), mark(4)],
            observations: (0..5).map(observation).collect(),
            completions: vec![vec![Some(at(3)), None], vec![Some(at(1))]],
            watch: vec![first],
            lost_by_the_kernel: 7,
        }
    }

    #[test]
    fn numbers_are_those_of_the_time_between() {
        let run = run(Kind::Simulation);
        let at = |n: u64| Time::ZERO + Span::from_micros(n);
        assert_eq!(run.goodput(0, at(1), at(3)), Some(8.0));
        assert_eq!(run.goodput(0, at(1), at(1)), None);
        assert!(run.samples(0, at(3), at(1)).is_empty());
        let rate = Rate::from_bits_per_second(16_000_000_000).expect("not zero");
        let carried = run.carried(0, 1, rate);
        assert!((carried.utilisation - 50.0).abs() < 1e-9 && carried.loss == Some(10.0));
        assert_eq!((run.retransmissions(), run.end().at), (4.0, at(4)));
        assert_eq!(run.completion_times(), [at(1), at(3)]);
        let (window, delay) = mean_window_and_delay(run.samples(0, at(0), at(4)));
        assert_eq!((window, delay), (Some(2.0), Some(10.0)));
        assert_eq!(run.with_machine(Case::new("c")).values.len(), 0);
    }

    #[test]
    fn lines_are_in_the_units_of_their_world() {
        let [simulated, live] = [Kind::Simulation, Kind::Live].map(run);
        assert_eq!(simulated.goodput_line(0, 2), [[0.002, 8.0], [0.004, 8.0]]);
        assert_eq!(live.goodput_line(0, 2), [[0.002, 8000.0], [0.004, 8000.0]]);
        assert_eq!(live.link_line(0, 4), [[0.004, 4000.0]]);
        assert_eq!(live.delay_line(0)[0], [0.0, 0.01]);
        // The line has a gap where there was no acknowledgement.
        assert_eq!(simulated.delay_line(0)[0], [0.0, 10.0]);
        assert!(simulated.delay_line(0)[1][1].is_nan());
        assert_eq!(Units::of(Kind::Live).goodput_axis(), "goodput (Mb/s)");
        let case = live.with_machine(Case::new("c"));
        assert_eq!((case.value("longest pause"), case.value(LOST_BY_THE_KERNEL)), (Some(0.001), Some(7.0)));
    }
}
