//! Flows that share a bottleneck, and one that joins them.

use anyhow::Result;
use datacentre::entropy_ports;
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World as Kind, jain, mean};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::kind::{Units, pick};
use crate::options::Options;
use crate::run::{Points, Run, TIME, mean_rtt, mean_window_and_delay, millis};
use crate::setup::{self, Results, in_both};
use crate::world::{End, Flow, World};

/// Most flows that are drawn one by one.
const FEW: u16 = 4;
/// The part of its share at which the flow counts as having its share. The rest is within the range of a sawtooth.
const ENOUGH: f64 = 0.8;

/// When things happen in a world.
#[derive(Clone, Copy)]
struct Times {
    /// The time by which all flows have begun.
    begun: Span,
    steady: Time,
    join: Time,
    end: Time,
    sample: Span,
    /// Number of samples for the goodput of the flow that joins.
    group: usize,
}

impl Times {
    fn of(kind: Kind) -> Self {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let simulated = Self {
            begun: Span::from_micros(500),
            steady: at(10),
            join: at(20),
            end: at(40),
            sample: Span::from_micros(20),
            group: 25,
        };
        let live = Self {
            begun: Span::from_millis(50),
            steady: at(1000),
            join: at(4000),
            end: at(6000),
            sample: Span::from_millis(5),
            group: 10,
        };
        pick(kind, simulated, live)
    }
}

/// Returns the numbers of flows before another one joins.
pub(crate) fn counts(kind: Kind) -> &'static [u16] {
    pick(kind, &[2, 8, 64], &[2, 4])
}

pub(crate) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let times = Times::of(kind);
    let mut results = Results::default();
    for &count in counts(kind) {
        let (case, drawn) = share(options, world, times, count)?;
        results.verdicts.push(Verdict::of(&case, "Jain index", Bound::AtLeast(0.95)));
        results.verdicts.push(Verdict::of(&case, "share after", Bound::AtMost(200.0)));
        results.cases.push(case);
        results.figures.extend(drawn);
    }
    let description = format!(
        "{} begin at random within {} and share a bottleneck of {}. The Jain index is \
             measured from {} to {} ms. At {} ms one more flow joins. It has reached its share when its goodput over \
             {} is at least {:.0} % of an equal part.",
        pick(kind, "Flows of different hosts", "Flows between two hosts"),
        times.begun,
        options.rate(),
        millis(times.steady),
        millis(times.join),
        millis(times.join),
        Span(times.sample.0 * times.group as u64),
        ENOUGH * 100.0
    );
    Ok(results.report(options, kind, in_both!("fairness", "Flows share a bottleneck"), description))
}

fn share(options: &Options, world: &mut dyn World, times: Times, count: u16) -> Result<(Case, Vec<Figure>)> {
    let kind = world.kind();
    let units = Units::of(kind);
    let rate = options.rate();
    let mut described = setup::bottleneck(options, kind, count + 1, (1, rate), setup::times(rate, 2)?)?;
    let mut rng = StdRng::seed_from_u64(options.seed);
    for (flow, entropy) in (0..=count).zip(entropy_ports(options.seed)) {
        let start = if flow == count { times.join } else { Time(rng.random_range(0..times.begun.0)) };
        let endless = Flow::endless(setup::ends(kind, count + 1, flow), start, options.tuning()?);
        described.flows.push(Flow { entropy, ..endless });
    }
    described.sample_every = times.sample;
    described.marks = vec![times.steady, times.join];
    described.end = End::At(times.end);
    let run = world.run(&format!("fairness: {count} flows"), described)?;

    let carried = run.carried(1, 2, rate);
    let joins = usize::from(count);
    let shares: Vec<f64> =
        (0..joins).filter_map(|flow| run.goodput(flow, times.steady, times.join)).collect();
    let equal = units.rate(setup::full_rate(rate)) / f64::from(count + 1);
    let joined = run.goodput_line(joins, times.group);
    let reached = joined.iter().find(|point| point[1] >= ENOUGH * equal);
    let reached = reached.map(|point| point[0] - millis(times.join));
    let rtt = mean_rtt(run.samples(joins, times.join, times.end));
    let steady: Vec<_> = (0..joins).map(|flow| run.samples(flow, times.steady, times.join)).collect();
    let each = |number: fn(&[_]) -> Option<f64>| mean(steady.iter().filter_map(|samples| number(samples)));
    let extreme = |pick: fn(f64, f64) -> f64| shares.iter().copied().reduce(pick);
    let case = Case::new(format!("{count} flows"))
        .with("Jain index", jain(&shares), "")
        .with("least", extreme(f64::min), units.rate)
        .with("greatest", extreme(f64::max), units.rate)
        .with("utilisation", carried.utilisation, "%")
        .with("queue drops", carried.loss, "%")
        .with("fcwnd", each(|samples| mean_window_and_delay(samples).0), "packets")
        .with("fabric delay", each(|samples| mean_window_and_delay(samples).1), "us")
        .with("RTT", rtt, "us")
        .with("share after", reached.zip(rtt).map(|(reached, rtt)| reached * 1e3 / rtt), "RTTs");
    Ok((run.with_machine(case), figures(&run, times, count, equal)))
}

fn figures(run: &Run, times: Times, count: u16, equal: f64) -> Vec<Figure> {
    let units = Units::of(run.kind);
    let joins = usize::from(count);
    let titled = |what: &str| format!("{what}, {count} flows and one that joins");
    let lines = |mut figure: Figure, points: &dyn Fn(usize) -> Points| {
        if count <= FEW {
            for flow in 0..joins {
                figure = figure.line(Look::Main, format!("flow {}", flow + 1), points(flow));
            }
        } else {
            figure = figure.spread(&format!("{count} flows"), (0..joins).map(points));
        }
        figure.line(Look::Main, "the one that joins", points(joins))
    };
    // Before it joins, a flow has a window, but it has no use for it.
    let present = |flow: usize, mut points: Points| {
        points.retain(|point| flow != joins || point[0] >= millis(times.join));
        points
    };
    let [goodput, fcwnd, delay] = [
        Figure::new(format!("goodput-{count}"), titled("Goodput"), TIME, &units.goodput_axis()),
        Figure::new(format!("fcwnd-{count}"), titled("Fabric windows"), TIME, "fcwnd (packets)"),
        Figure::new(format!("delay-{count}"), titled("Fabric delays"), TIME, units.delay_axis),
    ];
    let queue = Figure::new(format!("queue-{count}"), titled("Queue of the bottleneck"), TIME, "queue (KiB)");
    vec![
        lines(goodput, &|flow| run.goodput_line(flow, times.group))
            .level("an equal part, with the last", equal),
        lines(fcwnd, &|flow| present(flow, run.fcwnd_line(flow))),
        lines(delay, &|flow| present(flow, run.delay_line(flow))),
        queue.line(Look::Main, "queue", run.queue_line()),
    ]
}
