//! One flow through a bottleneck.

use anyhow::Result;
use datacentre::DataCentre;
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};

use super::measure::{self, mark, samples, since};
use super::progress::Progress;
use super::series::{self, TIME};
use super::setup;
use crate::options::Options;
use crate::target::Target;

const DURATION: Span = Span::from_millis(20);
/// Number of switches on the path.
const HOPS: u32 = 2;

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let mut plan = setup::bottleneck(options, 1, 1, setup::times(options.rate(), 2)?)?;
    plan.flows = vec![setup::endless(options, 0, 1, Time::ZERO)];
    plan.sample_every = Span::from_micros(10);
    plan.watch = vec![setup::TRUNK];
    let mut data_centre = DataCentre::new(plan)?;
    let half = Time::ZERO + Span(DURATION.0 / 2);
    let end = Time::ZERO + DURATION;
    let begin = progress.run("single flow", || {
        data_centre.run_until(half);
        let begin = mark(&data_centre, setup::TRUNK);
        data_centre.run_until(end);
        begin
    });
    let carried = since(&data_centre, setup::TRUNK, &begin, options.rate());
    let record = data_centre.record();
    let steady = samples(record, 0, half, end);
    let (window, delay) = measure::mean_window_and_delay(steady);
    let target = window.map(|window| Target::new(&options.parameters()).delay(window, HOPS));
    let off = delay.zip(target).map(|(delay, target)| (delay / target - 1.0).abs() * 100.0);

    let goodput = series::goodput(record, 0, 5);
    let full = setup::efficiency(options) * options.rate().bits_per_second() as f64 / 1e9;
    let ramp = goodput.iter().find(|point| point[1] >= 0.95 * full).map(|point| point[0]);
    let case = Case::new("steady state")
        .with("utilisation", carried.utilisation * 100.0, "%")
        .with("goodput", measure::goodput(record, 0, half, end), "Gb/s")
        .with("fcwnd", window, "packets")
        .with("fabric delay", delay, "us")
        .with("target delay", target, "us")
        .with("off target", off, "%")
        .with("queue drops", carried.loss.map(|loss| loss * 100.0), "%")
        .with("95 % of the rate after", ramp, "ms");
    let verdicts = vec![
        Verdict::of(&case, "utilisation", Bound::AtLeast(95.0)),
        Verdict::of(&case, "off target", Bound::AtMost(20.0)),
        Verdict::of(&case, "queue drops", Bound::AtMost(0.0)),
    ];
    let delays = Figure::new("delay", "Fabric delay", TIME, "delay (us)").line(
        Look::Main,
        "fabric delay",
        series::delay(record, 0),
    );
    let figures = vec![
        Figure::new("fcwnd", "Fabric window", TIME, "fcwnd (packets)").line(
            Look::Main,
            "fcwnd",
            series::fcwnd(record, 0),
        ),
        match target {
            Some(target) => delays.level("target delay", target),
            None => delays,
        },
        Figure::new("queue", "Queue of the bottleneck", TIME, "queue (KiB)").line(
            Look::Main,
            "queue",
            series::kibibytes(record, &record.queues[0]),
        ),
        Figure::new("goodput", "Goodput", TIME, "goodput (Gb/s)")
            .line(Look::Main, "goodput", goodput)
            .level("the bottleneck's, less headers", full),
    ];
    let description = format!(
        "One flow crosses a bottleneck of {}. Its host could send twice as fast. The second half of {DURATION} \
             counts as steady state.",
        options.rate()
    );
    Ok(Experiment {
        cases: vec![case],
        verdicts,
        figures,
        ..setup::experiment(options, "single-flow", "A single flow", description)
    })
}
