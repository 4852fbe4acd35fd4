//! One flow over paths of many round trip times and rates: profile `auto`, and beside it profile `datacenter`, or, on real
//! packets, the kernel's TCP.

use anyhow::{Context, Result};
use fabric_model::{Egress, Port, Rate, Span, Time, Topology};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict, World as Kind};
use tiercel::congestion::{CongestionControl, CongestionParameters};
use transport_common::connection::DATA_WINDOW;

use crate::kind::{Units, pick};
use crate::options::Options;
use crate::run::{Points, Run, mean_window_and_delay};
use crate::setup::{self, Results, SEGMENT};
use crate::world::{self, Description, End, Flow, Sender, World};

/// A path without load.
pub(crate) struct Path {
    name: &'static str,
    /// Propagation both ways.
    round_trip: Span,
    rate: u64,
    /// Largest addition to the delay of a frame, each way.
    jitter: Span,
}

const fn path(name: &'static str, round_trip: Span, rate: u64, jitter: Span) -> Path {
    Path { name, round_trip, rate, jitter }
}

const MEGA: u64 = 1_000_000;
const GIGA: u64 = 1_000 * MEGA;
const NONE: Span = Span::ZERO;

/// From one rack to another continent, and hosts that add jitter.
const SIMULATED: [Path; 16] = [
    path("5 us, 100 Gb/s", Span::from_micros(5), 100 * GIGA, NONE),
    path("5 us, 10 Gb/s", Span::from_micros(5), 10 * GIGA, NONE),
    path("5 us, 10 Mb/s", Span::from_micros(5), 10 * MEGA, NONE),
    path("50 us, 100 Gb/s", Span::from_micros(50), 100 * GIGA, NONE),
    path("50 us, 1 Gb/s", Span::from_micros(50), GIGA, NONE),
    path("50 us, 10 Gb/s, jitter 200 us", Span::from_micros(50), 10 * GIGA, Span::from_micros(200)),
    path("300 us, 10 Gb/s", Span::from_micros(300), 10 * GIGA, NONE),
    path("1 ms, 1 Gb/s", Span::from_millis(1), GIGA, NONE),
    path("1 ms, 1 Gb/s, jitter 1 ms", Span::from_millis(1), GIGA, Span::from_millis(1)),
    path("1 ms, 10 Mb/s", Span::from_millis(1), 10 * MEGA, NONE),
    path("10 ms, 100 Mb/s", Span::from_millis(10), 100 * MEGA, NONE),
    path("10 ms, 1 Gb/s", Span::from_millis(10), GIGA, NONE),
    path("10 ms, 100 Mb/s, jitter 5 ms", Span::from_millis(10), 100 * MEGA, Span::from_millis(5)),
    path("100 ms, 10 Mb/s", Span::from_millis(100), 10 * MEGA, NONE),
    path("100 ms, 1 Gb/s", Span::from_millis(100), GIGA, NONE),
    path("100 ms, 100 Gb/s", Span::from_millis(100), 100 * GIGA, NONE),
];

/// Rates that a fabric in user space carries on two CPUs.
const LIVE: [Path; 8] = [
    path("200 us, 150 Mb/s", Span::from_micros(200), 150 * MEGA, NONE),
    path("1 ms, 10 Mb/s", Span::from_millis(1), 10 * MEGA, NONE),
    path("1 ms, 150 Mb/s", Span::from_millis(1), 150 * MEGA, NONE),
    path("1 ms, 100 Mb/s, jitter 1 ms", Span::from_millis(1), 100 * MEGA, Span::from_millis(1)),
    path("10 ms, 100 Mb/s", Span::from_millis(10), 100 * MEGA, NONE),
    path("10 ms, 100 Mb/s, jitter 5 ms", Span::from_millis(10), 100 * MEGA, Span::from_millis(5)),
    path("100 ms, 10 Mb/s", Span::from_millis(100), 10 * MEGA, NONE),
    path("100 ms, 100 Mb/s", Span::from_millis(100), 100 * MEGA, NONE),
];

/// The round trips of a simulated run, at least, and the packets at most.
const ROUND_TRIPS: u64 = 400;
const PACKETS: u64 = 60_000;
/// Samples of a run.
const SAMPLES: u64 = 200;
/// A simulated run is so long at least: a window of the smallest delays ends after 1.1 s.
const SHORTEST: Span = Span::from_millis(20);
/// The length of a live run.
const DURATION: Span = Span::from_millis(8000);
/// Number of samples for one rate in the plot.
const GROUP: usize = 5;

const AUTO: CongestionParameters = CongestionParameters::AUTO;

/// Returns what is compared with profile auto: name, sender and parameters.
fn others(kind: Kind) -> &'static [(&'static str, Sender, CongestionParameters)] {
    pick(
        kind,
        &[("datacenter", Sender::Falcon, CongestionParameters::DEFAULT)],
        &[("TCP CUBIC", Sender::Tcp(c"cubic"), AUTO), ("TCP BBR", Sender::Tcp(c"bbr"), AUTO)],
    )
}

/// Returns the paths of a world.
pub(crate) fn paths(kind: Kind) -> &'static [Path] {
    pick(kind, &SIMULATED, &LIVE)
}

impl Path {
    fn rate(&self) -> Rate {
        Rate::from_bits_per_second(self.rate).expect("not zero")
    }

    /// Returns the round trip time of a full frame without a queue. The frame is stored and sent on once. Jitter keeps
    /// the order of frames, so the frames of a dense flow wait for the latest one before them: they see the largest
    /// jitter, each way.
    fn unloaded(&self) -> Span {
        let frame = SEGMENT + setup::OVERHEAD;
        let host = self.rate().time_of(frame).0 / 2;
        Span(self.round_trip.0 + self.rate().time_of(frame).0 + host + 2 * self.jitter.0)
    }

    /// Returns what the line carries, and what the window of 128 packets lets through at this round trip time; user
    /// data, bits per second.
    fn ceilings(&self) -> [f64; 2] {
        let window = f64::from(DATA_WINDOW) * SEGMENT as f64 * 8.0;
        let seconds = self.unloaded().0 as f64 / 1e12;
        [self.rate as f64 * setup::efficiency(), window / seconds]
    }

    fn duration(&self, kind: Kind) -> Span {
        let [line, window] = self.ceilings();
        let packets_per_second = line.min(window) / (SEGMENT as f64 * 8.0);
        let longest = (PACKETS as f64 / packets_per_second * 1e12) as u64;
        let simulated = Span((self.unloaded().0 * ROUND_TRIPS).max(SHORTEST.0).min(longest));
        pick(kind, simulated, DURATION)
    }

    /// Returns the user data that the path allows, bits per second, and the percentage of it that is promised.
    fn promised(&self) -> (f64, f64) {
        let [line, window] = self.ceilings();
        if window < line { (window, 90.0) } else { (line, 80.0) }
    }

    fn describe(
        &self,
        options: &Options,
        kind: Kind,
        sender: Sender,
        parameters: CongestionParameters,
    ) -> Result<Description> {
        // A simulated host has a cable of its own.
        let half = self.round_trip.0 / 2;
        let each_way = Span(half - pick(kind, world::CABLE.0, 0).min(half));
        // A buffer of one round trip, but no less than a switch has for a port.
        let buffer = (self.rate as u128 * u128::from(self.round_trip.0) / 8_000_000_000_000).max(256 << 10);
        let fabric = format!(
            "seed={},rate={},delay={each_way},jitter={},queue={buffer}B{}",
            options.seed,
            self.rate(),
            self.jitter,
            pick(kind, ",hops=1", "")
        );
        let mut described = setup::hosts(Topology::star(2), &fabric, setup::times(self.rate(), 2)?)?;
        // What the connection manager would measure: TCP's handshake has small frames.
        let measured = Span(self.round_trip.0 + self.jitter.0);
        let congestion = CongestionControl { parameters, ..CongestionControl::SWIFT };
        let tuning = setup::chosen(options, congestion, measured)?;
        described.sender = sender;
        described.flows = vec![Flow::endless([0, 1], Time::ZERO, tuning)];
        described.watch = vec![Egress::Host(Port(1))];
        described.sample_every = Span(self.duration(kind).0 / SAMPLES);
        described.end = End::At(Time::ZERO + self.duration(kind));
        Ok(described)
    }
}

/// What one run came to.
struct Outcome {
    /// User data in the second half, bits per second.
    goodput: f64,
    /// Retransmissions per hundred packets.
    again: f64,
    /// Mean fabric delay in the second half, microseconds.
    delay: Option<f64>,
    drops: u64,
    points: Points,
    run: Run,
}

fn outcome(
    path: &Path,
    options: &Options,
    world: &mut dyn World,
    (name, sender, parameters): (&str, Sender, CongestionParameters),
) -> Result<Outcome> {
    let kind = world.kind();
    let described = path.describe(options, kind, sender, parameters)?;
    let run = world.run(&format!("{}: {name}", path.name), described)?;
    let duration = path.duration(kind);
    let (half, end) = (Time::ZERO + Span(duration.0 / 2), Time::ZERO + duration);
    let last = run.record.flows[0].last().context("a run has samples")?;
    let packets = last.received as f64 / SEGMENT as f64;
    // One unit of goodput, bits per second.
    let unit = 1e9 / Units::of(kind).rate(1.0);
    let points = run.goodput_line(0, GROUP).into_iter();
    let dropped =
        |mark: usize| run.marks[mark].fabric.towards.iter().map(|link| link.queue_dropped).sum::<u64>();
    Ok(Outcome {
        goodput: run.goodput(0, half, end).unwrap_or(0.0) * unit,
        again: run.retransmissions() / packets.max(1.0) * 100.0,
        delay: mean_window_and_delay(run.samples(0, half, end)).1,
        drops: dropped(1) - dropped(0),
        points: points
            .map(|[x, y]| [x / (duration.0 as f64 / 1e9) * 100.0, y / (path.rate as f64 / unit)])
            .collect(),
        run,
    })
}

/// Returns the numbers of a path, and what profile auto promises of them.
fn case(path: &Path, auto: &Outcome, others: &[Outcome], kind: Kind) -> (Case, Verdict) {
    let [line, window] = path.ceilings();
    let (of, bound) = path.promised();
    let case = Case::new(path.name);
    if kind == Kind::Live {
        let best = others.iter().map(|tcp| tcp.goodput).fold(0.0, f64::max);
        let can = (0.8 * best).min(0.9 * window);
        let case = case
            .with("TCP CUBIC", others[0].goodput / 1e6, "Mb/s")
            .with("TCP BBR", others[1].goodput / 1e6, "Mb/s")
            .with("128 packets", window / 1e6, "Mb/s")
            .with("auto", auto.goodput / 1e6, "Mb/s")
            .with("auto of what it can", auto.goodput / can * 100.0, "%")
            .with("fabric delay", auto.delay.map(|delay| delay / 1e3), "ms")
            .with("sent again", auto.again, "%")
            .with("queue drops", auto.drops as f64, "packets");
        let verdict = Verdict::of(&case, "auto of what it can", Bound::AtLeast(100.0));
        return (auto.run.with_machine(case), verdict);
    }
    let case = case
        .with("line", line / 1e6, "Mb/s")
        .with("128 packets", window / 1e6, "Mb/s")
        .with("auto", auto.goodput / 1e6, "Mb/s")
        .with("auto of the lesser", auto.goodput / of * 100.0, "%")
        .with("datacenter of the lesser", others[0].goodput / of * 100.0, "%")
        .with("fabric delay", auto.delay, "us")
        .with("sent again", auto.again, "%")
        .with("datacenter sent again", others[0].again, "%")
        .with("queue drops", auto.drops as f64, "");
    let verdict = Verdict::of(&case, "auto of the lesser", Bound::AtLeast(bound));
    (case, verdict)
}

pub(crate) fn run(options: &Options, world: &mut dyn World) -> Result<Experiment> {
    let kind = world.kind();
    let mut results = Results::default();
    let mut figure = Figure::new(
        "goodput",
        "Goodput over the rate of the line, profile auto",
        "part of the run (%)",
        "share",
    );
    for path in paths(kind) {
        let auto = outcome(path, options, world, ("auto", Sender::Falcon, AUTO))?;
        let others = others(kind).iter().map(|other| outcome(path, options, world, *other));
        let others: Vec<Outcome> = others.collect::<Result<_>>()?;
        let (case, verdict) = case(path, &auto, &others, kind);
        results.verdicts.push(verdict);
        if auto.drops == 0 {
            results.verdicts.push(Verdict::of(&case, "sent again", Bound::AtMost(0.5)));
        }
        results.cases.push(case);
        figure = figure.line(Look::Faint, "paths", auto.points);
    }
    results.figures.push(figure);
    let compared = pick(
        kind,
        "profile datacenter has the defaults of D-78",
        "the kernel's TCP runs over the same paths. Auto must get 0.8 of the better TCP, or 0.9 of what the window lets \
             through if that is less",
    );
    let description = format!(
        "One flow writes without end. No frame is lost but by a full queue. The second half of a run counts. The line \
             carries what headers leave of its rate, which is an upper bound of what any transport gets. The window of \
             {DATA_WINDOW} packets bounds long paths. Profile auto follows the path; {compared}."
    );
    let names = [
        ("paths", "Paths from a rack to another continent"),
        ("paths-live", "Paths beside the kernel's TCP, on real packets"),
    ];
    Ok(results.report(options, kind, names, description))
}
