//! One of four paths is cut, loses packets or becomes slow, or all three happen to one path each. On real packets the
//! kernel's TCP runs over the same paths.

use anyhow::{Context, Result};
use fabric_model::{Egress, Impairments, Rate, Span, Time, Topology, Trunk};
use lab_report::{Bound, Case, Experiment, Verdict, World as Kind, mean, quantile};
use tiercel::congestion::{CongestionControl, CongestionParameters};

use crate::fault::{self, BACK, Fault, PATHS, WINDOW};
use crate::kind::pick;
use crate::options::Options;
use crate::run::{Run, with_machines};
use crate::setup::{self, Results};
use crate::world::{self, Change, Description, End, Flow, Sender, World};

/// Ports that are drawn for each flow to find one on its path.
const DRAWS: usize = 64;
/// Load of a flow as a fraction of a path's rate: the four flows fit one path.
const FLOW_PART: (u64, u64) = (9, 40);
/// Round trips after the failure.
const AFTER: u64 = 100;
/// Samples in a round trip.
const SAMPLES: u64 = 4;

/// The paths in a world.
struct Paths {
    /// Seeds, or trials on real packets.
    trials: u64,
    called: &'static str,
    percent: &'static str,
    /// Name of the slowest trials that count, and their quantile.
    slowest: (&'static str, f64),
    round_trip: Span,
    rate: u64,
    /// Round trips before the failure.
    before: u64,
}

impl Paths {
    /// The pauses of the machine are short compared with a live round trip.
    fn of(kind: Kind) -> Self {
        let simulated = Self {
            trials: 50,
            called: "seeds",
            percent: "% of seeds",
            slowest: ("90 % of seeds within", 0.9),
            round_trip: Span::from_millis(1),
            rate: 1_000_000_000,
            before: 200,
        };
        let live = Self {
            trials: 5,
            called: "trials",
            percent: "% of trials",
            slowest: ("slowest trial", 1.0),
            round_trip: Span::from_millis(20),
            rate: 100_000_000,
            before: 75,
        };
        pick(kind, simulated, live)
    }

    fn rate(&self) -> Result<Rate> {
        Rate::from_bits_per_second(self.rate).context("not zero")
    }

    /// Returns the settings of the links between switches, and of all.
    fn links(&self, kind: Kind, seed: u64) -> Result<(String, String)> {
        let (rate, half) = (self.rate()?, self.round_trip.0 / 2);
        Ok(match kind {
            Kind::Live => {
                let link = format!("rate={rate},delay={},queue=256KiB", Span(half));
                (link.clone(), format!("seed={seed};trunks:{link}"))
            }
            _ => {
                let common = "queue=256KiB,hops=1";
                let link = format!("rate={rate},delay={},{common}", Span(half - 2 * world::CABLE.0));
                let hosts = format!("rate={rate},delay={},{common}", world::CABLE);
                (link.clone(), format!("seed={seed},{hosts};trunks:{link}"))
            }
        })
    }
}

/// The results of one seed.
struct Trial {
    /// Round trips from the failure until the goodput was back; infinite if it was not.
    back: f64,
    early: f64,
    timeouts: f64,
    probes: f64,
    /// Goodput of all flows after the failure, as a part of the goodput before it, by sample.
    course: Vec<f64>,
    run: Run,
}

/// A sender with parameters, and what it promises.
struct Variant {
    name: &'static str,
    sender: Sender,
    parameters: CongestionParameters,
    promises: Vec<(Fault, &'static str, Bound)>,
}

const TIME_BACK: &str = "median until back";

fn variants(kind: Kind) -> Vec<Variant> {
    let auto = CongestionParameters::AUTO;
    let soon = |fault| (fault, TIME_BACK, Bound::AtMost(10.0));
    // With real packets, a slow path depends on the draw and on pauses of the machine.
    let promised: &[Fault] =
        pick(kind, &[Fault::Cut, Fault::Lossy, Fault::Slow], &[Fault::Cut, Fault::Lossy]);
    let promises: Vec<_> = promised.iter().copied().map(soon).collect();
    let falcon = |name, parameters, promises| Variant { name, sender: Sender::Falcon, parameters, promises };
    let quick = CongestionParameters { plb_attempt_threshold: 1, plb_target_delay_multiplier: 0.8, ..auto };
    let first = falcon("profile auto", auto, promises.clone());
    let quick = falcon("auto, quick PLB", quick, promises);
    match kind {
        Kind::Live => {
            let tcp = Sender::Tcp(c"cubic");
            vec![first, quick, Variant { name: "TCP CUBIC", sender: tcp, parameters: auto, promises: vec![] }]
        }
        _ => {
            let rounds = CongestionParameters { plb_quick_round: 0, ..auto };
            let keeps = CongestionParameters { plb_timeout_threshold: 0, ..auto };
            let never = vec![(Fault::Cut, "back in the end", Bound::AtMost(0.0))];
            vec![
                first,
                falcon("auto, rounds as in 10.4", rounds, vec![]),
                quick,
                falcon("auto, timeouts keep the path", keeps, never),
            ]
        }
    }
}

/// The trials to run on virtual time.
pub(crate) fn runs() -> u64 {
    Paths::of(Kind::Simulation).trials * (variants(Kind::Simulation).len() * Fault::ALL.len()) as u64
}

pub(crate) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let paths = Paths::of(kind);
    let mut results = Results::default();
    for fault in Fault::ALL {
        let mut lines = vec![];
        for variant in variants(kind) {
            let trials = (0..paths.trials).map(|n| trial(options, world, options.seed + n, &variant, fault));
            let trials: Vec<Trial> = trials.collect::<Result<_>>()?;
            let case = sum_up(&paths, fault, variant.name, &trials);
            let kept = variant.promises.iter().filter(|(when, ..)| *when == fault);
            results.verdicts.extend(kept.map(|(_, number, bound)| Verdict::of(&case, number, *bound)));
            results.cases.push(case);
            lines.push((variant.name, mean_course(&trials)));
        }
        results.figures.push(fault::figure(fault, lines));
    }
    let description = format!(
        "{} over {PATHS} paths of {} with a round trip of {}. Each has \
             data for {} % of a path, and begins on a path of its own. Then, in both directions, the first path is cut, \
             or loses 10 % of its packets, or keeps a tenth of its rate; or the first three suffer one each. The \
             goodput is back when all flows together have {} % of the goodput before, over {WINDOW} round trips; these \
             count. Profile auto leaves a path after five congested rounds (D-78); a round of {} packets far above the target \
             counts for several. Rounds as in 10.4 are windows. Quick PLB leaves after one round, and counts delays from 0.8 \
             of the target on. {} {}.{}",
        pick(
            kind,
            format!("{PATHS} hosts write to {PATHS} others"),
            format!("{PATHS} flows go from one host to another")
        ),
        paths.rate()?,
        paths.round_trip,
        FLOW_PART.0 * 100 / FLOW_PART.1,
        BACK * 100.0,
        CongestionParameters::AUTO.plb_quick_round,
        paths.trials,
        paths.called,
        pick(kind, "", " TCP runs over IPv6, where the kernel takes another flow label after a timeout."),
    );
    let names = [
        ("failure", "The failure of a path"),
        ("failure-live", "The failure of a path beside the kernel's TCP, on real packets"),
    ];
    let report = results.report(options, kind, names, description);
    Ok(Experiment { congestion_control: Some("swift".to_owned()), ..report })
}

fn sum_up(paths: &Paths, fault: Fault, name: &str, trials: &[Trial]) -> Case {
    let back: Vec<f64> = trials.iter().map(|trial| trial.back).collect();
    let returned = back.iter().filter(|rtts| rtts.is_finite()).count();
    let lowest = |trial: &Trial| trial.course.iter().copied().fold(f64::INFINITY, f64::min);
    let in_the_end = |trial: &Trial| trial.course.last().copied();
    let (slowest, quantile_of_slowest) = paths.slowest;
    let case = Case::new(format!("{}, {name}", fault.name()))
        .with("back in the end", returned as f64 / trials.len() as f64 * 100.0, paths.percent)
        .with(TIME_BACK, quantile(&back, 0.5), "RTTs")
        .with(slowest, quantile(&back, quantile_of_slowest), "RTTs")
        .with("lowest", mean(trials.iter().map(|trial| lowest(trial) * 100.0)), "% of before")
        .with(
            "in the end",
            mean(trials.iter().filter_map(in_the_end)).map(|part| part * 100.0),
            "% of before",
        )
        .with("sent again early", mean(trials.iter().map(|trial| trial.early)), "packets")
        .with("timeouts", mean(trials.iter().map(|trial| trial.timeouts)), "packets")
        .with("tail probes", mean(trials.iter().map(|trial| trial.probes)), "packets");
    with_machines(case, trials.iter().map(|trial| &trial.run))
}

/// Returns the mean over all seeds, by round trips since the failure.
fn mean_course(trials: &[Trial]) -> Vec<[f64; 2]> {
    let samples = trials.iter().map(|trial| trial.course.len()).min().unwrap_or(0);
    let at = |n: usize| mean(trials.iter().map(|trial| trial.course[n] * 100.0));
    (0..samples).filter_map(|n| Some([n as f64 / SAMPLES as f64 + WINDOW, at(n)?])).collect()
}

/// Returns what happens to the cables, in both directions.
fn changes(fault: Fault, at: Time, link: &Impairments) -> Result<Vec<Change>> {
    let mut changes = vec![];
    for (cable, fault) in fault.cables() {
        for trunk in [Trunk(cable), Trunk(PATHS + cable)] {
            changes.push(Change { at, link: Egress::Trunk(trunk), impairments: fault.impaired(link)? });
        }
    }
    Ok(changes)
}

fn describe(
    options: &Options,
    kind: Kind,
    seed: u64,
    variant: &Variant,
    fault: Fault,
) -> Result<Description> {
    let paths = Paths::of(kind);
    let (link, fabric) = paths.links(kind, seed)?;
    let pairs = setup::pairs(kind, PATHS);
    let mut described = setup::hosts(Topology::dumbbell(pairs, pairs, PATHS), &fabric, paths.rate()?)?;
    described.demand = Some(setup::part(setup::times(paths.rate()?, FLOW_PART.0)?, FLOW_PART.1)?);
    let congestion = CongestionControl { parameters: variant.parameters, ..options.control()? };
    let tuning = setup::chosen(options, congestion, paths.round_trip)?;
    let flow = |path| Flow {
        begins_on: Some(Trunk(path)),
        ..Flow::endless(setup::ends(kind, PATHS, path), Time::ZERO, tuning)
    };
    described.sender = variant.sender;
    described.flows = (0..PATHS).map(flow).collect();
    described.draws = DRAWS;
    described.sample_every = Span(paths.round_trip.0 / SAMPLES);
    let at = Time::ZERO + Span(paths.round_trip.0 * paths.before);
    described.changes = changes(fault, at, &link.parse().context("the trunks' own keys")?)?;
    described.end = End::At(at + Span(paths.round_trip.0 * AFTER));
    Ok(described)
}

fn trial(
    options: &Options,
    world: &mut dyn World,
    seed: u64,
    variant: &Variant,
    fault: Fault,
) -> Result<Trial> {
    let paths = Paths::of(world.kind());
    let described = describe(options, world.kind(), seed, variant, fault)?;
    let run = world.run(&format!("failure, {}, {}: seed {seed}", fault.name(), variant.name), described)?;
    let at = Time::ZERO + Span(paths.round_trip.0 * paths.before);
    let goodput = |from: Time, to: Time| -> Option<f64> {
        (0..usize::from(PATHS)).map(|flow| run.goodput(flow, from, to)).sum()
    };
    let before = Time(at.0 - paths.round_trip.0 * paths.before / 2);
    let before = goodput(before, at).context("samples before the failure")?;
    let over = Span((paths.round_trip.0 as f64 * WINDOW) as u64);
    // A pause of the machine may leave a window without two samples. The window before it stands for it.
    let mut known = before;
    let course = (0..(AFTER - WINDOW as u64) * SAMPLES).map(|n| {
        let from = at + Span(paths.round_trip.0 / SAMPLES * n);
        known = goodput(from, from + over).unwrap_or(known);
        known / before
    });
    let course: Vec<f64> = course.collect();
    let last = |flow: &Vec<_>| flow.last().copied().context("samples of every flow");
    let lasts: Vec<datacentre::FlowSample> = run.record.flows.iter().map(last).collect::<Result<_>>()?;
    Ok(Trial {
        back: fault::time_back(&course, SAMPLES as f64),
        early: lasts.iter().map(|sample| sample.retransmitted_early as f64).sum(),
        timeouts: lasts.iter().map(|sample| sample.retransmitted_timeout as f64).sum(),
        probes: lasts.iter().map(|sample| sample.tail_probes as f64).sum(),
        course,
        run,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Simulation;
    use clap::Parser;

    fn trial(seed: u64, variant: &Variant, fault: Fault) -> Trial {
        let options = Options::parse_from(["experiment"]);
        super::trial(&options, &mut Simulation::new(1), seed, variant, fault).expect("can be set up")
    }

    #[test]
    fn only_a_change_of_path_survives_a_cut() {
        let variants = variants(Kind::Simulation);
        let [auto, keeps] = [0, 3].map(|variant| trial(3, &variants[variant], Fault::Cut));
        assert!(auto.back > 0.0 && auto.back.is_finite(), "{}", auto.back);
        assert_eq!(keeps.back, f64::INFINITY);
        // The flow on the cable writes nothing any more. Another one may have its acknowledgements there.
        assert!(
            keeps.course.last().is_some_and(|part| (0.2..0.8).contains(part)),
            "{:?}",
            keeps.course.last()
        );
    }

    #[test]
    fn a_path_that_became_slow_is_left_early() {
        let variants = variants(Kind::Simulation);
        let [auto, as_specified] = [0, 1].map(|variant| trial(1, &variants[variant], Fault::Slow).back);
        assert!(auto <= 12.0 && as_specified > 20.0, "{auto} and {as_specified} round trips");
    }
}
