//! DCQCN: two flows that converge to one rate (section 6.2.2, figure 4).

use std::slice;

use anyhow::Result;
use fabric_model::{Span, Time};
use lab_report::{Bound, Experiment, Figure, Look, Verdict, difference};
use model_experiment::{Options, Progress};
use reference_senders::{Dcqcn, ReactionPoint};

use crate::scenario::{Outcome, SEGMENT, Scenario, Senders};
use crate::sender::SenderLog;

use super::common::{case, experiment, time};
use super::dcqcn_free;
use super::dcqcn_setting::{NUDGE, SHARE, distance, line, scenario, settings, trace};

const STEPS: u64 = 50;

/// Returns R_C of the reference's reaction point when it gets the notifications and transmissions of the log's
/// watched flow at the same times.
#[must_use]
pub fn replayed(parameters: Dcqcn, log: &SenderLog) -> Vec<(Time, f64)> {
    let mut point = ReactionPoint::new(parameters);
    let mut rates = vec![];
    let notifications = log.notified.iter().map(|time| (*time, true));
    let mut happened: Vec<_> =
        log.transmissions.iter().map(|(time, ..)| (*time, false)).chain(notifications).collect();
    happened.sort_by_key(|(time, _)| *time);
    for (time, is_notification) in happened {
        while let Some(due) = point.timer().filter(|due| *due <= time) {
            point.on_timer(due);
            rates.push((due, point.rate()));
        }
        if is_notification {
            point.on_notification(time);
        } else {
            point.on_sent(SEGMENT.into());
        }
        rates.push((time, point.rate()));
    }
    rates.dedup_by_key(|(_, rate)| *rate);
    rates
}

/// Runs the experiment: two hosts send one flow each.
pub(super) fn pair(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let scenario = scenario(1, options.seed);
    let time = time(options, Span::from_millis(1_000));
    let steps = 3 * STEPS + dcqcn_free::STEPS;
    let mut done = 0;
    let mut step = || {
        done += 1;
        progress(done, steps as usize);
    };
    let mut run = |scenario: &Scenario, senders| -> Result<Outcome> {
        Ok(scenario.run(scenario.dcqcn(senders)?, time, STEPS, |_| step()))
    };
    let nudged = Scenario { processing: NUDGE, ..scenario.clone() };
    let outcomes = [
        run(&scenario, Senders::Tonic)?,
        run(&scenario, Senders::Reference)?,
        run(&nudged, Senders::Reference)?,
    ];
    let mut experiment = experiment(
        "tonic-dcqcn",
        &scenario,
        time,
        "Two hosts send one flow each to a third, both at line rate from the beginning. The rate is R_C of \
         the first flow, averaged over one millisecond. For \"same notifications\", the reference's reaction \
         point gets the notifications and transmissions of Tonic's first flow at the same times. This \
         compares the rate control alone. Each free run has its own notifications, and free runs diverge by \
         chance. Two runs of the reference diverge as much if answers are up to one nanosecond late. So sets \
         of free runs are compared that differ in marks and in answers up to one nanosecond late: the mean \
         of Tonic's set with that of the reference's, and with that of another set of the reference.",
    );
    settings(&mut experiment);
    let end = Time::ZERO + time;
    let traces = outcomes.each_ref().map(|outcome| trace(&outcome.logs[0].rates, end));
    let same = replayed(scenario.dcqcn, &outcomes[0].logs[0]);
    let same_trace = trace(&same, end);
    let names = [Senders::Tonic.name(), Senders::Reference.name(), "reference, answers up to 1 ns late"];
    for (number, name) in names.into_iter().enumerate() {
        // Only the second half counts. In the paper's figure the rates converge long before.
        let settled = &traces[number][traces[number].len() / 2..];
        let farthest = settled.iter().map(|rate| (rate - 20.0).abs()).reduce(f64::max);
        let apart = distance(&traces[number], &traces[1]).filter(|_| number != 1);
        let case = case(name, slice::from_ref(&outcomes[number]))
            .with("mean rate, second half", lab_report::mean(settled.iter().copied()), "Gb/s")
            .with("farthest millisecond from 20 Gb/s, second half", farthest, "Gb/s")
            .with("notifications of the first flow", outcomes[number].logs[0].notifications[0] as f64, "")
            .with("rate's distance from the reference", apart, SHARE);
        experiment.cases.push(case);
    }
    let off = |number: usize| {
        let flows = outcomes[number].megabits();
        let mean = experiment.cases[number].value("mean rate, second half");
        let rate = mean.map(|mean| (mean / 20.0 - 1.0).abs());
        let worst = flows.iter().map(|flow| (flow / 20_000.0 - 1.0).abs()).fold(0.0, f64::max);
        rate.map(|rate| 100.0 * rate.max(worst))
    };
    experiment.verdicts = vec![
        Verdict::new("Tonic: rate and throughputs are off 20 Gb/s by", off(0), "%", Bound::AtMost(5.0)),
        Verdict::new("reference: rate and throughputs are off 20 Gb/s by", off(1), "%", Bound::AtMost(5.0)),
        Verdict::new(
            "root mean square distance of the rates, same notifications",
            distance(&traces[0], &same_trace),
            SHARE,
            Bound::AtMost(5.0),
        ),
    ];
    let raw = |rates: &[(Time, f64)]| -> Vec<[f64; 2]> {
        let shown = rates.iter().take_while(|(time, _)| time.0 < 3_000_000_000);
        shown.map(|(time, rate)| [time.0 as f64 / 1e9, rate / 1e9]).collect()
    };
    let megabits = |gigabits: Vec<[f64; 2]>| gigabits.into_iter().map(|[x, y]| [x, y * 1e3]).collect();
    let started = [raw(&outcomes[0].logs[0].rates), raw(&outcomes[1].logs[0].rates)];
    let [tonic, reference] = &started;
    let minus = "Tonic minus reference";
    // Lines of the rates would cover each other.
    experiment.figures = vec![
        Figure::new(
            "rate-difference",
            "Difference of the rates under the same notifications, means of 1 ms",
            "ms",
            "Mb/s",
        )
        .line(Look::Main, minus, megabits(difference(&line(&traces[0]), &line(&same_trace)))),
        Figure::new("single", "Rate of one of two flows, each run by itself, means of 1 ms", "ms", "Gb/s")
            .line(Look::Main, "Tonic", line(&traces[0]))
            .line(Look::Reference, "reference", line(&traces[1]))
            .line(Look::Main, "reference, 1 ns", line(&traces[2])),
        Figure::new("start", "R_C in the first three milliseconds", "ms", "Gb/s")
            .line(Look::Main, "Tonic", tonic.clone())
            .line(Look::Reference, "reference", reference.clone()),
        Figure::new("start-difference", "Difference of R_C after each of its first changes", "ms", "Mb/s")
            .line(Look::Dots, minus, megabits(difference(tonic, reference))),
    ];
    experiment.details = serde_json::json!({
        "tonic_gbps": traces[0],
        "reference_gbps": traces[1],
        "reference_same_notifications_gbps": same_trace,
    });
    dcqcn_free::add(&mut experiment, time, &mut step)?;
    Ok(experiment)
}
