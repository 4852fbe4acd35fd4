//! The card's state, open to those who watch it, play a part of it, or compare it with another's.

use transport_common::connection::Entry;
use transport_common::counters::Counter;
use transport_common::queues::{CELL_BYTES, CELLS, CONNECTIONS, QueuePair, REGIONS, Region};
use transport_common::timing_wheel::TimingWheel;

use super::{Doorbells, HostNic};

impl HostNic {
    /// The node's memory.
    pub fn memory(&self) -> &[u8] {
        &self.card.memory
    }

    /// The node's memory, as its application writes it.
    pub fn memory_mut(&mut self) -> &mut [u8] {
        &mut self.card.memory
    }

    /// The context and tables of `slot`.
    ///
    /// # Panics
    /// While a run of the datapath holds its lock.
    pub fn entry(&self, slot: usize) -> &Entry {
        self.card.connections.entry(slot)
    }

    /// The context and tables of `slot`, for those who play the rate update engine or restore a state.
    ///
    /// # Panics
    /// While a run of the datapath holds its lock.
    pub fn entry_mut(&mut self, slot: usize) -> &mut Entry {
        self.card.connections.entry_mut(slot)
    }

    /// The queues of `slot`.
    pub fn queue_pair(&self, slot: usize) -> &QueuePair {
        self.card.connections.queue_pair(slot)
    }

    /// The doorbells.
    pub fn doorbells(&mut self) -> &mut Doorbells {
        &mut self.card.doorbells
    }

    /// The timing wheel.
    pub fn wheel(&mut self) -> &mut TimingWheel<CONNECTIONS> {
        &mut self.card.wheel
    }

    /// Contents of a receive cell.
    pub fn cell(&self, cell: u32) -> Option<&[u8; CELL_BYTES]> {
        self.card.cell(cell)
    }

    /// Free receive cells, the next to be taken last.
    pub fn free_cells(&self) -> &[u32] {
        &self.card.free_cells
    }

    /// Receive cells in use.
    pub fn cells_in_use(&self) -> usize {
        self.card.cells.len() - self.card.free_cells.len()
    }

    /// A counter.
    pub const fn counter(&self, counter: Counter) -> u64 {
        self.card.counters[counter as usize]
    }

    /// All counters, by [`Counter`].
    pub const fn counters(&self) -> &[u64; Counter::COUNT] {
        &self.card.counters
    }

    /// The queues of `slot`, to be restored as a whole.
    ///
    /// # Panics
    /// While a run of the datapath holds a lock.
    pub fn queue_pair_mut(&mut self, slot: usize) -> &mut QueuePair {
        self.card.connections.queue_pair_mut(slot)
    }

    /// The region table.
    pub fn regions(&self) -> &[Region; REGIONS] {
        &self.card.regions
    }

    /// The region table, to be restored as a whole.
    pub fn regions_mut(&mut self) -> &mut [Region; REGIONS] {
        &mut self.card.regions
    }

    /// Contents of a receive cell.
    pub fn cell_mut(&mut self, cell: u32) -> Option<&mut [u8; CELL_BYTES]> {
        self.card.cell_mut(cell)
    }

    /// Replaces the free receive cells, the next to be taken last.
    ///
    /// # Panics
    /// If there are more than cells.
    pub fn set_free_cells(&mut self, cells: Vec<u32>) {
        assert!(cells.len() <= CELLS, "{} free cells of {CELLS}", cells.len());
        self.card.free_cells = cells;
    }

    /// Frames the engine was handed so far.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Sets the number of frames the engine was handed, which decides when it looks at the wheel.
    pub const fn set_frames(&mut self, frames: u64) {
        self.frames = frames;
    }
}
