//! The precision of a rate limiter with integers (section 4, appendix B).

use clocked::Cycle;
use serde::{Deserialize, Serialize};

use crate::protocols::Irn;
use crate::{Answer, FlowId, Frequency, Parameters, Path, RATE_CYCLES, Receiver, Segment, Testbed, Tonic};

use super::claim::{Claim, Progress};

/// A run of one flow at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateRow {
    /// The requested rate.
    pub bits_per_second: u64,
    /// The bytes of a segment.
    pub segment_bytes: u32,
    /// The number of segments sent.
    pub segments: u64,
    /// The cycles from the first to the last segment.
    pub cycles: u64,
    /// The rate from the first to the last segment.
    pub achieved_bits_per_second: f64,
    /// The fewest cycles between two segments, without the first gap.
    pub shortest_gap: u64,
    /// The most cycles between two segments, without the first gap.
    pub longest_gap: u64,
    /// The most bytes by which the flow was ahead of its rate when a segment left.
    pub early_bytes: f64,
    /// The most bytes by which the flow was behind its rate when a segment left.
    pub late_bytes: f64,
    /// The bound: one segment, and the bytes that the rate gives in the finest quantum that represents it.
    pub bound_bytes: f64,
}

/// The runs, with rates from 1.56 Mb/s to 100 Gb/s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimiter {
    /// The quanta of the default parameters, in cycles.
    pub quanta: Vec<u32>,
    /// The runs with these quanta, by rate.
    pub rates: Vec<RateRow>,
    /// 20 Gb/s with the single quantum of appendix B.
    pub single_precision: RateRow,
}

const CLOCK: Frequency = Frequency { hertz: 100_000_000 };

/// Sends `segments` segments at a constant rate.
pub(super) fn measure(bits_per_second: u64, parameters: &Parameters, segments: usize) -> RateRow {
    let protocol = Irn { bdp_cap: 128, ..Irn::new(CLOCK, bits_per_second) };
    let tonic = Tonic::<_, 2>::new(protocol, parameters).expect("hardware that exists");
    let receiver = Receiver::new(Answer::Irn, 1, Segment(0), 1);
    let mut testbed = Testbed::new(tonic, receiver, Path::default());
    testbed.tonic_mut().open(Cycle::ZERO, FlowId(0), Segment(0), None).expect("a new flow");
    let mut sent = Vec::with_capacity(segments);
    while sent.len() < segments {
        let Some((now, output)) = testbed.step(Cycle(u64::MAX)) else { break };
        sent.extend(output.transmit.map(|_| now.0));
    }
    let bytes_a_cycle = bits_per_second as f64 / (8 * CLOCK.hertz) as f64;
    let segment = f64::from(parameters.segment_bytes);
    let first = sent[0];
    let (mut early, mut late) = (0.0f64, 0.0f64);
    for (count, now) in sent.iter().enumerate() {
        let ahead = count as f64 * segment - (now - first) as f64 * bytes_a_cycle;
        early = early.max(ahead);
        late = late.max(-ahead);
    }
    let gaps: Vec<u64> = sent.windows(2).map(|pair| pair[1] - pair[0]).skip(1).collect();
    let rate = CLOCK.rate(bits_per_second);
    let represents = |quantum: &&u32| rate * u64::from(**quantum) >= RATE_CYCLES;
    let quantum = parameters.quanta.iter().find(represents).or(parameters.quanta.last()).copied();
    let cycles = sent.last().map_or(0, |last| last - first);
    let bytes = (sent.len() as f64 - 1.0) * segment;
    RateRow {
        bits_per_second,
        segment_bytes: parameters.segment_bytes,
        segments: sent.len() as u64,
        cycles,
        achieved_bits_per_second: bytes * (8 * CLOCK.hertz) as f64 / cycles as f64,
        shortest_gap: gaps.iter().min().copied().unwrap_or(0),
        longest_gap: gaps.iter().max().copied().unwrap_or(0),
        early_bytes: early,
        late_bytes: late,
        bound_bytes: segment + bytes_a_cycle * f64::from(quantum.unwrap_or(1)),
    }
}

pub(super) fn run(progress: Progress<'_>) -> (Vec<Claim>, RateLimiter) {
    // Rates that double from the lowest, the highest rate, and some that no quantum represents exactly.
    let mut rates: Vec<u64> = (0..16).map(|doubling| 1_562_500 << doubling).collect();
    rates.extend([3_333_333, 123_456_789, 800_000_001, 1_234_567_890, 7_777_777_777, 20_000_000_000]);
    rates.extend([33_333_333_333, 66_666_666_666, 99_999_999_999, 100_000_000_000]);
    rates.sort_unstable();
    let parameters = Parameters { burst_bytes: 16 * 1_500, ..Parameters::default() };
    let steps = rates.len() + 1;
    let mut rows = Vec::new();
    for rate in rates {
        progress(rows.len(), steps);
        rows.push(measure(rate, &parameters, 400));
    }
    let single = Parameters { quanta: vec![1_000], ..parameters.clone() };
    let single_precision = measure(20_000_000_000, &Parameters { burst_bytes: 1_500, ..single }, 100);
    progress(steps, steps);

    let twenty = rows.iter().find(|row| row.bits_per_second == 20_000_000_000);
    let claims = vec![
        Claim::new(
            "from 1.56 Mb/s to 100 Gb/s a flow deviates from its rate by less than a segment and a quantum",
            rows.iter().all(|row| row.early_bytes < row.bound_bytes && row.late_bytes < row.bound_bytes),
        ),
        Claim::new(
            "20 Gb/s with 1500 bytes are a segment every 60 cycles (the paper's appendix B says 8: an erratum)",
            twenty.is_some_and(|row| (row.shortest_gap, row.longest_gap) == (60, 60)),
        ),
        Claim::new(
            "with a single quantum of a thousand cycles these segments wait at least a thousand cycles",
            single_precision.shortest_gap >= 1_000,
        ),
    ];
    let results = RateLimiter { quanta: parameters.quanta, rates: rows, single_precision };
    (claims, results)
}
