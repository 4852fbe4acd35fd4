//! Memory regions: pieces of the node's memory for operations. Peers access a registered region by its R_Key.

use std::sync::{Arc, Mutex};

use transport_common::ids::RKey;
use transport_common::queues::{AccessFlags, REGIONS, Region};

use crate::common::error::Error;
use crate::verbs::info::{Access, RegionInfo};
use crate::verbs::memory::Allocation;
use crate::verbs::shared::Shared;

/// The region table of this side.
#[derive(Debug)]
pub struct Regions {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    slots: [Option<RegionInfo>; REGIONS],
    /// Next key to try. A key is used again only after all others were used, so that an old key does not find a
    /// new region.
    next: u32,
    /// Next key to try for a temporary region. These keys descend.
    next_temporary: u32,
}

/// The choice of the key of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// This one.
    Given(RKey),
    /// The next free one, from 1.
    Next,
    /// The next free one from the largest key down, so that the keys that applications expect stay free.
    Temporary,
}

impl Regions {
    /// Makes an empty table. The first key is 1 (D-84).
    pub fn new() -> Arc<Self> {
        Arc::new(Self { table: Mutex::new(Table::new()) })
    }

    /// Registers `length` zeroed bytes.
    pub fn register(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        length: usize,
        access: Access,
        key: KeyChoice,
    ) -> Result<MemoryRegion, Error> {
        let mut table = self.table.lock().expect("no panic under the lock");
        let key = match key {
            KeyChoice::Given(key) => table.check(key)?,
            KeyChoice::Next => table.next_key()?,
            KeyChoice::Temporary => table.temporary_key()?,
        };
        let memory = Allocation::new(&shared.maps, &shared.pool, length)?;
        let info = RegionInfo { key, length: length as u64, offset: memory.offset(), access };
        table.slots[slot_of(key)] = Some(info);
        let entry = Region {
            offset: info.offset,
            length: info.length,
            key: key.0,
            access: access.flags(),
            ..Region::default()
        };
        publish(shared, key, entry);
        let registration = Registration { regions: Arc::clone(self), shared: Arc::clone(shared), info };
        Ok(MemoryRegion { registration: Some(Arc::new(registration)), memory: Arc::new(memory) })
    }

    /// Allocates `length` zeroed bytes that peers cannot access.
    pub fn allocate(shared: &Arc<Shared>, length: usize) -> Result<MemoryRegion, Error> {
        let memory = Allocation::new(&shared.maps, &shared.pool, length)?;
        Ok(MemoryRegion { registration: None, memory: Arc::new(memory) })
    }

    /// Returns whether the key may be registered now. It may not while its last region is being removed.
    pub fn is_free(&self, key: RKey) -> bool {
        self.table.try_lock().is_ok_and(|table| table.check(key).is_ok())
    }

    /// Returns all regions, by slot.
    pub fn all(&self) -> Vec<RegionInfo> {
        let table = self.table.lock().expect("no panic under the lock");
        table.slots.iter().flatten().copied().collect()
    }
}

impl Table {
    const fn new() -> Self {
        Self { slots: [None; REGIONS], next: 1, next_temporary: u32::MAX }
    }

    fn check(&self, key: RKey) -> Result<RKey, Error> {
        if key.0 == 0 {
            return Err(Error::BadRKey);
        }
        let slot = slot_of(key);
        match self.slots[slot] {
            Some(occupant) => Err(Error::RKeyInUse { key, occupant: occupant.key, slot }),
            None => Ok(key),
        }
    }

    fn next_key(&mut self) -> Result<RKey, Error> {
        for _ in 0..=REGIONS {
            let key = RKey(self.next);
            self.next = self.next.wrapping_add(1);
            if self.check(key).is_ok() {
                return Ok(key);
            }
        }
        Err(Error::NoFreeRegion(REGIONS))
    }

    fn temporary_key(&mut self) -> Result<RKey, Error> {
        for _ in 0..=REGIONS {
            let key = RKey(self.next_temporary);
            self.next_temporary = self.next_temporary.wrapping_sub(1);
            if self.check(key).is_ok() {
                return Ok(key);
            }
        }
        Err(Error::NoFreeRegion(REGIONS))
    }
}

fn slot_of(key: RKey) -> usize {
    key.0 as usize % REGIONS
}

/// Writes an entry of the datapath's table. The key is written last, so that no packet finds a mixture of two
/// regions.
fn publish(shared: &Shared, key: RKey, entry: Region) {
    let slot = shared.maps.regions.get(slot_of(key));
    slot.store(Region { key: 0, ..slot.load() });
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    slot.store(Region { key: 0, ..entry });
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    slot.store(entry);
}

/// Clears an entry of the datapath's table, and waits until no packet that found it before is being processed.
fn retract(shared: &Shared, key: RKey) {
    publish(shared, key, Region::default());
    if shared.is_down() {
        return;
    }
    shared.grace.wait();
}

/// An entry of the region table. Dropping it clears the entry.
#[derive(Debug)]
struct Registration {
    regions: Arc<Regions>,
    shared: Arc<Shared>,
    info: RegionInfo,
}

impl Registration {
    fn set_busy(&self, busy: bool) {
        let _table = self.regions.table.lock().expect("no panic under the lock");
        let slot = self.shared.maps.regions.get(slot_of(self.info.key));
        let mut entry = slot.load();
        // A key that was deregistered does not come back.
        if entry.key == self.info.key.0 {
            entry.access.set(AccessFlags::BUSY, busy);
            slot.store(entry);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.regions.table.lock().expect("no panic under the lock");
        retract(&self.shared, self.info.key);
        table.slots[slot_of(self.info.key)] = None;
    }
}

/// Memory of a node, registered or not.
///
/// Peers access registered memory by its key, within its access rights. Operations of this node use it as their
/// local buffer. Peers may read and write at any time. As with any RDMA, the application needs a protocol if
/// partial writes must not be seen. Clones refer to the same region. It is deregistered when the last clone is
/// dropped, or by [`MemoryRegion::deregister`]. Its bytes are reused only after the operations in flight have
/// ended.
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    // This field is dropped first: the key is removed before the bytes are freed.
    registration: Option<Arc<Registration>>,
    memory: Arc<Allocation>,
}

impl MemoryRegion {
    /// Returns the key that peers use. For memory that is not registered this is 0, which is never valid.
    pub fn key(&self) -> RKey {
        self.info().key
    }

    /// Returns the length in bytes, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns the rights of peers.
    pub fn access(&self) -> Access {
        self.info().access
    }

    /// Returns the key, the length and the rights.
    pub fn info(&self) -> RegionInfo {
        let (length, offset) = (self.memory.len() as u64, self.memory.offset());
        let unregistered = RegionInfo { key: RKey(0), length, offset, access: Access::LOCAL };
        self.registration.as_ref().map_or(unregistered, |registration| registration.info)
    }

    /// Returns a pointer to the first byte in this process's memory. It is valid for [`Self::len`] bytes while a
    /// clone of the region exists. The datapath may write there at any time, so do not make references to it. Use
    /// volatile or atomic accesses only.
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// Copies `bytes` into the region.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if self.memory.write(offset, bytes) { Ok(()) } else { Err(self.out_of_bounds(offset, bytes.len())) }
    }

    /// Copies bytes of the region into `bytes`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        if self.memory.read(offset, bytes) { Ok(()) } else { Err(self.out_of_bounds(offset, bytes.len())) }
    }

    /// Returns the position of `length` bytes at `offset`, for the local buffer of a work request
    /// ([`WorkRequest::local_offset`](transport_common::queues::WorkRequest::local_offset)).
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn local_offset(&self, offset: u64, length: u64) -> Result<u64, Error> {
        if !self.memory.contains(offset, length) {
            return Err(Error::OutOfBounds { offset, length, size: self.len() as u64 });
        }
        Ok(self.memory.offset() + offset)
    }

    /// Makes the region busy, or ready again, for the block protocol. A busy region answers each command of a peer with
    /// "receiver not ready": the peer's operation waits, and is tried again when its RNR time is over (F-6.4-1). The
    /// RDMA protocol takes no notice. A region that peers cannot access stays as it is.
    pub fn set_busy(&self, busy: bool) {
        if let Some(registration) = &self.registration {
            registration.set_busy(busy);
        }
    }

    /// Ends the access of peers now, even if there are clones. The clones stay valid for local use.
    pub fn deregister(self) {
        if let Some(registration) = &self.registration {
            let _table = registration.regions.table.lock().expect("no panic under the lock");
            retract(&registration.shared, registration.info.key);
        }
    }

    /// Returns the allocation, so that an operation can keep it alive.
    pub(crate) fn memory(&self) -> &Arc<Allocation> {
        &self.memory
    }

    fn out_of_bounds(&self, offset: u64, length: usize) -> Error {
        Error::OutOfBounds { offset, length: length as u64, size: self.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(table: &mut Table, key: RKey) -> RKey {
        let info = RegionInfo { key, length: 1, offset: 0, access: Access::LOCAL };
        table.slots[slot_of(key)] = Some(info);
        key
    }

    /// D-84
    #[test]
    fn the_first_key_is_1_whatever_was_registered_for_a_while() {
        let mut table = Table::new();
        let temporary = table.temporary_key().expect("free");
        assert_eq!(take(&mut table, temporary), RKey(u32::MAX));
        let next = table.next_key().expect("free");
        assert_eq!(take(&mut table, next), RKey(1));
        assert_eq!(table.temporary_key().expect("free"), RKey(u32::MAX - 1));
        assert!(matches!(table.check(RKey(0)), Err(Error::BadRKey)));
        assert!(matches!(table.check(RKey(1 + REGIONS as u32)), Err(Error::RKeyInUse { slot: 1, .. })));
    }

    #[test]
    fn every_slot_is_found_from_both_ends() {
        for from_top in [false, true] {
            let mut table = Table::new();
            for _ in 0..REGIONS {
                let key = if from_top { table.temporary_key() } else { table.next_key() };
                take(&mut table, key.expect("a slot is free"));
            }
            assert!(matches!(table.next_key(), Err(Error::NoFreeRegion(REGIONS))));
            assert!(matches!(table.temporary_key(), Err(Error::NoFreeRegion(REGIONS))));
        }
    }
}
