//! The connection slots in use, and their CIDs.
//!
//! The slot of a CID is its value modulo the number of slots. The upper bits count the connections that have used
//! the slot, so that a late packet of a closed connection does not reach the next connection of the slot.

use std::sync::{Arc, Mutex, MutexGuard};

use transport_common::ids::{Cid, Slot};
use transport_common::queues::CONNECTIONS;

use crate::common::error::Error;

/// Number of different CIDs of one slot, in 24 bits.
const INCARNATIONS: u32 = (Cid::MAX + 1) / CONNECTIONS as u32;

#[derive(Clone, Copy, Debug, Default)]
struct SlotState {
    occupant: Option<Cid>,
    /// Number of the next connection of the slot.
    generation: u32,
}

/// The slots of a node.
#[derive(Debug)]
pub struct Cids {
    slots: Mutex<[SlotState; CONNECTIONS]>,
}

impl Cids {
    /// Makes slots that are all free.
    pub fn new() -> Arc<Self> {
        let mut slots = [SlotState::default(); CONNECTIONS];
        // CID 0 is not used: in captures and tables it looks like "none".
        slots[0].generation = 1;
        Arc::new(Self { slots: Mutex::new(slots) })
    }

    /// Reserves the free slot that was used least often.
    pub fn reserve(self: &Arc<Self>) -> Result<CidReservation, Error> {
        let mut slots = self.lock();
        let free = (0..CONNECTIONS).filter(|slot| slots[*slot].occupant.is_none());
        let slot = free.min_by_key(|slot| slots[*slot].generation).ok_or(Error::NoFreeCid(CONNECTIONS))?;
        let incarnation = slots[slot].generation % INCARNATIONS;
        let cid = incarnation * CONNECTIONS as u32 + slot as u32;
        Ok(self.occupy(&mut slots, Cid(if cid == 0 { CONNECTIONS as u32 } else { cid })))
    }

    /// Reserves the slot of the given CID.
    pub fn reserve_given(self: &Arc<Self>, cid: Cid) -> Result<CidReservation, Error> {
        if cid.0 == 0 || cid.0 > Cid::MAX {
            return Err(Error::BadCid(cid.0));
        }
        let mut slots = self.lock();
        let slot = slot_of(cid);
        match slots[slot].occupant {
            Some(occupant) => Err(Error::CidInUse { cid, occupant, slot }),
            None => Ok(self.occupy(&mut slots, cid)),
        }
    }

    fn occupy(self: &Arc<Self>, slots: &mut [SlotState; CONNECTIONS], cid: Cid) -> CidReservation {
        let state = &mut slots[slot_of(cid)];
        state.occupant = Some(cid);
        let generation = state.generation;
        state.generation = generation.wrapping_add(1);
        CidReservation { cids: Arc::clone(self), cid, generation }
    }

    fn lock(&self) -> MutexGuard<'_, [SlotState; CONNECTIONS]> {
        self.slots.lock().expect("no panic under the lock")
    }
}

/// Returns the slot of a CID.
pub const fn slot_of(cid: Cid) -> usize {
    Slot::of(cid).index()
}

/// A CID that is reserved for one connection. Dropping it frees the CID.
#[derive(Debug)]
pub struct CidReservation {
    cids: Arc<Cids>,
    cid: Cid,
    generation: u32,
}

impl CidReservation {
    /// Returns the CID.
    pub fn cid(&self) -> Cid {
        self.cid
    }

    /// Returns the number of this connection among those that have used the slot.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Makes it the reservation of the next connection with the same CID. The slot is never free in between.
    #[doc(hidden)]
    pub fn renew(&mut self) {
        let mut slots = self.cids.lock();
        let state = &mut slots[slot_of(self.cid)];
        self.generation = state.generation;
        state.generation = state.generation.wrapping_add(1);
    }

    /// Returns whether it was reserved from `cids`.
    #[doc(hidden)]
    pub fn is_from(&self, cids: &Arc<Cids>) -> bool {
        Arc::ptr_eq(&self.cids, cids)
    }
}

impl Drop for CidReservation {
    fn drop(&mut self) {
        self.cids.lock()[slot_of(self.cid)].occupant = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_slots_are_had_once_and_come_back() {
        let cids = Cids::new();
        let all: Vec<_> = (0..CONNECTIONS).map(|_| cids.reserve().expect("there is one")).collect();
        assert!(matches!(cids.reserve(), Err(Error::NoFreeCid(CONNECTIONS))));
        let mut slots: Vec<_> = all.iter().map(|r| slot_of(r.cid())).collect();
        slots.sort_unstable();
        assert!(slots.iter().enumerate().all(|(n, slot)| n == *slot));
        assert!(all.iter().all(|r| r.cid().0 != 0));
        drop(all);
        assert!(cids.reserve().is_ok());
    }

    #[test]
    fn a_slots_next_cid_is_another() {
        let cids = Cids::new();
        let keep: Vec<_> = (0..CONNECTIONS - 1).map(|_| cids.reserve().expect("there is one")).collect();
        let first = cids.reserve().expect("the last one").cid();
        let second = cids.reserve().expect("the same slot").cid();
        assert_eq!((slot_of(first), keep.len()), (slot_of(second), CONNECTIONS - 1));
        assert_ne!(first, second);
    }

    /// A connection that is reset keeps its slot, and is another one for packets that are late.
    #[test]
    fn a_renewed_reservation_keeps_the_slot() {
        let cids = Cids::new();
        let mut held = cids.reserve_given(Cid(5)).expect("free");
        let before = held.generation();
        held.renew();
        assert_ne!(held.generation(), before);
        assert!(matches!(cids.reserve_given(Cid(5)), Err(Error::CidInUse { .. })));
        let generation = held.generation();
        drop(held);
        assert_ne!(cids.reserve_given(Cid(5)).expect("free again").generation(), generation);
    }

    #[test]
    fn a_given_cid_in_use_names_the_occupant() {
        let cids = Cids::new();
        let held = cids.reserve_given(Cid(5)).expect("free");
        assert!(matches!(
            cids.reserve_given(Cid(261)),
            Err(Error::CidInUse { cid: Cid(261), occupant: Cid(5), slot: 5 })
        ));
        drop(held);
        assert!(cids.reserve_given(Cid(261)).is_ok());
        assert!(matches!(cids.reserve_given(Cid(0)), Err(Error::BadCid(0))));
        assert!(matches!(cids.reserve_given(Cid(1 << 24)), Err(Error::BadCid(_))));
    }
}
