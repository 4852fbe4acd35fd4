//! Flows with profile `auto` and flows with profile `datacenter` share a bottleneck.

use anyhow::Result;
use datacentre::{DataCentre, FlowPlan};
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, jain, mean};
use tiercel::congestion::CongestionParameters;

use super::progress::Progress;
use super::series::{self, TIME};
use super::{measure, setup};
use crate::options::Options;

/// Samples of a run.
const SAMPLES: u64 = 400;
/// Number of flows of each profile, and how long they write. Flows that start together never see the empty path.
/// They find it when they drain together, the sooner the fewer they are.
pub(super) const CASES: [(u16, Span); 3] =
    [(1, Span::from_millis(1000)), (4, Span::from_millis(3000)), (16, Span::from_millis(6000))];

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let mut cases = vec![];
    let mut verdicts = vec![];
    let mut figures = vec![];
    for (count, duration) in CASES {
        let (case, figure) =
            progress.run(format!("{count} flows of each profile"), || share(options, count, duration))?;
        verdicts.push(Verdict::of(&case, "Jain index", Bound::AtLeast(0.9)));
        verdicts.push(Verdict::of(&case, "utilisation", Bound::AtLeast(95.0)));
        cases.push(case);
        figures.push(figure);
    }
    let description = format!(
        "As many flows with profile auto as with profile datacenter cross one cable of {}. The second half of \
             each run counts.",
        options.rate()
    );
    Ok(Experiment {
        cases,
        verdicts,
        figures,
        ..setup::experiment(options, "profiles", "Profiles that share a bottleneck", description)
    })
}

fn share(options: &Options, count: u16, duration: Span) -> Result<(Case, Figure)> {
    let pairs = 2 * count;
    let mut plan = setup::bottleneck(options, pairs, 1, options.rate())?;
    for pair in 0..pairs {
        let auto = pair % 2 == 0;
        let parameters = if auto { CongestionParameters::AUTO } else { CongestionParameters::DEFAULT };
        let flow =
            setup::endless(options, pair, pairs + pair, Time::ZERO + Span::from_micros(u64::from(pair)));
        let mut tuning = flow.tuning;
        tuning.settings.prepared = parameters.prepare()?;
        plan.flows.push(FlowPlan { tuning, ..flow });
    }
    plan.sample_every = Span(duration.0 / SAMPLES);
    let mut data_centre = DataCentre::new(plan)?;
    let (half, end) = (Time::ZERO + Span(duration.0 / 2), Time::ZERO + duration);
    data_centre.run_until(half);
    let begin = measure::mark(&data_centre, setup::TRUNK);
    data_centre.run_until(end);
    let carried = measure::since(&data_centre, setup::TRUNK, &begin, options.rate());
    let record = data_centre.record();
    let goodput = |flow: usize| measure::goodput(record, flow, half, end).unwrap_or(0.0);
    let of = |first: usize| (first..usize::from(pairs)).step_by(2).map(goodput).collect::<Vec<_>>();
    let (auto, fixed) = (of(0), of(1));
    let all: Vec<f64> = auto.iter().chain(&fixed).copied().collect();
    let delay = |flow| measure::mean_window_and_delay(measure::samples(record, flow, half, end)).1;
    let case = Case::new(format!("{count} and {count}"))
        .with("auto", mean(auto.iter().copied()), "Gb/s")
        .with("datacenter", mean(fixed.iter().copied()), "Gb/s")
        .with("Jain index", jain(&all), "")
        .with("utilisation", carried.utilisation * 100.0, "%")
        .with("fabric delay of auto", delay(0), "us")
        .with("fabric delay of datacenter", delay(1), "us");
    let mut figure = Figure::new(
        format!("goodput-{count}"),
        format!("Goodput, {count} flows of each profile"),
        TIME,
        "goodput (Gb/s)",
    );
    for flow in 0..usize::from(pairs) {
        let name = if flow % 2 == 0 { "auto" } else { "datacenter" };
        figure = figure.line(Look::Faint, name, series::goodput(record, flow, 5));
    }
    Ok((case, figure))
}
