//! The BPF maps of a node. Some are mapped into memory, and the others are used by descriptor.

use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

use bpf_call::Banks;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use transport_common::congestion::queues::CongestionQueues;
use transport_common::congestion::settings::Settings;
use transport_common::connection::Snapshot;
use transport_common::datapath::Exchange;
use transport_common::datapath::exchange::{Answer, Direction};
use transport_common::hardware_clock::ClockPage;
use transport_common::ids::Cid;
use transport_common::queues::{BANK_BYTES, BANK_GUARD, CONNECTIONS, QueuePair, REGIONS, Region, Slot};
use transport_common::shard::NodePage;

use crate::common::error::Error;
use crate::common::mac::Mac;

/// An array map of `T` that is mapped into this process's memory.
///
/// The datapath may write there at any time. Therefore `T` consists of atomics and [`Slot`]s only.
pub struct Mapping<T> {
    address: NonNull<u8>,
    bytes: usize,
    elements: PhantomData<T>,
}

// SAFETY: the memory exists as long as the value, and `T` itself defines what several threads may do.
unsafe impl<T: Sync> Send for Mapping<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mapping<T> {}

impl<T> Mapping<T> {
    /// Maps `elements` elements of the array behind `fd`, whose values must be `T`s.
    fn new(fd: BorrowedFd<'_>, elements: usize) -> io::Result<Self> {
        // The kernel rounds the size of each element up to 8 bytes. For these types this changes nothing.
        const { assert!(size_of::<T>().is_multiple_of(8)) };
        let bytes = (size_of::<T>() * elements).next_multiple_of(4096);
        let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: this makes a new mapping, and the kernel chooses its address.
        let address = unsafe {
            mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, fd, 0)?
        };
        Ok(Self { address: address.cast(), bytes, elements: PhantomData })
    }

    /// Returns the element at `index`.
    ///
    /// # Panics
    /// Panics if there is no such element.
    pub fn get(&self, index: usize) -> &T {
        assert!((index + 1) * size_of::<T>() <= self.bytes, "map element {index} does not exist");
        // SAFETY: the element is within the mapping, aligned because mappings start at a page, and valid for any
        // content.
        unsafe { self.address.cast::<T>().add(index).as_ref() }
    }
}

impl<T> Drop for Mapping<T> {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping, and nothing borrows from it any more.
        let unmapped = unsafe { munmap(self.address.cast(), self.bytes) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// Returns a closed connection. It is on the heap, because it is large.
pub(crate) fn closed_connection() -> Box<Snapshot> {
    bytemuck::zeroed_box()
}

/// Copies connections into and out of their slots, and changes their next hops and settings, one at a time.
struct Exchanger {
    program: OwnedFd,
    page: Mapping<Exchange>,
}

impl Exchanger {
    /// Returns whether the slot has the connection of the request. If the request is for any connection, it has.
    fn carry_out(&self, slot: usize, direction: Direction) -> io::Result<bool> {
        let page = self.page.get(0);
        page.slot.store(slot as u32, Relaxed);
        page.direction.store(direction as u32, Relaxed);
        let answer = bpf_call::run_once(self.program.as_fd())?;
        if answer == Answer::Done as u32 || answer == Answer::Gone as u32 {
            return Ok(answer == Answer::Done as u32);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("connection slot {slot} stays locked")))
    }
}

/// The descriptors of those of a node's maps that its handles need, and of the program that copies connections into and
/// out of their slots.
#[derive(Debug)]
pub struct Descriptors {
    /// The program that copies connections.
    pub exchange: OwnedFd,
    /// Its page: the request, and the copy.
    pub exchange_page: OwnedFd,
    /// One queue pair per connection slot.
    pub queue_pairs: OwnedFd,
    /// Registered memory.
    pub memory: OwnedFd,
    /// The region table.
    pub regions: OwnedFd,
    /// Doorbells and the state of the engine.
    pub node: OwnedFd,
    /// Events and results of the rate update engine in user space.
    pub congestion: OwnedFd,
    /// The relation of the card's clock to the monotonic clock.
    pub clock: OwnedFd,
}

/// The maps of a node.
pub struct Maps {
    exchanger: Mutex<Exchanger>,
    /// One queue pair per connection slot.
    pub queue_pairs: Mapping<QueuePair>,
    /// Registered memory.
    pub(crate) memory: Banks,
    /// The region table.
    pub regions: Mapping<Slot<Region>>,
    /// Doorbells and the state of the engine.
    node: Mapping<NodePage>,
    /// Events and results of the rate update engine in user space.
    congestion: Mapping<CongestionQueues>,
    /// The relation of the card's clock to the monotonic clock.
    clock: Mapping<ClockPage>,
}

impl std::fmt::Debug for Maps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maps").finish_non_exhaustive()
    }
}

impl Maps {
    /// Maps what `given` has descriptors of. The memory has `banks_of_memory` banks.
    pub fn new(given: Descriptors, banks_of_memory: usize) -> Result<Self, Error> {
        let failed = |source| Error::system("map the node's memory", source);
        let memory = Banks::map(given.memory.as_fd(), banks_of_memory, BANK_BYTES, BANK_GUARD);
        let page = mapping(&given.exchange_page, 1)?;
        Ok(Self {
            exchanger: Mutex::new(Exchanger { program: given.exchange, page }),
            queue_pairs: mapping(&given.queue_pairs, CONNECTIONS)?,
            memory: memory.map_err(failed)?,
            regions: mapping(&given.regions, REGIONS)?,
            node: mapping(&given.node, 1)?,
            congestion: mapping(&given.congestion, 1)?,
            clock: mapping(&given.clock, 1)?,
        })
    }

    /// Returns the node page.
    pub fn node(&self) -> &NodePage {
        self.node.get(0)
    }

    /// Returns the event and result queues.
    pub fn congestion(&self) -> &CongestionQueues {
        self.congestion.get(0)
    }

    /// Returns the relation of the card's clock to the monotonic clock.
    pub fn clock(&self) -> &ClockPage {
        self.clock.get(0)
    }

    /// Returns a copy of the connection in `slot`, made under its lock.
    pub fn connection(&self, slot: usize) -> io::Result<Box<Snapshot>> {
        let exchanger = self.exchanger.lock().expect("no panic under the lock");
        exchanger.carry_out(slot, Direction::Read)?;
        let mut entry = closed_connection();
        // SAFETY: source and destination are two different entries, and the datapath writes the page only during
        // `carry_out`.
        unsafe { std::ptr::copy_nonoverlapping(exchanger.page.get(0).connection.as_ptr(), &mut *entry, 1) };
        Ok(entry)
    }

    /// Replaces the connection in `slot`, under its lock.
    pub fn set_connection(&self, slot: usize, entry: &Snapshot) -> io::Result<()> {
        let exchanger = self.exchanger.lock().expect("no panic under the lock");
        // SAFETY: source and destination are two different entries, and the datapath reads the page only during
        // `carry_out`.
        unsafe { std::ptr::copy_nonoverlapping(entry, exchanger.page.get(0).connection.as_ptr(), 1) };
        exchanger.carry_out(slot, Direction::Write).map(drop)
    }

    /// Gives the connection with this CID and generation in `slot` another next hop, under its lock. Returns false if the slot
    /// has another connection, or none.
    pub(crate) fn set_next_hop(
        &self,
        slot: usize,
        (cid, generation): (Cid, u32),
        next_hop: Mac,
    ) -> io::Result<bool> {
        let exchanger = self.exchanger.lock().expect("no panic under the lock");
        let request = exchanger.page.get(0).connection.as_ptr();
        // SAFETY: the entry is valid, the lock keeps other requests out, and the datapath reads the page only during
        // `carry_out`.
        unsafe {
            (*request).connection.generation = generation;
            (*request).connection.flow.endpoint.local_cid = cid;
            (*request).connection.flow.endpoint.path.destination_mac = next_hop.0;
        }
        exchanger.carry_out(slot, Direction::NextHop)
    }

    /// Requests other settings of congestion control for the connection with this CID and generation in `slot`. Returns false
    /// if the slot has another connection, or none.
    pub(crate) fn request_settings(
        &self,
        slot: usize,
        (cid, generation): (Cid, u32),
        settings: &Settings,
    ) -> io::Result<bool> {
        let exchanger = self.exchanger.lock().expect("no panic under the lock");
        let request = exchanger.page.get(0).connection.as_ptr();
        // SAFETY: as in `set_next_hop`.
        unsafe {
            (*request).connection.generation = generation;
            (*request).connection.flow.endpoint.local_cid = cid;
            (*request).settings.requested = *settings;
        }
        exchanger.carry_out(slot, Direction::Settings)
    }
}

fn mapping<T>(fd: &OwnedFd, elements: usize) -> Result<Mapping<T>, Error> {
    Mapping::new(fd.as_fd(), elements).map_err(|source| Error::system("map the node's memory", source))
}
