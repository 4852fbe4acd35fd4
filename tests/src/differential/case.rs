//! A case: the initial state, and the event.

use host_nic::HostNic;
use transport_common::connection::Snapshot;
use transport_common::ids::CellId;
use transport_common::queues::{CELL_BYTES, QueuePair, REGIONS, Region};
use transport_common::transaction::RequestState;
use transport_common::units::Picoseconds;

/// The number of held requests whose cells a case contains.
const CELLS: usize = 8;

/// The event of the connection.
#[derive(Clone, Debug)]
pub enum Stimulus {
    /// A frame arrives.
    Frame(Vec<u8>),
    /// The engine services it.
    Turn {
        /// Whether its deadline is the reason, and not a doorbell.
        fired: bool,
        /// Whether the engine checks the wheel in this frame.
        looks: bool,
    },
}

/// A connection's initial state, and its event.
pub struct Case {
    /// The slot of the connection.
    pub slot: usize,
    /// The time of the card's clock when the state was taken.
    pub taken: Picoseconds,
    /// Context and tables.
    pub entry: Box<Snapshot>,
    /// Queues.
    pub queues: Box<QueuePair>,
    /// The node's regions.
    pub regions: Box<[Region; REGIONS]>,
    /// Cells that hold requests, and their contents.
    pub cells: Vec<(CellId, Box<[u8; CELL_BYTES]>)>,
    /// The event.
    pub stimulus: Stimulus,
}

/// Returns a copy of queues that nobody else writes at this time.
fn copy(queues: &QueuePair) -> Box<QueuePair> {
    let mut copy = bytemuck::zeroed_box();
    restore(queues, &mut copy);
    copy
}

/// Copies queues that nobody else writes at this time.
pub(super) fn restore(from: &QueuePair, to: &mut QueuePair) {
    let to = core::ptr::from_mut(to).cast::<u8>();
    let from = bytes(from);
    // SAFETY: `to` is as long as `from`, and nothing else refers to it. Any bytes are valid queues: all fields are
    // numbers, in cells and atomics or without.
    unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
}

/// Returns the bytes of queues that nobody else writes at this time.
pub(crate) fn bytes(queues: &QueuePair) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<QueuePair>()];
    // SAFETY: the vector has the size of the queues. No byte of them is uninitialised: `transport_common::queues`
    // asserts that the sizes of the fields add up to the size of the structure, and all fields are numbers. The
    // copy goes through pointers, so it makes no reference to the cells' contents.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(core::ptr::from_ref(queues).cast(), bytes.len()) };
    bytes
}

impl Case {
    /// Returns the current state of `slot` of a card.
    #[must_use]
    pub fn snapshot(nic: &HostNic, slot: usize, stimulus: Stimulus) -> Self {
        let entry = nic.entry(slot);
        let held = entry
            .tables
            .requests
            .iter()
            .filter(|request| matches!(request.state, RequestState::Held | RequestState::Rnr));
        // The next in order is first, because a service by the engine may take it out.
        let mut cells: Vec<_> = held
            .map(|request| (request.rsn.distance_from(entry.connection.target.nrsn), request.cell))
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

    /// Returns a copy of the case, for further mutation.
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
