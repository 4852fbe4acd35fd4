//! DCQCN: two flows in many free runs, compared by their means.
//!
//! The queue marks one segment in hundreds. One mark more or less changes a rate for tens of milliseconds. Two
//! runs of the same sender therefore diverge as soon as anything differs. Only the averages of senders can be
//! compared.

use anyhow::Result;
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};

use crate::scenario::{Scenario, Senders};

use super::dcqcn_setting::{NUDGE, SHARE, distance, line, scenario, trace};

/// The number of runs in a set. Single runs differ by about 10 %, so the means of two sets of one sender differ by
/// a fifth of that.
const RUNS: u64 = 24;
/// The number of steps of all runs of the three sets.
pub(super) const STEPS: u64 = 3 * RUNS * PARTS;
/// The number of steps of a run. A step is as long as a step of the single runs.
const PARTS: u64 = 20;
/// The longest simulated time of a run. Rates settle and vary several times in it.
const TIME: Span = Span::from_millis(400);
/// The largest distance between the means of two sets of one sender for which the comparison is meaningful: half
/// of the promise.
const YARDSTICK: f64 = 2.5;
/// The largest amount by which single runs may differ more than the runs of one sender do, in percent of a share.
const MARGIN: f64 = 1.0;

/// R_C of the first flow in the runs of a set: means over one millisecond, in Gb/s.
struct Set {
    name: &'static str,
    traces: Vec<Vec<f64>>,
}

impl Set {
    /// Returns a value per millisecond, computed from the rates of all runs in it.
    fn each(&self, value: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let length = self.traces.iter().map(Vec::len).min().unwrap_or(0);
        let column = |at| self.traces.iter().map(|trace| trace[at]).collect::<Vec<f64>>();
        (0..length).map(|at| value(&column(at))).collect()
    }

    fn mean(&self) -> Vec<f64> {
        self.each(|values| moments(values).0)
    }

    /// Returns the mean minus and plus one standard deviation of single runs.
    fn band(&self) -> [Vec<f64>; 2] {
        [-1.0, 1.0].map(|sign| {
            self.each(|values| {
                let (mean, deviation) = moments(values);
                mean + sign * deviation
            })
        })
    }

    /// Returns the distances of each run from each run of another set.
    fn distances(&self, other: &Self) -> Vec<f64> {
        let pairs = self.traces.iter().flat_map(|a| other.traces.iter().map(move |b| (a, b)));
        pairs.filter_map(|(a, b)| distance(a, b)).collect()
    }
}

/// Returns the mean and the standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / values.len() as f64).sqrt())
}

/// Runs a set with consecutive seeds. A seed decides the marks, and the delay of each answer, up to one
/// nanosecond.
fn set(name: &'static str, senders: Senders, first: u64, time: Span, step: &mut dyn FnMut()) -> Result<Set> {
    let run = |seed| -> Result<Vec<f64>> {
        let scenario = Scenario { processing: NUDGE, ..scenario(1, seed) };
        let outcome = scenario.run(scenario.dcqcn(senders)?, time, PARTS, |_| step());
        Ok(trace(&outcome.logs[0].rates, Time::ZERO + time))
    };
    Ok(Set { name, traces: (first..first + RUNS).map(run).collect::<Result<_>>()? })
}

/// Adds the results of free runs to the experiment, which runs for `time`. Calls `step` after each step.
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
            "the same of two sets of the reference with different seeds, for comparison",
            apart(1, 2),
            SHARE,
            Bound::AtMost(YARDSTICK),
        ),
        Verdict::new(
            "single free runs: mean distance from the reference's, minus that of the reference's among themselves",
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
    let band = |figure: Figure, name, set: &Set| {
        let [lower, upper] = set.band().map(|edge| line(&edge));
        figure.band(name, lower, upper)
    };
    let figure = band(band(figure, "Tonic", &tonic), "reference", &reference);
    experiment.figures.push(figure.line(Look::Main, "Tonic", line(&means[0])).line(
        Look::Reference,
        "reference",
        line(&means[1]),
    ));
    experiment.details["free_runs"] = serde_json::json!({
        "tonic_gbps": tonic.traces,
        "reference_gbps": reference.traces,
        "reference_other_seeds_gbps": others.traces,
    });
    Ok(())
}
