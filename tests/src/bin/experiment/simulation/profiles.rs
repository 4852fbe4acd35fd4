//! Flows with profile `auto` and flows with profile `datacenter` share a bottleneck.

use anyhow::Result;
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, jain, mean};
use tiercel::congestion::CongestionParameters;

use crate::options::Options;
use crate::run::{TIME, mean_window_and_delay};
use crate::setup::{self, Results};
use crate::world::{End, Flow, World};

/// Samples of a run.
const SAMPLES: u64 = 400;
/// Number of flows of each profile, and how long they write. Flows that start together never see the empty path.
/// They find it when they drain together, the sooner the fewer they are.
pub(super) const CASES: [(u16, Span); 3] =
    [(1, Span::from_millis(1000)), (4, Span::from_millis(3000)), (16, Span::from_millis(6000))];

pub(super) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let mut results = Results::default();
    for (count, duration) in CASES {
        let (case, figure) = share(options, world, count, duration)?;
        results.verdicts.push(Verdict::of(&case, "Jain index", Bound::AtLeast(0.9)));
        results.verdicts.push(Verdict::of(&case, "utilisation", Bound::AtLeast(95.0)));
        results.cases.push(case);
        results.figures.push(figure);
    }
    let description = format!(
        "As many flows with profile auto as with profile datacenter cross one cable of {}. The second half of \
             each run counts.",
        options.rate()
    );
    let names = setup::in_both!("profiles", "Profiles that share a bottleneck");
    Ok(results.report(options, world.kind(), names, description))
}

fn share(options: &Options, world: &mut dyn World, count: u16, duration: Span) -> Result<(Case, Figure)> {
    let (kind, rate, pairs) = (world.kind(), options.rate(), 2 * count);
    let mut described = setup::bottleneck(options, kind, pairs, (1, rate), rate)?;
    for pair in 0..pairs {
        let mut tuning = options.tuning()?;
        tuning.congestion.parameters =
            if pair % 2 == 0 { CongestionParameters::AUTO } else { CongestionParameters::DEFAULT };
        let start = Time::ZERO + Span::from_micros(u64::from(pair));
        described.flows.push(Flow::endless(setup::ends(kind, pairs, pair), start, tuning));
    }
    described.sample_every = Span(duration.0 / SAMPLES);
    let (half, end) = (Time::ZERO + Span(duration.0 / 2), Time::ZERO + duration);
    described.marks = vec![half];
    described.end = End::At(end);
    let run = world.run(&format!("{count} flows of each profile"), described)?;
    let carried = run.carried(1, 2, rate);
    let goodput = |flow: usize| run.goodput(flow, half, end).unwrap_or(0.0);
    let of = |first: usize| (first..usize::from(pairs)).step_by(2).map(goodput).collect::<Vec<_>>();
    let (auto, fixed) = (of(0), of(1));
    let all: Vec<f64> = auto.iter().chain(&fixed).copied().collect();
    let delay = |flow| mean_window_and_delay(run.samples(flow, half, end)).1;
    let case = Case::new(format!("{count} and {count}"))
        .with("auto", mean(auto.iter().copied()), "Gb/s")
        .with("datacenter", mean(fixed.iter().copied()), "Gb/s")
        .with("Jain index", jain(&all), "")
        .with("utilisation", carried.utilisation, "%")
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
        figure = figure.line(Look::Faint, name, run.goodput_line(flow, 5));
    }
    Ok((case, figure))
}
