//! Several hosts write to one at the same time.

use std::time::{Duration, Instant};

use anyhow::Result;
use fabric_model::Port;
use futures_util::future::try_join_all;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World};

use super::course::{self, LINK, Live, block_on};
use super::series::{self, DELAY, TIME, millis};
use crate::options::Options;

/// Hosts that write: each is a node with threads of its own on this machine.
const COUNT: u16 = 5;
const BYTES: u64 = 1_000_000;
const EVERY: Duration = Duration::from_millis(2);

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let rate = options.rate();
    let fabric = format!("seed={},rate={rate},{LINK}", options.seed);
    let mut live = Live::star(options, COUNT + 1, &fabric, Port(0))?;
    (1..=COUNT).try_for_each(|host| live.add_flow(host, 0))?;
    let flows = 0..usize::from(COUNT);
    // The first packets meet cold caches and sleeping threads, so they do not show congestion.
    block_on(try_join_all(flows.clone().map(|flow| live.write(flow, 1))))?;
    let before = live.retransmissions()?;
    let begin = Instant::now();
    let writes = try_join_all(flows.clone().map(|flow| live.write(flow, BYTES)));
    let (samples, mut times) = live.observe(begin, EVERY, writes)?;
    times.sort_unstable();
    let last = times.last().copied().map(millis);
    let ideal = course::wire_time(rate, BYTES * u64::from(COUNT));
    let steady = series::between(&samples, ideal / 4, Duration::MAX);
    let offered = steady
        .last()
        .zip(steady.first())
        .map(|(last, first)| (last.links[0].stats.offered - first.links[0].stats.offered) as f64);
    let drops = |samples| series::queue_drops(samples);
    let resent = live.retransmissions()? - before;
    let peak = samples.iter().map(|sample| sample.links[0].queue as f64 / 1024.0).reduce(f64::max);
    let case = Case::new(format!("{COUNT} to 1"))
        .with("complete", times.len() as f64 / f64::from(COUNT) * 100.0, "%")
        .with("last after", last, "ms")
        .with("ideal", millis(ideal), "ms")
        .with("time / ideal", last.map(|last| last / millis(ideal)), "")
        .with("queue drops", drops(&samples), "packets")
        .with("steady queue drops", drops(steady).zip(offered).map(|(drops, all)| drops / all * 100.0), "%")
        .with("retransmissions", resent as f64, "")
        .with("queue at most", peak, "KiB")
        .with("mean fcwnd", series::mean_of(steady, flows.clone(), |flow| Some(flow.fcwnd)), "packets")
        .with("fabric delay", series::mean_of(steady, flows.clone(), |flow| Some(flow.delay)), "us")
        .with("longest pause", series::longest_pause(&samples), "ms")
        .with("lost by the kernel", live.lost_by_the_kernel(), "frames");
    let verdicts = vec![
        Verdict::of(&case, "complete", Bound::AtLeast(100.0)),
        Verdict::of(&case, "time / ideal", Bound::AtMost(1.2)),
        Verdict::of(&case, "steady queue drops", Bound::AtMost(0.1)),
        Verdict::of(&case, "lost by the kernel", Bound::AtMost(0.0)),
    ];
    let steps = times.iter().enumerate().flat_map(|(n, time)| [n, n + 1].map(|n| [millis(*time), n as f64]));
    let complete = [[0.0, 0.0]].into_iter().chain(steps).collect();
    let all = |figure: Figure, number: &dyn Fn(&course::FlowSample) -> f64| {
        flows.clone().fold(figure, |figure, flow| {
            figure.line(Look::Main, format!("host {}", flow + 1), series::of_flow(&samples, flow, number))
        })
    };
    let figures = vec![
        all(Figure::new("fcwnd", "Fabric windows", TIME, "fcwnd (packets)").log_y(), &|flow| flow.fcwnd),
        all(Figure::new("delay", "Fabric delays", TIME, DELAY), &series::delay),
        Figure::new("queue", "Queue towards the receiver", TIME, "queue (KiB)").line(
            Look::Main,
            "queue",
            series::queue(&samples),
        ),
        Figure::new("complete", "Writes that are complete", TIME, "writes").line(
            Look::Main,
            "complete",
            complete,
        ),
    ];
    Ok(Experiment {
        name: "incast-live",
        title: "Incast, on real packets",
        description: format!(
            "{COUNT} hosts at one switch write {BYTES} bytes each to one host, all at the same time. \"Ideal\" is the \
             time that the bytes take over its cable of {rate}. The steady state begins after a quarter of this time."
        ),
        world: World::Live,
        seed: options.seed,
        congestion_control: Some(options.algorithm()),
        details: serde_json::Value::Null,
        settings: course::settings(options)?,
        cases: vec![case],
        verdicts,
        figures,
    })
}
