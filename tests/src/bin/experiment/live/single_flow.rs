//! One flow through a bottleneck.

use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World, mean, quantile};
use std::time::Duration;

use anyhow::{Context, Result};

use super::course::{self, Live, Sample};
use crate::options::Options;
use crate::target::Target;

const DURATION: Duration = Duration::from_secs(6);
/// Samples over which a rate is taken for the plot.
const GROUP: usize = 10;
const TIME: &str = "time (ms)";

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let live = Live::up(options, "")?;
    let samples = live.observe(DURATION)?;
    let steady = &samples[samples.partition_point(|sample| sample.at < DURATION / 2)..];
    let (first, last) = (steady.first().context("no sample")?, steady.last().context("no sample")?);
    let rate = options.rate().bits_per_second() as f64;
    let window = mean(steady.iter().map(|sample| sample.fcwnd));
    let delays: Vec<f64> = steady.iter().map(|sample| sample.delay).collect();
    let delay = mean(delays.iter().copied());
    // The model of the fabric between live hosts takes nothing off the hop limit.
    let target = window.map(|window| Target::new(&options.parameters()).delay(window, 0));
    let off = delay.zip(target).map(|(delay, target)| (delay / target - 1.0).abs() * 100.0);
    let case = Case::new("steady state")
        .with("utilisation", used(first, last, rate) * 100.0, "%")
        .with("fcwnd", window, "packets")
        .with("fabric delay", delay, "us")
        .with("90 % of the delays below", quantile(&delays, 0.9), "us")
        .with("target delay", target, "us")
        .with("off target", off, "%")
        .with("queue drops", (last.dropped - first.dropped) as f64, "packets")
        .with("lost by the kernel", live.lost_by_the_kernel()? as f64, "frames");
    let verdicts = vec![
        Verdict::of(&case, "utilisation", Bound::AtLeast(90.0)),
        Verdict::of(&case, "off target", Bound::AtMost(40.0)),
        Verdict::of(&case, "lost by the kernel", Bound::AtMost(0.0)),
    ];
    let line = |of: &dyn Fn(&Sample) -> f64| -> Vec<[f64; 2]> {
        samples.iter().map(|sample| [millis(sample), of(sample)]).collect()
    };
    let grouped: Vec<&Sample> = samples.iter().step_by(GROUP).collect();
    let rates = grouped.windows(2).map(|pair| [millis(pair[1]), used(pair[0], pair[1], rate) * 100.0]);
    let delays = Figure::new("delay", "Fabric delay", TIME, "delay (us)").line(
        Look::Main,
        "fabric delay, smoothed",
        line(&|sample| sample.delay),
    );
    let figures = vec![
        Figure::new("fcwnd", "Fabric window", TIME, "fcwnd (packets)").line(
            Look::Main,
            "fcwnd",
            line(&|sample| sample.fcwnd),
        ),
        match target {
            Some(target) => delays.level("target delay", target),
            None => delays,
        },
        Figure::new("utilisation", "Utilisation of the bottleneck", TIME, "utilisation (%)").line(
            Look::Main,
            "utilisation",
            rates.collect(),
        ),
    ];
    Ok(Experiment {
        name: "single-flow-live",
        title: "A single flow, on real packets",
        description: format!(
            "One flow between two hosts in network namespaces, through a fabric of {}. The second half of {DURATION:?} \
             counts as steady state.",
            options.rate()
        ),
        world: World::Live,
        seed: options.seed,
        congestion_control: Some(options.algorithm()),
        details: serde_json::Value::Null,
        settings: course::settings(options),
        cases: vec![case],
        verdicts,
        figures,
    })
}

fn millis(sample: &Sample) -> f64 {
    sample.at.as_secs_f64() * 1e3
}

/// Part of the rate, bits a second, that was used between two samples.
fn used(from: &Sample, to: &Sample, rate: f64) -> f64 {
    (to.delivered - from.delivered) as f64 * 8.0 / (to.at - from.at).as_secs_f64() / rate
}
