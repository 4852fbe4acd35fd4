//! What is promised of paced packets, and what it looks like.

use lab_report::{Bound, Case, Figure, Look, Verdict};

use super::pacing::Measured;
use crate::schedule::{GAP_UNIT, TICK, Timing};

/// Least gap at which a rate is promised, units of 512 ns: beyond what a pause of the engine's thread takes often.
const PROMISED: u32 = 256;
/// Gaps between which the wheel's resolution is looked at, units of 512 ns.
const RESOLVED: std::ops::RangeInclusive<u32> = 256..=260;
/// Where distributions begin, microseconds.
const LEAST: f64 = 0.05;

type All = [(Measured, Timing)];

pub(super) fn verdicts(all: &All, cases: &[Case]) -> Vec<Verdict> {
    let mut verdicts = vec![];
    for ((measured, _), case) in all.iter().zip(cases) {
        verdicts.push(Verdict::of(case, "earliest", Bound::AtMost(TICK)));
        verdicts.push(Verdict::of(case, "not seen", Bound::AtMost(0.0)));
        if measured.load.gap >= PROMISED {
            verdicts.push(Verdict::of(case, "off the wanted rate", Bound::AtMost(1.0)));
        }
    }
    verdicts
}

fn alone(all: &All) -> impl Iterator<Item = &(Measured, Timing)> {
    all.iter().filter(|(measured, _)| measured.load.connections == 1)
}

pub(super) fn figures(all: &All) -> Vec<Figure> {
    vec![rates(all), lateness(all), behind(all), resolution(all), distribution(all)]
}

fn numbers(all: &All) -> Vec<usize> {
    let mut numbers: Vec<usize> = all.iter().map(|(measured, _)| measured.load.connections).collect();
    numbers.dedup();
    numbers
}

fn of_number(all: &All, number: usize, value: impl Fn(&Timing) -> Option<f64>) -> Vec<[f64; 2]> {
    let those = all.iter().filter(|(measured, _)| measured.load.connections == number);
    let mut points: Vec<[f64; 2]> = those
        .filter_map(|(measured, timing)| Some([measured.load.wanted() / 1e3, value(timing)?]))
        .collect();
    points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    points
}

fn connections(number: usize) -> String {
    if number == 1 { "1 connection".to_owned() } else { format!("{number} connections") }
}

fn rates(all: &All) -> Figure {
    let figure = Figure::new("rate", "Mean gap", "wanted gap (us)", "mean gap (us)").log_x().log_y();
    let figure = numbers(all).into_iter().fold(figure, |figure, number| {
        let points = of_number(all, number, |timing| Some(timing.mean_gap()? / 1e3));
        figure.line(Look::Main, connections(number), points)
    });
    let ends = |point: f64| [point, point];
    figure.line(Look::Reference, "as wanted", vec![ends(0.512), ends(33_780.0)])
}

fn lateness(all: &All) -> Figure {
    let figure =
        Figure::new("late", "How late packets leave", "wanted gap (us)", "behind the schedule (us)").log_x().log_y();
    numbers(all).into_iter().fold(figure, |figure, number| {
        [("p50", 0.5), ("p99", 0.99)].into_iter().fold(figure, |figure, (name, part)| {
            let points = of_number(all, number, |timing| timing.late(part));
            figure.line(Look::Main, format!("{}: {name}", connections(number)), points)
        })
    })
}

/// The course of one connection: what a packet is behind the schedule of the very first one, which nothing adds to.
fn behind(all: &All) -> Figure {
    let figure = Figure::new(
        "behind",
        "Behind the schedule of the first packet",
        "time (ms)",
        "behind (us)",
    );
    alone(all).filter(|(measured, _)| [PROMISED, 8192].contains(&measured.load.gap)).fold(figure, |figure, (measured, _)| {
        let wanted = measured.load.wanted();
        let line = measured.departures.first().map_or(vec![], |departures| {
            let first = departures.first().map_or(0.0, |first| first.at);
            (0u32..)
                .zip(departures)
                .map(|(n, departure)| {
                    let since = departure.at - first;
                    [since / 1e6, (since - f64::from(n) * wanted) / 1e3]
                })
                .collect()
        });
        figure.line(Look::Main, format!("{} us", wanted / 1e3), line)
    })
}

fn resolution(all: &All) -> Figure {
    let those = alone(all).filter(|(measured, _)| RESOLVED.contains(&measured.load.gap));
    let points: Vec<[f64; 2]> = those
        .filter_map(|(measured, timing)| Some([f64::from(measured.load.gap), timing.mean_gap()? / GAP_UNIT]))
        .collect();
    let [from, to] = [*RESOLVED.start(), *RESOLVED.end()].map(|gap| [f64::from(gap); 2]);
    Figure::new("resolution", "Gaps one unit apart", "wanted gap (512 ns)", "mean gap (512 ns)")
        .line(Look::Main, "mean gap", points)
        .line(Look::Reference, "as wanted", vec![from, to])
}

fn distribution(all: &All) -> Figure {
    let figure = Figure::new(
        "distribution",
        "Packets that leave at most so late, one connection",
        "behind the schedule (us)",
        "packets (%)",
    )
    .log_x();
    let drawn = alone(all).filter(|(measured, _)| !RESOLVED.contains(&measured.load.gap) || measured.load.gap == PROMISED);
    drawn.filter(|(measured, _)| measured.load.gap >= 64).fold(figure, |figure, (measured, timing)| {
        figure.line(Look::Main, format!("{} us", measured.load.wanted() / 1e3), timing.distribution(LEAST))
    })
}
