//! Flows that an unlucky hash puts on one of two paths.

use anyhow::Result;
use fabric_model::{Egress, Rate, Span, Time, Trunk};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World as Kind, mean, quantile};
use tiercel::Tuning;
use tiercel::congestion::CongestionParameters;

use crate::kind::{Units, pick};
use crate::options::{CongestionControl, Options};
use crate::run::{Points, Run, TIME, mean_rtt, millis, with_machines};
use crate::setup::{self, Results, in_both};
use crate::world::{Description, End, Flow, World};

const PATHS: u16 = 2;
/// Number of ports that are drawn to find one that leads to the wrong path.
const DRAWS: usize = 32;
/// Number of samples for one rate of a path in the plot.
const GROUP: usize = 10;

/// The fraction of the target delay from which an acknowledgement counts as congested. Swift itself holds a
/// crowded path at its target, sometimes above and sometimes below it. So with D-78's 1.01, five congested
/// rounds in a row are very rare.
const MULTIPLIER: f64 = 0.9;
/// No acknowledgement counts as congested.
const NEVER: f64 = 16.0;

/// The link of all flows at the beginning.
const FIRST: Egress = Egress::Trunk(Trunk(0));

/// The flows in a world.
struct Load {
    /// Seeds, or, on real packets, trials with other CIDs.
    trials: u64,
    /// What a trial is called.
    called: &'static str,
    percent: &'static str,
    within: &'static str,
    flows: u16,
    /// Rate of a path.
    path: Rate,
    /// Load of a flow: half of the flows fit one path, one more does not.
    demand: Rate,
    end: Time,
    sample: Span,
}

impl Load {
    fn of(options: &Options, kind: Kind) -> Result<Self> {
        let (trials, called, percent, within) = pick(
            kind,
            (100, "seeds", "% of seeds", "90 % of seeds within"),
            (10, "trials", "% of trials", "90 % of trials within"),
        );
        let path = pick(kind, options.rate(), setup::part(options.rate(), PATHS.into())?);
        let (flows, (numerator, denominator)) = pick(kind, (4, (2, 5)), (2, (4, 5)));
        let demand = setup::part(setup::times(path, numerator)?, denominator)?;
        let (end, sample) = pick(
            kind,
            (Span::from_millis(4), Span::from_micros(10)),
            (Span::from_millis(2500), Span::from_millis(2)),
        );
        Ok(Self { trials, called, percent, within, flows, path, demand, end: Time::ZERO + end, sample })
    }

    fn flows(&self) -> core::ops::Range<usize> {
        0..usize::from(self.flows)
    }
}

/// The results of one seed.
struct Trial {
    /// The time from which each path had its part of the flows until the end, microseconds.
    even_after: Option<f64>,
    /// Mean round trip time of all flows until then, or until the end, microseconds.
    rtt: Option<f64>,
    /// Flows on the path that had all flows at the beginning.
    course: Points,
    run: Run,
}

/// The trials to run on virtual time.
pub(crate) fn runs(options: &Options) -> u64 {
    let load = Load::of(options, Kind::Simulation);
    load.map_or(0, |load| load.trials) * variants(options, Kind::Simulation).len() as u64
}

pub(crate) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let load = Load::of(options, kind)?;
    let mut results = Results::default();
    for variant in variants(options, kind) {
        let trials = (0..load.trials).map(|n| trial(options, world, &load, options.seed + n, &variant));
        let trials: Vec<Trial> = trials.collect::<Result<_>>()?;
        let case = sum_up(&load, &variant.name, &trials);
        results.verdicts.extend(variant.promise.map(|(number, bound)| Verdict::of(&case, number, bound)));
        results.cases.push(case);
        results.figures.extend(draw(&load, &variant.name, &trials));
    }
    let description = format!(
        "{} over {PATHS} paths of {}, each at {}. All flows begin with source \
             ports that lead to the same path. The load is even once each path has its part of the flows and keeps \
             it. The time until then is given in mean RTTs of that time. PLB counts an acknowledgement as congested \
             from a given fraction of the target delay on. With 1.01, as in D-78, it rarely sees congestion, because \
             Swift holds the delay at its target.",
        pick(
            kind,
            format!("{0} hosts write to {0} others", load.flows),
            format!("{} flows go from one host to another", load.flows)
        ),
        load.path,
        load.demand
    );
    Ok(results.report(options, kind, in_both!("plb", "An unlucky hash"), description))
}

/// A variant of the experiment.
struct Variant {
    name: String,
    multiplier: f64,
    promise: Option<(&'static str, Bound)>,
}

/// Returns the variants: with PLB, if the algorithm has it, and without.
fn variants(options: &Options, kind: Kind) -> Vec<Variant> {
    let never = Some(("even in the end", Bound::AtMost(0.0)));
    let without = Variant { name: "without PLB".to_owned(), multiplier: NEVER, promise: never };
    if options.cc != CongestionControl::Swift {
        return vec![without];
    }
    let soon = Some(("median time to even load", Bound::AtMost(50.0)));
    let named = |multiplier, promise| Variant {
        name: format!("with PLB from {multiplier:.2} of the target on"),
        multiplier,
        promise,
    };
    let default = CongestionParameters::DEFAULT.plb_target_delay_multiplier;
    let asked = options.control().map_or(default, |control| control.parameters.plb_target_delay_multiplier);
    match (asked == default, kind) {
        (true, Kind::Live) => vec![named(MULTIPLIER, soon), without],
        (true, _) => vec![named(MULTIPLIER, soon), named(asked, None), without],
        (false, _) => vec![named(asked, soon), without],
    }
}

/// Returns the selected tuning, with another multiplier.
fn with_multiplier(options: &Options, multiplier: f64) -> Result<Tuning> {
    let mut tuning = options.tuning()?;
    tuning.congestion.parameters.plb_target_delay_multiplier = multiplier;
    Ok(tuning)
}

fn describe(options: &Options, kind: Kind, load: &Load, seed: u64, tuning: Tuning) -> Result<Description> {
    let mut described = setup::bottleneck(options, kind, load.flows, (PATHS, load.path), options.rate())?;
    // Only the senders are slow. A receiver's link as slow as its sender would keep a queue on every path.
    described.demand = Some(load.demand);
    described.fabric.seed = seed;
    let unlucky = |flow| Flow {
        begins_on: Some(Trunk(0)),
        ..Flow::endless(setup::ends(kind, load.flows, flow), Time::ZERO, tuning)
    };
    described.flows = (0..load.flows).map(unlucky).collect();
    described.draws = DRAWS;
    described.sample_every = load.sample;
    described.observe = true;
    described.end = End::At(load.end);
    Ok(described)
}

fn trial(
    options: &Options,
    world: &mut dyn World,
    load: &Load,
    seed: u64,
    variant: &Variant,
) -> Result<Trial> {
    let tuning = with_multiplier(options, variant.multiplier)?;
    let described = describe(options, world.kind(), load, seed, tuning)?;
    let run = world.run(&format!("plb {}: seed {seed}", variant.name), described)?;
    let mut course = vec![];
    let mut even_since = None;
    for observation in &run.observations {
        let crowd = observation.first_links.iter().filter(|link| **link == FIRST).count();
        course.push([millis(observation.at), crowd as f64]);
        let is_even = crowd == usize::from(load.flows / PATHS);
        even_since = is_even.then(|| even_since.unwrap_or(observation.at));
    }
    let until = |flow| run.samples(flow, Time::ZERO, even_since.unwrap_or(load.end));
    Ok(Trial {
        even_after: even_since.map(|time| millis(time) * 1e3),
        rtt: mean(load.flows().filter_map(|flow| mean_rtt(until(flow)))),
        course,
        run,
    })
}

/// Returns the results of all trials.
fn sum_up(load: &Load, name: &str, trials: &[Trial]) -> Case {
    let in_rtts = |trial: &Trial| Some(trial.even_after? / trial.rtt?);
    let rtts: Vec<f64> = trials.iter().map(|trial| in_rtts(trial).unwrap_or(f64::INFINITY)).collect();
    let even = rtts.iter().filter(|rtts| rtts.is_finite()).count();
    let case = Case::new(format!("{} {}, {name}", load.trials, load.called))
        .with("even in the end", even as f64 / load.trials as f64 * 100.0, load.percent)
        .with("median time to even load", quantile(&rtts, 0.5), "RTTs")
        .with(load.within, quantile(&rtts, 0.9), "RTTs")
        .with("RTT", mean(trials.iter().filter_map(|trial| trial.rtt)), "us");
    with_machines(case, trials.iter().map(|trial| &trial.run))
}

fn draw(load: &Load, name: &str, trials: &[Trial]) -> [Figure; 2] {
    let file = name.replace(' ', "-").to_lowercase();
    let courses = trials.iter().map(|trial| trial.course.clone());
    let title = format!("Flows on the path that all were put on, {name}");
    let flows = Figure::new(file.clone(), title, TIME, "flows")
        .spread(&format!("{} {}", load.trials, load.called), courses)
        .level("even load", f64::from(load.flows) / f64::from(PATHS));
    let units = Units::of(trials[0].run.kind);
    let title = format!("Rate of both paths, first trial, {name}");
    let empty = Figure::new(format!("paths-{file}"), title, TIME, &format!("rate ({})", units.rate));
    let rates = (0..usize::from(PATHS)).fold(empty, |figure, path| {
        figure.line(Look::Main, format!("path {}", path + 1), trials[0].run.link_line(path, GROUP))
    });
    let capacity = units.rate(load.path.bits_per_second() as f64 / 1e9);
    [flows, rates.level("capacity of a path", capacity)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Simulation;
    use clap::Parser;

    #[test]
    fn with_plb_the_load_evens_out() {
        let options = Options::parse_from(["experiment"]);
        for (variant, expected) in [(0, true), (2, false)] {
            let variant = &variants(&options, Kind::Simulation)[variant];
            let mut world = Simulation::new(1);
            let load = Load::of(&options, Kind::Simulation).expect("in range");
            let trial = trial(&options, &mut world, &load, 7, variant).expect("can be set up");
            assert_eq!(trial.even_after.is_some(), expected);
            assert_eq!(trial.course[0][1], f64::from(load.flows), "unlucky at first");
        }
    }

    #[test]
    fn variants_follow_what_is_asked_for() {
        let names = |arguments: &[&str], kind| -> Vec<bool> {
            let options = Options::parse_from(["experiment"].iter().chain(arguments));
            variants(&options, kind).iter().map(|variant| variant.promise.is_some()).collect()
        };
        assert_eq!(names(&[], Kind::Simulation), [true, false, true]);
        assert_eq!(names(&[], Kind::Live), [true, true]);
        assert_eq!(names(&["--set", "plb_target_delay_multiplier=0.8"], Kind::Simulation), [true, true]);
        assert_eq!(names(&["--cc", "newreno"], Kind::Simulation), [true]);
    }
}
