//! A shard: what one engine needs to choose its connections. The node page with the doorbells, the timing wheel, the place
//! of its round robin, and the receive cells. A node has one shard.
//!
//! A host has the parts in one piece, [`Shard`]. The XDP programs have each in a map of its own: applications map the page
//! and nothing else, and several CPUs allocate cells. [`Parts`] is where a platform has them, and what both do with them.

#[cfg(not(target_arch = "bpf"))]
mod owned;
mod page;
mod ready;

use crate::ids::CellId;
use crate::queues::CONNECTIONS;
use crate::timing_wheel::{Polled, TimingWheel, WheelTick};
use crate::units::{Picoseconds, Ticks};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

#[cfg(not(target_arch = "bpf"))]
pub use owned::Shard;
pub use page::{NodePage, READY_WORDS, SLEEPERS_SLACK};
pub use ready::ReadySet;

/// The timing wheel of a shard.
pub type Wheel = TimingWheel<CONNECTIONS>;

/// Where the engine is in its round. Only the engine uses it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduler {
    /// The slot at which the next search begins.
    pub next: u32,
}

/// Where a platform has the parts of a shard. A part is `None` only if the platform could not reach the part, which
/// the kernel's verifier does not exclude for a map. Then nothing happens.
///
/// The page is for everybody. Only the engine may use wheel and scheduler, and the functions that need them:
/// [`next_ready`](Self::next_ready), [`answer`](Self::answer), [`expired`](Self::expired) and [`file`](Self::file).
pub trait Parts {
    /// Returns the node page.
    fn page(&self) -> Option<&NodePage>;
    /// Returns the node page, and where the engine is in its round.
    fn round(&mut self) -> Option<(&NodePage, &mut Scheduler)>;
    /// Returns the timing wheel, and the look-up of the node page, which is needed only if the wheel has changed.
    fn wheel<'a>(&'a mut self) -> Option<(&'a mut Wheel, impl FnOnce() -> Option<&'a NodePage>)>;
    /// Takes a free receive cell, if there is one.
    fn take_cell(&mut self) -> Option<CellId>;
    /// Puts a cell back to the free ones. Returns false if they are complete: then somebody frees a cell twice.
    fn put_cell(&mut self, cell: CellId) -> bool;
    /// Wakes the sleeping thread of the engine, for `slot`.
    fn wake_thread(&self, slot: u32);

    /// Asks the engine to service `slot`, and wakes it if it sleeps.
    #[inline(always)]
    fn wake(&self, slot: u32) {
        if let Some(page) = self.page()
            && page.ring(slot)
        {
            page.wakeups.fetch_add(1, SeqCst);
            self.wake_thread(slot);
        }
    }

    /// Asks the engine to service `slot` by `deadline`. A sleeping engine is not woken if it will wake up by then or not
    /// much later.
    #[inline(always)]
    fn wake_by(&self, slot: u32, deadline: Picoseconds) {
        if let Some(page) = self.page()
            && page.ring_by(slot, deadline)
        {
            page.wakeups.fetch_add(1, SeqCst);
            self.wake_thread(slot);
        }
    }

    /// Returns the next connection that asks for a service, round robin. It goes on asking until [`Self::answer`].
    #[inline(always)]
    fn next_ready(&mut self) -> Option<u32> {
        let (page, scheduler) = self.round()?;
        page.ready.next(&mut scheduler.next)
    }

    /// Withdraws the request of `slot` for a service.
    #[inline(always)]
    fn answer(&self, slot: u32) {
        if let Some(page) = self.page() {
            page.clear_ready(slot);
        }
    }

    /// Returns a connection whose deadline has passed, if any.
    #[inline(always)]
    fn expired(&mut self, now: Picoseconds) -> Option<u32> {
        let (wheel, page) = self.wheel()?;
        let expired = match wheel.poll(WheelTick::at(now)) {
            Polled::Idle => return None,
            Polled::Busy => None,
            Polled::Expired(slot) => Some(slot),
        };
        publish_deadline(page(), wheel);
        expired
    }

    /// Enters a deadline of `slot` into the timing wheel, `ticks` from now.
    #[inline(always)]
    fn file(&mut self, slot: u32, now: Picoseconds, ticks: Ticks) {
        let Some((wheel, page)) = self.wheel() else { return };
        wheel.start(WheelTick::at(now));
        wheel.schedule(slot, WheelTick::deadline(now, ticks));
        publish_deadline(page(), wheel);
    }

    /// Allocates a receive cell. Returns [`CellId::NONE`] if there is none.
    #[inline(always)]
    fn allocate_cell(&mut self) -> CellId {
        let Some(cell) = self.take_cell() else { return CellId::NONE };
        if let Some(page) = self.page() {
            page.cells_in_use.fetch_add(1, SeqCst);
        }
        cell
    }

    /// Gives a cell back.
    #[inline(always)]
    fn free_cell(&mut self, cell: CellId) {
        if self.put_cell(cell)
            && let Some(page) = self.page()
        {
            page.cells_in_use.fetch_add(u64::MAX, SeqCst);
        }
    }

    /// Returns the number of receive cells in use.
    #[inline(always)]
    fn cells_in_use(&self) -> u32 {
        self.page().map_or(0, |page| page.cells_in_use.load(Relaxed) as u32)
    }
}

/// Reports the next deadline of the wheel to the engine's thread.
#[inline(always)]
fn publish_deadline(page: Option<&NodePage>, wheel: &Wheel) {
    if let Some(page) = page {
        let at = match wheel.next_event() {
            Some(tick) => tick.start().0.max(1),
            None => 0,
        };
        page.next_deadline.store(at, Relaxed);
    }
}

#[cfg(test)]
mod tests;
