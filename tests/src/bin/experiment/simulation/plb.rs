//! Flows that an unlucky hash has put on one of two paths.

use anyhow::{Result, ensure};
use hw_model::datacentre::{DataCentre, FlowPlan, Plan, Tuning, entropy_ports};
use hw_model::network::{Egress, Span, Time, Trunk};

use super::series::{Points, TIME, millis};
use super::{Progress, measure, setup};
use crate::figure::{Figure, Look};
use crate::options::Options;
use crate::result::{Bound, Case, Experiment, Verdict, World};
use crate::statistics::quantile;

/// Seeds that are tried.
pub(super) const SEEDS: u64 = 100;
const PATHS: u16 = 2;
const FLOWS: u16 = 4;
/// Draws of a port among which one that leads to the wrong path is sought.
const DRAWS: usize = 32;
const SAMPLE: Span = Span::from_micros(10);
const END: Time = Time(4_000_000_000);
/// Hosts send so much of a path's rate: two of them fit one path, three do not.
const HOST_PART: (u64, u64) = (2, 5);

/// One seed's course.
struct Trial {
    /// From when on each path had its part of the flows until the end.
    even_after: Option<f64>,
    rtt: Option<f64>,
    /// Flows on the path that had all at first.
    course: Points,
}

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let trials = (0..SEEDS).map(|n| {
        progress.run(format!("plb: seed {n}"), || trial(options, options.seed + n, options.tuning()))
    });
    let trials: Vec<Trial> = trials.collect::<Result<_>>()?;
    let in_rtts = |trial: &Trial| Some(trial.even_after? / trial.rtt?);
    let rtts: Vec<f64> = trials.iter().map(|trial| in_rtts(trial).unwrap_or(f64::INFINITY)).collect();
    let even = rtts.iter().filter(|rtts| rtts.is_finite()).count();
    let case = Case::new(format!("{SEEDS} seeds, without PLB"))
        .with("even in the end", even as f64 / SEEDS as f64 * 100.0, "% of seeds")
        .with("median time to even load", quantile(&rtts, 0.5), "RTTs")
        .with("RTT", crate::statistics::mean(trials.iter().filter_map(|trial| trial.rtt)), "us");
    let verdicts = vec![Verdict::of(&case, "even in the end", Bound::AtMost(0.0))];
    let courses = trials.iter().take(20).map(|trial| trial.course.clone());
    let even_part = f64::from(FLOWS) / f64::from(PATHS);
    let figures = vec![
        Figure::new("flows", "Flows on the path that all were put on", TIME, "flows")
            .lines(Look::Faint, "the first 20 seeds", courses)
            .level("even load", even_part),
    ];
    Ok(Experiment {
        name: "plb",
        title: "An unlucky hash",
        description: format!(
            "{FLOWS} hosts write to {FLOWS} others over {PATHS} paths of {}, each host at {} of it; all flows begin \
             with source ports that lead to the same path. The load is even once each path has its part of the flows \
             and keeps it.",
            options.rate,
            host_rate(options)?
        ),
        world: World::Simulation,
        seed: options.seed,
        congestion_control: options.algorithm(),
        settings: setup::settings(options),
        cases: vec![case],
        verdicts,
        figures,
    })
}

fn host_rate(options: &Options) -> Result<hw_model::network::Rate> {
    setup::part(setup::times(options.rate, HOST_PART.0)?, HOST_PART.1)
}

fn trial(options: &Options, seed: u64, tuning: Tuning) -> Result<Trial> {
    let mut plan = setup::bottleneck(options, FLOWS, PATHS, host_rate(options)?)?;
    plan.fabric.seed = seed;
    plan.flows = unlucky(options, &plan, seed)?;
    plan.flows.iter_mut().for_each(|flow| flow.tuning = tuning);
    plan.sample_every = SAMPLE;
    let mut data_centre = DataCentre::new(plan)?;
    let mut course = vec![];
    let mut even_since = None;
    while data_centre.now() < END {
        data_centre.run_until(data_centre.now() + SAMPLE);
        let crowd = on_first_path(&data_centre);
        course.push([millis(data_centre.now()), f64::from(crowd)]);
        even_since = (crowd == FLOWS / PATHS).then(|| even_since.unwrap_or(data_centre.now()));
    }
    let record = data_centre.record();
    let samples = measure::samples(record, 0, Time::ZERO, END);
    Ok(Trial {
        even_after: even_since.map(|time| millis(time) * 1e3),
        rtt: measure::mean_rtt(samples),
        course,
    })
}

/// Flows of which the first trunk carries the data.
fn on_first_path(data_centre: &DataCentre) -> u16 {
    let first = |flow: &usize| data_centre.route(*flow)[0] == Egress::Trunk(Trunk(0));
    (0..usize::from(FLOWS)).filter(first).count() as u16
}

/// Flows with drawn ports, of which the first are taken that lead to the first path.
fn unlucky(options: &Options, plan: &Plan, seed: u64) -> Result<Vec<FlowPlan>> {
    let mut ports = entropy_ports(seed);
    let pairs = (0..FLOWS).flat_map(|source| [source; DRAWS]);
    let drawn = pairs.zip(&mut ports).map(|(source, entropy)| FlowPlan {
        entropy,
        ..setup::endless(options, source, FLOWS + source, Time::ZERO)
    });
    let drawn: Vec<FlowPlan> = drawn.collect();
    let trying = DataCentre::new(Plan { flows: drawn.clone(), ..plan.clone() })?;
    let leads_there = |n: &usize| trying.route(*n)[0] == Egress::Trunk(Trunk(0));
    let found = drawn.chunks(DRAWS).enumerate().filter_map(|(n, chunk)| {
        (0..DRAWS).find(|draw| leads_there(&(n * DRAWS + draw))).map(|draw| chunk[draw].clone())
    });
    let found: Vec<FlowPlan> = found.collect();
    ensure!(found.len() == usize::from(FLOWS), "no draw of {DRAWS} led to the first path");
    Ok(found)
}
