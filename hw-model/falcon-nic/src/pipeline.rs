//! The card's blocks, cycle by cycle, whatever the frames come from.

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

/// The blocks. See the module [`falcon_nic`](crate).
pub struct Pipeline<B: Backend> {
    parameters: Parameters,
    now: Cycle,
    runs: Slab<Run<B>>,
    stations: Vec<Station>,
    lookup: Lookup,
    /// By cycle and order of offering.
    offers: BTreeMap<(Cycle, u64), Offer<B>>,
    offered: u64,
    /// Offers whose time has come: frames in the receive buffer, and turns.
    waiting: [VecDeque<(Cycle, Offer<B>)>; 2],
    buffered: u64,
    in_flight: [usize; 2],
    /// Turns that have not come to a connection yet.
    turns_unresolved: usize,
    /// When the line out is free, picoseconds.
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
    /// A card just reset; its next cycle is cycle 0.
    ///
    /// # Errors
    /// A parameter that describes no hardware.
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

    /// What it was built with.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The cycle that the next [`Self::step`] computes.
    pub const fn now(&self) -> Cycle {
        self.now
    }

    /// The instant at which a cycle begins.
    pub const fn time_of(&self, cycle: Cycle) -> Picoseconds {
        Picoseconds(cycle.0 * self.parameters.period)
    }

    /// The first cycle that begins at an instant or later.
    pub const fn cycle_of(&self, time: Picoseconds) -> Cycle {
        Cycle(time.0.div_ceil(self.parameters.period))
    }

    /// Gives the card a frame, or a turn, at a cycle; one that is past counts as the next. Frames of one cycle come in
    /// the order of their offers.
    pub fn offer(&mut self, offer: Offer<B>, at: Cycle) {
        if origin_of(offer.task) == Origin::Turn {
            self.turns_unresolved += 1;
        }
        self.offers.insert((at.max(self.now), self.offered), offer);
        self.offered += 1;
    }

    /// Frames offered that are not finished yet.
    pub fn unfinished(&self) -> usize {
        self.runs.len() + self.offers.len() + self.waiting.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Turns offered that have not come to a connection yet.
    pub const fn turns_unresolved(&self) -> usize {
        self.turns_unresolved
    }

    /// Whether another turn would begin at once.
    pub fn takes_turn(&self) -> bool {
        self.in_flight[Origin::Turn as usize] < self.parameters.transmit_contexts
            && self.waiting[Origin::Turn as usize].is_empty()
    }

    /// Bytes in the receive buffer.
    pub const fn buffered(&self) -> u64 {
        self.buffered
    }

    /// Steps of a connection so far: what [`Backend::step_after`] counts.
    pub fn steps(&self, slot: u32) -> u64 {
        self.lookup.steps(slot)
    }

    /// Takes what finished first.
    pub fn take_finished(&mut self) -> Option<Finished<B>> {
        self.finished.pop_front()
    }

    /// Computes a cycle.
    ///
    /// What a block finishes in a cycle can be taken by the next one in the same cycle, so that a visit takes as long
    /// as its latency and its busy cycles less one; where several frames come to one queue in a cycle, the blocks' order
    /// decides.
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

    /// Passes over cycles in which nothing happens, but not over `limit`.
    pub fn skip_idle(&mut self, limit: Cycle) {
        self.skip_to(self.next_event().unwrap_or(Cycle::NEVER).min(limit));
    }

    /// Passes over the cycles before `cycle`, in which nothing happens.
    pub(super) fn skip_to(&mut self, cycle: Cycle) {
        if cycle > self.now && cycle < Cycle::NEVER {
            self.now = cycle;
        }
    }

    /// The first cycle in which something happens; `None`: never, unless something is offered.
    pub fn next_event(&self) -> Option<Cycle> {
        if self.waiting.iter().any(|waiting| !waiting.is_empty()) {
            return Some(self.now);
        }
        let offer = self.offers.first_key_value().map(|((at, _), _)| (*at).max(self.now));
        let stations = self.stations.iter().filter_map(|station| station.next_event(self.now));
        stations.chain(offer).chain(self.lookup.next_event(self.now)).min()
    }

    /// Goes on until nothing is left to do, or `limit` is reached.
    pub fn run_until(&mut self, limit: Cycle) {
        while self.unfinished() != 0 && self.now < limit {
            self.skip_idle(limit);
            if self.now < limit {
                self.step();
            }
        }
    }

    /// What was counted so far.
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

    /// Visits that end in this cycle.
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

    /// The run's visit is over: the next block for its request, or its next request. False if it is over.
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

    /// Enters the run in the queue of the next block, unless that is full.
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
            debug_assert_eq!(placed, Ok(()), "who had a step finds room everywhere");
        }
        self.granted = granted;
    }

    /// At most a frame and a turn begin in a cycle.
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
            debug_assert_eq!(placed, Ok(()), "every run begins with the block whose room was looked at");
        }
    }

    /// Visits that begin in this cycle.
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

    /// The run is over.
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

/// What is told of a frame that found the receive buffer full.
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
