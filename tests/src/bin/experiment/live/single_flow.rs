//! One flow through a bottleneck.

use std::time::{Duration, Instant};

use anyhow::Result;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World, mean, quantile};

use super::course::{self, EVERY, Live};
use super::series::{self, DELAY, TIME};
use crate::options::Options;
use crate::target::Target;

const DURATION: Duration = Duration::from_secs(6);
/// Number of samples for one rate in the plot.
const GROUP: usize = 10;

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let live = Live::bottleneck(options, "", 1)?;
    let begin = Instant::now();
    let (samples, ()) = live.observe(begin, EVERY, live.write_while(0, || begin.elapsed() < DURATION))?;
    let steady = series::between(&samples, DURATION / 2, DURATION);
    let rate = options.rate().bits_per_second() as f64;
    let window = series::mean_of(steady, 0..1, |flow| Some(flow.fcwnd));
    let delays: Vec<f64> = steady.iter().map(|sample| sample.flows[0].delay).collect();
    let delay = mean(delays.iter().copied());
    // The model of the fabric between live hosts does not decrement the hop limit.
    let target = window.map(|window| Target::new(&options.parameters()).delay(window, 0));
    let off = delay.zip(target).map(|(delay, target)| (delay / target - 1.0).abs() * 100.0);
    let case = Case::new("steady state")
        .with("utilisation", series::mean_link_rate(steady, 0).map(|used| used / rate * 100.0), "%")
        .with("fcwnd", window, "packets")
        .with("fabric delay", delay, "us")
        .with("90 % of the delays below", quantile(&delays, 0.9), "us")
        .with("target delay", target, "us")
        .with("off target", off, "%")
        .with("queue drops", series::queue_drops(steady), "packets")
        .with("longest pause", series::longest_pause(&samples), "ms")
        .with("lost by the kernel", live.lost_by_the_kernel(), "frames");
    let verdicts = vec![
        Verdict::of(&case, "utilisation", Bound::AtLeast(90.0)),
        Verdict::of(&case, "off target", Bound::AtMost(40.0)),
        Verdict::of(&case, "lost by the kernel", Bound::AtMost(0.0)),
    ];
    let rates = series::link_rate(&samples, 0, GROUP).into_iter();
    let used = rates.map(|[time, megabits]| [time, megabits * 1e8 / rate]).collect();
    let delays = Figure::new("delay", "Fabric delay", TIME, DELAY).line(
        Look::Main,
        "fabric delay, smoothed",
        series::of_flow(&samples, 0, series::delay),
    );
    let figures = vec![
        Figure::new("fcwnd", "Fabric window", TIME, "fcwnd (packets)").line(
            Look::Main,
            "fcwnd",
            series::of_flow(&samples, 0, |flow| flow.fcwnd),
        ),
        match target {
            Some(target) => delays.level("target delay", target / 1e3),
            None => delays,
        },
        Figure::new("utilisation", "Utilisation of the bottleneck", TIME, "utilisation (%)").line(
            Look::Main,
            "utilisation",
            used,
        ),
    ];
    Ok(Experiment {
        name: "single-flow-live",
        title: "A single flow, on real packets",
        description: format!(
            "One flow goes between two hosts in network namespaces, through a fabric of {}. The second half of \
             {DURATION:?} counts as steady state.",
            options.rate()
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
