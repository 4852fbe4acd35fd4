//! The speed of the model, compared with an empty loop over the same state.

use core::hint::black_box;
use std::collections::VecDeque;
use std::time::Instant;

use clocked::{Clock, Cycle};
use serde::{Deserialize, Serialize};

use crate::protocols::{Ndp, NewReno, RoceDcqcn, Tcp};
use crate::{
    ControlPacket, FlowId, Frequency, Kind, Parameters, Protocol, Segment, SegmentAddress, Tonic, TonicInput,
};

use super::claim::{Claim, Progress};

/// A run with a thousand active flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedRow {
    /// The protocol.
    pub protocol: String,
    /// The number of active flows.
    pub flows: u16,
    /// The number of cycles computed. None of them was idle.
    pub cycles: u64,
    /// The number of segments transmitted in these cycles.
    pub segments: u64,
    /// The number of cycles computed per second of real time.
    pub cycles_per_second: f64,
}

/// All runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// The runs of the model.
    pub rows: Vec<SpeedRow>,
    /// The bytes of a flow's contexts with the first protocol.
    pub context_bytes: usize,
    /// The cycles per second of a loop that only changes one word in the contexts of as many flows as a cycle
    /// touches.
    pub empty_loop_cycles_per_second: f64,
}

const CLOCK: Frequency = Frequency { hertz: 100_000_000 };
const FLOWS: u16 = 1024;
/// The cycles from a segment at the output pins to its acknowledgment at the input pins.
const ROUND_TRIP: usize = 30;

/// A function that returns the packet that answers a segment.
type Answer = fn(SegmentAddress, Cycle) -> ControlPacket;

fn acknowledge(address: SegmentAddress, now: Cycle) -> ControlPacket {
    let cumulative = address.segment.plus(1);
    ControlPacket {
        flow: address.flow,
        kind: Kind::Ack,
        cumulative,
        selective: None,
        bitmap: [0; 2],
        data: now.0 as u32,
    }
}

/// Answers a segment with either an acknowledgment or a pull. A real receiver sends both.
fn pull(address: SegmentAddress, now: Cycle) -> ControlPacket {
    let packet = acknowledge(address, now);
    // Even segments are answered by an acknowledgment of all segments so far, odd segments by a pull for two.
    match address.segment.0 % 2 {
        0 => packet,
        _ => ControlPacket { kind: Kind::Pull, data: packet.cumulative.0, ..packet },
    }
}

fn measure<P: Protocol>(protocol: P, segment_bytes: u32, cycles: u64, answer: Answer) -> SpeedRow {
    let parameters =
        Parameters { flows: FLOWS, segment_bytes, burst_bytes: 8 * segment_bytes, ..Parameters::default() };
    let mut clock = Clock::new(Tonic::<P>::new(protocol, &parameters).expect("hardware that exists"));
    for flow in 0..FLOWS {
        clock.block_mut().open(Cycle::ZERO, FlowId(flow), Segment(0), None).expect("a new flow");
    }
    let mut packets: VecDeque<Option<ControlPacket>> = vec![None; ROUND_TRIP].into();
    let mut segments = 0;
    let start = Instant::now();
    while clock.now() < Cycle(cycles) {
        let packet = packets.pop_front().flatten();
        let now = clock.now();
        let output = clock.step(&TonicInput { packet, link_ready: true });
        segments += u64::from(output.transmit.is_some());
        packets.push_back(output.transmit.map(|address| answer(address, now)));
    }
    let cycles_per_second = cycles as f64 / start.elapsed().as_secs_f64();
    SpeedRow { protocol: P::NAME.to_owned(), flows: FLOWS, cycles, segments, cycles_per_second }
}

/// Measures the empty loop. In each cycle six stages of a segment belong to six different flows: its generation,
/// its way into and out of the credit engine, its decrement, and the two stages of its acknowledgment.
fn empty_loop(context_bytes: usize, cycles: u64) -> f64 {
    let words = context_bytes.div_ceil(8);
    let mut contexts = vec![0u64; words * usize::from(FLOWS)];
    let start = Instant::now();
    for now in 0..cycles as usize {
        for stage in [0, 7, 10, 17, 42, 43] {
            let flow = (now + usize::from(FLOWS) - stage) % usize::from(FLOWS);
            let word = &mut contexts[flow * words + (now + stage) % words];
            *word = black_box(*word + 1);
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    black_box(&contexts);
    cycles as f64 / elapsed
}

pub(super) fn run(progress: Progress<'_>) -> (Vec<Claim>, Speed) {
    let cycles = 5_000_000;
    let tcp = Tcp { initial_window: 100, ..Tcp::new(CLOCK) };
    progress(0, 4);
    let mut rows = vec![measure(NewReno(tcp), 1_500, cycles, acknowledge)];
    progress(1, 4);
    // Each flow sends at a thousandth of the line rate, so the rate limiter handles every segment.
    rows.push(measure(RoceDcqcn::new(CLOCK, 97_656_250, 128), 128, cycles, acknowledge));
    progress(2, 4);
    rows.push(measure(Ndp::new(CLOCK), 1_500, cycles, pull));
    progress(3, 4);
    let context_bytes = Tonic::<NewReno>::context_bytes();
    let empty_loop_cycles_per_second = empty_loop(context_bytes, cycles);
    progress(4, 4);
    let claims = vec![
        Claim::new(
            "at least 5 million cycles per second with 1024 active flows, with each of the protocols",
            rows.iter().all(|row| row.cycles_per_second >= 5e6),
        ),
        Claim::new("every flow is active in every cycle", rows[0].segments + 12 >= cycles),
    ];
    (claims, Speed { rows, context_bytes, empty_loop_cycles_per_second })
}
