//! The doorbells, and how a sleeping engine is woken.
//!
//! Whoever has work for the engine sets the connection's bit in [`NodePage::ready`] and then looks whether the engine
//! sleeps. The engine announces its sleep and then looks for bits for the last time. So at least one of the two sees the
//! write of the other. Between the write and the look, each of them needs a full barrier. `tests/threads.rs` tries all
//! orders of these accesses.

use super::{CONNECTIONS, NodePage, SLEEPERS_SLACK};
use crate::shared::fence;
use crate::units::Picoseconds;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Returns the index of a slot's word in [`NodePage::ready`], and its bit.
#[inline(always)]
const fn place(slot: u32) -> (usize, u64) {
    ((slot as usize / 64) & (CONNECTIONS / 64 - 1), 1 << (slot & 63))
}

impl NodePage {
    /// Asks the engine to serve `slot`, for work that was posted under the connection's lock or before a full barrier.
    /// Returns true if the engine sleeps and the caller must wake it. Of several callers, exactly one wakes it.
    #[inline(always)]
    #[must_use]
    pub fn ring(&self, slot: u32) -> bool {
        self.set_ready(slot);
        self.engine_sleeping.load(SeqCst) != 0 && self.must_wake()
    }

    /// Like [`Self::ring`], for work that was posted by plain stores.
    #[inline(always)]
    #[must_use]
    pub fn ring_posted(&self, slot: u32) -> bool {
        // The posted work must be visible before the bit is read: the engine clears the bit and then looks for
        // posted work.
        fence(SeqCst);
        self.ring(slot)
    }

    /// Asks the engine to serve `slot` by `deadline`. A sleeping engine is not woken if it will wake up by then or not
    /// much later. Returns true if the caller must wake it.
    #[inline(always)]
    #[must_use]
    pub fn ring_by(&self, slot: u32, deadline: Picoseconds) -> bool {
        self.set_ready(slot);
        if self.engine_sleeping.load(SeqCst) == 0 {
            return false;
        }
        let planned = self.planned_wake.load(Relaxed);
        let planned = Picoseconds(planned);
        (planned.0 == 0 || planned.is_later_than(deadline.after(SLEEPERS_SLACK))) && self.must_wake()
    }

    /// Sets the ready bit of `slot`. A bit that is already set is not written, so that the cache line stays in the
    /// engine's cache. The engine clears the bit before it takes the connection's lock, so a program that takes the lock
    /// after the engine sees the bit cleared. A program that released the lock before, which is a full barrier, and sees
    /// the bit set, is seen by the engine, which takes the lock after it has cleared the bit.
    #[inline(always)]
    pub fn set_ready(&self, slot: u32) {
        let (index, bit) = place(slot);
        let word = &self.ready[index];
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
    }

    /// Withdraws the request of `slot` for a service. The engine does so before it looks for the slot's work.
    #[inline(always)]
    pub fn clear_ready(&self, slot: u32) {
        let (index, bit) = place(slot);
        self.ready[index].fetch_and(!bit, SeqCst);
    }

    /// Announces that the engine sleeps until `planned_wake` of the clock, which wraps; 0 means without a limit. Then looks for the last time: returns false if a doorbell has rung, and the engine must not wait.
    /// [`Self::end_sleep`] follows in both cases.
    #[must_use]
    pub fn begin_sleep(&self, planned_wake: Picoseconds) -> bool {
        self.planned_wake.store(planned_wake.0, SeqCst);
        self.engine_sleeping.store(1, SeqCst);
        self.ready.iter().all(|word| word.load(SeqCst) == 0)
    }

    /// Announces that the engine is awake.
    pub fn end_sleep(&self) {
        self.engine_sleeping.store(0, SeqCst);
    }

    /// Returns whether the caller is the one that wakes the engine.
    #[inline(always)]
    fn must_wake(&self) -> bool {
        self.engine_sleeping.compare_exchange(1, 0, SeqCst, SeqCst).is_ok()
    }
}
