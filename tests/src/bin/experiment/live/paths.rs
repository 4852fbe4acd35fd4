//! One flow over paths of many round trip times, with profile `auto`, beside the kernel's TCP over the same path.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fabric_model::{Egress, Port, Rate, Span, Topology};
use lab_report::{Bound, Case, Experiment, Verdict, World};
use tiercel::Tuning;
use tiercel::congestion::{CongestionControl, CongestionParameters};
use tiercel_tests::checks::wait_until;
use transport_common::connection::DATA_WINDOW;

use super::course::{self, Live, SEGMENT};
use super::series;
use super::tcp::Tcp;
use crate::options::Options;

/// A path without load.
struct Path {
    name: &'static str,
    /// Propagation one way.
    delay: Span,
    /// Bits per second.
    rate: u64,
    /// Largest addition to the delay of a frame, each way.
    jitter: Span,
}

const fn path(name: &'static str, delay: Span, rate: u64, jitter: Span) -> Path {
    Path { name, delay, rate, jitter }
}

const MEGA: u64 = 1_000_000;
const NONE: Span = Span::ZERO;

/// Rates that a fabric in user space carries on two CPUs.
const PATHS: [Path; 8] = [
    path("200 us, 150 Mb/s", Span::from_micros(100), 150 * MEGA, NONE),
    path("1 ms, 10 Mb/s", Span::from_micros(500), 10 * MEGA, NONE),
    path("1 ms, 150 Mb/s", Span::from_micros(500), 150 * MEGA, NONE),
    path("1 ms, 100 Mb/s, jitter 1 ms", Span::from_micros(500), 100 * MEGA, Span::from_millis(1)),
    path("10 ms, 100 Mb/s", Span::from_millis(5), 100 * MEGA, NONE),
    path("10 ms, 100 Mb/s, jitter 5 ms", Span::from_millis(5), 100 * MEGA, Span::from_millis(5)),
    path("100 ms, 10 Mb/s", Span::from_millis(50), 10 * MEGA, NONE),
    path("100 ms, 100 Mb/s", Span::from_millis(50), 100 * MEGA, NONE),
];

/// The kernel's algorithms.
const TCP: [(&CStr, &str); 2] = [(c"cubic", "TCP CUBIC"), (c"bbr", "TCP BBR")];
/// Each of the three flows over a path sends for so long, one after the other. The second half counts.
const DURATION: Duration = Duration::from_secs(8);
const EVERY: Duration = Duration::from_millis(20);
/// The link towards the receiver.
const BOTTLENECK: Egress = Egress::Host(Port(1));

pub(super) fn run(options: &Options) -> Result<Experiment> {
    let mut cases = vec![];
    let mut verdicts = vec![];
    for path in &PATHS {
        eprintln!("{}: {} flows of {DURATION:?}", path.name, TCP.len() + 1);
        let case = compare(path, options).with_context(|| format!("the path {}", path.name))?;
        verdicts.push(Verdict::of(&case, "auto of what it can", Bound::AtLeast(100.0)));
        if case.value("queue drops") == Some(0.0) {
            verdicts.push(Verdict::of(&case, "sent again", Bound::AtMost(0.5)));
        }
        verdicts.push(Verdict::of(&case, "lost by the kernel", Bound::AtMost(0.0)));
        cases.push(case);
    }
    Ok(Experiment {
        name: "paths-live",
        title: "Paths beside the kernel's TCP, on real packets",
        description: format!(
            "One flow at a time goes between two hosts in network namespaces: TCP with CUBIC, TCP with BBR, then \
             Tiercel with profile auto. Each writes for {DURATION:?}; the second half counts. Auto must get 0.8 of \
             the better TCP, or 0.9 of what {DATA_WINDOW} packets a round trip carry if that is less."
        ),
        world: World::Live,
        seed: options.seed,
        congestion_control: Some(options.algorithm()),
        details: serde_json::Value::Null,
        settings: course::settings(options)?,
        cases,
        verdicts,
        figures: vec![],
    })
}

fn compare(path: &Path, options: &Options) -> Result<Case> {
    let rate = Rate::from_bits_per_second(path.rate).context("not zero")?;
    // A queue of one round trip, but no less than a port of a switch has.
    let round_trip = 2 * (path.delay.0 + path.jitter.0);
    let queue = (u128::from(path.rate) * u128::from(round_trip) / 8_000_000_000_000).max(256 << 10);
    let fabric = format!(
        "seed={},rate={rate},delay={},jitter={},queue={queue}B",
        options.seed, path.delay, path.jitter
    );
    let auto = CongestionControl { parameters: CongestionParameters::AUTO, ..CongestionControl::SWIFT };
    let mut live = Live::up(options, auto, Topology::star(2), &fabric, vec![BOTTLENECK])?;
    let [near, far] = live.hosts();
    let mut tcp = vec![];
    for (algorithm, name) in TCP {
        empty(&live);
        let flow = Tcp::connect(near, far, algorithm)?;
        tcp.push((name, flow.goodput(DURATION)?));
    }
    empty(&live);
    let round_trip = Tcp::connect(near, far, TCP[0].0)?.round_trip()?;

    live.tune(Tuning { congestion: auto, ..Tuning::DEFAULT }.for_round_trip(round_trip));
    live.add_flow(0, 1)?;
    let begin = Instant::now();
    let (samples, ()) = live.observe(begin, EVERY, live.write_while(0, || begin.elapsed() < DURATION))?;
    let half = series::between(&samples, DURATION / 2, DURATION);
    let goodput = series::mean_goodput(half, 0).context("too few samples")?;
    let info = live.flows[0].near.info()?;
    let packets = samples.last().map_or(0, |sample| sample.flows[0].acknowledged).max(1);
    let sent_again = live.retransmissions()? as f64 / f64::from(packets) * 100.0;

    let best = tcp.iter().map(|(_, goodput)| *goodput).fold(0.0, f64::max);
    let window = f64::from(DATA_WINDOW) * SEGMENT as f64 * 8.0 / unloaded(path, rate);
    let wanted = (0.8 * best).min(0.9 * window);
    let mut case = Case::new(path.name).with("round trip of the handshake", series::millis(round_trip), "ms");
    for (name, goodput) in tcp {
        case = case.with(name, goodput / 1e6, "Mb/s");
    }
    Ok(case
        .with("128 packets", window / 1e6, "Mb/s")
        .with("auto", goodput / 1e6, "Mb/s")
        .with("auto of what it can", goodput / wanted * 100.0, "%")
        .with("fabric delay", info.delays.fabric.smoothed_ns as f64 / 1e6, "ms")
        .with("sent again", sent_again, "%")
        .with("queue drops", series::queue_drops(&samples), "packets")
        .with("longest pause", series::longest_pause(&samples), "ms")
        .with("lost by the kernel", live.lost_by_the_kernel(), "frames"))
}

/// Waits until nothing of the flow before is in the fabric's queue.
fn empty(live: &Live) {
    wait_until("the queue is empty", || live.fabric().queued_bytes(BOTTLENECK) == 0);
}

/// Returns the round trip time of a full frame without a queue, in seconds. It is stored and sent on once. Jitter
/// keeps the order of frames, so the frames of a dense flow wait for the latest one before them.
fn unloaded(path: &Path, rate: Rate) -> f64 {
    let propagation = 2 * (path.delay.0 + path.jitter.0);
    propagation as f64 / 1e12 + course::wire_time(rate, SEGMENT).as_secs_f64()
}
