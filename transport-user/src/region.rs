//! Memory regions: pieces of the node's memory that operations name, and peers by R_Key.

use std::sync::{Arc, Mutex};

use transport_common::ids::RKey;
use transport_common::queues::{REGIONS, Region};

use crate::error::Error;
use crate::info::{Access, RegionInfo};
use crate::memory::Allocation;
use crate::shared::Shared;

/// The region table, as this side keeps it.
#[derive(Debug)]
pub(crate) struct Regions {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    slots: [Option<RegionInfo>; REGIONS],
    /// Next key to try; keys are not used twice before all others were, so that a stale one finds nothing.
    next: u32,
}

impl Regions {
    /// Empty; the first key is 1 (D-84).
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { table: Mutex::new(Table { slots: [None; REGIONS], next: 1 }) })
    }

    /// Registers `length` zeroed bytes.
    pub(crate) fn register(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        length: usize,
        access: Access,
        key: Option<RKey>,
    ) -> Result<MemoryRegion, Error> {
        let mut table = self.table.lock().expect("no panic under the lock");
        let key = match key {
            Some(key) => table.check(key)?,
            None => table.free_key()?,
        };
        let memory = Allocation::new(&shared.maps, &shared.pool, length)?;
        let info = RegionInfo { key, length: length as u64, offset: memory.offset(), access };
        table.slots[slot_of(key)] = Some(info);
        let entry = Region { offset: info.offset, length: info.length, key: key.0, access: access.bits() };
        publish(shared, key, entry);
        let registration = Registration { regions: Arc::clone(self), shared: Arc::clone(shared), info };
        Ok(MemoryRegion { registration: Arc::new(registration), memory: Arc::new(memory) })
    }

    /// All regions, by slot.
    pub(crate) fn all(&self) -> Vec<RegionInfo> {
        let table = self.table.lock().expect("no panic under the lock");
        table.slots.iter().flatten().copied().collect()
    }
}

impl Table {
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

    fn free_key(&mut self) -> Result<RKey, Error> {
        for _ in 0..=REGIONS {
            let key = RKey(self.next);
            self.next = self.next.wrapping_add(1);
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

/// Writes an entry of the datapath's table so that no packet finds a mixture of two regions: the key comes last.
fn publish(shared: &Shared, key: RKey, entry: Region) {
    let slot = shared.maps.regions.get(slot_of(key));
    slot.store(Region { key: 0, ..slot.load() });
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    slot.store(Region { key: 0, ..entry });
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    slot.store(entry);
}

/// Takes an entry out of the datapath's table and waits until no packet that found it before is being processed.
fn retract(shared: &Shared, key: RKey) {
    publish(shared, key, Region::default());
    if shared.is_down() {
        return;
    }
    shared.grace.wait();
}

/// An entry of the region table, cleared on drop.
#[derive(Debug)]
struct Registration {
    regions: Arc<Regions>,
    shared: Arc<Shared>,
    info: RegionInfo,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = self.regions.table.lock().expect("no panic under the lock");
        retract(&self.shared, self.info.key);
        table.slots[slot_of(self.info.key)] = None;
    }
}

/// Registered memory of a node.
///
/// A peer reaches it by its key as far as its access rights go; operations of this node use it as their local
/// buffer. Peers read and write it at any time: what must not be seen half-written is guarded by a protocol above,
/// as with any RDMA. Clones name the same region; it is deregistered when the last one is dropped, or at once by
/// [`MemoryRegion::deregister`]. Its bytes are reused only after the operations in flight have ended.
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    // Dropped first: the key goes before the bytes.
    registration: Arc<Registration>,
    memory: Arc<Allocation>,
}

impl MemoryRegion {
    /// The key that peers use.
    pub fn key(&self) -> RKey {
        self.registration.info.key
    }

    /// Bytes; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// What peers may do.
    pub fn access(&self) -> Access {
        self.registration.info.access
    }

    /// Key, length, rights.
    pub fn info(&self) -> RegionInfo {
        self.registration.info
    }

    /// The first byte, in this process's memory. Valid for [`Self::len`] bytes while a clone of the region lives; the
    /// datapath writes there without asking, so make no references to it, only volatile or atomic accesses.
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

    /// Copies from the region.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        if self.memory.read(offset, bytes) { Ok(()) } else { Err(self.out_of_bounds(offset, bytes.len())) }
    }

    /// `length` bytes from `offset`, as the local buffer of a work request
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

    /// Takes the key from the peers now, whatever clones there are; those lose nothing but the key.
    pub fn deregister(self) {
        retract(&self.registration.shared, self.key());
    }

    /// The bytes, for an operation to hold on to.
    pub(crate) fn memory(&self) -> &Arc<Allocation> {
        &self.memory
    }

    fn out_of_bounds(&self, offset: u64, length: usize) -> Error {
        Error::OutOfBounds { offset, length: length as u64, size: self.len() as u64 }
    }
}
