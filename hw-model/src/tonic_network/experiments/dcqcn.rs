//! DCQCN: two flows that come to one rate, and 200 (section 6.2.2, figure 4).

use anyhow::Result;
use lab_report::{Bound, Experiment, Figure, Look, Verdict};

use crate::experiments::{Options, Progress};
use crate::network::{Rate, Span, Time};
use crate::reference_senders::Red;
use crate::tonic_network::scenario::{Outcome, Scenario, Senders};

use super::{binned_mean, case, experiment, new_reno, root_mean_square, tcp, time};

const LINE: u64 = 40_000_000_000;
const STEPS: u64 = 50;
/// What a rate is averaged over.
const BIN: Span = Span::from_millis(1);

fn scenario(flows: u16, seed: u64) -> Scenario {
    Scenario {
        rate: Rate::from_bits_per_second(LINE).expect("not zero"),
        round_trip: Span::from_micros(4),
        red: Some(Red::DCQCN),
        watched: Some(0),
        ..tcp(2, flows, seed)
    }
}

fn make(scenario: &Scenario, time: Span, progress: Progress<'_>) -> Result<[Outcome; 2]> {
    let mut run = |number: usize, senders| -> Result<Outcome> {
        let mut step = number * STEPS as usize;
        Ok(scenario.run(scenario.dcqcn(senders)?, time, STEPS, |_| {
            step += 1;
            progress(step, 2 * STEPS as usize);
        }))
    };
    Ok([run(0, Senders::Tonic)?, run(1, Senders::Reference)?])
}

fn settings(experiment: &mut Experiment) {
    let Red { min, max, probability } = Red::DCQCN;
    experiment.congestion_control = Some("DCQCN".to_owned());
    experiment.settings.insert("marking", format!("{min}B to {max}B, {}%", probability * 100.0));
    experiment.settings.insert("notifications", "one a flow in 50us".to_owned());
    experiment.settings.insert("timers K, T", "55us".to_owned());
    experiment.settings.insert("B, F, g", "10MB, 5, 1/256".to_owned());
    experiment.settings.insert("R_AI, R_HAI", "40Mbps, 400Mbps".to_owned());
}

/// Two hosts, a flow each.
pub(super) fn pair(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let scenario = scenario(1, options.seed);
    let time = time(options, Span::from_millis(1_000));
    let outcomes = make(&scenario, time, progress)?;
    let mut experiment = experiment(
        "tonic-dcqcn",
        &scenario,
        time,
        "Two hosts send one flow each to a third, both at line rate from the beginning. The rate is R_C of the first \
         flow, averaged over a millisecond.",
    );
    settings(&mut experiment);
    let end = Time::ZERO + time;
    let traces = outcomes.each_ref().map(|outcome| {
        let bins = binned_mean(&outcome.logs[0].rates, LINE as f64, BIN, end);
        bins.into_iter().map(|rate| rate / 1e9).collect::<Vec<_>>()
    });
    // The second half: the paper's figure shows convergence long before.
    let settled = traces.each_ref().map(|trace| &trace[trace.len() / 2..]);
    for (number, senders) in Senders::BOTH.into_iter().enumerate() {
        let rates = settled[number].iter().copied();
        let farthest = rates.clone().map(|rate| (rate - 20.0).abs()).reduce(f64::max);
        let case = case(senders, &outcomes[number])
            .with("mean rate, second half", lab_report::mean(rates), "Gb/s")
            .with("farthest millisecond from 20 Gb/s, second half", farthest, "Gb/s")
            .with("notifications of the first flow", outcomes[number].logs[0].notifications[0] as f64, "");
        experiment.cases.push(case);
    }
    let off = |number: usize| {
        let flows = outcomes[number].megabits();
        let mean = experiment.cases[number].value("mean rate, second half");
        let rate = mean.map(|mean| (mean / 20.0 - 1.0).abs());
        let worst = flows.iter().map(|flow| (flow / 20_000.0 - 1.0).abs()).fold(0.0, f64::max);
        rate.map(|rate| 100.0 * rate.max(worst))
    };
    let rms = root_mean_square(&traces[0], &traces[1]).map(|rms| 100.0 * rms / 20.0);
    experiment.verdicts = vec![
        Verdict::new("Tonic: rate and throughputs are off 20 Gb/s by", off(0), "%", Bound::AtMost(5.0)),
        Verdict::new("reference: rate and throughputs are off 20 Gb/s by", off(1), "%", Bound::AtMost(5.0)),
        Verdict::new("root mean square distance of the rates", rms, "% of 20 Gb/s", Bound::AtMost(5.0)),
    ];
    let line = |trace: &[f64], bins: usize| -> Vec<[f64; 2]> {
        let shown = trace.iter().take(bins).enumerate();
        shown.map(|(bin, rate)| [bin as f64 * BIN.0 as f64 / 1e9, *rate]).collect()
    };
    let raw = |outcome: &Outcome| -> Vec<[f64; 2]> {
        let shown = outcome.logs[0].rates.iter().take_while(|(time, _)| time.0 < 3_000_000_000);
        shown.map(|(time, rate)| [time.0 as f64 / 1e9, rate / 1e9]).collect()
    };
    experiment.figures = vec![
        Figure::new("rate", "Rate of one of two flows, means of a millisecond", "ms", "Gb/s")
            .line(Look::Main, "Tonic", line(&traces[0], usize::MAX))
            .line(Look::Reference, "reference", line(&traces[1], usize::MAX)),
        Figure::new("start", "R_C in the first three milliseconds", "ms", "Gb/s")
            .line(Look::Main, "Tonic", raw(&outcomes[0]))
            .line(Look::Reference, "reference", raw(&outcomes[1])),
    ];
    experiment.details = serde_json::json!({ "tonic_gbps": traces[0], "reference_gbps": traces[1] });
    Ok(experiment)
}

/// 100 flows of each of two hosts to a third.
pub(super) fn flows(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let scenario = Scenario { watched: None, ..scenario(100, options.seed) };
    let time = time(options, Span::from_millis(1_000));
    let outcomes = make(&scenario, time, progress)?;
    let mut experiment = experiment(
        "tonic-dcqcn-flows",
        &scenario,
        time,
        "Two hosts send 100 flows each to a third, all at line rate from the beginning. The paper prints 203 Mb/s for \
         each flow, more than 40 Gb/s divided by 200: unexplained.",
    );
    settings(&mut experiment);
    let rates = outcomes.each_ref().map(Outcome::megabits);
    for (number, senders) in Senders::BOTH.into_iter().enumerate() {
        let farthest = rates[number].iter().map(|rate| (rate - 200.0).abs()).reduce(f64::max);
        let notifications: u64 = outcomes[number].logs.iter().flat_map(|log| &log.notifications).sum();
        let case = case(senders, &outcomes[number])
            .with("farthest from 200 Mb/s", farthest, "Mb/s")
            .with("notifications", notifications as f64, "")
            .with("marked", outcomes[number].marked.0 as f64, "");
        experiment.cases.push(case);
    }
    let value = |number: usize, name| experiment.cases[number].value(name);
    experiment.verdicts = vec![
        Verdict::new(
            "Tonic: farthest flow from 200 Mb/s",
            value(0, "farthest from 200 Mb/s"),
            "Mb/s",
            Bound::AtMost(0.2),
        ),
        Verdict::new(
            "Tonic: mean is off 200 Mb/s by",
            value(0, "mean throughput").map(|mean| (mean - 200.0).abs()),
            "Mb/s",
            Bound::AtMost(0.2),
        ),
    ];
    let notifications = |outcome: &Outcome| -> Vec<f64> {
        outcome.logs.iter().flat_map(|log| &log.notifications).map(|count| *count as f64).collect()
    };
    experiment.figures = vec![
        Figure::new("throughput", "Throughput of 200 flows over a second", "Mb/s", "part of the flows")
            .line(Look::Main, "Tonic", new_reno::distribution(&rates[0]))
            .line(Look::Reference, "reference", new_reno::distribution(&rates[1])),
        Figure::new("notifications", "Notifications to each flow", "in a second", "part of the flows")
            .line(Look::Main, "Tonic", new_reno::distribution(&notifications(&outcomes[0])))
            .line(Look::Reference, "reference", new_reno::distribution(&notifications(&outcomes[1]))),
    ];
    experiment.details = serde_json::json!({ "tonic_mbps": rates[0], "reference_mbps": rates[1] });
    Ok(experiment)
}
