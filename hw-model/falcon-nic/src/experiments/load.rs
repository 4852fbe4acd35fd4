//! A card connected to a peer that takes no time. So only the line limits the frames that reach the card.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Result;
use clocked::Cycle;
use host_nic::HostNic;
use transport_common::datapath::Verdict;
use transport_common::queues::{AccessFlags, Region, Verb, WorkFlags, WorkRequest};
use transport_common::timing_wheel::WheelTick;
use transport_common::units::Picoseconds;

use crate::testbed::{self, Traffic};
use crate::{FalconNic, Parameters, Statistics};

/// Propagation delay between the two in picoseconds.
const DELAY: u64 = 1_000_000;
/// Maximum number of turns without a packet that the peer makes per cycle. It is more than the number of
/// connections.
const IDLE_TURNS: u32 = 1024;
/// Number of work requests that a connection keeps outstanding.
const DEPTH: u32 = 128;
const REGION: Region =
    Region { offset: 0, length: 24 << 20, key: 1, access: AccessFlags::all(), ..Region::FREE };

/// The direction and kind of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The peer WRITEs to the card.
    WriteIn,
    /// The card WRITEs to the peer.
    WriteOut,
    /// The peer READs from the card.
    ReadIn,
    /// The card READs from the peer.
    ReadOut,
}

/// The load of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) kind: Kind,
    /// Bytes of user data of each operation.
    pub(super) length: u32,
    pub(super) connections: usize,
    pub(super) traffic: Traffic,
    /// Cycles to simulate.
    pub(super) cycles: u64,
}

/// The result of a run.
pub(super) struct Outcome {
    pub(super) statistics: Statistics,
    /// Number of completed operations.
    pub(super) completed: u64,
    /// Share of the time for which the incoming line carried frames.
    pub(super) line_in: f64,
    /// Wall-clock seconds.
    pub(super) seconds: f64,
}

struct Bench {
    card: FalconNic,
    peer: HostNic,
    load: Load,
    /// Frames in transit to the peer, by arrival.
    to_peer: VecDeque<(Picoseconds, Vec<u8>)>,
    /// Immediate replies of the peer that wait for the line.
    answers: VecDeque<Vec<u8>>,
    line_free: u64,
    line_busy: u64,
    completed: u64,
    next_slot: usize,
    posted: u64,
}

impl Bench {
    fn work(&mut self, slot: usize) -> WorkRequest {
        self.posted += 1;
        // Different offsets within the region.
        let place = (self.posted % 1024) * 4096 + slot as u64 * 64;
        let write = matches!(self.load.kind, Kind::WriteIn | Kind::WriteOut);
        WorkRequest {
            opcode: if write { Verb::WRITE } else { Verb::READ },
            flags: WorkFlags::SIGNALED,
            length: self.load.length,
            local_offset: place,
            remote_address: (8 << 20) + place,
            rkey: REGION.key,
            ..WorkRequest::default()
        }
    }

    /// Lets the application poll completions and post work for one connection, a different one in each cycle.
    fn apply(&mut self) {
        let slot = self.next_slot;
        self.next_slot = (slot + 1) % self.load.connections;
        let active = matches!(self.load.kind, Kind::WriteOut | Kind::ReadOut);
        let poll = |bench: &mut Self| {
            if active {
                bench.card.host_mut().poll_completion(slot)
            } else {
                bench.peer.poll_completion(slot)
            }
        };
        while poll(self).is_some() {
            self.completed += 1;
        }
        loop {
            // This uses the queue's counters, as an application does. A run may have the connection itself at this
            // time.
            let outstanding = {
                let host = self.card.host();
                let queues = if active { host.queue_pair(slot) } else { self.peer.queue_pair(slot) };
                let posted = queues.send_producer.load(Ordering::Relaxed);
                posted.wrapping_sub(queues.send_consumer.load(Ordering::Relaxed))
            };
            if outstanding >= DEPTH {
                return;
            }
            let work = self.work(slot);
            let posted =
                if active { self.card.host_mut().post(slot, work) } else { self.peer.post(slot, work) };
            if posted.is_err() {
                return;
            }
        }
    }

    /// Runs the peer for one cycle. The peer takes no time, but its line does. A frame begins where the previous
    /// one ended, which is rarely at the start of a cycle. If frames began only at the start of a cycle, the line
    /// would be idle for a tenth of the time with short frames at 200 Gb/s.
    fn serve_peer(&mut self, now: Picoseconds) {
        let end = now.0 + self.card.pipeline().parameters().period;
        while self.to_peer.front().is_some_and(|(at, _)| at.0 <= now.0) {
            let Some((at, frame)) = self.to_peer.pop_front() else { return };
            self.peer.set_time(at);
            if let (Verdict::Transmit, answer) = self.peer.receive(frame) {
                self.answers.push_back(answer);
            }
        }
        let mut idle = 0;
        while self.line_free < end && idle < IDLE_TURNS {
            self.peer.set_time(now);
            let due = self.peer.wheel().next_event().is_some_and(|tick| !tick.is_after(WheelTick::at(now)));
            let frame = match self.answers.pop_front() {
                Some(answer) => Some((Verdict::Transmit, answer)),
                None if due || self.peer.asking() != 0 => {
                    self.peer.set_frames(if due { 7 } else { 0 });
                    self.peer.engine_frame()
                }
                None => return,
            };
            let Some((Verdict::Transmit, frame)) = frame else {
                idle += 1;
                continue;
            };
            let time = self.card.pipeline().parameters().line_time(frame.len() as u32);
            self.line_free = self.line_free.max(now.0) + time;
            self.line_busy += time;
            self.card.receive(frame, Picoseconds(self.line_free + DELAY));
        }
    }
}

/// Runs a load and returns the result.
///
/// # Errors
/// Returns an error if a parameter is out of range.
pub(super) fn measure(parameters: &Parameters, load: Load) -> Result<Outcome> {
    let card = FalconNic::new(testbed::host_config(1), parameters.clone())?;
    let mut peer = HostNic::new(testbed::host_config(0));
    testbed::open(&mut card.host_mut(), 1, load.connections, load.traffic);
    testbed::open(&mut peer, 0, load.connections, load.traffic);
    card.host_mut().register(REGION);
    peer.register(REGION);
    let mut bench = Bench {
        card,
        peer,
        load,
        to_peer: VecDeque::new(),
        answers: VecDeque::new(),
        line_free: 0,
        line_busy: 0,
        completed: 0,
        next_slot: 0,
        posted: 0,
    };
    for _ in 0..load.connections {
        bench.apply();
    }
    let start = Instant::now();
    while bench.card.now() < Cycle(load.cycles) {
        let now = bench.card.pipeline().time_of(bench.card.now());
        bench.apply();
        bench.serve_peer(now);
        bench.card.step();
        while let Some(sent) = bench.card.take_sent() {
            bench.to_peer.push_back((Picoseconds(sent.at.0 + DELAY), sent.frame));
        }
    }
    let time = bench.card.pipeline().time_of(bench.card.now()).0 as f64;
    let line_in = bench.line_busy as f64 / time;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Outcome { statistics: bench.card.statistics(), completed: bench.completed, line_in, seconds })
}
