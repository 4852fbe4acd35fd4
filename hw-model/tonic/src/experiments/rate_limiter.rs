//! How precise a rate of integers is (section 4, appendix B).

use clocked::Cycle;
use serde::{Deserialize, Serialize};

use crate::protocols::Irn;
use crate::{Answer, FlowId, Frequency, Parameters, Path, RATE_CYCLES, Receiver, Segment, Testbed, Tonic};

use super::claim::{Claim, Progress};

/// One flow at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateRow {
    /// The rate asked for.
    pub bits_per_second: u64,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Segments sent.
    pub segments: u64,
    /// From the first to the last.
    pub cycles: u64,
    /// The rate from the first to the last.
    pub achieved_bits_per_second: f64,
    /// Cycles between two segments, the least but for the first gap.
    pub shortest_gap: u64,
    /// The most.
    pub longest_gap: u64,
    /// The most bytes the flow was ahead of its rate when a segment left.
    pub early_bytes: f64,
    /// The most bytes it was behind.
    pub late_bytes: f64,
    /// A segment and what the rate gives in the finest quantum that represents it.
    pub bound_bytes: f64,
}

/// Rates from 1.56 Mb/s to 100 Gb/s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimiter {
    /// The quanta of the default parameters, cycles.
    pub quanta: Vec<u32>,
    /// By rate, with these quanta.
    pub rates: Vec<RateRow>,
    /// 20 Gb/s with the single quantum of appendix B.
    pub single_precision: RateRow,
}

const CLOCK: Frequency = Frequency { hertz: 100_000_000 };

/// Sends `segments` segments at a rate that does not change.
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
    // Doubling from the least rate, the most, and some that no quantum represents exactly.
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
            "from 1.56 Mb/s to 100 Gb/s a flow is less than a segment and a quantum off its rate",
            rows.iter().all(|row| row.early_bytes < row.bound_bytes && row.late_bytes < row.bound_bytes),
        ),
        Claim::new(
            "20 Gb/s with 1500 bytes are a segment every 60 cycles (the paper's appendix B says 8: an erratum)",
            twenty.is_some_and(|row| (row.shortest_gap, row.longest_gap) == (60, 60)),
        ),
        Claim::new(
            "with a single precision of a thousand cycles they wait a thousand",
            single_precision.shortest_gap >= 1_000,
        ),
    ];
    let results = RateLimiter { quanta: parameters.quanta, rates: rows, single_precision };
    (claims, results)
}
