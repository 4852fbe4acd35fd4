//! NewReno: 200 flows that share a link (section 6.2.1, figure 3 c).

use std::slice;

use anyhow::Result;
use fabric_model::Span;
use lab_report::{Bound, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};

use crate::scenario::{Outcome, SEGMENT, Scenario, Senders};

use super::common::{by_flow, case, distribution, experiment, tcp, tcp_settings, time};
use super::compare::kolmogorov_smirnov;

/// The number of runs of each kind of senders, with consecutive seeds. A single run is only one random draw.
const RUNS: u64 = 5;
const STEPS: u64 = 20;
const FLOWS: u16 = 100;
/// The clock tolerance of Ethernet (IEEE 802.3), in parts per million.
const CLOCK_TOLERANCE: u32 = 100;
/// The simulated time of the runs with equal clocks.
const EQUAL_CLOCKS_TIME: Span = Span::from_millis(1_000);
const DISTANCE: &str = "Kolmogorov-Smirnov distance from the reference";

/// Returns the settings of the runs. Clocks deviate like real ones. Receivers take up to the time of one segment
/// to answer (the remedy of Floyd and Jacobson, "On traffic phase effects in packet-switched gateways", 1992,
/// section 3.3).
fn scenario(seed: u64) -> Scenario {
    let equal = equal_clocks(seed);
    let processing = equal.rate.time_of(SEGMENT.into());
    Scenario { clock_tolerance: CLOCK_TOLERANCE, processing, ..equal }
}

/// Returns the settings with clocks that are equal to the picosecond, and with receivers that answer immediately.
fn equal_clocks(seed: u64) -> Scenario {
    Scenario { spread: Span::from_millis(10), ..tcp(2, FLOWS, seed) }
}

fn throughputs(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().flat_map(Outcome::megabits).collect()
}

/// Returns the mean throughput of the flows of the host that has less, and of the host that has more.
fn by_host(outcome: &Outcome) -> [f64; 2] {
    let rates = outcome.megabits();
    let (first, second) = rates.split_at(FLOWS.into());
    let [first, second] = [first, second].map(|rates| rates.iter().sum::<f64>() / f64::from(FLOWS));
    [first.min(second), first.max(second)]
}

/// Runs the experiment: two hosts send 100 flows each to a third.
pub(super) fn run(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let time = time(options, Span::from_millis(5_000));
    let all = (3 * RUNS + 2) * STEPS;
    let mut step = 0;
    let mut run = |scenario: &Scenario, senders, time| -> Result<Outcome> {
        Ok(scenario.run(scenario.new_reno(senders)?, time, STEPS, |_| {
            step += 1;
            progress(step, all as usize);
        }))
    };
    let mut runs = |senders, first: u64| -> Result<Vec<Outcome>> {
        (first..first + RUNS).map(|seed| run(&scenario(seed), senders, time)).collect()
    };
    let tonic = runs(Senders::Tonic, options.seed)?;
    let reference = runs(Senders::Reference, options.seed)?;
    let others = runs(Senders::Reference, options.seed + RUNS)?;
    let short = time.min(EQUAL_CLOCKS_TIME);
    let equal = Senders::BOTH.map(|senders| run(&equal_clocks(options.seed), senders, short));

    let mut experiment = experiment(
        "tonic-new-reno-flows",
        &scenario(options.seed),
        time,
        "Two hosts send 100 flows each to a third over one switch. Segments are lost only when its buffer is \
         full. Throughputs are those of all flows of five runs with consecutive seeds. Five more runs of the \
         reference show how much chance alone changes. In a shorter run all clocks are equal, and one host \
         takes the link.",
    );
    tcp_settings(&mut experiment);
    experiment.settings.insert("runs, each with a seed of its own", RUNS.to_string());
    experiment.settings.insert("transmitters' clocks are off by up to", format!("{CLOCK_TOLERANCE}ppm"));
    experiment.settings.insert("receivers answer within", scenario(options.seed).processing.to_string());
    let pooled = [&tonic, &reference, &others].map(|outcomes| throughputs(outcomes));
    let distance = |number: usize| kolmogorov_smirnov(&pooled[number], &pooled[1]);
    let single = |outcomes: &[Outcome]| -> Vec<f64> {
        let pairs = outcomes.iter().zip(&reference);
        pairs.map(|(a, b)| kolmogorov_smirnov(&a.megabits(), &b.megabits())).collect()
    };
    let singles = [single(&tonic), single(&others)];
    let farthest = |distances: &[f64]| distances.iter().copied().reduce(f64::max);
    let unequal = |outcomes: &[Outcome]| {
        let [less, more] =
            outcomes.iter().map(by_host).fold([0.0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
        let count = outcomes.len() as f64;
        [less / count, more / count]
    };
    let mut add = |name: &str, outcomes: &[Outcome], distances: Option<(f64, &[f64])>| {
        let [less, more] = unequal(outcomes);
        let case = case(name, outcomes)
            .with("mean of the host that has less", less, "Mb/s")
            .with("mean of the host that has more", more, "Mb/s")
            .with(DISTANCE, distances.map(|(pooled, _)| pooled), "")
            .with(
                "the same, worst of the single runs",
                distances.and_then(|(_, single)| farthest(single)),
                "",
            );
        experiment.cases.push(case);
    };
    add("Tonic", &tonic, Some((distance(0), &singles[0])));
    add("reference", &reference, None);
    add("reference, other seeds", &others, Some((distance(2), &singles[1])));
    for (senders, outcome) in Senders::BOTH.into_iter().zip(equal) {
        add(&format!("{}, equal clocks", senders.name()), slice::from_ref(&outcome?), None);
    }
    let mean =
        |number: usize| experiment.cases[number].value("mean throughput").map(|mean| (mean - 50.0).abs());
    experiment.verdicts = vec![
        Verdict::new("Tonic: mean throughput is off 50 Mb/s by", mean(0), "Mb/s", Bound::AtMost(0.5)),
        Verdict::new("reference: mean throughput is off 50 Mb/s by", mean(1), "Mb/s", Bound::AtMost(0.5)),
        Verdict::new("Kolmogorov-Smirnov distance of the throughputs", distance(0), "", Bound::AtMost(0.1)),
    ];
    let again = |outcomes: &[Outcome]| distribution(&by_flow(outcomes, |log| &log.retransmissions));
    let title = format!("Throughput of 200 flows over {time}, {RUNS} runs");
    experiment.figures = vec![
        Figure::new("throughput", title, "Mb/s", "part of the flows")
            .line(Look::Main, "Tonic", distribution(&pooled[0]))
            .line(Look::Reference, "reference", distribution(&pooled[1]))
            .line(Look::Faint, "reference, other seeds", distribution(&pooled[2])),
        Figure::new("retransmissions", "Retransmissions of each flow", "segments", "part of the flows")
            .line(Look::Main, "Tonic", again(&tonic))
            .line(Look::Reference, "reference", again(&reference)),
    ];
    experiment.details = serde_json::json!({
        "tonic_mbps": pooled[0],
        "reference_mbps": pooled[1],
        "distances_of_single_runs": singles[0],
        "distances_of_single_runs_reference": singles[1],
    });
    Ok(experiment)
}
