//! DCQCN: 200 flows that share a link (section 6.2.2).

use std::slice;

use anyhow::Result;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};

use crate::experiments::{Options, Progress};
use crate::network::{Span, Time};
use crate::reference_senders::{Dcqcn, Red};
use crate::tonic_network::scenario::{Outcome, Scenario, Senders};

use super::dcqcn::{LINE, scenario, settings};
use super::{by_flow, case, distribution, experiment, time};

const FLOWS: u16 = 100;
const STEPS: u64 = 20;
const FARTHEST: &str = "farthest from 200 Mb/s";
/// Of the run that shows the queue, and how often it is looked at.
const QUEUE_TIME: Span = Span::from_millis(20);
const QUEUE_STEPS: u64 = 400;

/// What a run's rate limiters and switch are set to.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    red: Red,
    dcqcn: Dcqcn,
    flow_control: bool,
}

/// The paper's parameters; the same on a switch that drops; the defaults of the simulator published for it; and those
/// with a least rate that is each flow's share: limiters that never bind.
fn all() -> [Setting; 4] {
    let line = LINE as f64;
    let paper = Setting { name: "paper", red: Red::DCQCN, dcqcn: Dcqcn::new(line), flow_control: true };
    let simulator =
        Setting { name: "simulator", red: Red::SIMULATOR, dcqcn: Dcqcn::simulator(line), ..paper };
    let share = line / f64::from(2 * FLOWS);
    let dcqcn = Dcqcn { min_rate: share, ..simulator.dcqcn };
    [
        paper,
        Setting { name: "paper, no flow control", flow_control: false, ..paper },
        simulator,
        Setting { name: "least rate 200 Mb/s", dcqcn, ..simulator },
    ]
}

fn set(seed: u64, setting: &Setting) -> Scenario {
    let Setting { red, dcqcn, flow_control, .. } = *setting;
    Scenario { watched: None, red: Some(red), dcqcn, flow_control, ..scenario(FLOWS, seed) }
}

/// A run's case.
fn judged(name: String, outcome: &Outcome) -> Case {
    let farthest = outcome.megabits().into_iter().map(|rate| (rate - 200.0).abs()).reduce(f64::max);
    let notifications: f64 = by_flow(slice::from_ref(outcome), |log| &log.notifications).iter().sum();
    case(name, slice::from_ref(outcome))
        .with(FARTHEST, farthest, "Mb/s")
        .with("notifications", notifications, "")
        .with("marked", outcome.marked.0 as f64, "")
        .with("hosts paused", outcome.pauses as f64, "times")
}

/// Bytes in the queue during the first 20 ms, in KB by milliseconds.
fn queue(outcome: &Outcome) -> Vec<[f64; 2]> {
    let point = |(time, bytes): &(Time, u64)| [time.0 as f64 / 1e9, *bytes as f64 / 1e3];
    outcome.queue.iter().map(point).collect()
}

/// 100 flows of each of two hosts to a third.
pub(super) fn run(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let time = time(options, Span::from_millis(1_000));
    let settings_of_runs = all();
    let steps = 2 * (settings_of_runs.len() as u64 * STEPS + QUEUE_STEPS);
    let mut step = 0;
    let mut run = |setting: &Setting, senders, time, parts| -> Result<Outcome> {
        let scenario = set(options.seed, setting);
        Ok(scenario.run(scenario.dcqcn(senders)?, time, parts, |_| {
            step += 1;
            progress(step, steps as usize);
        }))
    };
    let [paper, _, _, floor] = &settings_of_runs;
    let mut experiment = experiment(
        "tonic-dcqcn-flows",
        &set(options.seed, paper),
        time,
        "Two hosts send 100 flows each to a third, all at line rate from the beginning; the switch pauses hosts before its \
         buffer is full. Under the paper's parameters the rate limiters bind, and marks decide what a flow gets. With a \
         least rate of 200 Mb/s they do not bind, hosts are paused, and flows get what taking turns gives them. The paper \
         prints 203 Mb/s for each flow, more than 40 Gb/s divided by 200: unexplained.",
    );
    settings(&mut experiment);
    experiment
        .settings
        .insert("flow control", "dynamic thresholds, alpha 1, 22.4KB of headroom a port".to_owned());
    experiment.settings.insert(
        "simulator",
        "marking 41.2KB to 1030KB, 100%; T 60us, B 300MB, R_HAI 200Mbps, least rate 100Mbps".to_owned(),
    );
    let part = "part of the flows";
    let mut shares = Figure::new("throughput", format!("Throughput of 200 flows over {time}"), "Mb/s", part);
    let mut notified = Figure::new("notifications", "Notifications to each flow", "notifications", part);
    let mut queues = Figure::new("queue", "The switch's queue in the first 20 ms", "ms", "KB");
    let mut throughputs = serde_json::Map::new();
    for setting in &settings_of_runs {
        for (senders, look) in Senders::BOTH.into_iter().zip([Look::Main, Look::Reference]) {
            let outcome = run(setting, senders, time, STEPS)?;
            let name = format!("{}, {}", senders.name(), setting.name);
            let rates = outcome.megabits();
            // One entry of the legend is enough for the dashed lines: each is next to its Tonic's.
            let shown = if senders == Senders::Tonic { &name } else { senders.name() };
            if setting.flow_control {
                shares = shares.line(look, shown, distribution(&rates));
            }
            if setting.name == paper.name {
                let counts = by_flow(slice::from_ref(&outcome), |log| &log.notifications);
                notified = notified.line(look, shown, distribution(&counts));
            }
            experiment.cases.push(judged(name.clone(), &outcome));
            throughputs.insert(name, rates.into());
        }
    }
    for setting in [paper, floor] {
        let outcome = run(setting, Senders::Tonic, QUEUE_TIME.min(time), QUEUE_STEPS)?;
        queues = queues.line(Look::Main, setting.name, queue(&outcome));
    }
    let value = |senders: Senders, setting: &Setting, name| {
        let wanted = format!("{}, {}", senders.name(), setting.name);
        experiment.cases.iter().find(|case| case.name == wanted).and_then(|case| case.value(name))
    };
    let off = value(Senders::Tonic, paper, "mean throughput").map(|mean| (mean - 200.0).abs());
    let farthest = |senders, setting| value(senders, setting, FARTHEST);
    let verdict = |name: &str, value| Verdict::new(name, value, "Mb/s", Bound::AtMost(0.2));
    experiment.verdicts = vec![
        verdict("Tonic: farthest flow from 200 Mb/s", farthest(Senders::Tonic, paper)),
        verdict("Tonic: mean is off 200 Mb/s by", off),
        verdict(
            "Tonic, limiters that do not bind: farthest flow from 200 Mb/s",
            farthest(Senders::Tonic, floor),
        ),
        verdict("reference, limiters that do not bind: the same", farthest(Senders::Reference, floor)),
        Verdict::new(
            "dropped under flow control",
            value(Senders::Tonic, paper, "dropped by the switch"),
            "",
            Bound::AtMost(0.0),
        ),
    ];
    experiment.figures = vec![shares, notified, queues];
    experiment.details = serde_json::json!({ "mbps": throughputs });
    Ok(experiment)
}
