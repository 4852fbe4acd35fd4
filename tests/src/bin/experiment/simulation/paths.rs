//! One flow over paths of many round trip times and rates: profile `auto`, and profile `datacenter` beside it.

use anyhow::{Context, Result};
use datacentre::{DataCentre, FlowPlan, HostModel, Message, Plan, Tuning};
use fabric_model::{FabricConfig, Rate, Span, Time, Topology};
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};
use tiercel::congestion::{CongestionControl, CongestionParameters};
use transport_common::congestion::algorithm::AlgorithmId;
use transport_common::congestion::settings::{Placement, Settings};
use transport_common::connection::DATA_WINDOW;
use transport_common::units::{Picoseconds, Ticks};

use super::progress::Progress;
use super::{measure, setup};
use crate::options::Options;

/// A path without load.
pub(super) struct Path {
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
pub(super) const PATHS: [Path; 16] = [
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

/// The round trips of a run, at least, and the packets at most.
const ROUND_TRIPS: u64 = 400;
const PACKETS: u64 = 60_000;
/// Samples of a run.
const SAMPLES: u64 = 200;
/// A run is so long at least: a window of the smallest delays ends after 1.1 s.
const SHORTEST: Span = Span::from_millis(20);

impl Path {
    fn rate(&self) -> Rate {
        Rate::from_bits_per_second(self.rate).expect("not zero")
    }

    /// Returns the round trip time of a full frame without a queue. The frame is stored and sent on once. Jitter keeps
    /// the order of frames, so the frames of a dense flow wait for the latest one before them: they see the largest
    /// jitter, each way.
    fn unloaded(&self, segment: u32) -> Span {
        let frame = u64::from(segment) + setup::OVERHEAD;
        let host = self.rate().time_of(frame).0 / 2;
        Span(self.round_trip.0 + self.rate().time_of(frame).0 + host + 2 * self.jitter.0)
    }

    /// Returns what the line carries, and what the window of 128 packets lets through at this round trip time; user
    /// data, bits per second.
    fn ceilings(&self, options: &Options) -> [f64; 2] {
        let segment = options.tuning().segment;
        let window = f64::from(DATA_WINDOW) * f64::from(segment) * 8.0;
        let seconds = self.unloaded(segment).0 as f64 / 1e12;
        [self.rate as f64 * setup::efficiency(options), window / seconds]
    }

    fn duration(&self, options: &Options) -> Span {
        let [line, window] = self.ceilings(options);
        let packets_per_second = line.min(window) / (f64::from(options.tuning().segment) * 8.0);
        let longest = (PACKETS as f64 / packets_per_second * 1e12) as u64;
        Span((self.unloaded(options.tuning().segment).0 * ROUND_TRIPS).max(SHORTEST.0).min(longest))
    }

    fn plan(&self, options: &Options, parameters: CongestionParameters) -> Result<Plan> {
        let each_way = Span(self.round_trip.0 / 2 - setup::CABLE.0.min(self.round_trip.0 / 2));
        // A buffer of one round trip, but no less than a switch has for a port.
        let buffer = (self.rate as u128 * u128::from(self.round_trip.0) / 8_000_000_000_000).max(256 << 10);
        let fabric = format!(
            "seed={},rate={},delay={each_way},jitter={},queue={buffer}B,hops=1",
            options.seed,
            self.rate(),
            self.jitter
        );
        let fabric: FabricConfig = fabric.parse().context("the fabric of a path")?;
        let host = HostModel {
            line_rate: setup::times(self.rate(), 2)?,
            cable: setup::CABLE,
            ..HostModel::default()
        };
        let mut plan = Plan { host, ..Plan::new(Topology::star(2), fabric) };
        let message = Message { at: Time::ZERO, bytes: u64::MAX };
        let flow = FlowPlan::new(0, 1, vec![message]);
        plan.flows = vec![FlowPlan { tuning: self.tuning(options, parameters)?, ..flow }];
        plan.sample_every = Span(self.duration(options).0 / SAMPLES);
        Ok(plan)
    }

    /// Returns the tuning that the connection manager would give the connection: TCP's handshake has small frames.
    fn tuning(&self, options: &Options, parameters: CongestionParameters) -> Result<Tuning> {
        let measured = std::time::Duration::from_nanos((self.round_trip.0 + self.jitter.0) / 1000);
        let congestion = CongestionControl { parameters, ..CongestionControl::SWIFT };
        let chosen = tiercel::Tuning { congestion, ..tiercel::Tuning::DEFAULT };
        let tuning = chosen.for_round_trip(measured);
        let prepared = tuning.congestion.parameters.prepare()?;
        Ok(Tuning {
            rto: Ticks::from_nanos(tuning.rto.as_nanos() as u64),
            max_retransmit_attempts: tuning.max_retransmit_attempts,
            ack_request_percent: tuning.ack_request_percent,
            settings: Settings {
                placement: Placement::Kernel as u32,
                algorithm: AlgorithmId::Swift as u32,
                event_queue: 0,
                reserved: 0,
                prepared,
            },
            ..options.tuning()
        })
    }
}

/// What one run came to.
struct Outcome {
    /// User data in the second half, bits per second.
    goodput: f64,
    /// Copies per hundred packets.
    copies: f64,
    /// Mean fabric delay in the second half, microseconds.
    delay: Option<f64>,
    drops: u64,
    points: Vec<[f64; 2]>,
}

fn outcome(path: &Path, options: &Options, parameters: CongestionParameters) -> Result<Outcome> {
    let mut data_centre = DataCentre::new(path.plan(options, parameters)?)?;
    let duration = path.duration(options);
    let (half, end) = (Time::ZERO + Span(duration.0 / 2), Time::ZERO + duration);
    data_centre.run_until(end);
    let record = data_centre.record();
    let last = record.flows[0].last().context("a run has samples")?;
    let packets = last.received as f64 / f64::from(options.tuning().segment);
    let goodput = measure::goodput(record, 0, half, end).unwrap_or(0.0) * 1e9;
    let steady = measure::samples(record, 0, half, end);
    let unit = path.rate as f64 / 1e9;
    let points = super::series::goodput(record, 0, 5).into_iter();
    Ok(Outcome {
        goodput,
        copies: measure::retransmissions(record) / packets.max(1.0) * 100.0,
        delay: measure::mean_window_and_delay(steady).1,
        drops: data_centre.fabric_stats().towards.iter().map(|link| link.queue_dropped).sum(),
        points: points
            .map(|[x, y]| [x / (Picoseconds(duration.0).0 as f64 / 1e9) * 100.0, y / unit])
            .collect(),
    })
}

pub(super) fn run(options: &Options, progress: &Progress) -> Result<Experiment> {
    let mut cases = vec![];
    let mut verdicts = vec![];
    let mut figure = Figure::new(
        "goodput",
        "Goodput over the rate of the line, profile auto",
        "part of the run (%)",
        "share",
    );
    for path in &PATHS {
        let auto = progress
            .run(format!("{}: auto", path.name), || outcome(path, options, CongestionParameters::AUTO))?;
        let fixed = progress.run(format!("{}: datacenter", path.name), || {
            outcome(path, options, CongestionParameters::DEFAULT)
        })?;
        let [line, window] = path.ceilings(options);
        let (of, bound) = if window < line { (window, 90.0) } else { (line, 80.0) };
        let case = Case::new(path.name)
            .with("line", line / 1e6, "Mb/s")
            .with("128 packets", window / 1e6, "Mb/s")
            .with("auto", auto.goodput / 1e6, "Mb/s")
            .with("auto of the lesser", auto.goodput / of * 100.0, "%")
            .with("datacenter of the lesser", fixed.goodput / of * 100.0, "%")
            .with("fabric delay", auto.delay, "us")
            .with("sent again", auto.copies, "%")
            .with("datacenter sent again", fixed.copies, "%")
            .with("queue drops", auto.drops as f64, "");
        verdicts.push(Verdict::of(&case, "auto of the lesser", Bound::AtLeast(bound)));
        if auto.drops == 0 {
            verdicts.push(Verdict::of(&case, "sent again", Bound::AtMost(0.5)));
        }
        cases.push(case);
        figure = figure.line(Look::Faint, "paths", auto.points);
    }
    let description = format!(
        "One flow writes without end. No frame is lost but by a full queue. The second half of a run counts. The line \
             carries what headers leave of its rate, which is an upper bound of what any transport gets. The window of \
             {DATA_WINDOW} packets bounds long paths. Profile auto follows the path; profile datacenter has the \
             defaults of D-78."
    );
    Ok(Experiment {
        cases,
        verdicts,
        figures: vec![figure],
        ..setup::experiment(options, "paths", "Paths from a rack to another continent", description)
    })
}
