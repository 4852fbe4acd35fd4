//! One of four paths is cut, loses packets or becomes slow: Tiercel beside the kernel's TCP.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fabric_model::{Egress, Impairments, Topology, Trunk};
use futures_util::future::try_join_all;
use lab_report::{Bound, Case, Experiment, Verdict, World, mean, quantile};
use tiercel::Tuning;
use tiercel::congestion::{CongestionControl, CongestionParameters};

use super::course::{self, Live, SEGMENT};
use super::tcp::{Course, PacedTcp};
use crate::failure::{self, BACK, Fault, PATHS, WINDOW};
use crate::options::Options;

const TRIALS: usize = 5;
/// Propagation both ways. The pauses of the machine are short compared with it.
const ROUND_TRIP: Duration = Duration::from_millis(20);
const LINK: &str = "rate=100Mbps,delay=10ms,queue=256KiB,scope=ip";
/// Bits per second of user data of each flow: the four fit one path.
const DEMAND: u64 = 21_000_000;
/// Bytes of one WRITE.
const BYTES: u64 = 4 * SEGMENT;
/// The failure comes after this time, and is watched for so many round trips.
const BEFORE: Duration = Duration::from_millis(1500);
const AFTER: u32 = 100;
/// Samples in a round trip.
const SAMPLES: u32 = 4;
const EVERY: Duration = Duration::from_millis(20 / SAMPLES as u64);
const END: Duration = Duration::from_millis(BEFORE.as_millis() as u64 + 20 * AFTER as u64);

const TIME_BACK: &str = "median until back";

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    Auto,
    Quick,
    Tcp,
}

impl Sender {
    const ALL: [Self; 3] = [Self::Auto, Self::Quick, Self::Tcp];

    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "profile auto",
            Self::Quick => "auto, quick PLB",
            Self::Tcp => "TCP CUBIC",
        }
    }

    fn parameters(self) -> CongestionParameters {
        let auto = CongestionParameters::AUTO;
        match self {
            Self::Quick => {
                CongestionParameters { plb_attempt_threshold: 1, plb_target_delay_multiplier: 0.8, ..auto }
            }
            Self::Auto | Self::Tcp => auto,
        }
    }

    /// Returns whether this sender promises to be back within ten round trips.
    fn promises(self, fault: Fault) -> bool {
        matches!(fault, Fault::Cut | Fault::Lossy) && self != Self::Tcp
    }
}

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let fabric = format!("seed={};trunks:{LINK}", options.seed);
    let auto = CongestionControl { parameters: CongestionParameters::AUTO, ..CongestionControl::SWIFT };
    let mut live = Live::up(options, auto, Topology::dumbbell(1, 1, PATHS), &fabric, vec![])?;
    let (mut cases, mut verdicts, mut figures) = (vec![], vec![], vec![]);
    for fault in Fault::ALL {
        let mut lines = vec![];
        for sender in Sender::ALL {
            eprintln!("{}, {}: {TRIALS} trials of {END:?}", fault.name(), sender.name());
            let trials = (0..TRIALS).map(|_| match sender {
                Sender::Tcp => tcp(&live, fault),
                Sender::Auto | Sender::Quick => tiercel(&mut live, fault, sender.parameters()),
            });
            let trials = trials.collect::<Result<Vec<_>>>()?;
            let courses = trials.iter().map(parts).collect::<Result<Vec<_>>>()?;
            let case = sum_up(fault, sender, &courses).with(
                "lost by the kernel",
                live.lost_by_the_kernel(),
                "frames",
            );
            if sender.promises(fault) {
                verdicts.push(Verdict::of(&case, TIME_BACK, Bound::AtMost(10.0)));
            }
            verdicts.push(Verdict::of(&case, "lost by the kernel", Bound::AtMost(0.0)));
            cases.push(case);
            lines.push((sender.name(), mean_course(&courses)));
        }
        figures.push(failure::figure(fault, lines));
    }
    Ok(Experiment {
        name: "failure-live",
        title: "The failure of a path beside the kernel's TCP, on real packets",
        description: format!(
            "{PATHS} flows go from one host to another over {PATHS} paths ({LINK}). Each has {} Mb/s of data, and begins \
             on a path of its own. Then, in both directions, the first path is cut, or loses 10 % of its packets, or \
             keeps a tenth of its rate; or three paths suffer one each. The goodput is back when all flows together \
             have {} % of the goodput before, over {WINDOW} round trips; these count. TCP runs over IPv6, where the \
             kernel takes another flow label after a timeout; Tiercel runs over IPv4. Quick PLB leaves a path after one \
             congested round, and counts delays from 0.8 of the target on.",
            DEMAND / 1_000_000,
            BACK * 100.0
        ),
        world: World::Live,
        seed: options.seed,
        congestion_control: Some("swift".to_owned()),
        details: serde_json::Value::Null,
        settings: course::settings(options)?,
        cases,
        verdicts,
        figures,
    })
}

/// Lets the cables of a fault suffer, or, with `None`, repairs all of them. `first` is the path of the first flow.
fn change(live: &Live, fault: Option<Fault>, first: u16) -> Result<()> {
    let whole: Impairments = LINK.parse()?;
    let cables = fault.map(Fault::cables).unwrap_or_default();
    for cable in 0..PATHS {
        let place = (cable + PATHS - first) % PATHS;
        let suffers = cables.iter().find(|(number, _)| *number == place).map(|(_, fault)| *fault);
        let impairments = suffers.map_or(Ok(Some(whole.clone())), |fault| fault.impaired(&whole))?;
        for trunk in [Trunk(cable), Trunk(PATHS + cable)] {
            live.fabric().set_link(trunk, impairments.is_some());
            live.fabric().set(trunk, impairments.clone().unwrap_or_else(|| whole.clone()));
        }
    }
    Ok(())
}

/// Four flows of Tiercel, one over each path.
fn tiercel(live: &mut Live, fault: Fault, parameters: CongestionParameters) -> Result<Course> {
    change(live, None, 0)?;
    let control = CongestionControl { parameters, ..CongestionControl::SWIFT };
    live.start_anew(control);
    live.tune(Tuning { congestion: control, ..Tuning::DEFAULT }.for_round_trip(ROUND_TRIP));
    for path in 0..PATHS {
        live.add_flow_over(Egress::Trunk(Trunk(path)), 0, 1)?;
    }
    let period = Duration::from_secs_f64(BYTES as f64 * 8.0 / DEMAND as f64);
    let begin = Instant::now();
    let live = &*live;
    let flows = (0..usize::from(PATHS)).map(|flow| live.write_at_rate(flow, BYTES, period, begin + END));
    let fails = async {
        tokio::time::sleep_until((begin + BEFORE).into()).await;
        change(live, Some(fault), 0)
    };
    let heal = async {
        // What a flow on a dead path still waits for ends then.
        tokio::time::sleep_until((begin + END).into()).await;
        change(live, None, 0)
    };
    let work = async { tokio::try_join!(try_join_all(flows), fails, heal) };
    let (samples, _) = live.observe(begin, EVERY, work)?;
    let delivered = |sample: &course::Sample| {
        sample.flows.iter().map(|flow| u64::from(flow.acknowledged) * SEGMENT).sum::<u64>()
    };
    Ok(samples.iter().map(|sample| (sample.at, delivered(sample))).collect())
}

/// Four flows of TCP, one over each path.
fn tcp(live: &Live, fault: Fault) -> Result<Course> {
    const DRAWS: usize = 100;
    const PROBE: u64 = 128 << 10;
    change(live, None, 0)?;
    let [near, far] = live.hosts();
    let (mut flows, mut taken) = (vec![], vec![]);
    for _ in 0..DRAWS {
        let mut flow = PacedTcp::connect(near, far)?;
        let carried = || {
            live.fabric().stats().fabric.trunks.iter().map(|link| link.delivered_bytes).collect::<Vec<_>>()
        };
        let before = carried();
        flow.probe(PROBE)?;
        let after = carried();
        let path = (0..PATHS).max_by_key(|path| after[usize::from(*path)] - before[usize::from(*path)]);
        let path = path.context("there are paths")?;
        if !taken.contains(&path) {
            taken.push(path);
            flows.push(flow);
        }
        if flows.len() == usize::from(PATHS) {
            let fails = || change(live, Some(fault), taken[0]);
            return PacedTcp::run(flows, DEMAND, (BEFORE, END, EVERY), fails);
        }
    }
    bail!("{DRAWS} connections did not take all paths: {taken:?}")
}

/// Returns the goodput after the failure as a part of the goodput before it, for windows that begin at each sample.
fn parts(course: &Course) -> Result<Vec<f64>> {
    let delivered = |at: Duration| -> Result<f64> {
        let next = course.partition_point(|(time, _)| *time < at);
        let (after, before) = (course.get(next), course.get(next.wrapping_sub(1)));
        let ((t1, b1), (t0, b0)) =
            (after.context("a sample after it")?, before.context("a sample before it")?);
        // Samples come a little late. Between two of them the goodput is taken as constant.
        let part = (at - *t0).as_secs_f64() / (*t1 - *t0).as_secs_f64();
        Ok(*b0 as f64 + (*b1 - *b0) as f64 * part)
    };
    let rate = |from: Duration, over: Duration| -> Result<f64> {
        Ok((delivered(from + over)? - delivered(from)?) / over.as_secs_f64())
    };
    let before = rate(BEFORE / 2, BEFORE / 2)?;
    let windows = (AFTER - 2 * WINDOW as u32) * SAMPLES;
    let over = ROUND_TRIP.mul_f64(WINDOW);
    (0..windows).map(|n| Ok(rate(BEFORE + ROUND_TRIP * n / SAMPLES, over)? / before)).collect()
}

fn sum_up(fault: Fault, sender: Sender, courses: &[Vec<f64>]) -> Case {
    let back: Vec<f64> = courses.iter().map(|course| failure::time_back(course, SAMPLES.into())).collect();
    let returned = back.iter().filter(|rtts| rtts.is_finite()).count();
    let lowest = |course: &Vec<f64>| course.iter().copied().fold(f64::INFINITY, f64::min) * 100.0;
    let last = |course: &Vec<f64>| course.last().map(|part| part * 100.0);
    Case::new(format!("{}, {}", fault.name(), sender.name()))
        .with("back in the end", returned as f64 / courses.len() as f64 * 100.0, "% of trials")
        .with(TIME_BACK, quantile(&back, 0.5), "RTTs")
        .with("slowest trial", quantile(&back, 1.0), "RTTs")
        .with("lowest", mean(courses.iter().map(lowest)), "% of before")
        .with("in the end", mean(courses.iter().filter_map(last)), "% of before")
}

/// Returns the mean over all trials, by round trips since the failure.
fn mean_course(courses: &[Vec<f64>]) -> Vec<[f64; 2]> {
    let samples = courses.iter().map(Vec::len).min().unwrap_or(0);
    let at = |n: usize| mean(courses.iter().map(|course| course[n] * 100.0));
    (0..samples).filter_map(|n| Some([n as f64 / f64::from(SAMPLES) + WINDOW, at(n)?])).collect()
}
