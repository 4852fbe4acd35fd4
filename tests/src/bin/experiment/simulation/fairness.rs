//! Flows that share a bottleneck, and one that joins them.

use anyhow::Result;
use datacentre::{DataCentre, Record, entropy_ports};
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, jain, mean};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::measure::{self, mark, samples, since};
use super::progress::Progress;
use super::series::{self, TIME, millis};
use super::setup;
use crate::options::Options;

/// Number of flows before another one joins.
pub(super) const COUNTS: [u16; 3] = [2, 8, 64];
/// The time by which all flows have begun.
const BEGUN: Span = Span::from_micros(500);
const STEADY: Time = Time(10_000_000_000);
const JOIN: Time = Time(20_000_000_000);
const END: Time = Time(40_000_000_000);
const SAMPLE: Span = Span::from_micros(20);
/// Number of samples for the goodput of the flow that joins.
const GROUP: usize = 25;
/// The part of its share at which the flow counts as having its share. The rest is within the range of a sawtooth.
const ENOUGH: f64 = 0.8;

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let (mut cases, mut verdicts, mut figures) = (vec![], vec![], vec![]);
    for count in COUNTS {
        let (case, drawn) = progress.run(format!("fairness: {count} flows"), || share(options, count))?;
        verdicts.push(Verdict::of(&case, "Jain index", Bound::AtLeast(0.95)));
        verdicts.push(Verdict::of(&case, "share after", Bound::AtMost(200.0)));
        cases.push(case);
        figures.extend(drawn);
    }
    let description = format!(
        "Flows of different hosts begin at random within {BEGUN} and share a bottleneck of {}. The Jain index is \
             measured from {} to {} ms. At {} ms one more flow joins. It has reached its share when its goodput over \
             {} is at least {:.0} % of an equal part.",
        options.rate(),
        millis(STEADY),
        millis(JOIN),
        millis(JOIN),
        Span(SAMPLE.0 * GROUP as u64),
        ENOUGH * 100.0
    );
    Ok(Experiment {
        cases,
        verdicts,
        figures,
        ..setup::experiment(options, "fairness", "Flows share a bottleneck", description)
    })
}

fn share(options: &Options, count: u16) -> Result<(Case, Vec<Figure>)> {
    let mut plan = setup::bottleneck(options, count + 1, 1, setup::times(options.rate(), 2)?)?;
    let mut rng = StdRng::seed_from_u64(options.seed);
    for (source, entropy) in (0..=count).zip(entropy_ports(options.seed)) {
        let start = if source == count { JOIN } else { Time(rng.random_range(0..BEGUN.0)) };
        let mut flow = setup::endless(options, source, count + 1 + source, start);
        flow.entropy = entropy;
        plan.flows.push(flow);
    }
    plan.sample_every = SAMPLE;
    plan.watch = vec![setup::TRUNK];
    let mut data_centre = DataCentre::new(plan)?;
    data_centre.run_until(STEADY);
    let begin = mark(&data_centre, setup::TRUNK);
    data_centre.run_until(JOIN);
    let carried = since(&data_centre, setup::TRUNK, &begin, options.rate());
    data_centre.run_until(END);

    let record = data_centre.record();
    let joins = usize::from(count);
    let shares: Vec<f64> =
        (0..joins).filter_map(|flow| measure::goodput(record, flow, STEADY, JOIN)).collect();
    let all = setup::efficiency(options) * options.rate().bits_per_second() as f64 / 1e9;
    let equal = all / f64::from(count + 1);
    let joined = series::goodput(record, joins, GROUP);
    let reached = joined.iter().find(|point| point[1] >= ENOUGH * equal).map(|point| point[0] - millis(JOIN));
    let rtt = measure::mean_rtt(samples(record, joins, JOIN, END));
    let steady: Vec<_> = (0..joins).map(|flow| samples(record, flow, STEADY, JOIN)).collect();
    let each = |number: fn(&[_]) -> Option<f64>| mean(steady.iter().filter_map(|samples| number(samples)));
    let extreme = |pick: fn(f64, f64) -> f64| shares.iter().copied().reduce(pick);
    let case = Case::new(format!("{count} flows"))
        .with("Jain index", jain(&shares), "")
        .with("least", extreme(f64::min), "Gb/s")
        .with("greatest", extreme(f64::max), "Gb/s")
        .with("utilisation", carried.utilisation * 100.0, "%")
        .with("queue drops", carried.loss.map(|loss| loss * 100.0), "%")
        .with("fcwnd", each(|samples| measure::mean_window_and_delay(samples).0), "packets")
        .with("fabric delay", each(|samples| measure::mean_window_and_delay(samples).1), "us")
        .with("RTT", rtt, "us")
        .with("share after", reached.zip(rtt).map(|(reached, rtt)| reached * 1e3 / rtt), "RTTs");
    Ok((case, figures(record, count, equal)))
}

fn figures(record: &Record, count: u16, equal: f64) -> Vec<Figure> {
    let joins = usize::from(count);
    let titled = |what: &str| format!("{what}, {count} flows and one that joins");
    let lines = |mut figure: Figure, points: &dyn Fn(usize) -> series::Points| {
        if count == 2 {
            for flow in 0..joins {
                figure = figure.line(Look::Main, format!("flow {}", flow + 1), points(flow));
            }
        } else {
            figure = figure.spread(&format!("{count} flows"), (0..joins).map(points));
        }
        figure.line(Look::Main, "the one that joins", points(joins))
    };
    let [goodput, fcwnd, delay] = [
        Figure::new(format!("goodput-{count}"), titled("Goodput"), TIME, "goodput (Gb/s)"),
        Figure::new(format!("fcwnd-{count}"), titled("Fabric windows"), TIME, "fcwnd (packets)"),
        Figure::new(format!("delay-{count}"), titled("Fabric delays"), TIME, "delay (us)"),
    ];
    let queue = Figure::new(format!("queue-{count}"), titled("Queue of the bottleneck"), TIME, "queue (KiB)");
    vec![
        lines(goodput, &|flow| series::goodput(record, flow, GROUP))
            .level("an equal part, with the last", equal),
        lines(fcwnd, &|flow| {
            let mut windows = series::fcwnd(record, flow);
            windows.retain(|point| flow != joins || point[0] >= millis(JOIN));
            windows
        }),
        lines(delay, &|flow| series::delay(record, flow)),
        queue.line(Look::Main, "queue", series::kibibytes(record, &record.queues[0])),
    ]
}
