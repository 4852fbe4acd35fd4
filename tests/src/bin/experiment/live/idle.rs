//! A flow that pauses and resumes, and one that does not.

use std::time::{Duration, Instant};

use anyhow::Result;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World};

use super::course::{self, EVERY, Live};
use super::series::{self, DELAY, TIME, millis};
use crate::options::Options;

/// Messages of the flow that pauses, and the time between their beginnings.
const MESSAGES: u32 = 4;
const PERIOD: Duration = Duration::from_millis(1600);
/// The time of a message if the flow had the bottleneck for itself.
const ALONE: Duration = Duration::from_millis(500);
/// The time after the beginning of a message in which its burst is measured.
const BURST: Duration = Duration::from_millis(20);
/// Number of samples for one rate in the plot.
const GROUP: usize = 10;

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let live = Live::bottleneck(options, "", 2)?;
    let rate = options.rate().bits_per_second() as f64;
    let bytes = (rate / 8.0 * ALONE.as_secs_f64() * course::efficiency()) as u64;
    let begin = Instant::now();
    let messages = async {
        let mut took = vec![];
        for n in 0..MESSAGES {
            tokio::time::sleep_until((begin + PERIOD * n).into()).await;
            took.push(live.write(1, bytes).await?);
        }
        Ok(took)
    };
    let endless = live.write_while(0, || begin.elapsed() < PERIOD * MESSAGES);
    let both = async { tokio::try_join!(endless, messages) };
    let (samples, ((), took)) = live.observe(begin, EVERY, both)?;
    let equal = 2.0 * millis(ALONE);
    let mut cases = vec![];
    for (n, took) in (0..).zip(took) {
        let burst = series::between(&samples, PERIOD * n, PERIOD * n + BURST).iter();
        let burst = burst.map(|sample| sample.links[0].queue as f64 / 1024.0).reduce(f64::max);
        let took = millis(took);
        cases.push(
            Case::new(format!("message {}", n + 1))
                .with("took", took, "ms")
                .with("at an equal share", equal, "ms")
                .with("time / equal share", took / equal, "")
                .with("queue at its beginning at most", burst, "KiB"),
        );
    }
    let resumed = series::between(&samples, PERIOD, PERIOD * MESSAGES);
    let after = Case::new("from the second message on")
        .with("utilisation", series::mean_link_rate(resumed, 0).map(|used| used / rate * 100.0), "%")
        .with("queue drops", series::queue_drops(resumed), "packets")
        .with("longest pause", series::longest_pause(&samples), "ms")
        .with("lost by the kernel", live.lost_by_the_kernel(), "frames");
    let mut verdicts: Vec<Verdict> =
        cases[1..].iter().map(|case| Verdict::of(case, "time / equal share", Bound::AtMost(1.25))).collect();
    verdicts.push(Verdict::of(&after, "utilisation", Bound::AtLeast(90.0)));
    verdicts.push(Verdict::of(&after, "queue drops", Bound::AtMost(0.0)));
    verdicts.push(Verdict::of(&after, "lost by the kernel", Bound::AtMost(0.0)));
    cases.push(after);
    let names = ["without pause", "with pauses"];
    let both = |figure: Figure, points: &dyn Fn(usize) -> series::Points| {
        (0..2).fold(figure, |figure, flow| figure.line(Look::Main, names[flow], points(flow)))
    };
    let figures = vec![
        both(Figure::new("goodput", "Goodput", TIME, "goodput (Mb/s)"), &|flow| {
            series::goodput(&samples, flow, GROUP)
        }),
        both(Figure::new("fcwnd", "Fabric windows", TIME, "fcwnd (packets)"), &|flow| {
            series::of_flow(&samples, flow, |sample| sample.fcwnd)
        }),
        both(Figure::new("delay", "Fabric delays", TIME, DELAY), &|flow| {
            series::of_flow(&samples, flow, series::delay)
        }),
        Figure::new("queue", "Queue of the bottleneck", TIME, "queue (KiB)").line(
            Look::Main,
            "queue",
            series::queue(&samples),
        ),
    ];
    Ok(Experiment {
        name: "idle-live",
        title: "Resumption after idleness, on real packets",
        description: format!(
            "Two connections share a bottleneck of {}. One always has data. The other begins a message every \
             {PERIOD:?} and is idle after it. Alone, a message would take {ALONE:?}.",
            options.rate()
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
