//! The arbiter: it chooses what enters the pipeline in each cycle.

use clocked::Cycle;
use transport_common::ids::Cid;

use super::cache::{ContextCache, FlushStage};
use super::choice::{Arbitration, Choice, Stall};
use super::command::{CacheInput, Context, Source};
use super::pipeline::{Slot, Work};

impl<C: Context, T: Copy> ContextCache<C, T> {
    /// Returns the stall of a connection that ends last, or `None` if the connection is not stalled.
    fn stall(&self, now: Cycle, cid: Cid) -> Option<Stall> {
        let stalls = |stall: &&Stall| stall.cid == cid && now < stall.until;
        self.stalls.iter().filter(stalls).max_by_key(|stall| stall.until).copied()
    }

    /// Chooses what enters the pipeline. `slots_taken` is the number of miss-queue slots that a packet takes in
    /// this cycle.
    pub(super) fn arbitrate(&self, now: Cycle, input: &CacheInput<C, T>, slots_taken: usize) -> Arbitration {
        let mut found = Arbitration::default();
        let mut free = |cid| match self.stall(now, cid) {
            None => true,
            Some(stall) => {
                found.stalled_deallocation |= stall.deallocation;
                found.stalled_same_connection |= !stall.deallocation;
                false
            }
        };
        let mut choice = None;
        if let Some((cid, _)) = self.backing.completion(now)
            && free(cid)
        {
            choice = Some(Choice::Completion);
        }
        let mut rotate = false;
        if choice.is_none()
            && let Some((cid, _)) = self.queues.ready()
        {
            rotate = !free(cid);
            choice = (!rotate).then_some(Choice::SecondPass);
        }
        let room = self.queues.room() > self.slots_kept + slots_taken;
        if let Some((flush, FlushStage::Requested)) = &self.flush
            && choice.is_none()
            && room
            && free(flush.cid)
        {
            choice = Some(Choice::Flush);
        }
        if let Some((cid, _)) = input.result
            && choice.is_none()
            && room
            && free(cid)
        {
            choice = Some(Choice::Result);
        }
        let mut next_candidate = false;
        if choice.is_none() && self.entries.over_threshold(self.victims) {
            let victim = self.entries.candidate().filter(|cid| !self.queues.contains(*cid) && free(*cid));
            choice = victim.map(Choice::Evict);
            next_candidate = true;
        }
        let order =
            if self.ulp_first { [Choice::Ulp, Choice::Network] } else { [Choice::Network, Choice::Ulp] };
        for of in order {
            let command = if of == Choice::Ulp { input.ulp } else { input.network };
            let Some(command) = command else { continue };
            let fits = of == Choice::Network || room;
            if choice.is_none() && fits && free(command.cid) {
                choice = Some(of);
            }
        }
        found.stalled_miss_queue = input.ulp.is_some() && !room;
        Arbitration { choice, rotate, next_candidate, ..found }
    }

    /// Returns the slot that enters the pipeline. For a memory completion it returns `None`.
    pub(super) fn entering(
        &self,
        now: Cycle,
        choice: Choice,
        input: &CacheInput<C, T>,
    ) -> Option<Slot<C, T>> {
        let command = |source, command: &Option<_>| command.map(|of| Work::Command(source, of));
        let (cid, work) = match choice {
            Choice::Completion => return None,
            Choice::SecondPass => {
                let (_, slot) = self.queues.ready()?;
                return Some(Slot { second_pass: true, ..slot.clone() });
            }
            Choice::Flush => self.flush.as_ref().map(|(flush, _)| (flush.cid, Work::Flush(flush.mode)))?,
            Choice::Result => input.result.clone().map(|(cid, result)| (cid, Work::Result(result)))?,
            Choice::Evict(cid) => (cid, Work::Evict),
            Choice::Ulp => (input.ulp?.cid, command(Source::Ulp, &input.ulp)?),
            Choice::Network => (input.network?.cid, command(Source::Network, &input.network)?),
        };
        Some(Slot { cid, work, accepted: now, second_pass: false })
    }

    /// Updates the stalls and the counts at the clock edge for the slot that enters the pipeline.
    pub(super) fn enter(&mut self, now: Cycle, slot: &Slot<C, T>) {
        let deallocation = matches!(slot.work, Work::WriteCompletion);
        let stall = if deallocation { self.parameters.deallocation_stall + 1 } else { 0 };
        self.stalls.retain(|stall| stall.until > now + 1);
        self.stalls.push_back(Stall { cid: slot.cid, until: now + stall.max(self.spacing), deallocation });
        self.slots_kept += usize::from(slot.keeps_slot());
        self.victims += u32::from(matches!(slot.work, Work::Evict));
    }

    pub(super) fn count_arbitration(&mut self, arbitration: &Arbitration) {
        let Arbitration { stalled_same_connection, stalled_deallocation, stalled_miss_queue, .. } =
            arbitration;
        self.statistics.stalls_same_connection += u64::from(*stalled_same_connection);
        self.statistics.stalls_deallocation += u64::from(*stalled_deallocation);
        self.statistics.stalls_miss_queue += u64::from(*stalled_miss_queue);
    }
}
