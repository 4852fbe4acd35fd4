//! DCQCN: 200 flows that share a link (section 6.2.2).

use std::slice;

use anyhow::Result;
use fabric_model::{ByteCount, FlowControl, PauseThreshold, Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};
use reference_senders::{Dcqcn, Red};

use crate::scenario::{Outcome, Scenario, Senders, dynamic_flow_control};

use super::common::{by_flow, case, distribution, experiment, time};
use super::compare::kolmogorov_smirnov;
use super::dcqcn_setting::{LINE, scenario, settings};

const FLOWS: u16 = 100;
/// The number of ports of the switch.
const PORTS: u16 = 3;
/// The static thresholds of the switch of ns3-rdma: 20 of its cells of 1030 B, and 2 cells less for the restart.
/// Both hosts are paused before the queue is long enough for marking to slow the flows down.
const EARLY: FlowControl = FlowControl {
    threshold: PauseThreshold::Static(ByteCount(20 * 1_030)),
    hysteresis: ByteCount(2 * 1_030),
};
const STEPS: u64 = 20;
const FARTHEST: &str = "farthest from 200 Mb/s";
/// The simulated time of the run that shows the queue. `QUEUE_STEPS` is the number of samples.
const QUEUE_TIME: Span = Span::from_millis(20);
const QUEUE_STEPS: u64 = 400;

/// The settings of a run's rate limiters and switch.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    red: Red,
    dcqcn: Dcqcn,
    flow_control: Option<FlowControl>,
}

/// Returns all settings. In the first two, the switch pauses hosts before it marks many segments: the defaults of
/// the simulator that the paper used, and the parameters of the DCQCN paper. In the next three, marking comes
/// first: the parameters of the DCQCN paper, the same on a switch that drops, and the simulator's. In the last
/// one, the lowest rate is each flow's share, so that rate limiters never limit a flow.
fn all() -> [Setting; 6] {
    let line = LINE as f64;
    let dynamic = Some(dynamic_flow_control(PORTS));
    let paper = Setting { name: "paper", red: Red::DCQCN, dcqcn: Dcqcn::new(line), flow_control: dynamic };
    let simulator =
        Setting { name: "simulator", red: Red::SIMULATOR, dcqcn: Dcqcn::simulator(line), ..paper };
    let share = line / f64::from(2 * FLOWS);
    let dcqcn = Dcqcn { min_rate: share, ..simulator.dcqcn };
    let early = Some(EARLY);
    [
        Setting { name: "simulator, paused early", flow_control: early, ..simulator },
        Setting { name: "paper, paused early", flow_control: early, ..paper },
        paper,
        Setting { name: "paper, no flow control", flow_control: None, ..paper },
        simulator,
        Setting { name: "least rate 200 Mb/s", dcqcn, ..simulator },
    ]
}

fn set(seed: u64, setting: &Setting) -> Scenario {
    let Setting { red, dcqcn, flow_control, .. } = *setting;
    Scenario { watched: None, red: Some(red), dcqcn, flow_control, ..scenario(FLOWS, seed) }
}

/// Returns the case of a run.
fn judged(name: String, outcome: &Outcome) -> Case {
    let farthest = outcome.megabits().into_iter().map(|rate| (rate - 200.0).abs()).reduce(f64::max);
    let notifications: f64 = by_flow(slice::from_ref(outcome), |log| &log.notifications).iter().sum();
    case(name, slice::from_ref(outcome))
        .with(FARTHEST, farthest, "Mb/s")
        .with("notifications", notifications, "")
        .with("marked", outcome.marked.0 as f64, "")
        .with("hosts paused", outcome.pauses as f64, "times")
}

/// Returns the length of the queue over time, in KB over milliseconds.
fn queue(outcome: &Outcome) -> Vec<[f64; 2]> {
    let point = |(time, bytes): &(Time, u64)| [time.0 as f64 / 1e9, *bytes as f64 / 1e3];
    outcome.queue.iter().map(point).collect()
}

/// Runs the experiment: two hosts send 100 flows each to a third.
pub(super) fn run(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let time = time(options, Span::from_millis(1_000));
    let settings_of_runs = all();
    let steps = 2 * settings_of_runs.len() as u64 * STEPS + 3 * QUEUE_STEPS;
    let mut step = 0;
    let mut run = |setting: &Setting, senders, time, parts| -> Result<Outcome> {
        let scenario = set(options.seed, setting);
        Ok(scenario.run(scenario.dcqcn(senders)?, time, parts, |_| {
            step += 1;
            progress(step, steps as usize);
        }))
    };
    let [early, _, paper, _, simulator, floor] = &settings_of_runs;
    let mut experiment = experiment(
        "tonic-dcqcn-flows",
        &set(options.seed, early),
        time,
        "Two hosts send 100 flows each to a third, all at line rate from the beginning. The switch pauses \
         hosts before its buffer is full. The promises hold for a switch with the static thresholds of the \
         simulator that the paper used. There, hosts are paused before many segments are marked, rate \
         limiters do not limit the flows, and each flow gets its round-robin share. With dynamic thresholds \
         marking comes first. Then rate limiters limit the flows, and the marks decide the share of a flow. \
         Flows deviate by up to 26 Mb/s with both kinds of senders. The paper prints 203 Mb/s for each flow, \
         which is more than 40 Gb/s divided by 200. This is unexplained.",
    );
    settings(&mut experiment);
    experiment
        .settings
        .insert("flow control", "dynamic thresholds, alpha 1, 22.4KB of headroom a port".to_owned());
    experiment.settings.insert("paused early", "above 20.6KB of a host, until 18.5KB".to_owned());
    experiment.settings.insert(
        "simulator",
        "marking 41.2KB to 1030KB, 100%; T 60us, B 300MB, R_HAI 200Mbps, least rate 100Mbps".to_owned(),
    );
    let part = "part of the flows";
    let mut shares = Figure::new("throughput", format!("Throughput of 200 flows over {time}"), "Mb/s", part);
    let mut notified = Figure::new("notifications", "Notifications to each flow", "notifications", part);
    let mut queues = Figure::new("queue", "The switch's queue in the first 20 ms", "ms", "KB");
    let mut throughputs = serde_json::Map::new();
    let mut told = vec![];
    for setting in &settings_of_runs {
        for (senders, look) in Senders::BOTH.into_iter().zip([Look::Main, Look::Reference]) {
            let outcome = run(setting, senders, time, STEPS)?;
            let name = format!("{}, {}", senders.name(), setting.name);
            let rates = outcome.megabits();
            // One legend entry is enough for all dashed lines, because each is next to the line of its Tonic.
            let shown = if senders == Senders::Tonic { &name } else { senders.name() };
            // The lines of the other settings would cover one of these.
            if [early, paper, simulator].iter().any(|drawn| drawn.name == setting.name) {
                shares = shares.line(look, shown, distribution(&rates));
            }
            if setting.name == early.name {
                let counts = by_flow(slice::from_ref(&outcome), |log| &log.notifications);
                notified = notified.line(look, shown, distribution(&counts));
                told.push(counts);
            }
            experiment.cases.push(judged(name.clone(), &outcome));
            throughputs.insert(name, rates.into());
        }
    }
    for setting in [early, paper, floor] {
        let outcome = run(setting, Senders::Tonic, QUEUE_TIME.min(time), QUEUE_STEPS)?;
        queues = queues.line(Look::Main, setting.name, queue(&outcome));
    }
    let value = |senders: Senders, setting: &Setting, name| {
        let wanted = format!("{}, {}", senders.name(), setting.name);
        experiment.cases.iter().find(|case| case.name == wanted).and_then(|case| case.value(name))
    };
    let farthest = |senders, setting| value(senders, setting, FARTHEST);
    let verdict = |name: &str, value| Verdict::new(name, value, "Mb/s", Bound::AtMost(0.2));
    experiment.verdicts = vec![
        verdict("Tonic, paused early: farthest flow from 200 Mb/s", farthest(Senders::Tonic, early)),
        verdict("reference, paused early: the same", farthest(Senders::Reference, early)),
        Verdict::new(
            "Kolmogorov-Smirnov distance of the notifications to each flow, paused early",
            kolmogorov_smirnov(&told[0], &told[1]),
            "",
            Bound::AtMost(0.1),
        ),
        verdict("Tonic, least rate 200 Mb/s: farthest flow from 200 Mb/s", farthest(Senders::Tonic, floor)),
        verdict("reference, least rate 200 Mb/s: the same", farthest(Senders::Reference, floor)),
        Verdict::new(
            "dropped with flow control on dynamic thresholds",
            value(Senders::Tonic, paper, "dropped by the switch"),
            "",
            Bound::AtMost(0.0),
        ),
    ];
    experiment.figures = vec![shares, notified, queues];
    experiment.details = serde_json::json!({ "mbps": throughputs });
    Ok(experiment)
}
