//! A flow that pauses and resumes, and one that does not.

use anyhow::Result;
use datacentre::Message;
use fabric_model::{Span, Time};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};

use crate::kind::{Units, pick};
use crate::options::Options;
use crate::run::{Points, TIME, millis};
use crate::setup::{self, Results, in_both};
use crate::world::{End, Flow, World};

/// Messages of the flow that pauses.
const MESSAGES: u64 = 4;
/// Number of samples for one rate in the plot.
const GROUP: usize = 10;

pub(crate) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let units = Units::of(kind);
    let rate = options.rate();
    // The time between the beginnings of messages, the time of a message if the flow had the bottleneck for itself, and
    // the time after the beginning of a message in which its burst is measured.
    let [period, alone, burst] = pick(
        kind,
        [Span::from_millis(10), Span::from_millis(2), Span::from_micros(200)],
        [Span::from_millis(1600), Span::from_millis(500), Span::from_millis(20)],
    );
    let begin = |n: u64| Time(period.0 * n);
    let bits = rate.bits_per_second() as f64 * alone.0 as f64 / 1e12;
    let bytes = (bits / 8.0 * setup::efficiency()) as u64;
    let messages = (0..MESSAGES).map(|n| Message { at: begin(n), bytes }).collect();

    let mut described = setup::bottleneck(options, kind, 2, (1, rate), setup::times(rate, 2)?)?;
    let endless = |flow| {
        Ok::<_, anyhow::Error>(Flow::endless(setup::ends(kind, 2, flow), Time::ZERO, options.tuning()?))
    };
    described.flows = vec![endless(0)?, Flow { messages, ..endless(1)? }];
    described.sample_every = pick(kind, Span::from_micros(10), Span::from_millis(5));
    described.marks = vec![begin(1)];
    described.end = End::At(begin(MESSAGES));
    let run = world.run("idle", described)?;

    let resumed = run.carried(1, 2, rate);
    let equal = 2.0 * millis(Time::ZERO + alone);
    let mut cases = vec![];
    for (n, completion) in (0..).zip(&run.completions[1]) {
        let took = completion.map(|time| millis(time) - millis(begin(n)));
        let in_burst = |time: &Time| (begin(n)..begin(n) + burst).contains(time);
        let queues = run.record.times.iter().zip(&run.record.queues[0]).filter(|(time, _)| in_burst(time));
        let most = queues.map(|(_, bytes)| *bytes as f64 / 1024.0).reduce(f64::max);
        cases.push(
            Case::new(format!("message {}", n + 1))
                .with("took", took, "ms")
                .with("at an equal share", equal, "ms")
                .with("time / equal share", took.map(|took| took / equal), "")
                .with("queue at its beginning at most", most, "KiB"),
        );
    }
    let after = Case::new("from the second message on").with("utilisation", resumed.utilisation, "%").with(
        "queue drops",
        resumed.loss,
        "%",
    );
    let after = run.with_machine(after);
    let mut verdicts: Vec<Verdict> =
        cases[1..].iter().map(|case| Verdict::of(case, "time / equal share", Bound::AtMost(1.25))).collect();
    verdicts.push(Verdict::of(&after, "queue drops", Bound::AtMost(0.0)));
    verdicts.push(Verdict::of(&after, "utilisation", Bound::AtLeast(pick(kind, 95.0, 90.0))));
    cases.push(after);
    let names = ["without pause", "with pauses"];
    let both = |figure: Figure, points: &dyn Fn(usize) -> Points| {
        (0..2).fold(figure, |figure, flow| figure.line(Look::Main, names[flow], points(flow)))
    };
    let figures = vec![
        both(Figure::new("goodput", "Goodput", TIME, &units.goodput_axis()), &|flow| {
            run.goodput_line(flow, GROUP)
        }),
        both(Figure::new("fcwnd", "Fabric windows", TIME, "fcwnd (packets)"), &|flow| run.fcwnd_line(flow)),
        both(Figure::new("delay", "Fabric delays", TIME, units.delay_axis), &|flow| run.delay_line(flow)),
        Figure::new("queue", "Queue of the bottleneck", TIME, "queue (KiB)").line(
            Look::Main,
            "queue",
            run.queue_line(),
        ),
    ];
    let description = format!(
        "Two flows share a bottleneck of {rate}. One always has data. The other begins a message every {period} and \
             is idle after it. Alone, a message would take {alone}."
    );
    let results = Results { cases, verdicts, figures };
    Ok(results.report(options, kind, in_both!("idle", "Resumption after idleness"), description))
}
