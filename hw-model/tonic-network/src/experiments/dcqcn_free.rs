//! DCQCN: two flows in many free runs, judged by their means.
//!
//! The queue marks one segment in hundreds, and a mark more or less moves a rate for tens of milliseconds: two runs of
//! one sender part as soon as anything differs. What senders can be held to is what they do on average.

use anyhow::Result;
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};

use crate::scenario::{Scenario, Senders};

use super::dcqcn_setting::{NUDGE, SHARE, distance, line, scenario, trace};

/// Runs of a set. Single runs differ by some 10 %, so that the means of two sets of one sender differ by a fifth of that.
const RUNS: u64 = 24;
/// Steps of all runs of the three sets.
pub(super) const STEPS: u64 = 3 * RUNS * PARTS;
/// Steps of a run: as long as those of the single runs.
const PARTS: u64 = 20;
/// Of a run, at most: long enough for rates to settle, and to wander several times.
const TIME: Span = Span::from_millis(400);
/// How far the means of two sets of one sender may differ, for the comparison to say anything: half of the promise.
const YARDSTICK: f64 = 2.5;
/// By how much more single runs may differ than those of one sender do, percent of a share.
const MARGIN: f64 = 1.0;

/// R_C of the first flow in the runs of a set: means of a millisecond, Gb/s.
struct Set {
    name: &'static str,
    traces: Vec<Vec<f64>>,
}

impl Set {
    /// A value of every millisecond, of what all runs have in it.
    fn each(&self, value: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let length = self.traces.iter().map(Vec::len).min().unwrap_or(0);
        let column = |at| self.traces.iter().map(|trace| trace[at]).collect::<Vec<f64>>();
        (0..length).map(|at| value(&column(at))).collect()
    }

    fn mean(&self) -> Vec<f64> {
        self.each(|values| moments(values).0)
    }

    /// The mean less and plus a standard deviation of single runs.
    fn band(&self) -> [Vec<f64>; 2] {
        [-1.0, 1.0].map(|sign| {
            self.each(|values| {
                let (mean, deviation) = moments(values);
                mean + sign * deviation
            })
        })
    }

    /// Distances of each run from each of another set.
    fn distances(&self, other: &Self) -> Vec<f64> {
        let pairs = self.traces.iter().flat_map(|a| other.traces.iter().map(move |b| (a, b)));
        pairs.filter_map(|(a, b)| distance(a, b)).collect()
    }
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / values.len() as f64).sqrt())
}

/// Runs with seeds that follow each other, which decide marks and by how much, up to a nanosecond, answers are late.
fn set(name: &'static str, senders: Senders, first: u64, time: Span, step: &mut dyn FnMut()) -> Result<Set> {
    let run = |seed| -> Result<Vec<f64>> {
        let scenario = Scenario { processing: NUDGE, ..scenario(1, seed) };
        let outcome = scenario.run(scenario.dcqcn(senders)?, time, PARTS, |_| step());
        Ok(trace(&outcome.logs[0].rates, Time::ZERO + time))
    };
    Ok(Set { name, traces: (first..first + RUNS).map(run).collect::<Result<_>>()? })
}

/// Adds what free runs show to the experiment, which runs for `time`; `step` is told of each step.
pub(super) fn add(experiment: &mut Experiment, time: Span, step: &mut dyn FnMut()) -> Result<()> {
    let (time, seed) = (time.min(TIME), experiment.seed);
    let tonic = set("Tonic, free runs", Senders::Tonic, seed, time, step)?;
    let reference = set("reference, free runs", Senders::Reference, seed, time, step)?;
    let others = set("reference, free runs, other seeds", Senders::Reference, seed + RUNS, time, step)?;
    let sets = [&tonic, &reference, &others];
    let means = sets.map(Set::mean);
    let apart = |a: usize, b: usize| distance(&means[a], &means[b]);
    let single = sets.map(|set| set.distances(&reference));
    let typical = |number: usize| lab_report::mean(single[number].iter().copied());
    for (number, set) in sets.into_iter().enumerate() {
        let settled = &means[number][means[number].len() / 2..];
        let other = |value: Option<f64>, from| value.filter(|_| number != from);
        let worst = lab_report::quantile(&single[number], 0.95);
        let case = Case::new(set.name)
            .with("mean rate, second half", lab_report::mean(settled.iter().copied()), "Gb/s")
            .with("mean of all runs: distance from the reference's", other(apart(number, 1), 1), SHARE)
            .with("from that of its other seeds", other(apart(number, 2), 2), SHARE)
            .with("single runs: mean distance from the reference's", other(typical(number), 1), SHARE)
            .with("95 of 100 of these", other(worst, 1), SHARE);
        experiment.cases.push(case);
    }
    let beyond = typical(0).zip(typical(2)).map(|(tonic, reference)| tonic - reference);
    experiment.verdicts.extend([
        Verdict::new(
            format!("root mean square distance of the rates, means of {RUNS} free runs, same seeds"),
            apart(0, 1),
            SHARE,
            Bound::AtMost(5.0),
        ),
        Verdict::new("the same, other seeds", apart(0, 2), SHARE, Bound::AtMost(5.0)),
        Verdict::new(
            "the same of the reference beside itself, other seeds: the yardstick",
            apart(1, 2),
            SHARE,
            Bound::AtMost(YARDSTICK),
        ),
        Verdict::new(
            "single free runs differ from the reference's by more than those among themselves, on average",
            beyond,
            SHARE,
            Bound::AtMost(MARGIN),
        ),
    ]);
    experiment.settings.insert("free runs of a set, and their time", format!("{RUNS}, {time}"));
    let figure = Figure::new(
        "free",
        format!("Rate of one of two flows, mean of {RUNS} free runs, and a standard deviation"),
        "ms",
        "Gb/s",
    );
    experiment.figures.push(
        figure
            .lines(Look::Faint, "Tonic, a deviation off", tonic.band().map(|edge| line(&edge)))
            .lines(Look::Faint, "reference, likewise", reference.band().map(|edge| line(&edge)))
            .line(Look::Main, "Tonic", line(&means[0]))
            .line(Look::Reference, "reference", line(&means[1])),
    );
    experiment.details["free_runs"] = serde_json::json!({
        "tonic_gbps": tonic.traces,
        "reference_gbps": reference.traces,
        "reference_other_seeds_gbps": others.traces,
    });
    Ok(())
}
