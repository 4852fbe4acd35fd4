//! The blocks of the card, cycle by cycle. They do not depend on the source of the frames.

use std::collections::{BTreeMap, VecDeque};

use clocked::Cycle;
use slab::Slab;
use transport_common::units::Picoseconds;

use super::backend::Backend;
use super::block::Block;
use super::course::Spares;
use super::event::Event;
use super::lookup::{Asked, Lookup, Origin};
use super::offer::Offer;
use super::parameters::{ParameterError, Parameters};
use super::request::Request;
use super::run::{Finished, Run};
use super::station::{Channel, Station};
use super::statistics::{Admission, Recorder, Statistics};
use super::task::Task;
use super::work::StepWork;

/// The blocks and their queues. See the crate [`falcon_nic`](crate) for an overview.
pub struct Pipeline<B: Backend> {
    parameters: Parameters,
    now: Cycle,
    runs: Slab<Run<B>>,
    stations: Vec<Station>,
    lookup: Lookup,
    /// Future offers, by cycle and order of offering.
    offers: BTreeMap<(Cycle, u64), Offer<B>>,
    offered: u64,
    /// Offers that are due: frames in the receive buffer, and turns.
    waiting: [VecDeque<(Cycle, Offer<B>)>; 2],
    buffered: u64,
    in_flight: [usize; 2],
    /// Turns that have no connection yet.
    turns_unresolved: usize,
    /// The time in picoseconds when the outgoing line is free.
    line_free: u64,
    finished: VecDeque<Finished<B>>,
    spares: Spares,
    granted: Vec<usize>,
    recorder: Recorder,
}

const fn origin_of(task: Task) -> Origin {
    match task {
        Task::Receive => Origin::Network,
        Task::Turn { .. } => Origin::Turn,
    }
}

impl<B: Backend> Pipeline<B> {
    /// Creates a pipeline in the state after a reset. Its next cycle is cycle 0.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range.
    pub fn new(parameters: Parameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        let outstanding = |block| match block {
            Block::MemoryRead => parameters.memory_reads,
            Block::MemoryWrite => parameters.memory_writes,
            _ => usize::MAX,
        };
        Ok(Self {
            now: Cycle::ZERO,
            runs: Slab::new(),
            stations: Block::ALL.map(|block| Station::new(parameters.queue, outstanding(block))).into(),
            lookup: Lookup::new(&parameters.cache, parameters.queue)?,
            offers: BTreeMap::new(),
            offered: 0,
            waiting: Default::default(),
            buffered: 0,
            in_flight: [0; 2],
            turns_unresolved: 0,
            line_free: 0,
            finished: VecDeque::new(),
            spares: Spares::default(),
            granted: vec![],
            recorder: Recorder::new(),
            parameters,
        })
    }

    /// Returns the parameters.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the cycle that the next [`Self::step`] computes.
    pub const fn now(&self) -> Cycle {
        self.now
    }

    /// Returns the time at which a cycle begins.
    pub const fn time_of(&self, cycle: Cycle) -> Picoseconds {
        Picoseconds(cycle.0 * self.parameters.period)
    }

    /// Returns the first cycle that begins at `time` or later.
    pub const fn cycle_of(&self, time: Picoseconds) -> Cycle {
        Cycle(time.0.div_ceil(self.parameters.period))
    }

    /// Offers a frame or a turn to the card at the cycle `at`. A past cycle counts as the next one. Offers for the
    /// same cycle are taken in the order of these calls.
    pub fn offer(&mut self, offer: Offer<B>, at: Cycle) {
        if origin_of(offer.task) == Origin::Turn {
            self.turns_unresolved += 1;
        }
        self.offers.insert((at.max(self.now), self.offered), offer);
        self.offered += 1;
    }

    /// Returns the number of offers that are not finished.
    pub fn unfinished(&self) -> usize {
        self.runs.len() + self.offers.len() + self.waiting.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Returns the number of offered turns that have no connection yet.
    pub const fn turns_unresolved(&self) -> usize {
        self.turns_unresolved
    }

    /// Returns true if another turn would begin at once.
    pub fn takes_turn(&self) -> bool {
        self.in_flight[Origin::Turn as usize] < self.parameters.transmit_contexts
            && self.waiting[Origin::Turn as usize].is_empty()
    }

    /// Returns the bytes in the receive buffer.
    pub const fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Returns the number of steps of a connection so far. [`Backend::step_after`] refers to this number.
    pub fn steps(&self, slot: u32) -> u64 {
        self.lookup.steps(slot)
    }

    /// Takes the oldest finished run.
    pub fn take_finished(&mut self) -> Option<Finished<B>> {
        self.finished.pop_front()
    }

    /// Computes one cycle.
    ///
    /// A frame that a block finishes in a cycle can enter the next block in the same cycle. So a visit takes its
    /// latency plus its busy cycles minus one. If several frames enter one queue in a cycle, the order of the
    /// blocks decides.
    pub fn step(&mut self) {
        let now = self.now;
        self.take_offers(now);
        self.complete(now);
        self.look_up(now);
        self.admit(now);
        self.take(now);
        self.recorder.cycle(self.buffered);
        self.now = now + 1;
    }

    /// Skips idle cycles, up to `limit` at most.
    pub fn skip_idle(&mut self, limit: Cycle) {
        self.skip_to(self.next_event().unwrap_or(Cycle::NEVER).min(limit));
    }

    /// Skips the cycles before `cycle`. The caller knows that nothing happens in them.
    pub(super) fn skip_to(&mut self, cycle: Cycle) {
        if cycle > self.now && cycle < Cycle::NEVER {
            self.now = cycle;
        }
    }

    /// Returns the next cycle with work, or `None` if nothing happens without a new offer.
    pub fn next_event(&self) -> Option<Cycle> {
        if self.waiting.iter().any(|waiting| !waiting.is_empty()) {
            return Some(self.now);
        }
        let offer = self.offers.first_key_value().map(|((at, _), _)| (*at).max(self.now));
        let stations = self.stations.iter().filter_map(|station| station.next_event(self.now));
        stations.chain(offer).chain(self.lookup.next_event(self.now)).min()
    }

    /// Runs until all offers are finished, or until `limit`.
    pub fn run_until(&mut self, limit: Cycle) {
        while self.unfinished() != 0 && self.now < limit {
            self.skip_idle(limit);
            if self.now < limit {
                self.step();
            }
        }
    }

    /// Returns the statistics so far.
    pub fn statistics(&mut self) -> Statistics {
        let now = self.now;
        self.stations.iter_mut().for_each(|station| station.settle(now));
        self.lookup.settle(now);
        self.recorder.statistics(&self.parameters, now, &self.stations, &self.lookup)
    }

    fn take_offers(&mut self, now: Cycle) {
        while let Some(entry) = self.offers.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let offer = entry.remove();
            let origin = origin_of(offer.task);
            if origin == Origin::Network {
                if self.buffered + u64::from(offer.bytes) > self.parameters.receive_buffer {
                    self.recorder.overrun();
                    self.finished.push_back(overrun(offer, now));
                    continue;
                }
                self.buffered += u64::from(offer.bytes);
            }
            self.waiting[origin as usize].push_back((now, offer));
        }
    }

    /// Handles the visits that end in this cycle.
    fn complete(&mut self, now: Cycle) {
        for block in Block::ALL {
            for channel in Channel::ALL {
                while let Some(working) = self.stations[block as usize].ended(now, channel) {
                    if !working.resumed && !self.go_on(working.run, now) {
                        self.stations[block as usize].leave(channel);
                        self.conclude(working.run, now);
                        continue;
                    }
                    if let Err(full) = self.place(working.run, now) {
                        self.stations[block as usize].stall(channel, full);
                        break;
                    }
                    self.stations[block as usize].leave(channel);
                }
            }
        }
    }

    /// Continues a run after a visit, with the next block of its request or with its next request. Returns false
    /// if the run is over.
    fn go_on(&mut self, id: usize, now: Cycle) -> bool {
        let run = &mut self.runs[id];
        if !run.hops.is_empty() {
            return true;
        }
        match run.request.take() {
            Some(Request::WriteBack { slot, .. }) => {
                run.held += now.since(run.granted);
                self.lookup.release(slot);
            }
            Some(Request::Send { .. }) => return false,
            _ => {}
        }
        self.resume(id, now)
    }

    fn resume(&mut self, id: usize, now: Cycle) -> bool {
        let time = self.time_of(now);
        let run = &mut self.runs[id];
        let goes_on = run.resume(now, time, &mut self.spares);
        if let Some(request) = &run.request {
            self.parameters.hops(request, &mut run.hops);
        }
        goes_on
    }

    /// Puts the run into the queue of its next block. Returns that block as an error if its queue is full.
    fn place(&mut self, id: usize, now: Cycle) -> Result<(), Block> {
        let run = &mut self.runs[id];
        let Some(hop) = run.hops.front().copied() else { return Ok(()) };
        let channel = if run.first_pass { Channel::First } else { Channel::Returning };
        if let (Block::Lookup, Some(Request::Lock { slot, after })) = (hop.block, run.request) {
            let origin = origin_of(run.task);
            if !self.lookup.has_room(origin, channel) {
                return Err(Block::Lookup);
            }
            self.lookup.push(now, origin, channel, Asked { run: id, slot, after });
        } else {
            let station = &mut self.stations[hop.block as usize];
            if !station.has_room(channel) {
                return Err(hop.block);
            }
            station.push(now, channel, id, hop);
        }
        run.hops.pop_front();
        Ok(())
    }

    fn look_up(&mut self, now: Cycle) {
        let mut granted = core::mem::take(&mut self.granted);
        self.lookup.step(now, &mut granted);
        for id in granted.drain(..) {
            let run = &mut self.runs[id];
            if run.first_pass && origin_of(run.task) == Origin::Turn {
                self.turns_unresolved -= 1;
            }
            run.first_pass = false;
            run.granted = now;
            run.busy[Block::Lookup as usize] += 1;
            run.request = None;
            self.resume(id, now);
            let placed = self.place(id, now);
            debug_assert_eq!(placed, Ok(()), "the queues have space for every run that had a step");
        }
        self.granted = granted;
    }

    /// Starts at most one received frame and one turn per cycle.
    fn admit(&mut self, now: Cycle) {
        for (origin, block) in [(Origin::Network, Block::Parser), (Origin::Turn, Block::RueQueues)] {
            let limit = match origin {
                Origin::Network => self.parameters.receive_contexts,
                Origin::Turn => self.parameters.transmit_contexts,
            };
            if self.waiting[origin as usize].is_empty() {
                continue;
            }
            let refused = if self.in_flight[origin as usize] >= limit {
                Some(Admission::NoContext)
            } else if !self.stations[block as usize].has_room(Channel::First) {
                Some(Admission::NoRoom)
            } else {
                None
            };
            if let Some(reason) = refused {
                self.recorder.refused(origin, reason);
                continue;
            }
            let Some((offered, offer)) = self.waiting[origin as usize].pop_front() else { continue };
            if origin == Origin::Network {
                self.buffered -= u64::from(offer.bytes);
            }
            self.in_flight[origin as usize] += 1;
            self.recorder.in_flight(origin, self.in_flight[origin as usize]);
            let id = self.runs.insert(Run::new(offer, (offered, now), &mut self.spares));
            self.resume(id, now);
            let placed = self.place(id, now);
            debug_assert_eq!(placed, Ok(()), "every run begins with the block whose queue was checked");
        }
    }

    /// Starts the visits that begin in this cycle.
    fn take(&mut self, now: Cycle) {
        let period = self.parameters.period;
        for block in Block::ALL {
            while let Some((id, hop, channel)) = self.stations[block as usize].next(now) {
                let run = &mut self.runs[id];
                let (end, busy) = if block == Block::Line {
                    let Some(Request::Send { bytes }) = run.request else { continue };
                    let time = self.parameters.line_time(bytes);
                    self.line_free = self.line_free.max(now.0 * period) + time;
                    (self.line_free, time)
                } else {
                    ((now.0 + hop.busy) * period, hop.busy * period)
                };
                run.busy[block as usize] += busy.div_ceil(period) as u32;
                let done =
                    Cycle(end.div_ceil(period)) + hop.latency.saturating_sub(u64::from(block != Block::Line));
                let times = (Cycle(end / period), done.max(now + 1));
                self.stations[block as usize].take(id, channel, times, busy);
            }
        }
    }

    /// Finishes a run.
    fn conclude(&mut self, id: usize, now: Cycle) {
        let run = self.runs.remove(id);
        let origin = origin_of(run.task);
        self.in_flight[origin as usize] -= 1;
        if origin == Origin::Turn && run.first_pass {
            self.turns_unresolved -= 1;
        }
        let came = run.bytes;
        let (finished, left) = run.finish(now, &mut self.spares);
        self.recorder.finished(&self.parameters, &finished, came, left);
        self.finished.push_back(finished);
    }
}

/// Returns the result for a frame that was dropped because the receive buffer was full.
fn overrun<B>(offer: Offer<B>, now: Cycle) -> Finished<B> {
    Finished {
        backend: offer.source.into_backend(),
        task: offer.task,
        verdict: None,
        idle: false,
        event: Event::Refused,
        work: StepWork::default(),
        steps: 0,
        readings: vec![],
        offered: now,
        started: now,
        decided: now,
        finished: now,
        busy: [0; Block::COUNT],
        held: 0,
    }
}
