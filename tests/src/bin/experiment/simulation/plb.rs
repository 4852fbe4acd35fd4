//! Flows that an unlucky hash puts on one of two paths.

use anyhow::{Result, anyhow, ensure};
use datacentre::{DataCentre, FlowPlan, Plan, Tuning, entropy_ports};
use fabric_model::{Egress, Span, Time, Trunk};
use lab_report::{Bound, Case, Experiment, Figure, Verdict, mean, quantile};
use transport_common::congestion::fixed_point::Fraction;
use transport_common::congestion::parameters::Parameters;
use transport_common::congestion::settings::Settings;

use super::progress::Progress;
use super::series::{Points, TIME, millis};
use super::{measure, setup};
use crate::options::{CongestionControl, Options};

/// Number of seeds.
const SEEDS: u64 = 100;
const PATHS: u16 = 2;
const FLOWS: u16 = 4;
/// Number of ports that are drawn to find one that leads to the wrong path.
const DRAWS: usize = 32;
const SAMPLE: Span = Span::from_micros(10);
const END: Time = Time(4_000_000_000);
/// Load of a host as a fraction of a path's rate: two hosts fit one path, three do not.
const HOST_PART: (u64, u64) = (2, 5);

/// The fraction of the target delay from which an acknowledgement counts as congested. Swift itself holds a
/// crowded path at its target, sometimes above and sometimes below it. So with D-78's 1.01, five congested
/// rounds in a row are very rare.
const MULTIPLIER: Fraction = Fraction::ratio(9, 10);
/// No acknowledgement counts as congested.
const NEVER: Fraction = Fraction::ratio(16, 1);

/// The results of one seed.
struct Trial {
    /// The time from which each path had its part of the flows until the end.
    even_after: Option<f64>,
    /// Mean round trip time of all flows until then, or until the end, microseconds.
    rtt: Option<f64>,
    /// Flows on the path that had all flows at the beginning.
    course: Points,
}

/// The trials to run.
pub(super) fn runs(options: &Options) -> u64 {
    SEEDS * variants(options).len() as u64
}

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let (mut cases, mut verdicts, mut figures) = (vec![], vec![], vec![]);
    for variant in variants(options) {
        let tuning = with_multiplier(options, variant.multiplier)?;
        let (case, drawn) = try_seeds(options, progress, &variant.name, tuning)?;
        verdicts.extend(variant.promise.map(|(number, bound)| Verdict::of(&case, number, bound)));
        cases.push(case);
        figures.push(drawn);
    }
    let description = format!(
        "{FLOWS} hosts write to {FLOWS} others over {PATHS} paths of {}, each at {}. All flows begin with source \
             ports that lead to the same path. The load is even once each path has its part of the flows and keeps \
             it. The time until then is given in mean RTTs of that time. PLB counts an acknowledgement as congested \
             from a given fraction of the target delay on. With 1.01, as in D-78, it rarely sees congestion, because \
             Swift holds the delay at its target.",
        options.rate(),
        host_rate(options)?
    );
    Ok(Experiment {
        cases,
        verdicts,
        figures,
        ..setup::experiment(options, "plb", "An unlucky hash", description)
    })
}

/// A variant of the experiment.
struct Variant {
    name: String,
    multiplier: Fraction,
    promise: Option<(&'static str, Bound)>,
}

/// Returns the variants: with PLB, if the algorithm has it, and without.
fn variants(options: &Options) -> Vec<Variant> {
    let never = Some(("even in the end", Bound::AtMost(0.0)));
    let without = Variant { name: "without PLB".to_owned(), multiplier: NEVER, promise: never };
    if options.cc != CongestionControl::Swift {
        return vec![without];
    }
    let soon = Some(("median time to even load", Bound::AtMost(50.0)));
    let asked = options.parameters().plb_target_delay_multiplier;
    let named = |multiplier: Fraction, promise| {
        let factor = f64::from(multiplier.0) / f64::from(Fraction::ONE.0);
        Variant { name: format!("with PLB from {factor:.2} of the target on"), multiplier, promise }
    };
    if asked == Parameters::DEFAULT.plb_target_delay_multiplier {
        vec![named(MULTIPLIER, soon), named(asked, None), without]
    } else {
        vec![named(asked, soon), without]
    }
}

/// Returns the selected tuning, with another multiplier.
fn with_multiplier(options: &Options, multiplier: Fraction) -> Result<Tuning> {
    let tuning = options.tuning();
    let parameters = Parameters { plb_target_delay_multiplier: multiplier, ..options.parameters() };
    let prepared = parameters.prepare().map_err(|error| anyhow!("{error}"))?;
    Ok(Tuning { settings: Settings { prepared, ..tuning.settings }, ..tuning })
}

/// Returns the results of all seeds, and all of them over time.
fn try_seeds(options: &Options, progress: &Progress, name: &str, tuning: Tuning) -> Result<(Case, Figure)> {
    let trials = (0..SEEDS)
        .map(|n| progress.run(format!("plb {name}: seed {n}"), || trial(options, options.seed + n, tuning)));
    let trials: Vec<Trial> = trials.collect::<Result<_>>()?;
    let in_rtts = |trial: &Trial| Some(trial.even_after? / trial.rtt?);
    let rtts: Vec<f64> = trials.iter().map(|trial| in_rtts(trial).unwrap_or(f64::INFINITY)).collect();
    let even = rtts.iter().filter(|rtts| rtts.is_finite()).count();
    let case = Case::new(format!("{SEEDS} seeds, {name}"))
        .with("even in the end", even as f64 / SEEDS as f64 * 100.0, "% of seeds")
        .with("median time to even load", quantile(&rtts, 0.5), "RTTs")
        .with("90 % of seeds within", quantile(&rtts, 0.9), "RTTs")
        .with("RTT", mean(trials.iter().filter_map(|trial| trial.rtt)), "us");
    let courses = trials.iter().map(|trial| trial.course.clone());
    let title = format!("Flows on the path that all were put on, {name}");
    let figure = Figure::new(name.replace(' ', "-").to_lowercase(), title, TIME, "flows")
        .spread(&format!("{SEEDS} seeds"), courses)
        .level("even load", f64::from(FLOWS) / f64::from(PATHS));
    Ok((case, figure))
}

fn host_rate(options: &Options) -> Result<fabric_model::Rate> {
    setup::part(setup::times(options.rate(), HOST_PART.0)?, HOST_PART.1)
}

fn trial(options: &Options, seed: u64, tuning: Tuning) -> Result<Trial> {
    let mut plan = setup::bottleneck(options, FLOWS, PATHS, options.rate())?;
    // Only the senders are slow. A receiver's link as slow as its sender would keep a queue on every path.
    plan.host.line_rate = host_rate(options)?;
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
    let until = |flow| measure::samples(record, flow, Time::ZERO, even_since.unwrap_or(END));
    Ok(Trial {
        even_after: even_since.map(|time| millis(time) * 1e3),
        rtt: mean((0..usize::from(FLOWS)).filter_map(|flow| measure::mean_rtt(until(flow)))),
        course,
    })
}

/// Returns the number of flows whose data the first trunk carries.
fn on_first_path(data_centre: &DataCentre) -> u16 {
    let first = |flow: &usize| data_centre.route(*flow)[0] == Egress::Trunk(Trunk(0));
    (0..usize::from(FLOWS)).filter(first).count() as u16
}

/// Draws ports, and takes the first flows that lead to the first path.
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn with_plb_the_load_evens_out() {
        let options = Options::parse_from(["experiment"]);
        for (multiplier, expected) in [(MULTIPLIER, true), (NEVER, false)] {
            let tuning = with_multiplier(&options, multiplier).expect("in range");
            let trial = trial(&options, 7, tuning).expect("can be set up");
            assert_eq!(trial.even_after.is_some(), expected);
            assert_eq!(trial.course[0][1], f64::from(FLOWS), "unlucky at first");
        }
    }

    #[test]
    fn variants_follow_what_is_asked_for() {
        let names = |arguments: &[&str]| -> Vec<bool> {
            let options = Options::parse_from(["experiment"].iter().chain(arguments));
            variants(&options).iter().map(|variant| variant.promise.is_some()).collect()
        };
        assert_eq!(names(&[]), [true, false, true]);
        assert_eq!(names(&["--set", "plb_target_delay_multiplier=0.8"]), [true, true]);
        assert_eq!(names(&["--cc", "newreno"]), [true]);
    }
}
