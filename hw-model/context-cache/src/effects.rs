//! The effects of an action on the cache at the end of processing.

use transport_common::ids::Cid;

use super::cache::{ContextCache, FlushStage};
use super::command::{Command, Context, FlushMode, Source};
use super::entry::State;
use super::memory::Access;
use super::miss_queue::Phase;
use super::pipeline::{Action, Seen, Slot, Work};

impl<C: Context, T: Copy> ContextCache<C, T> {
    /// Carries out the action at the clock edge.
    pub(super) fn carry_out(&mut self, slot: Slot<C, T>, seen: &Seen, action: Action, update: Option<&C>) {
        self.count(&slot, seen, action);
        self.victims -= u32::from(matches!(slot.work, Work::Evict));
        let cid = slot.cid;
        match (action, seen.entry) {
            (Action::Process, Some(entry)) => self.process(&slot, entry, update),
            (Action::Queue | Action::QueueBehind, _) => self.wait(slot, Phase::Memory),
            (Action::QueueForEntry, _) => self.wait(slot, Phase::Entry),
            (Action::Allocate, _) => {
                self.entries.take(cid, State::Allocated);
                self.request(cid, Access::Read);
                self.wait(slot, Phase::Memory);
            }
            (Action::Recall, Some(entry)) => {
                self.entries.set_state(entry, State::Allocated);
                self.wait(slot, Phase::Memory);
            }
            (Action::Discard, _) if matches!(slot.work, Work::Flush(_)) => self.flush = None,
            (Action::Fill, Some(entry)) => {
                if let Work::ReadCompletion(context) = slot.work {
                    self.entries.get_mut(entry).context = context;
                }
                self.entries.set_state(entry, State::Valid);
                self.queues.set_phase(cid, Phase::Drain);
            }
            (Action::ReadAgain, Some(entry)) => {
                self.written(cid, entry);
                self.request(cid, Access::Read);
            }
            (Action::Free, Some(entry)) => {
                self.written(cid, entry);
                self.entries.set_state(entry, State::Invalid);
                self.queues.entry_freed(cid);
            }
            (Action::WrittenThrough, Some(entry)) => {
                self.written(cid, entry);
                self.queues.set_phase(cid, Phase::Drain);
            }
            (Action::WriteBack, Some(entry)) => {
                let of = self.entries.get_mut(entry);
                of.writing = true;
                let context = of.context.clone();
                self.entries.set_state(entry, State::Evicting);
                self.request(cid, Access::Write(context));
            }
            (Action::WriteThrough | Action::Replace | Action::Merge, Some(entry)) => {
                self.write_cached(&slot, entry);
            }
            (Action::WriteDirect | Action::Install, _) => self.write_uncached(&slot),
            _ => {}
        }
        self.queues.entries_free(self.entries.free());
        let statistics = &mut self.statistics;
        statistics.miss_queue_peak = statistics.miss_queue_peak.max(self.queues.len() as u64);
        statistics.occupied_peak = statistics.occupied_peak.max(self.entries.occupied().into());
    }

    fn process(&mut self, slot: &Slot<C, T>, entry: u32, update: Option<&C>) {
        if let Some(context) = update {
            self.entries.get_mut(entry).context.clone_from(context);
        }
        if let Work::Command(_, Command { pending: Some(counter), .. }) = slot.work {
            self.entries.raise(entry, counter);
        }
        if slot.second_pass {
            self.queues.leave(slot.cid, true);
        }
    }

    /// Puts the work into the miss queue. On its second pass the work is already there, so only its phase changes.
    fn wait(&mut self, slot: Slot<C, T>, phase: Phase) {
        let cid = slot.cid;
        if slot.second_pass { self.queues.wait(cid, phase) } else { self.queues.append(cid, slot, phase) }
    }

    fn request(&mut self, cid: Cid, access: Access<C>) {
        match access {
            Access::Read => self.statistics.memory_reads += 1,
            Access::Write(_) | Access::Merge(_) => self.statistics.memory_writes += 1,
        }
        self.backing.request(cid, access);
    }

    /// Marks the write as complete. If it was the write of the flush, the flush is complete too.
    fn written(&mut self, cid: Cid, entry: u32) {
        self.entries.get_mut(entry).writing = false;
        self.flush.take_if(|(flush, stage)| flush.cid == cid && *stage == FlushStage::Writing);
    }

    pub(super) const fn set_flush_stage(&mut self, to: FlushStage) {
        if let Some((_, stage)) = &mut self.flush {
            *stage = to;
        }
    }

    /// Applies a flush or a result to a context that is in the cache.
    fn write_cached(&mut self, slot: &Slot<C, T>, entry: u32) {
        match (&slot.work, self.flush.as_ref()) {
            (Work::Result(result), _) => self.entries.get_mut(entry).context.merge(result),
            (Work::Flush(mode), Some((flush, _))) => {
                let context = flush.context.clone();
                let of = self.entries.get_mut(entry);
                of.context.clone_from(&context);
                if *mode == FlushMode::Through {
                    of.writing = true;
                    self.set_flush_stage(FlushStage::Writing);
                    self.request(slot.cid, Access::Write(context));
                } else {
                    self.flush = None;
                }
            }
            _ => {}
        }
        if slot.second_pass {
            self.queues.leave(slot.cid, true);
        }
    }

    /// Applies a flush or a result to a context that is not in the cache.
    fn write_uncached(&mut self, slot: &Slot<C, T>) {
        let cid = slot.cid;
        let (state, access) = match (&slot.work, self.flush.as_ref()) {
            (Work::Result(result), _) => (State::Evicting, Some(Access::Merge(result.clone()))),
            (Work::Flush(FlushMode::Through), Some((flush, _))) => {
                (State::Evicting, Some(Access::Write(flush.context.clone())))
            }
            _ => (State::Valid, None),
        };
        let Some(entry) = self.entries.take(cid, state) else { return };
        if let Some(access) = access {
            self.entries.get_mut(entry).writing = true;
            if matches!(slot.work, Work::Flush(_)) {
                self.set_flush_stage(FlushStage::Writing);
            }
            self.request(cid, access);
        } else if let Some((flush, _)) = self.flush.take() {
            self.entries.get_mut(entry).context = flush.context;
        }
        if slot.second_pass {
            self.queues.leave(cid, state == State::Valid);
        }
    }

    fn count(&mut self, slot: &Slot<C, T>, seen: &Seen, action: Action) {
        let statistics = &mut self.statistics;
        match &slot.work {
            _ if action == Action::Discard => statistics.unknown += 1,
            Work::Command(source, _) => {
                if !slot.second_pass {
                    let hit = seen.state == State::Valid;
                    statistics.hits += u64::from(hit);
                    statistics.misses += u64::from(!hit);
                    statistics.misses_on_the_way += u64::from(seen.state == State::Allocated);
                    let ordered = hit && *source == Source::Ulp && action == Action::Queue;
                    statistics.queued_for_order += u64::from(ordered);
                }
                statistics.processed += u64::from(action == Action::Process);
                statistics.dropped += u64::from(action == Action::Drop);
                statistics.evictions_regretted += u64::from(action == Action::Recall);
            }
            Work::Flush(_) | Work::Result(_) => {
                let stalls = matches!(seen.state, State::Allocated | State::Evicting);
                statistics.stalled_writes += u64::from(stalls && action == Action::Queue);
            }
            Work::Evict => {
                statistics.evictions += u64::from(action == Action::WriteBack);
                statistics.evictions_refused += u64::from(action == Action::Refuse);
            }
            Work::ReadCompletion(_) | Work::WriteCompletion => {}
        }
        statistics.waits_for_entry += u64::from(action == Action::QueueForEntry);
    }
}
