//! Access to the state of the card, for tests, tools, and models that replace a part of the card.

use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

use transport_common::connection::Snapshot;
use transport_common::counters::Counter;
use transport_common::ids::CellId;
use transport_common::queues::{CELL_BYTES, QueuePair, REGIONS, Region};
use transport_common::shard::{NodePage, Parts, Scheduler, Wheel};
use transport_common::units::Picoseconds;

use super::HostNic;

impl HostNic {
    /// Returns the node's memory.
    pub fn memory(&self) -> &[u8] {
        &self.card.memory
    }

    /// Returns the node's memory for writing, as an application does.
    pub fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.card.memory
    }

    /// Takes bytes of the node's memory away from the datapath, so that copies from and to them fail.
    pub fn lose_memory(&mut self, bytes: Range<u64>) {
        self.card.lost = bytes;
    }

    /// Exchanges the context and tables of `slot` for those of the caller, who keeps them between two runs.
    ///
    /// # Panics
    /// Panics while a run of the datapath holds its lock.
    pub fn exchange_entry(&mut self, slot: usize, entry: &mut Box<Snapshot>) {
        self.card.connections.exchange(slot, entry);
    }

    /// Returns the context and tables of `slot`.
    ///
    /// # Panics
    /// Panics while a run of the datapath holds its lock.
    pub fn entry(&self, slot: usize) -> &Snapshot {
        self.card.connections.entry(slot)
    }

    /// Returns the context and tables of `slot` for changes. Callers use it to act as the rate update engine or to
    /// restore a state.
    ///
    /// # Panics
    /// Panics while a run of the datapath holds its lock.
    pub fn entry_mut(&mut self, slot: usize) -> &mut Snapshot {
        self.card.connections.entry_mut(slot)
    }

    /// Returns the queues of `slot`.
    pub fn queue_pair(&self, slot: usize) -> &QueuePair {
        self.card.connections.queue_pair(slot)
    }

    /// Returns the node page, with the doorbells.
    pub const fn page(&self) -> &NodePage {
        &self.card.shard.page
    }

    /// Returns where the engine is in its round.
    pub const fn scheduler(&mut self) -> &mut Scheduler {
        &mut self.card.shard.scheduler
    }

    /// Returns the timing wheel.
    pub const fn wheel(&mut self) -> &mut Wheel {
        &mut self.card.shard.wheel
    }

    /// Returns the contents of a receive cell.
    pub fn cell(&self, cell: CellId) -> Option<&[u8; CELL_BYTES]> {
        self.card.cell(cell)
    }

    /// Returns the free receive cells. The last one is taken next.
    pub fn free_cells(&self) -> &[CellId] {
        self.card.shard.free_cells()
    }

    /// Returns the number of receive cells in use.
    pub fn cells_in_use(&self) -> usize {
        self.card.shard.cells_in_use() as usize
    }

    /// Returns a counter.
    pub const fn counter(&self, counter: Counter) -> u64 {
        self.card.counters[counter as usize]
    }

    /// Returns all counters, indexed by [`Counter`].
    pub const fn counters(&self) -> &[u64; Counter::COUNT] {
        &self.card.counters
    }

    /// Returns the queues of `slot` for restoring a state.
    ///
    /// # Panics
    /// Panics while a run of the datapath holds the lock of any connection.
    pub fn queue_pair_mut(&mut self, slot: usize) -> &mut QueuePair {
        self.card.connections.queue_pair_mut(slot)
    }

    /// Returns the region table.
    pub fn regions(&self) -> &[Region; REGIONS] {
        &self.card.regions
    }

    /// Returns the region table for restoring a state.
    pub fn regions_mut(&mut self) -> &mut [Region; REGIONS] {
        &mut self.card.regions
    }

    /// Returns the contents of a receive cell for changes.
    pub fn cell_mut(&mut self, cell: CellId) -> Option<&mut [u8; CELL_BYTES]> {
        self.card.cell_mut(cell)
    }

    /// Replaces the list of free receive cells. The last one is taken next.
    ///
    /// # Panics
    /// Panics if the list is longer than the card has cells.
    pub fn set_free_cells(&mut self, cells: &[CellId]) {
        self.card.shard.set_free_cells(cells);
    }

    /// Sets the clock to any time, for restoring a state. [`Self::set_time`] never goes back.
    pub const fn restore_time(&mut self, now: Picoseconds) {
        self.card.clock = now;
    }

    /// Returns the number of engine frames so far.
    pub fn frames(&self) -> u64 {
        self.page().frames.load(Relaxed)
    }

    /// Sets the number of engine frames so far. It decides when the engine polls the timing wheel.
    pub fn set_frames(&mut self, frames: u64) {
        self.page().frames.store(frames, Relaxed);
    }
}
