//! A ULP that takes SENDs more slowly than they arrive.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::Result;
use fabric_model::Port;
use futures_util::future::try_join_all;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World, mean};
use tokio::time::MissedTickBehavior;
use transport_common::counters::Counter;
use transport_common::queues::Completion;

use super::course::{self, EVERY, LINK, Live, SEGMENT};
use super::rate::part;
use super::series::{self, DELAY, Points, TIME, millis};
use crate::options::Options;

const DURATION: Duration = Duration::from_secs(10);
/// The ULP takes this fraction of the arriving data.
const DIVISOR: u64 = 2;
/// Number of parallel SENDs: more than any window.
const PARALLEL: usize = 200;
/// Number of requests that a connection can hold for its ULP, and the number of levels in reports (F-10.2-3).
const HELD: f64 = 128.0;
const LEVELS: f64 = 32.0;
/// Swift's target level (D-78).
const TARGET_LEVEL: f64 = 15.0;
/// The largest number of posted receives that are not used.
const POSTED: u64 = 64;
/// How often the ULP posts receives.
const TURN: Duration = Duration::from_millis(2);
/// Number of rounds for one rate in the plot.
const GROUP: usize = 25;

/// Number of SENDs that the ULP may catch up after a wait.
const SAVED: f64 = 32.0;

/// A sample of the receiver.
struct Receiver {
    at: Duration,
    /// SENDs that the ULP has taken.
    taken: u64,
    /// Requests that wait for the ULP.
    held: u32,
}

/// The results of the receiver.
struct Course {
    receiver: Vec<Receiver>,
    /// Requests that did not fit, until half of the time and until the end.
    refused: [u64; 2],
}

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let rate = part(options.rate(), DIVISOR)?;
    let fabric = format!("seed={},rate={},{LINK}", options.seed, options.rate());
    let mut live = Live::star(options, 2, &fabric, Port(1))?;
    live.add_ordered_flow(0, 1)?;
    let possible = course::efficiency() * rate.bits_per_second() as f64;
    let (begin, done) = (Instant::now(), Cell::new(false));
    let senders = async {
        let flow = &live.flows[0];
        let sender = async || -> Result<()> {
            while begin.elapsed() < DURATION {
                flow.near.send(&live.regions[0], 0, SEGMENT, None).await?;
            }
            Ok(())
        };
        try_join_all((0..PARALLEL).map(|_| sender())).await?;
        done.set(true);
        Ok(())
    };
    let receiver = ulp(&live, possible / (SEGMENT * 8) as f64, begin, &done);
    let both = async { tokio::try_join!(senders, receiver) };
    let (samples, ((), course)) = live.observe(begin, EVERY, both)?;

    let in_steady = |at: Duration| (DURATION / 2..=DURATION).contains(&at);
    let steady = series::between(&samples, DURATION / 2, DURATION);
    let received: Vec<&Receiver> = course.receiver.iter().filter(|sample| in_steady(sample.at)).collect();
    let goodput = received.first().zip(received.last()).map(|(first, last)| {
        ((last.taken - first.taken) * SEGMENT * 8) as f64 / (last.at - first.at).as_secs_f64()
    });
    let level = |sample: &Receiver| f64::from(sample.held) * LEVELS / HELD;
    let most = course.receiver.iter().map(level).reduce(f64::max);
    let case = Case::new("steady state")
        .with("goodput", goodput.map(|goodput| goodput / 1e6), "Mb/s")
        .with("ULP utilisation", goodput.map(|goodput| goodput / possible * 100.0), "%")
        .with("receive buffer", mean(received.iter().map(|sample| level(sample))), "levels of 32")
        .with("receive buffer at most", most, "levels of 32")
        .with("overflows at first", course.refused[0] as f64, "packets")
        .with("overflows", (course.refused[1] - course.refused[0]) as f64, "packets")
        .with("ncwnd", series::mean_of(steady, 0..1, |flow| Some(flow.ncwnd)), "packets")
        .with("fcwnd", series::mean_of(steady, 0..1, |flow| Some(flow.fcwnd)), "packets")
        .with("longest pause", series::longest_pause(&samples), "ms")
        .with("lost by the kernel", live.lost_by_the_kernel(), "frames");
    let verdicts = vec![
        Verdict::of(&case, "ULP utilisation", Bound::AtLeast(95.0)),
        Verdict::of(&case, "overflows", Bound::AtMost(0.0)),
        Verdict::of(&case, "lost by the kernel", Bound::AtMost(0.0)),
    ];
    let levels: Points = course.receiver.iter().map(|sample| [millis(sample.at), level(sample)]).collect();
    let figures = vec![
        Figure::new("windows", "Windows", TIME, "window (packets)")
            .line(Look::Main, "ncwnd", series::of_flow(&samples, 0, |flow| flow.ncwnd))
            .line(Look::Main, "fcwnd", series::of_flow(&samples, 0, |flow| flow.fcwnd)),
        Figure::new("buffer", "Receive buffer", TIME, "level (of 32)")
            .line(Look::Main, "level", levels)
            .level("target level", TARGET_LEVEL),
        Figure::new("goodput", "Goodput", TIME, "goodput (Mb/s)")
            .line(Look::Main, "goodput", taken(&course.receiver))
            .level("what the ULP takes", possible / 1e6),
        Figure::new("delay", "Fabric delay", TIME, DELAY).line(
            Look::Main,
            "fabric delay",
            series::of_flow(&samples, 0, series::delay),
        ),
    ];
    Ok(Experiment {
        name: "nic-congestion-live",
        title: "A slow ULP, on real packets",
        description: format!(
            "SENDs go over a link of {} to a host whose application posts receives for {rate}. A SEND without a \
             receive waits in receive cells, up to {HELD} requests of the connection. Acknowledgements report their \
             number as a level. The second half of {DURATION:?} counts as steady state.",
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

/// Posts receives for a number of SENDs per second until all senders are done, and samples the receiver.
async fn ulp(live: &Live, per_second: f64, begin: Instant, done: &Cell<bool>) -> Result<Course> {
    let (node, region, far) = (&live.nodes[1], &live.regions[1], &live.flows[0].far);
    let refused = || Ok::<u64, anyhow::Error>(node.stats()?.counters[Counter::DropResources.name()]);
    let (mut receiver, mut at_half) = (vec![], None);
    let (mut posted, mut taken, mut credit) = (0u64, 0u64, 0.0);
    let mut before = Instant::now();
    let mut ticks = tokio::time::interval(TURN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut completions = [Completion::default(); 64];
    while !done.get() {
        ticks.tick().await;
        loop {
            let count = far.poll(&mut completions);
            taken += count as u64;
            if count < completions.len() {
                break;
            }
        }
        let now = Instant::now();
        credit = (credit + (now - before).as_secs_f64() * per_second).min(SAVED);
        before = now;
        while credit >= 1.0 && posted - taken < POSTED {
            far.post_receive(region, 0, SEGMENT as u32, posted)?;
            posted += 1;
            credit -= 1.0;
        }
        let window = far.info()?.data_rx;
        receiver.push(Receiver {
            at: begin.elapsed(),
            taken,
            held: window.received - window.acknowledged.min(window.received),
        });
        if at_half.is_none() && begin.elapsed() >= DURATION / 2 {
            at_half = Some(refused()?);
        }
    }
    let all = refused()?;
    Ok(Course { receiver, refused: [at_half.unwrap_or(all), all] })
}

/// Data that the ULP took, Mb/s.
fn taken(receiver: &[Receiver]) -> Points {
    let grouped: Vec<&Receiver> = receiver.iter().step_by(GROUP).collect();
    let rate = |pair: &[&Receiver]| {
        let bits = ((pair[1].taken - pair[0].taken) * SEGMENT * 8) as f64;
        [millis(pair[1].at), bits / (pair[1].at - pair[0].at).as_secs_f64() / 1e6]
    };
    grouped.windows(2).map(rate).collect()
}
