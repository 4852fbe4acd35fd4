//! Flows that an unlucky hash puts on one of two paths.

use std::time::{Duration, Instant};

use anyhow::Result;
use fabric_model::{Egress, Rate, Topology, Trunk};
use futures_util::future::try_join_all;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World, mean, quantile};
use tiercel::CongestionControl;

use super::course::{self, LINK, Live, SEGMENT, Sample};
use super::rate::part;
use super::series::{self, Points, TIME, millis};
use crate::options::{CongestionControl as Algorithm, Options};

/// Number of trials, each with other CIDs and other source ports.
const TRIALS: usize = 10;
const PATHS: u16 = 2;
const FLOWS: usize = 2;
/// Load of each flow, percent of a path: one flow fits a path, two do not.
const DEMAND: f64 = 80.0;
/// Bytes of one WRITE. They are few, so that one WRITE makes no queue by itself.
const BYTES: u64 = 2 * SEGMENT;
const END: Duration = Duration::from_millis(2500);
const EVERY: Duration = Duration::from_millis(2);
/// Number of samples for one rate of a path in the plot.
const GROUP: usize = 10;

/// The fraction of the target delay from which an acknowledgement counts as congested, as in the simulated
/// experiment.
const MULTIPLIER: f64 = 0.9;
/// No acknowledgement counts as congested.
const NEVER: f64 = 16.0;

/// The link of all flows at the beginning.
const FIRST: Egress = Egress::Trunk(Trunk(0));

/// The results of one trial.
struct Trial {
    /// The time from which each path had its flow until the end, microseconds.
    even_after: Option<f64>,
    /// Mean round trip time of all flows until then, or until the end, microseconds.
    rtt: Option<f64>,
    /// User data of all flows in the second half, bits per second.
    goodput: Option<f64>,
    /// Part of the bytes in the second half that the less loaded path carried, 0 to 0.5.
    lesser_path: Option<f64>,
    path_changes: f64,
    samples: Vec<Sample>,
}

/// A variant of the experiment.
struct Variant {
    name: String,
    multiplier: f64,
    promise: (&'static str, Bound),
}

/// Returns the variants: with PLB, if the algorithm has it, and without.
fn variants(options: &Options) -> Result<Vec<Variant>> {
    let never = ("even in the end", Bound::AtMost(0.0));
    let without = Variant { name: "without PLB".to_owned(), multiplier: NEVER, promise: never };
    if options.cc != Algorithm::Swift {
        return Ok(vec![without]);
    }
    let asked = options.control()?.parameters.plb_target_delay_multiplier;
    let unset = asked == tiercel::CongestionParameters::DEFAULT.plb_target_delay_multiplier;
    let multiplier = if unset { MULTIPLIER } else { asked };
    let soon = ("median time to even load", Bound::AtMost(50.0));
    let name = format!("with PLB from {multiplier:.2} of the target on");
    Ok(vec![Variant { name, multiplier, promise: soon }, without])
}

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let path = part(options.rate(), PATHS.into())?;
    let fabric = format!("seed={},delay=100us;trunks:rate={path},{LINK}", options.seed);
    let watched = (0..PATHS).map(|trunk| Egress::Trunk(Trunk(trunk))).collect();
    let topology = Topology::dumbbell(1, 1, PATHS);
    let mut live = Live::up(options, options.control()?, topology, &fabric, watched)?;
    let (mut cases, mut verdicts, mut figures) = (vec![], vec![], vec![]);
    for variant in variants(options)? {
        let mut control = options.control()?;
        control.parameters.plb_target_delay_multiplier = variant.multiplier;
        let trials: Vec<Trial> =
            (0..TRIALS).map(|_| trial(&mut live, path, control)).collect::<Result<_>>()?;
        let lost = live.lost_by_the_kernel();
        let case = sum_up(&variant.name, path, &trials).with("lost by the kernel", lost, "frames");
        let (number, bound) = variant.promise;
        verdicts.push(Verdict::of(&case, number, bound));
        verdicts.push(Verdict::of(&case, "lost by the kernel", Bound::AtMost(0.0)));
        cases.push(case);
        figures.extend(draw(&variant.name, path, &trials));
    }
    Ok(Experiment {
        name: "plb-live",
        title: "An unlucky hash, on real packets",
        description: format!(
            "{FLOWS} flows go from one host to another over {PATHS} paths of {path}. A hash of addresses and source \
             port chooses the path. Each flow has data for {DEMAND} % of a path, and both begin with source ports \
             that lead to the same path. The load is even once each path has its flow and keeps it. The time until \
             then is given in mean RTTs of that time. There are {TRIALS} trials of {} ms each.",
            END.as_millis()
        ),
        world: World::Live,
        seed: options.seed,
        congestion_control: Some(options.algorithm()),
        details: serde_json::Value::Null,
        settings: course::settings(options)?,
        cases,
        verdicts,
        figures,
    })
}

fn trial(live: &mut Live, path: Rate, control: CongestionControl) -> Result<Trial> {
    live.start_anew(control);
    for _ in 0..FLOWS {
        live.add_flow_over(FIRST, 0, 1)?;
    }
    let period = course::wire_time(path, BYTES).mul_f64(100.0 / DEMAND);
    let begin = Instant::now();
    let flows = (0..FLOWS).map(|flow| live.write_at_rate(flow, BYTES, period, begin + END));
    let (samples, _) = live.observe(begin, EVERY, try_join_all(flows))?;
    let even_since = match samples.iter().rposition(|sample| on_first_path(sample) != 1) {
        None => samples.first(),
        Some(last_uneven) => samples.get(last_uneven + 1),
    };
    let even_since = even_since.map(|sample| sample.at);
    let until = series::between(&samples, Duration::ZERO, even_since.unwrap_or(END));
    let later = series::between(&samples, END / 2, END);
    let goodputs: Option<Vec<f64>> = (0..FLOWS).map(|flow| series::mean_goodput(later, flow)).collect();
    let rates: Option<Vec<f64>> =
        (0..usize::from(PATHS)).map(|link| series::mean_link_rate(later, link)).collect();
    let lesser =
        |rates: Vec<f64>| rates.iter().copied().fold(f64::INFINITY, f64::min) / rates.iter().sum::<f64>();
    let changes = live.flows.iter().map(|flow| Ok(flow.near.info()?.statistics.path_changes as f64));
    let path_changes = changes.sum::<Result<f64>>()?;
    Ok(Trial {
        even_after: even_since.map(|time| millis(time) * 1e3),
        rtt: series::mean_of(until, 0..FLOWS, |flow| flow.rtt),
        goodput: goodputs.map(|goodputs| goodputs.iter().sum()),
        lesser_path: rates.map(lesser),
        path_changes,
        samples,
    })
}

/// Returns the number of flows on the path on which all began.
fn on_first_path(sample: &Sample) -> usize {
    sample.flows.iter().filter(|flow| flow.path == FIRST).count()
}

/// Returns the results of all trials.
fn sum_up(name: &str, path: Rate, trials: &[Trial]) -> Case {
    let in_rtts = |trial: &Trial| Some(trial.even_after? / trial.rtt?);
    let rtts: Vec<f64> = trials.iter().map(|trial| in_rtts(trial).unwrap_or(f64::INFINITY)).collect();
    let even = rtts.iter().filter(|rtts| rtts.is_finite()).count();
    let mean_of = |number: &dyn Fn(&Trial) -> Option<f64>| mean(trials.iter().filter_map(number));
    let pauses = trials.iter().filter_map(|trial| series::longest_pause(&trial.samples));
    let asked = path.bits_per_second() as f64 * course::efficiency() * FLOWS as f64 * DEMAND / 100.0;
    Case::new(format!("{TRIALS} trials, {name}"))
        .with("even in the end", even as f64 / TRIALS as f64 * 100.0, "% of trials")
        .with("median time to even load", quantile(&rtts, 0.5), "RTTs")
        .with("90 % of trials within", quantile(&rtts, 0.9), "RTTs")
        .with("RTT", mean_of(&|trial| trial.rtt), "us")
        .with("path changes", mean_of(&|trial| Some(trial.path_changes)), "a trial")
        .with("goodput of the demand", mean_of(&|trial| Some(trial.goodput? / asked * 100.0)), "%")
        .with("on the lesser path", mean_of(&|trial| Some(trial.lesser_path? * 100.0)), "% of the bytes")
        .with("longest pause", pauses.reduce(f64::max), "ms")
}

fn draw(name: &str, path: Rate, trials: &[Trial]) -> Vec<Figure> {
    let file = name.replace(' ', "-").to_lowercase();
    let courses = trials
        .iter()
        .map(|trial| -> Points { series::line(&trial.samples, |sample| on_first_path(sample) as f64) });
    let title = format!("Flows on the path that all were put on, {name}");
    let flows = Figure::new(file.clone(), title, TIME, "flows")
        .spread(&format!("{TRIALS} trials"), courses)
        .level("even load", FLOWS as f64 / f64::from(PATHS));
    let title = format!("Rate of both paths, first trial, {name}");
    let rates = (0..usize::from(PATHS)).fold(
        Figure::new(format!("paths-{file}"), title, TIME, "rate (Mb/s)"),
        |figure, link| {
            let points = series::link_rate(&trials[0].samples, link, GROUP);
            figure.line(Look::Main, format!("path {}", link + 1), points)
        },
    );
    vec![flows, rates.level("capacity of a path", path.bits_per_second() as f64 / 1e6)]
}
