//! A flow that pauses and resumes, and one that does not.

use anyhow::Result;
use datacentre::{DataCentre, FlowPlan, Message};
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};

use super::measure::{mark, since};
use super::progress::Progress;
use super::series::{self, TIME, millis};
use super::setup;
use crate::options::Options;

/// Messages of the flow that pauses, and the time between their beginnings.
const MESSAGES: u64 = 4;
const PERIOD: Span = Span::from_millis(10);
/// The time of a message if the flow had the bottleneck for itself.
const ALONE: Span = Span::from_millis(2);
/// The time after the beginning of a message in which its burst is measured.
const BURST: Span = Span::from_micros(200);

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let mut plan = setup::bottleneck(options, 2, 1, setup::times(options.rate(), 2)?)?;
    let bits = options.rate().bits_per_second() as f64 * ALONE.0 as f64 / 1e12;
    let bytes = (bits / 8.0 * setup::efficiency(options)) as u64;
    let messages = (0..MESSAGES).map(|n| Message { at: begin(n), bytes }).collect();
    plan.flows = vec![
        setup::endless(options, 0, 2, Time::ZERO),
        FlowPlan { tuning: options.tuning(), ..FlowPlan::new(1, 3, messages) },
    ];
    plan.sample_every = Span::from_micros(10);
    plan.watch = vec![setup::TRUNK];
    let mut data_centre = DataCentre::new(plan)?;
    let resumed = progress.run("idle", || {
        data_centre.run_until(begin(1));
        let resumed = mark(&data_centre, setup::TRUNK);
        data_centre.run_until(begin(MESSAGES));
        resumed
    });
    let carried = since(&data_centre, setup::TRUNK, &resumed, options.rate());
    let record = data_centre.record();
    let completions = data_centre.flow(1).completions();
    let equal = 2.0 * millis(Time::ZERO + ALONE);
    let mut cases = vec![];
    for (n, completion) in (0..).zip(completions) {
        let took = completion.map(|time| millis(time) - millis(begin(n)));
        let in_burst = |time: &Time| (begin(n)..begin(n) + BURST).contains(time);
        let queues = record.times.iter().zip(&record.queues[0]).filter(|(time, _)| in_burst(time));
        let burst = queues.map(|(_, bytes)| *bytes as f64 / 1024.0).reduce(f64::max);
        cases.push(
            Case::new(format!("message {}", n + 1))
                .with("took", took, "ms")
                .with("at an equal share", equal, "ms")
                .with("time / equal share", took.map(|took| took / equal), "")
                .with("queue at its beginning at most", burst, "KiB"),
        );
    }
    let after = Case::new("from the second message on")
        .with("utilisation", carried.utilisation * 100.0, "%")
        .with("queue drops", carried.loss.map(|loss| loss * 100.0), "%");
    let mut verdicts: Vec<Verdict> =
        cases[1..].iter().map(|case| Verdict::of(case, "time / equal share", Bound::AtMost(1.25))).collect();
    verdicts.push(Verdict::of(&after, "queue drops", Bound::AtMost(0.0)));
    verdicts.push(Verdict::of(&after, "utilisation", Bound::AtLeast(95.0)));
    cases.push(after);
    let names = ["without pause", "with pauses"];
    let both = |figure: Figure, points: &dyn Fn(usize) -> series::Points| {
        (0..2).fold(figure, |figure, flow| figure.line(Look::Main, names[flow], points(flow)))
    };
    let figures = vec![
        both(Figure::new("goodput", "Goodput", TIME, "goodput (Gb/s)"), &|flow| {
            series::goodput(record, flow, 10)
        }),
        both(Figure::new("fcwnd", "Fabric windows", TIME, "fcwnd (packets)"), &|flow| {
            series::fcwnd(record, flow)
        }),
        both(Figure::new("delay", "Fabric delays", TIME, "delay (us)"), &|flow| series::delay(record, flow)),
        Figure::new("queue", "Queue of the bottleneck", TIME, "queue (KiB)").line(
            Look::Main,
            "queue",
            series::kibibytes(record, &record.queues[0]),
        ),
    ];
    let description = format!(
        "Two flows share a bottleneck of {}. One always has data. The other begins a message every {PERIOD} and \
             is idle after it. Alone, a message would take {ALONE}.",
        options.rate()
    );
    Ok(Experiment {
        cases,
        verdicts,
        figures,
        ..setup::experiment(options, "idle", "Resumption after idleness", description)
    })
}

/// Returns when message `n` begins.
fn begin(n: u64) -> Time {
    Time(PERIOD.0 * n)
}
