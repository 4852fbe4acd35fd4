//! Flows that share a bottleneck, and one that joins them.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::try_join_all;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World, jain};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::course::{self, EVERY, Live, Sample};
use super::series::{self, DELAY, TIME, millis};
use crate::options::Options;

/// Number of flows before another one joins.
const COUNTS: [usize; 2] = [2, 4];
/// The time by which all flows have begun.
const BEGUN: Duration = Duration::from_millis(50);
const STEADY: Duration = Duration::from_secs(1);
const JOIN: Duration = Duration::from_secs(4);
const END: Duration = Duration::from_secs(6);
/// Number of samples for the goodput of the flow that joins.
const GROUP: usize = 10;
/// The part of its share at which the flow counts as having its share, as in the simulated experiment.
const ENOUGH: f64 = 0.8;

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let (mut cases, mut verdicts, mut figures) = (vec![], vec![], vec![]);
    for count in COUNTS {
        let (case, drawn) = share(options, count)?;
        verdicts.push(Verdict::of(&case, "Jain index", Bound::AtLeast(0.95)));
        verdicts.push(Verdict::of(&case, "share after", Bound::AtMost(200.0)));
        verdicts.push(Verdict::of(&case, "lost by the kernel", Bound::AtMost(0.0)));
        cases.push(case);
        figures.extend(drawn);
    }
    Ok(Experiment {
        name: "fairness-live",
        title: "Flows share a bottleneck, on real packets",
        description: format!(
            "Connections between two hosts begin at random within {BEGUN:?} and share a bottleneck of {}. The Jain \
             index is measured from {STEADY:?} to {JOIN:?}. At {JOIN:?} one more connection joins. It has reached \
             its share when its goodput over {:?} is at least {:.0} % of an equal part.",
            options.rate(),
            EVERY * GROUP as u32,
            ENOUGH * 100.0
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

fn share(options: &Options, count: usize) -> Result<(Case, Vec<Figure>)> {
    let live = Live::bottleneck(options, "", count + 1)?;
    let mut rng = StdRng::seed_from_u64(options.seed);
    let begin = Instant::now();
    let flow = |flow, start: Duration| {
        let live = &live;
        async move {
            tokio::time::sleep_until((begin + start).into()).await;
            live.write_while(flow, || begin.elapsed() < END).await
        }
    };
    let starts = (0..count).map(|_| BEGUN.mul_f64(rng.random())).chain([JOIN]);
    let flows: Vec<_> = starts.enumerate().map(|(number, start)| flow(number, start)).collect();
    let (samples, _) = live.observe(begin, EVERY, try_join_all(flows))?;
    let steady = series::between(&samples, STEADY, JOIN);
    let shares: Vec<f64> = (0..count).filter_map(|flow| series::mean_goodput(steady, flow)).collect();
    let rate = options.rate().bits_per_second() as f64;
    let equal = course::efficiency() * rate / (count + 1) as f64 / 1e6;
    let after = series::between(&samples, JOIN, END);
    let joined = series::goodput(after, count, GROUP);
    let reached = joined.iter().find(|point| point[1] >= ENOUGH * equal).map(|point| point[0] - millis(JOIN));
    let rtt = series::mean_of(after, count..count + 1, |flow| flow.rtt);
    let extreme = |pick: fn(f64, f64) -> f64| shares.iter().map(|share| share / 1e6).reduce(pick);
    let case = Case::new(format!("{count} flows"))
        .with("Jain index", jain(&shares), "")
        .with("least", extreme(f64::min), "Mb/s")
        .with("greatest", extreme(f64::max), "Mb/s")
        .with("utilisation", series::mean_link_rate(steady, 0).map(|used| used / rate * 100.0), "%")
        .with("queue drops", series::queue_drops(&samples), "packets")
        .with("fcwnd", series::mean_of(steady, 0..count, |flow| Some(flow.fcwnd)), "packets")
        .with("fabric delay", series::mean_of(steady, 0..count, |flow| Some(flow.delay)), "us")
        .with("RTT", rtt, "us")
        .with("share after", reached.zip(rtt).map(|(reached, rtt)| reached * 1e3 / rtt), "RTTs")
        .with("longest pause", series::longest_pause(&samples), "ms")
        .with("lost by the kernel", live.lost_by_the_kernel(), "frames");
    Ok((case, figures(&samples, count, equal)))
}

fn figures(samples: &[Sample], count: usize, equal: f64) -> Vec<Figure> {
    let titled = |what: &str| format!("{what}, {count} flows and one that joins");
    let lines = |mut figure: Figure, points: &dyn Fn(usize) -> series::Points| {
        for flow in 0..count {
            figure = figure.line(Look::Main, format!("flow {}", flow + 1), points(flow));
        }
        figure.line(Look::Main, "the one that joins", points(count))
    };
    let [goodput, fcwnd, delay] = [
        Figure::new(format!("goodput-{count}"), titled("Goodput"), TIME, "goodput (Mb/s)"),
        Figure::new(format!("fcwnd-{count}"), titled("Fabric windows"), TIME, "fcwnd (packets)"),
        Figure::new(format!("delay-{count}"), titled("Fabric delays"), TIME, DELAY),
    ];
    let present = |flow| if flow == count { series::between(samples, JOIN, Duration::MAX) } else { samples };
    let queue = Figure::new(format!("queue-{count}"), titled("Queue of the bottleneck"), TIME, "queue (KiB)");
    vec![
        lines(goodput, &|flow| series::goodput(samples, flow, 2 * GROUP))
            .level("an equal part, with the last", equal),
        lines(fcwnd, &|flow| series::of_flow(present(flow), flow, |sample| sample.fcwnd)),
        lines(delay, &|flow| series::of_flow(present(flow), flow, series::delay)),
        queue.line(Look::Main, "queue", series::queue(samples)),
    ]
}
