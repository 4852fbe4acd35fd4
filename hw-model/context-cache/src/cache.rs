//! The cache as a clocked block.

use std::collections::VecDeque;

use clocked::{Block, Cycle, DelayLine};
use transport_common::ids::Cid;

use super::choice::{Arbitration, Choice, Stall};
use super::command::{
    Accepted, CacheInput, CacheOutput, Context, Counter, Flush, Issued, Operation, Processed, Transition,
};
use super::entries::Entries;
use super::entry::{Event, State};
use super::memory::Backing;
use super::miss_queue::MissQueues;
use super::parameters::{ParameterError, Parameters};
use super::pipeline::{Action, Seen, Slot, Work};
use super::statistics::Statistics;

/// The progress of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlushStage {
    /// In the register.
    Requested,
    /// In the pipeline or in a miss queue.
    Issued,
    /// The memory is writing it.
    Writing,
}

/// The state changes that the cache applies at the clock edge.
#[derive(Debug)]
pub struct CacheNext<C: Context, T> {
    pub(super) arbitration: Arbitration,
    /// The work that the arbiter chose. `None` for a memory completion, which comes from the memory itself.
    pub(super) entering: Option<Slot<C, T>>,
    /// The lookup result of the slot whose processing begins.
    pub(super) seen: Option<Seen>,
    /// The action for the slot whose processing ends.
    pub(super) action: Option<Action>,
    pub(super) update: Option<C>,
    pub(super) flush: Option<Flush<C>>,
    pub(super) done: [Option<Cid>; 2],
}

/// The state of an entry between two cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryStatus {
    /// Its number.
    pub entry: u32,
    /// Its state.
    pub state: State,
    /// The sum of both pending counters.
    pub pending: u32,
}

/// A cache of connection contexts, backed by memory on and off the chip.
#[derive(Clone, Debug)]
pub struct ContextCache<C: Context, T> {
    pub(super) parameters: Parameters,
    pub(super) entries: Entries<C>,
    pub(super) queues: MissQueues<Slot<C, T>>,
    pub(super) backing: Backing<C>,
    pub(super) lookup: DelayLine<Slot<C, T>>,
    pub(super) processing: DelayLine<(Slot<C, T>, Seen)>,
    pub(super) stalls: VecDeque<Stall>,
    /// Minimum number of cycles between two commands of one connection.
    pub(super) spacing: u64,
    /// Miss-queue slots that are reserved for work in the pipeline.
    pub(super) slots_kept: usize,
    /// Evictions in the pipeline.
    pub(super) victims: u32,
    /// True if the ULP has priority over the network in this cycle.
    pub(super) ulp_first: bool,
    pub(super) flush: Option<(Flush<C>, FlushStage)>,
    pub(super) statistics: Statistics,
}

impl<C: Context, T: Copy> ContextCache<C, T> {
    /// Creates an empty cache. All connections have the context `initial` in memory.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range.
    pub fn new(parameters: &Parameters, initial: C) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self {
            entries: Entries::new(parameters, &initial),
            queues: MissQueues::new(parameters.miss_queue),
            backing: Backing::new(parameters, initial),
            lookup: DelayLine::new(parameters.lookup_cycles),
            processing: DelayLine::new(parameters.command_cycles - 1),
            stalls: VecDeque::new(),
            spacing: parameters.command_cycles as u64,
            slots_kept: 0,
            victims: 0,
            ulp_first: false,
            flush: None,
            statistics: Statistics::default(),
            parameters: parameters.clone(),
        })
    }

    /// Returns the parameters of the cache.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the counters since reset.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the number of occupied entries.
    pub fn occupied(&self) -> u32 {
        self.entries.occupied()
    }

    /// Returns the number of commands in the miss queues.
    pub fn queued(&self) -> usize {
        self.queues.len()
    }

    /// Returns the number of memory requests that wait or are in progress.
    pub fn memory_requests(&self) -> usize {
        self.backing.busy()
    }

    /// Returns the entry of a connection.
    pub fn entry(&self, cid: Cid) -> Option<EntryStatus> {
        let entry = self.entries.find(cid)?;
        let of = self.entries.get(entry);
        Some(EntryStatus { entry, state: of.state, pending: of.pending() })
    }

    /// Returns the context in an entry. It is meaningful only in the state `Valid`.
    pub const fn context(&self, entry: u32) -> &C {
        &self.entries.get(entry).context
    }

    /// Returns a connection's context as the memory holds it. The cache may hold a newer one.
    pub fn stored(&self, cid: Cid) -> &C {
        self.backing.context(cid)
    }

    /// Sets a connection's context in memory from outside the model, for example before a test.
    pub fn store(&mut self, cid: Cid, context: C) {
        self.backing.store(cid, context);
    }

    /// Returns true if no command, no memory operation and no flush is in progress.
    pub fn is_quiet(&self) -> bool {
        self.lookup.is_empty()
            && self.processing.is_empty()
            && self.queues.len() == 0
            && self.backing.busy() == 0
            && self.flush.is_none()
    }
}

impl<C: Context, T: Copy> Block for ContextCache<C, T> {
    type Input = CacheInput<C, T>;
    type Output = CacheOutput<T>;
    type Next = CacheNext<C, T>;

    fn evaluate(&self, now: Cycle, input: &Self::Input) -> (Self::Output, Self::Next) {
        let starting = self.lookup.output().map(|slot| (slot, self.look(slot)));
        let ending = self.processing.output().map(|(slot, seen)| (slot, seen, self.decide(slot, seen)));
        let packet_waits =
            ending.is_some_and(|(slot, _, action)| action.waits() && !slot.second_pass && !slot.keeps_slot());
        let arbitration = self.arbitrate(now, input, usize::from(packet_waits));
        let entering = arbitration.choice.and_then(|choice| self.entering(now, choice, input));
        let flush = input.flush.clone().filter(|_| self.flush.is_none());
        let output = CacheOutput {
            accepted: Accepted {
                ulp: arbitration.choice == Some(Choice::Ulp),
                network: arbitration.choice == Some(Choice::Network),
                result: arbitration.choice == Some(Choice::Result),
                flush: flush.is_some(),
            },
            issued: match &entering {
                Some(slot) => {
                    Some(Issued { cid: slot.cid, event: slot.work.event(), second_pass: slot.second_pass })
                }
                None if arbitration.choice.is_none() => None,
                None => self.backing.completion(now).map(|(cid, operation)| Issued {
                    cid,
                    event: match operation {
                        Operation::Read => Event::ReadCompletion,
                        Operation::Write => Event::WriteCompletion,
                    },
                    second_pass: false,
                }),
            },
            processed: starting.and_then(|(slot, seen)| match (&slot.work, seen.entry) {
                (Work::Command(source, command), Some(entry)) if seen.hit => Some(Processed {
                    command: *command,
                    source: *source,
                    entry,
                    accepted: slot.accepted,
                    first_pass: !slot.second_pass,
                }),
                _ => None,
            }),
            dropped: ending.and_then(|(slot, _, action)| match (&slot.work, action) {
                (Work::Command(_, command), Action::Drop | Action::Discard) => Some(*command),
                _ => None,
            }),
            transition: ending.filter(|(.., action)| *action != Action::Discard).map(
                |(slot, seen, action)| {
                    let (from, event) = (seen.state, slot.work.event());
                    let to = if action.moves() { from.after(event).unwrap_or(from) } else { from };
                    let takes = from == State::Invalid && to != State::Invalid;
                    let entry = if takes { self.entries.next_free() } else { seen.entry };
                    Transition { cid: slot.cid, entry, event, from, to, waits: action.waits() }
                },
            ),
            memory: self.backing.takes(now),
            flush_busy: self.flush.is_some(),
        };
        let next = CacheNext {
            arbitration,
            entering,
            seen: starting.map(|(_, seen)| seen),
            action: ending.map(|(.., action)| action),
            update: input.update.clone(),
            flush,
            done: [input.transmit_done, input.reorder_done],
        };
        (output, next)
    }

    fn commit(&mut self, now: Cycle, next: &Self::Next) {
        let Arbitration { choice, rotate, next_candidate, .. } = next.arbitration;
        // This comes before the requests of this edge are entered. The memory takes those in the next cycle at the
        // earliest.
        let completion = self.backing.commit(now, choice == Some(Choice::Completion));
        if let (Some((slot, seen)), Some(action)) = (self.processing.output().cloned(), next.action) {
            self.slots_kept -= usize::from(slot.keeps_slot());
            self.carry_out(slot, &seen, action, next.update.as_ref());
        }
        for (cid, counter) in next.done.iter().zip([Counter::Transmit, Counter::Reorder]) {
            let Some(cid) = cid else { continue };
            self.statistics.not_pending += u64::from(!self.entries.lower(*cid, counter));
        }
        let arriving = self.lookup.output().cloned();
        self.processing.commit(arriving.zip(next.seen));
        if rotate {
            self.queues.rotate();
        }
        if choice == Some(Choice::SecondPass) {
            self.queues.issue();
        }
        let completed = completion.map(|completion| Slot {
            cid: completion.cid,
            work: completion.read.map_or(Work::WriteCompletion, Work::ReadCompletion),
            accepted: now,
            second_pass: false,
        });
        let entering = completed.or_else(|| next.entering.clone());
        if let Some(slot) = &entering {
            self.enter(now, slot);
        }
        self.lookup.commit(entering);
        match choice {
            Some(Choice::Ulp) => self.ulp_first = false,
            Some(Choice::Network) => self.ulp_first = true,
            Some(Choice::Flush) => self.set_flush_stage(FlushStage::Issued),
            _ => {}
        }
        if let Some(flush) = &next.flush {
            self.flush = Some((flush.clone(), FlushStage::Requested));
        }
        if next_candidate {
            self.entries.next_candidate();
        }
        self.statistics.commands += u64::from(matches!(choice, Some(Choice::Ulp | Choice::Network)));
        self.count_arbitration(&next.arbitration);
    }

    /// Returns the next cycle with work. While more entries are occupied than the threshold allows, that is every
    /// cycle, because the eviction policy examines another entry in each cycle.
    fn next_event(&self, now: Cycle) -> Option<Cycle> {
        let busy = !self.lookup.is_empty()
            || !self.processing.is_empty()
            || self.queues.is_ready()
            || matches!(self.flush, Some((_, FlushStage::Requested)))
            || self.entries.over_threshold(self.victims);
        if busy { Some(now) } else { self.backing.next_event().map(|event| event.max(now)) }
    }
}
