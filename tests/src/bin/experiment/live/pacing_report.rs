//! The promises for paced packets, and their plots.

use lab_report::{Bound, Case, Figure, Look, Verdict};

use super::pacing_load::{Load, Measured, STEPS};
use crate::schedule::{GAP_UNIT, TICK, Timing};

/// Least gap at which a rate is promised, units of 512 ns. It is well above the round trip time. No gap can be
/// below that with one packet outstanding.
const PROMISED: u32 = 256;
/// Greatest gap of a single connection at which the median is promised, in the same units. Then there are
/// thousands of gaps.
const MEDIAN: u32 = 1024;
/// The machine carries a load if the schedule starts again at no more than this percentage of the packets.
const CARRIED: f64 = 1.0;
/// Most gaps are right if the schedule starts again at no more than this percentage. The gap after such a
/// packet is too long by the engine's lateness.
const MOSTLY_CARRIED: f64 = 25.0;
/// Another gap that is shown over time, in the same units.
const LONGER: u32 = 8192;
/// Least gap whose distribution is shown, in the same units.
const SHOWN: u32 = 64;
/// The beginning of the axis of distributions, microseconds.
const LEAST: f64 = 0.05;

type All = [(Measured, Timing)];

/// What is promised of each case. However busy the machine is, no packet is early by more than the tick by
/// which departures are held. A single connection's gaps are right more often than not unless the engine is
/// late all the time. A rate is promised where the machine carries it: where the engine has its CPU in time for
/// all but a few packets; the pauses before those few are no gaps.
pub(super) fn verdicts(all: &All, cases: &[Case]) -> Vec<Verdict> {
    let mut verdicts = vec![];
    for ((measured, timing), case) in all.iter().zip(cases) {
        verdicts.push(Verdict::of(case, "earliest", Bound::AtMost(TICK)));
        verdicts.push(Verdict::of(case, "not seen", Bound::AtMost(0.0)));
        let load = measured.load;
        if load.connections == 1
            && (PROMISED..=MEDIAN).contains(&load.gap)
            && is_carried(timing, MOSTLY_CARRIED)
        {
            let median = case.value("gap off p50").map(|off| off.abs() * 1e3);
            let name = format!("{}: median gap off the wanted one", case.name);
            verdicts.push(Verdict::new(name, median, "ns", Bound::AtMost(GAP_UNIT)));
        }
        if load.gap >= PROMISED && is_carried(timing, CARRIED) {
            let off = timing.mean_gap_in_time().map(|mean| (mean / load.wanted() - 1.0).abs() * 100.0);
            let name = format!("{}: mean gap of packets in time off the wanted one", case.name);
            verdicts.push(Verdict::new(name, off, "%", Bound::AtMost(1.0)));
        }
    }
    if steps(all).all(|(_, timing)| is_carried(timing, CARRIED)) {
        let off = |(load, timing): (Load, &Timing)| Some((timing.mean_gap_in_time()? - load.wanted()).abs());
        verdicts.push(Verdict::new(
            "gaps one unit apart, packets in time: mean gap off the wanted one",
            steps(all).filter_map(off).reduce(f64::max),
            "ns",
            Bound::AtMost(GAP_UNIT / 2.0),
        ));
    }
    verdicts
}

pub(super) fn figures(all: &All) -> Vec<Figure> {
    vec![rates(all), lateness(all), behind(all), resolution(all), distribution(all)]
}

/// Returns whether the machine carried a load, except for this percentage of the packets.
fn is_carried(timing: &Timing, percent: f64) -> bool {
    timing.resumed().is_some_and(|resumed| resumed <= percent)
}

/// Returns the gaps of a single connection that differ by one unit.
fn steps(all: &All) -> impl Iterator<Item = (Load, &Timing)> {
    let among = |load: Load| load.connections == 1 && (load.gap == PROMISED || STEPS.contains(&load.gap));
    all.iter()
        .filter(move |(measured, _)| among(measured.load))
        .map(|(measured, timing)| (measured.load, timing))
}

/// Returns all cases except those of a single connection that show the resolution.
fn others(all: &All) -> impl Iterator<Item = &(Measured, Timing)> {
    all.iter().filter(|(measured, _)| !STEPS.contains(&measured.load.gap))
}

fn alone(all: &All) -> impl Iterator<Item = &(Measured, Timing)> {
    others(all).filter(|(measured, _)| measured.load.connections == 1)
}

/// Returns a number over the wanted gap in microseconds, for each number of connections.
fn by_connections(all: &All, value: impl Fn(&Timing) -> Option<f64>) -> Vec<(usize, Vec<[f64; 2]>)> {
    let mut lines: Vec<(usize, Vec<[f64; 2]>)> = vec![];
    for (Measured { load, .. }, timing) in others(all) {
        if lines.last().is_none_or(|(connections, _)| *connections != load.connections) {
            lines.push((load.connections, vec![]));
        }
        if let (Some((_, points)), Some(value)) = (lines.last_mut(), value(timing)) {
            points.push([load.wanted() / 1e3, value]);
        }
    }
    lines
}

const WANTED: &str = "wanted gap (us)";

fn rates(all: &All) -> Figure {
    let figure = Figure::new("rate", "Mean gap", WANTED, "mean gap (us)").log_x().log_y();
    let mean = by_connections(all, |timing| Some(timing.mean_gap()? / 1e3));
    let wanted = others(all).map(|(measured, _)| measured.load.wanted() / 1e3);
    let (least, most) = wanted.fold((f64::INFINITY, 0.0f64), |(a, b), gap| (a.min(gap), b.max(gap)));
    mean.into_iter()
        .fold(figure, |figure, (connections, points)| {
            figure.line(Look::Main, format!("{connections} at once"), points)
        })
        .line(Look::Reference, "as wanted", vec![[least; 2], [most; 2]])
}

fn lateness(all: &All) -> Figure {
    let figure = Figure::new("late", "How late packets leave", WANTED, "behind the schedule (us)");
    let parts = [("p50", 0.5), ("p99", 0.99)];
    let lines = parts.map(|(name, part)| (name, by_connections(all, |timing| timing.late(part))));
    let lines = lines.into_iter().flat_map(|(name, lines)| {
        lines.into_iter().map(move |(connections, points)| (format!("{connections}: {name}"), points))
    });
    lines.fold(figure.log_x().log_y(), |figure, (name, points)| figure.line(Look::Main, name, points))
}

/// Plots how far the packets of one connection are behind the schedule of its first packet. Only pauses as long
/// as a gap accumulate.
fn behind(all: &All) -> Figure {
    let title = "Behind the schedule of the first packet";
    let figure = Figure::new("behind", title, "time (ms)", "behind (us)");
    let drawn = alone(all).filter(|(measured, _)| [PROMISED, LONGER].contains(&measured.load.gap));
    drawn.fold(figure, |figure, (Measured { load, departures, .. }, _)| {
        let departures = departures.first().map_or(&[][..], |departures| departures);
        let first = departures.first().map_or(0.0, |first| first.at);
        let point = |(n, at): (u32, f64)| {
            let since = at - first;
            [since / 1e6, (since - f64::from(n) * load.wanted()) / 1e3]
        };
        let line = (0..).zip(departures.iter().map(|departure| departure.at)).map(point);
        figure.line(Look::Main, load.rounded(), line.collect())
    })
}

fn resolution(all: &All) -> Figure {
    let beyond = |gap: f64| gap - f64::from(PROMISED);
    let point = |(load, timing): (Load, &Timing)| {
        Some([beyond(load.gap.into()), beyond(timing.mean_gap_in_time()? / GAP_UNIT)])
    };
    let points: Vec<[f64; 2]> = steps(all).filter_map(point).collect();
    let wanted = points.iter().map(|[gap, _]| [*gap; 2]).collect();
    let (wanted_label, mean_label) = ("wanted gap beyond 131.072 us (512 ns)", "mean gap beyond it (512 ns)");
    Figure::new("resolution", "Gaps one unit apart", wanted_label, mean_label)
        .line(Look::Main, "mean gap of packets in time", points)
        .line(Look::Reference, "as wanted", wanted)
}

fn distribution(all: &All) -> Figure {
    let title = "Packets that leave at most so late, one connection";
    let figure = Figure::new("distribution", title, "behind the schedule (us)", "packets (%)").log_x();
    let drawn = alone(all).filter(|(measured, _)| measured.load.gap >= SHOWN);
    drawn.fold(figure, |figure, (measured, timing)| {
        figure.line(Look::Main, measured.load.rounded(), timing.distribution(LEAST))
    })
}
