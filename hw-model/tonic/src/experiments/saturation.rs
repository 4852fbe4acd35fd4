//! The number of segments per second.

use clocked::Cycle;
use serde::{Deserialize, Serialize};

use crate::protocols::{NewReno, RoceDcqcn, Tcp};
use crate::{Answer, FlowId, Frequency, Parameters, Path, Receiver, Rules, Segment, Testbed, Tonic};

use super::claim::{Claim, Progress};

/// A run of flows that always have something to send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SaturationRow {
    /// The rule about N.
    pub rules: Rules,
    /// N.
    pub outstanding: u8,
    /// The number of flows.
    pub flows: u16,
    /// The number of cycles counted, from the first transmission on.
    pub cycles: u64,
    /// The number of segments transmitted in these cycles.
    pub segments: u64,
    /// The segments of the flow that sent the fewest.
    pub fewest: u64,
    /// The segments of the flow that sent the most.
    pub most: u64,
}

/// A run of one DCQCN flow without congestion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimitedRow {
    /// The rate of the rate limiter, in bits per second.
    pub bits_per_second: u64,
    /// The bytes of a segment.
    pub segment_bytes: u32,
    /// The number of cycles counted, from the first transmission on.
    pub cycles: u64,
    /// The number of segments transmitted in these cycles.
    pub segments: u64,
    /// The segments per second at the clock's frequency.
    pub segments_per_second: f64,
}

/// All runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    /// The cycles per second.
    pub hertz: u64,
    /// The runs limited by the window.
    pub rows: Vec<SaturationRow>,
    /// The runs limited by a rate.
    pub rate_limited: Vec<RateLimitedRow>,
}

const CLOCK: Frequency = Frequency { hertz: 100_000_000 };
/// The cycles from a flow's start to its first segment at the pins.
const FIRST: u64 = 12;

fn saturated(rules: Rules, outstanding: u8, flows: u16, cycles: u64) -> SaturationRow {
    let window = 120;
    let tcp = Tcp { initial_window: window, max_window: window, ..Tcp::new(CLOCK) };
    let parameters = Parameters { flows: 2048, outstanding, rules, ..Parameters::default() };
    let tonic = Tonic::<_, 2>::new(NewReno(tcp), &parameters).expect("hardware that exists");
    let receiver = Receiver::new(Answer::Cumulative, flows.into(), Segment(0), 1);
    let mut testbed = Testbed::new(tonic, receiver, Path::default());
    for flow in 0..flows {
        testbed.tonic_mut().open(Cycle::ZERO, FlowId(flow), Segment(0), None).expect("a new flow");
    }
    let mut count = vec![0u64; flows.into()];
    while let Some((_, output)) = testbed.step(Cycle(FIRST + cycles)) {
        if let Some(address) = output.transmit {
            count[address.flow.index()] += 1;
        }
    }
    SaturationRow {
        rules,
        outstanding,
        flows,
        cycles,
        segments: count.iter().sum(),
        fewest: count.iter().min().copied().unwrap_or(0),
        most: count.iter().max().copied().unwrap_or(0),
    }
}

fn rate_limited(bits_per_second: u64, cycles: u64) -> RateLimitedRow {
    let segment_bytes = 128;
    let parameters = Parameters {
        outstanding: 32,
        segment_bytes,
        burst_bytes: 16 * segment_bytes,
        ..Parameters::default()
    };
    let protocol = RoceDcqcn::new(CLOCK, bits_per_second, segment_bytes);
    let tonic = Tonic::<_, 2>::new(protocol, &parameters).expect("hardware that exists");
    let receiver = Receiver::new(Answer::GoBackN, 1, Segment(0), 1);
    let mut testbed = Testbed::new(tonic, receiver, Path::default());
    testbed.tonic_mut().open(Cycle::ZERO, FlowId(0), Segment(0), None).expect("a new flow");
    testbed.run(Cycle(FIRST + cycles), |_| false);
    RateLimitedRow {
        bits_per_second,
        segment_bytes,
        cycles,
        segments: testbed.transmitted(),
        segments_per_second: testbed.transmitted() as f64 * CLOCK.hertz as f64 / cycles as f64,
    }
}

pub(super) fn run(progress: Progress<'_>) -> (Vec<Claim>, Saturation) {
    let paper = [(16, 1), (18, 1), (32, 1), (16, 2), (16, 4), (16, 1024), (16, 2048)];
    let published = [(16, 1), (16, 2), (32, 1)];
    let mut runs: Vec<_> = paper.iter().map(|(n, flows)| (Rules::Paper, *n, *flows)).collect();
    runs.extend(published.iter().map(|(n, flows)| (Rules::Published, *n, *flows)));
    let steps = runs.len() + 2;
    let mut rows = Vec::new();
    for (rules, n, flows) in runs {
        progress(rows.len(), steps);
        rows.push(saturated(rules, n, flows, 210_000));
    }
    progress(steps - 2, steps);
    // At the line rate, and with the rate limiter at one segment per cycle.
    let rate_limited =
        vec![rate_limited(100_000_000_000, 2_000_000), rate_limited(102_400_000_000, 1_000_000)];
    progress(steps, steps);

    let row = |rules, n, flows| {
        rows.iter().find(|row| (row.rules, row.outstanding, row.flows) == (rules, n, flows))
    };
    let every_cycle = |rules, n, flows| row(rules, n, flows).is_some_and(|row| row.segments == row.cycles);
    let line = &rate_limited[0];
    let ideal = line.cycles as f64 * 125.0 / f64::from(line.segment_bytes);
    let claims = vec![
        Claim::new(
            "with N = 32 one flow sends one segment per cycle, under either rule",
            every_cycle(Rules::Paper, 32, 1) && every_cycle(Rules::Published, 32, 1),
        ),
        Claim::new(
            "with N = 16 one flow sends 16 segments every 20 cycles by the paper's rule, 11 every 21 by the \
             hardware's",
            row(Rules::Paper, 16, 1).is_some_and(|row| row.segments == row.cycles / 20 * 16)
                && row(Rules::Published, 16, 1).is_some_and(|row| row.segments == row.cycles / 21 * 11),
        ),
        Claim::new(
            "1024 and 2048 flows share one segment per cycle evenly",
            [1024, 2048].into_iter().all(|flows| {
                every_cycle(Rules::Paper, 16, flows)
                    && row(Rules::Paper, 16, flows).is_some_and(|row| row.most - row.fewest <= 2)
            }),
        ),
        Claim::new(
            "a DCQCN flow of 128-byte segments at 100 Gb/s sends 97.66 million per second: all that the rate \
             allows (97.65625 million), within one segment",
            line.segments as f64 + 1.0 >= ideal && (line.segments_per_second / 1e4).round() >= 9_766.0,
        ),
        Claim::new(
            "Tonic can sustain more: one segment per cycle, within one burst at the start",
            rate_limited[1].segments + 16 >= rate_limited[1].cycles,
        ),
    ];
    (claims, Saturation { hertz: CLOCK.hertz, rows, rate_limited })
}
