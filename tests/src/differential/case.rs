//! A case: the state before, and what happens.

use host_nic::HostNic;
use transport_common::connection::Entry;
use transport_common::queues::{CELL_BYTES, QueuePair, REGIONS, Region};
use transport_common::transaction::RequestState;
use transport_common::units::Picoseconds;

/// Held requests whose cells a case brings along.
const CELLS: usize = 8;

/// What happens to the connection.
#[derive(Clone, Debug)]
pub enum Stimulus {
    /// This frame arrives.
    Frame(Vec<u8>),
    /// The engine turns to it.
    Turn {
        /// Because its deadline has come, not because of a doorbell.
        fired: bool,
        /// The engine looks at the wheel in this frame.
        looks: bool,
    },
}

/// A connection's state before, and what happens to it.
pub struct Case {
    /// The slot it stands in.
    pub slot: usize,
    /// What the card's clock showed when the state was taken.
    pub taken: Picoseconds,
    /// Context and tables.
    pub entry: Box<Entry>,
    /// Queues.
    pub queues: Box<QueuePair>,
    /// The node's regions.
    pub regions: Box<[Region; REGIONS]>,
    /// Cells that hold requests, and their contents.
    pub cells: Vec<(u32, Box<[u8; CELL_BYTES]>)>,
    /// What happens.
    pub stimulus: Stimulus,
}

/// A copy of queues that nobody else writes at this time.
fn copy(queues: &QueuePair) -> Box<QueuePair> {
    // SAFETY: integers only, zero is valid.
    let mut copy: Box<QueuePair> = unsafe { Box::new_zeroed().assume_init() };
    restore(queues, &mut copy);
    copy
}

/// Copies queues that nobody else writes at this time.
pub(super) fn restore(from: &QueuePair, to: &mut QueuePair) {
    // SAFETY: integers in cells and atomics; both are whole values and no one else writes them.
    unsafe { core::ptr::copy_nonoverlapping(from, to, 1) };
}

/// The bytes of queues that nobody else writes at this time.
pub(super) fn bytes(queues: &QueuePair) -> &[u8] {
    // SAFETY: integers without padding (their sizes are asserted where they are defined), not written meanwhile.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(queues).cast(), size_of::<QueuePair>()) }
}

impl Case {
    /// The state of `slot` of a card as it is now.
    #[must_use]
    pub fn snapshot(nic: &HostNic, slot: usize, stimulus: Stimulus) -> Self {
        let entry = nic.entry(slot);
        let held = entry
            .tables
            .requests
            .iter()
            .filter(|request| matches!(request.state, RequestState::Held | RequestState::Rnr));
        // The next in order first: it is the one that an engine's turn may take out.
        let mut cells: Vec<_> = held
            .map(|request| (request.rsn.distance_from(entry.connection.target.nrsn), u32::from(request.cell)))
            .collect();
        cells.sort_unstable();
        let contents =
            cells.into_iter().take(CELLS).filter_map(|(_, cell)| Some((cell, Box::new(*nic.cell(cell)?))));
        Self {
            slot,
            taken: nic.now(),
            entry: Box::new(*entry),
            queues: copy(nic.queue_pair(slot)),
            regions: Box::new(*nic.regions()),
            cells: contents.collect(),
            stimulus,
        }
    }

    /// The same case again, to be bent further.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self {
            slot: self.slot,
            taken: self.taken,
            entry: self.entry.clone(),
            queues: copy(&self.queues),
            regions: self.regions.clone(),
            cells: self.cells.clone(),
            stimulus: self.stimulus.clone(),
        }
    }
}
