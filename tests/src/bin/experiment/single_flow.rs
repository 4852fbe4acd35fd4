//! One flow through a bottleneck.

use anyhow::Result;
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};

use crate::kind::{Units, pick};
use crate::options::Options;
use crate::run::{TIME, mean_window_and_delay};
use crate::setup::{self, Results, in_both};
use crate::target::Target;
use crate::world::{End, Flow, World};

/// Number of samples for one rate in the plot.
const GROUP: usize = 5;

pub(crate) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let units = Units::of(kind);
    let rate = options.rate();
    let duration = pick(kind, Span::from_millis(20), Span::from_millis(6000));
    let (half, end) = (Time::ZERO + Span(duration.0 / 2), Time::ZERO + duration);
    let mut described = setup::bottleneck(options, kind, 1, (1, rate), setup::times(rate, 2)?)?;
    described.flows = vec![Flow::endless(setup::ends(kind, 1, 0), Time::ZERO, options.tuning()?)];
    described.sample_every = pick(kind, Span::from_micros(10), Span::from_millis(5));
    described.observe = true;
    described.marks = vec![half];
    described.end = End::At(end);
    let run = world.run("single flow", described)?;
    let carried = run.carried(1, 2, rate);
    let (window, delay) = mean_window_and_delay(run.samples(0, half, end));
    let hops = setup::hops(kind);
    let target = window.map(|window| Target::new(&options.parameters()).delay(window, hops));
    let off = delay.zip(target).map(|(delay, target)| (delay / target - 1.0).abs() * 100.0);

    let goodput = run.goodput_line(0, GROUP);
    let full = units.rate(setup::full_rate(rate));
    let ramp = goodput.iter().find(|point| point[1] >= 0.95 * full).map(|point| point[0]);
    let case = Case::new("steady state")
        .with("utilisation", carried.utilisation, "%")
        .with("goodput", run.goodput(0, half, end), units.rate)
        .with("fcwnd", window, "packets")
        .with("fabric delay", delay, "us")
        .with("target delay", target, "us")
        .with("off target", off, "%")
        .with("queue drops", carried.loss, "%")
        .with("95 % of the rate after", ramp, "ms");
    let case = run.with_machine(case);
    let verdicts = vec![
        Verdict::of(&case, "utilisation", Bound::AtLeast(pick(kind, 95.0, 90.0))),
        Verdict::of(&case, "off target", Bound::AtMost(pick(kind, 20.0, 40.0))),
        Verdict::of(&case, "queue drops", Bound::AtMost(0.0)),
    ];
    let delays = Figure::new("delay", "Fabric delay", TIME, units.delay_axis).line(
        Look::Main,
        "fabric delay",
        run.delay_line(0),
    );
    let used = run.link_line(0, 2 * GROUP).into_iter();
    let capacity = units.rate(rate.bits_per_second() as f64 / 1e9);
    let used = used.map(|[time, carried]| [time, carried / capacity * 100.0]).collect();
    let figures = vec![
        Figure::new("fcwnd", "Fabric window", TIME, "fcwnd (packets)").line(
            Look::Main,
            "fcwnd",
            run.fcwnd_line(0),
        ),
        match target {
            Some(target) => delays.level("target delay", units.delay(target)),
            None => delays,
        },
        Figure::new("queue", "Queue of the bottleneck", TIME, "queue (KiB)").line(
            Look::Main,
            "queue",
            run.queue_line(),
        ),
        Figure::new("goodput", "Goodput", TIME, &units.goodput_axis())
            .line(Look::Main, "goodput", goodput)
            .level("the bottleneck's, less headers", full),
        Figure::new("utilisation", "Utilisation of the bottleneck", TIME, "utilisation (%)").line(
            Look::Main,
            "utilisation",
            used,
        ),
    ];
    let description = format!(
        "One flow crosses a bottleneck of {rate}. Its host could send twice as fast. The second half of {duration} \
             counts as steady state."
    );
    let results = Results { cases: vec![case], verdicts, figures };
    Ok(results.report(options, kind, in_both!("single-flow", "A single flow"), description))
}
