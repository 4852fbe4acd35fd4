//! The counters of the card, and the statistics made from them.

use std::collections::BTreeMap;

use clocked::Cycle;
use lab_report::Case;
use serde::Serialize;
use transport_common::datapath::Verdict;

use super::block::Block;
use super::event::Event;
use super::lookup::{Lookup, Origin};
use super::parameters::Parameters;
use super::run::Finished;
use super::station::Station;

/// The reason why a waiting frame or turn did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The maximum number of runs is in the pipelines.
    NoContext,
    /// The first block's queue is full.
    NoRoom,
}

/// The samples of one kind of event.
#[derive(Clone, Debug, Default)]
struct Samples {
    /// Cycles from offer to verdict of each event.
    cycles: Vec<u32>,
    /// Cycles for which each block was busy with these events.
    busy: [u64; Block::COUNT],
    held: u64,
    /// The smallest difference of budget and busy cycles of the frame's busiest block, and that block.
    headroom: Option<(f64, Block)>,
    /// The smallest difference of budget and cycles for which the connection was taken.
    headroom_of_connection: Option<f64>,
    budget: f64,
    budgets: u64,
}

/// The counters while the card runs.
#[derive(Debug)]
pub(super) struct Recorder {
    evaluated: u64,
    buffer_area: u64,
    buffer_peak: u64,
    overruns: u64,
    refused: [[u64; 2]; 2],
    in_flight_peak: [usize; 2],
    samples: Vec<Samples>,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self {
            evaluated: 0,
            buffer_area: 0,
            buffer_peak: 0,
            overruns: 0,
            refused: [[0; 2]; 2],
            in_flight_peak: [0; 2],
            samples: vec![Samples::default(); Event::ALL.len()],
        }
    }

    /// Counts a computed cycle. The receive buffer is empty in skipped cycles.
    pub(super) fn cycle(&mut self, buffered: u64) {
        self.evaluated += 1;
        self.buffer_area += buffered;
        self.buffer_peak = self.buffer_peak.max(buffered);
    }

    pub(super) const fn overrun(&mut self) {
        self.overruns += 1;
    }

    pub(super) const fn refused(&mut self, origin: Origin, reason: Admission) {
        self.refused[origin as usize][reason as usize] += 1;
    }

    pub(super) fn in_flight(&mut self, origin: Origin, now: usize) {
        let peak = &mut self.in_flight_peak[origin as usize];
        *peak = (*peak).max(now);
    }

    /// Counts a finished run. `came` and `left` are the bytes of its frame on the incoming and the outgoing line.
    pub(super) fn finished<B>(&mut self, parameters: &Parameters, run: &Finished<B>, came: u32, left: u32) {
        let samples = &mut self.samples[run.event as usize];
        samples.cycles.push(u32::try_from(run.decided.since(run.offered)).unwrap_or(u32::MAX));
        samples.held += run.held;
        for (sum, busy) in samples.busy.iter_mut().zip(run.busy) {
            *sum += u64::from(busy);
        }
        // The incoming and the outgoing line are separate. So an event with a frame on each has the time of the
        // longer frame.
        let sent = run.verdict == Some(Verdict::Transmit);
        if came == 0 && !sent {
            return;
        }
        let budget = parameters.budget(if sent { came.max(left) } else { came });
        samples.budget += budget;
        samples.budgets += 1;
        let blocks = Block::ALL.into_iter().filter(|block| *block != Block::Line);
        let Some(busiest) = blocks.max_by_key(|block| run.busy[*block as usize]) else { return };
        let headroom = budget - f64::from(run.busy[busiest as usize]);
        if samples.headroom.is_none_or(|(least, _)| headroom < least) {
            samples.headroom = Some((headroom, busiest));
        }
        let of_connection = budget - run.held as f64;
        let least = samples.headroom_of_connection.get_or_insert(of_connection);
        *least = least.min(of_connection);
    }

    pub(super) fn statistics(
        &self,
        parameters: &Parameters,
        now: Cycle,
        stations: &[Station],
        lookup: &Lookup,
    ) -> Statistics {
        let cycles = now.0;
        let per_cycle = |sum: u64| if cycles == 0 { 0.0 } else { sum as f64 / cycles as f64 };
        let blocks = Block::ALL.into_iter().map(|block| {
            if block == Block::Lookup {
                let counts = &lookup.counts;
                return BlockStatistics {
                    block,
                    served: counts.granted,
                    utilisation: per_cycle(counts.issued),
                    queue_mean: per_cycle(counts.queue_area),
                    queue_peak: counts.queue_peak,
                    stalls: BTreeMap::new(),
                    outstanding_stalls: counts.full,
                };
            }
            let counts = &stations[block as usize].counts;
            let stalled = Block::ALL.into_iter().map(|by| (by, counts.stalls[by as usize]));
            BlockStatistics {
                block,
                served: counts.served,
                utilisation: per_cycle(counts.busy) / parameters.period as f64,
                queue_mean: per_cycle(counts.queue_area),
                queue_peak: counts.queue_peak,
                stalls: stalled.filter(|(_, cycles)| *cycles != 0).collect(),
                outstanding_stalls: counts.outstanding_stalls,
            }
        });
        let events = Event::ALL.into_iter().zip(&self.samples);
        let events = events.filter_map(|(event, samples)| samples.statistics(event)).collect();
        Statistics {
            cycles,
            evaluated: self.evaluated,
            blocks: blocks.collect(),
            events,
            receive_buffer_mean: per_cycle(self.buffer_area),
            receive_buffer_peak: self.buffer_peak,
            overruns: self.overruns,
            receive_waits_for_context: self.refused[0][Admission::NoContext as usize],
            receive_waits_for_parser: self.refused[0][Admission::NoRoom as usize],
            turn_waits_for_context: self.refused[1][Admission::NoContext as usize],
            turn_waits_for_queue: self.refused[1][Admission::NoRoom as usize],
            receives_in_flight_peak: self.in_flight_peak[0],
            turns_in_flight_peak: self.in_flight_peak[1],
            connection_waits: lookup.counts.taken,
            cache_waits: lookup.counts.missed,
            cache: *lookup.cache().statistics(),
        }
    }
}

impl Samples {
    fn statistics(&self, event: Event) -> Option<EventStatistics> {
        let mut sorted = self.cycles.clone();
        sorted.sort_unstable();
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len();
        let mean = |sum: u64| sum as f64 / count as f64;
        let busy = Block::ALL.into_iter().map(|block| (block, mean(self.busy[block as usize])));
        Some(EventStatistics {
            event,
            count: count as u64,
            least,
            mean: mean(sorted.iter().copied().map(u64::from).sum()),
            // The smallest number that 99 % of the events do not exceed.
            percentile_99: sorted[(count * 99).div_ceil(100) - 1],
            most,
            deciles: (0..=10).map(|part| sorted[(count - 1) * part / 10]).collect(),
            busy: busy.filter(|(_, cycles)| *cycles != 0.0).collect(),
            held: mean(self.held),
            budget: (self.budgets != 0).then(|| self.budget / self.budgets as f64),
            headroom: self.headroom.map(|(cycles, _)| cycles),
            headroom_block: self.headroom.map(|(_, block)| block),
            headroom_of_connection: self.headroom_of_connection,
        })
    }
}

/// The statistics of one block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockStatistics {
    /// The block.
    pub block: Block,
    /// Number of visits.
    pub served: u64,
    /// Share of all cycles in which the block could accept nothing else. For the lookup: share of cycles in which
    /// something entered its pipeline.
    pub utilisation: f64,
    /// Mean number of frames in front of the block over all cycles.
    pub queue_mean: f64,
    /// Largest number of frames in front of the block at one time.
    pub queue_peak: usize,
    /// Cycles in which a finished frame could not leave this block, by the block whose queue was full.
    pub stalls: BTreeMap<Block, u64>,
    /// Cycles in which frames waited because the limit of outstanding visits was reached.
    pub outstanding_stalls: u64,
}

/// The statistics of one kind of event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventStatistics {
    /// The kind.
    pub event: Event,
    /// Number of events.
    pub count: u64,
    /// Smallest number of cycles from arrival to verdict.
    pub least: u32,
    /// Mean number of cycles from arrival to verdict.
    pub mean: f64,
    /// 99th percentile of the cycles from arrival to verdict.
    pub percentile_99: u32,
    /// Largest number of cycles from arrival to verdict.
    pub most: u32,
    /// Deciles of the cycles from arrival to verdict: 0 %, 10 %, 20 % … 100 %.
    pub deciles: Vec<u32>,
    /// Mean cycles for which an event occupied each block.
    pub busy: BTreeMap<Block, f64>,
    /// Mean cycles for which an event had its connection.
    pub held: f64,
    /// Mean cycles that the line gives the frame, or the frame that leaves if that is longer. `None` for events
    /// without a frame on a line.
    pub budget: Option<f64>,
    /// Smallest difference of a frame's budget and the cycles of its busiest block. Below 0, this block cannot
    /// carry a line full of such frames.
    pub headroom: Option<f64>,
    /// The block of `headroom`.
    pub headroom_block: Option<Block>,
    /// Smallest difference of a frame's budget and the cycles for which the connection was taken. Below 0, one
    /// connection alone cannot fill the line.
    pub headroom_of_connection: Option<f64>,
}

impl EventStatistics {
    /// Returns the report of an event.
    pub fn case(&self, name: impl Into<String>) -> Case {
        Case::new(name)
            .with("events", self.count as f64, "")
            .with("least", f64::from(self.least), "cycles")
            .with("mean", self.mean, "cycles")
            .with("99 of 100", f64::from(self.percentile_99), "cycles")
            .with("most", f64::from(self.most), "cycles")
            .with("connection taken", self.held, "cycles")
            .with("line's budget", self.budget, "cycles")
            .with("headroom", self.headroom, "cycles")
    }
}

/// The statistics of a card since its reset.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Number of cycles.
    pub cycles: u64,
    /// Number of computed cycles. Nothing happened in the others.
    pub evaluated: u64,
    /// The statistics of each block.
    pub blocks: Vec<BlockStatistics>,
    /// The statistics of each kind of event that occurred.
    pub events: Vec<EventStatistics>,
    /// Mean number of bytes in the receive buffer over all cycles.
    pub receive_buffer_mean: f64,
    /// Largest number of bytes in the receive buffer at one time.
    pub receive_buffer_peak: u64,
    /// Frames dropped because the receive buffer was full.
    pub overruns: u64,
    /// Cycles in which a received frame waited because the maximum number of received frames was in the pipelines.
    pub receive_waits_for_context: u64,
    /// Cycles in which a received frame waited for space in front of the parser.
    pub receive_waits_for_parser: u64,
    /// Cycles in which a turn waited because the maximum number of turns was in the pipelines.
    pub turn_waits_for_context: u64,
    /// Cycles in which a turn waited for space in front of its first block.
    pub turn_waits_for_queue: u64,
    /// Largest number of received frames in the pipelines at one time.
    pub receives_in_flight_peak: usize,
    /// Largest number of turns in the pipelines at one time.
    pub turns_in_flight_peak: usize,
    /// Sum of the cycles for which runs waited for a connection that another run had.
    pub connection_waits: u64,
    /// Sum of the cycles for which runs waited for the cache, beyond the cycles of a hit.
    pub cache_waits: u64,
    /// The statistics of the connection-context cache.
    pub cache: context_cache::Statistics,
}

impl Statistics {
    /// Returns the statistics of a block.
    #[must_use]
    pub fn block(&self, block: Block) -> &BlockStatistics {
        &self.blocks[block as usize]
    }

    /// Returns the statistics of a kind of event, if it occurred.
    #[must_use]
    pub fn event(&self, event: Event) -> Option<&EventStatistics> {
        self.events.iter().find(|of| of.event == event)
    }

    /// Returns the block with the highest utilisation, except the line. It is the first to saturate when the rate
    /// rises.
    #[must_use]
    pub fn busiest(&self) -> &BlockStatistics {
        let blocks = self.blocks.iter().filter(|of| of.block != Block::Line);
        blocks.max_by(|a, b| a.utilisation.total_cmp(&b.utilisation)).unwrap_or(&self.blocks[0])
    }

    /// Returns the smallest headroom of all events, with its kind and its block.
    #[must_use]
    pub fn worst_headroom(&self) -> Option<(f64, Event, Block)> {
        let all = self.events.iter().filter_map(|of| Some((of.headroom?, of.event, of.headroom_block?)));
        all.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns the number of finished events.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.events.iter().map(|of| of.count).sum()
    }
}
