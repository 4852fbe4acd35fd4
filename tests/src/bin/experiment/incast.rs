//! Many hosts write to one at the same time.

use anyhow::Result;
use datacentre::{Message, entropy_ports};
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World as Kind, mean};

use crate::kind::{Units, pick};
use crate::options::Options;
use crate::run::{Points, Run, TIME, link, mean_window_and_delay, millis, packets};
use crate::setup::{self, Results, in_both};
use crate::world::{self, End, Flow, World};

const BYTES: u64 = 1_000_000;
/// The largest number of flows that are drawn one by one.
const FEW: u16 = 5;

/// Returns the numbers of hosts that write. Each live host is a node with threads of its own on this machine.
pub(crate) fn counts(kind: Kind) -> &'static [u16] {
    pick(kind, &[5, 50, 500], &[5])
}

pub(crate) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let mut results = Results::default();
    for &count in counts(kind) {
        let (case, drawn) = write(options, world, count)?;
        results.verdicts.push(Verdict::of(&case, "complete", Bound::AtLeast(100.0)));
        results.verdicts.push(Verdict::of(&case, "time / ideal", Bound::AtMost(1.2)));
        results.verdicts.push(Verdict::of(&case, "steady queue drops", Bound::AtMost(0.1)));
        if count == 500 {
            results.verdicts.push(Verdict::of(&case, "samples with fcwnd below 1", Bound::AtLeast(50.0)));
        }
        results.cases.push(case);
        results.figures.extend(drawn);
    }
    let description = format!(
        "Hosts at one switch write {BYTES} bytes each to one host, all at the same time. \"Ideal\" is the time that \
             the bytes take over its cable of {}. The steady state begins after a quarter of this time.",
        options.rate()
    );
    Ok(results.report(options, kind, in_both!("incast", "Incast"), description))
}

fn write(options: &Options, world: &mut dyn World, count: u16) -> Result<(Case, Vec<Figure>)> {
    let kind = world.kind();
    let rate = options.rate();
    let mut described = setup::star(options, kind, count + 1, None)?;
    let message = Message { at: Time::ZERO, bytes: BYTES };
    for (source, entropy) in (1..=count).zip(entropy_ports(options.seed)) {
        described.flows.push(Flow { entropy, ..Flow::new([source, 0], message, options.tuning()?) });
    }
    described.watch = vec![setup::FIRST_HOST];
    let ideal = Span(setup::wire_time(rate, BYTES).0 * u64::from(count)) + Span(4 * world::CABLE.0);
    described.sample_every = Span((ideal.0 / 500).max(pick(kind, 1_000_000, 2_000_000_000)));
    let steady = Time::ZERO + Span(ideal.0 / 4);
    described.marks = vec![steady];
    described.end = End::Complete(Time::ZERO + Span(20 * ideal.0));
    let run = world.run(&format!("incast: {count} hosts"), described)?;
    let (whole, later) = (run.carried(0, 2, rate), run.carried(1, 2, rate));

    let times = run.completion_times();
    let complete = times.len() as f64 / f64::from(count);
    let last = times.last().filter(|_| times.len() == usize::from(count)).copied().map(millis);
    let ideal = millis(Time::ZERO + ideal);
    let windows = || at_work(&run, steady).flatten().map(|sample| packets(sample.fcwnd));
    let below_one = mean(windows().map(|window| if window < 1.0 { 100.0 } else { 0.0 }));
    let peak = link(&run.end().fabric, setup::FIRST_HOST).queue_peak as f64 / 1024.0;
    let case = Case::new(format!("{count} to 1"))
        .with("complete", complete * 100.0, "%")
        .with("last after", last, "ms")
        .with("ideal", ideal, "ms")
        .with("time / ideal", last.map(|last| last / ideal), "")
        .with("queue drops", whole.loss, "%")
        .with("steady queue drops", later.loss, "%")
        .with("retransmissions", run.retransmissions(), "")
        .with("queue at most", peak, "KiB")
        .with("mean fcwnd", mean(windows()), "packets");
    let case = match kind {
        Kind::Live => {
            let delays = at_work(&run, steady).filter_map(|samples| mean_window_and_delay(samples).1);
            case.with("fabric delay", mean(delays), "us")
        }
        _ => case.with("samples with fcwnd below 1", below_one, "%"),
    };
    Ok((run.with_machine(case), figures(&run, count, &times)))
}

/// Returns the samples of each flow during its message.
fn at_work(run: &Run, from: Time) -> impl Iterator<Item = &[datacentre::FlowSample]> {
    run.completions
        .iter()
        .enumerate()
        .map(move |(flow, completions)| run.samples(flow, from, completions[0].unwrap_or(Time(u64::MAX))))
}

fn figures(run: &Run, count: u16, times: &[Time]) -> Vec<Figure> {
    let titled = |what: &str| format!("{what}, {count} to 1");
    let all = |figure: Figure, points: &dyn Fn(usize) -> Points| {
        let lines = (0..usize::from(count)).map(points);
        match count {
            ..=FEW => figure.lines(Look::Faint, "flows", lines),
            _ => figure.spread(&format!("{count} flows"), lines),
        }
    };
    let axis = Units::of(run.kind).delay_axis;
    let fcwnd = Figure::new(format!("fcwnd-{count}"), titled("Fabric windows"), TIME, "fcwnd (packets)");
    let delay = Figure::new(format!("delay-{count}"), titled("Fabric delays"), TIME, axis);
    let steps = times.iter().enumerate().flat_map(|(n, time)| [n, n + 1].map(|n| [millis(*time), n as f64]));
    let complete = [[0.0, 0.0]].into_iter().chain(steps).collect();
    vec![
        all(fcwnd.log_y(), &|flow| run.fcwnd_line(flow)),
        all(delay, &|flow| run.delay_line(flow)),
        Figure::new(format!("queue-{count}"), titled("Queue towards the receiver"), TIME, "queue (KiB)")
            .line(Look::Main, "queue", run.queue_line()),
        Figure::new(format!("complete-{count}"), titled("Writes that are complete"), TIME, "writes").line(
            Look::Main,
            "complete",
            complete,
        ),
    ]
}
