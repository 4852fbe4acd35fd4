//! Layout of what kernel and user space share: queue pairs, the node page, region table entries.
//!
//! One side writes each field; the comment beside it says which. Values written by the application are
//! untrusted: they are read once ([`Slot::load`]) and checked where they are used.

mod port;

use crate::congestion::settings::Settings;
use crate::ids::{Cid, Rsn};
use bytemuck::{Pod, Zeroable};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

pub use port::Queues;

#[cfg(not(target_arch = "bpf"))]
pub use core::sync::atomic::AtomicU32;
#[cfg(target_arch = "bpf")]
pub use word::AtomicU32;

/// The BPF target has 64-bit atomics only; its stand-in for loads and stores of 32 bits.
#[cfg(target_arch = "bpf")]
mod word {
    use core::cell::UnsafeCell;
    use core::sync::atomic::Ordering;

    /// A 32-bit word that other CPUs write. Volatile accesses keep their order among each other; the processor
    /// keeps it too on x86-64, the architecture this project supports.
    #[repr(transparent)]
    pub struct AtomicU32(UnsafeCell<u32>);

    // SAFETY: every access is a single volatile load or store.
    unsafe impl Sync for AtomicU32 {}

    impl AtomicU32 {
        /// The word at `p`.
        ///
        /// # Safety
        /// `p` is valid for `'a`, and aligned.
        #[inline(always)]
        pub const unsafe fn from_ptr<'a>(p: *mut u32) -> &'a Self {
            // SAFETY: by the contract of this function; the types have one layout.
            unsafe { &*p.cast() }
        }

        /// Reads the word.
        #[inline(always)]
        pub fn load(&self, _: Ordering) -> u32 {
            // SAFETY: the cell is valid and aligned.
            unsafe { core::ptr::read_volatile(self.0.get()) }
        }

        /// Writes the word.
        #[inline(always)]
        pub fn store(&self, value: u32, _: Ordering) {
            // SAFETY: the cell is valid and aligned.
            unsafe { core::ptr::write_volatile(self.0.get(), value) }
        }
    }
}

/// Connections a node can hold; a power of two. A CID's slot is its value modulo this number.
pub const CONNECTIONS: usize = 256;

/// Slot of a CID in the connection table: its value modulo [`CONNECTIONS`].
#[inline(always)]
pub const fn slot_of(cid: Cid) -> u32 {
    cid.0 & (CONNECTIONS as u32 - 1)
}

/// Send queue entries a connection; one entry is one Falcon transaction.
pub const SEND_QUEUE_DEPTH: usize = 256;
/// Receive queue entries a connection.
pub const RECEIVE_QUEUE_DEPTH: usize = 256;
/// Completion queue entries a connection: every send and receive entry can be outstanding at once.
pub const COMPLETION_QUEUE_DEPTH: usize = SEND_QUEUE_DEPTH + RECEIVE_QUEUE_DEPTH;
/// Memory regions a node can register; the slot of an R_Key is its value modulo this number.
pub const REGIONS: usize = 256;
/// Bytes of registered memory a node owns.
pub const MEMORY_BYTES: usize = 256 << 20;
/// No access of the datapath starts beyond this offset, so that a maximal packet stays inside.
pub const MEMORY_GUARD: usize = 8192;
/// Bytes of it that requests and regions may name.
pub const USABLE_BYTES: u64 = (MEMORY_BYTES - MEMORY_GUARD) as u64;
/// Bytes of a receive cell: one packet's payload.
pub const CELL_BYTES: usize = 4096;
/// Receive cells of a node.
pub const CELLS: usize = 2048;

/// Work request operation codes ([`WorkRequest::opcode`]).
pub mod opcode {
    /// RDMA WRITE, one segment.
    pub const WRITE: u8 = 1;
    /// RDMA READ, one segment.
    pub const READ: u8 = 2;
    /// Compare and swap of 8 bytes.
    pub const COMPARE_SWAP: u8 = 3;
    /// Fetch and add of 8 bytes.
    pub const FETCH_ADD: u8 = 4;
    /// SEND that fits one segment.
    pub const SEND_ONLY: u8 = 5;
    /// First segment of a longer SEND.
    pub const SEND_FIRST: u8 = 6;
    /// Neither first nor last segment of a SEND.
    pub const SEND_MIDDLE: u8 = 7;
    /// Last segment of a SEND.
    pub const SEND_LAST: u8 = 8;
    /// Completion of a posted receive ([`super::Completion::opcode`] only).
    pub const RECEIVE: u8 = 9;
    /// Receive completion raised by a WRITE with immediate.
    pub const RECEIVE_IMMEDIATE: u8 = 10;
}

/// Bits of [`WorkRequest::flags`] and [`Completion::flags`].
pub mod flag {
    /// A completion is written also when the request succeeds.
    pub const SIGNALED: u8 = 1;
    /// The request (or completion) carries immediate data.
    pub const IMMEDIATE: u8 = 2;
}

/// One Falcon transaction as the application posts it: 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct WorkRequest {
    /// What to do, see [`opcode`].
    pub opcode: u8,
    /// See [`flag`].
    pub flags: u8,
    /// 0.
    pub reserved: u16,
    /// Bytes of user data, at most the connection's largest segment.
    pub length: u32,
    /// Offset of the local buffer in the node's memory.
    pub local_offset: u64,
    /// Address in the peer's region (an offset, D-84).
    pub remote_address: u64,
    /// The peer's R_Key.
    pub rkey: u32,
    /// Immediate data, host order.
    pub immediate: u32,
    /// Swap value, or the addend.
    pub swap_or_add: u64,
    /// Compare value.
    pub compare: u64,
    /// Returned in the completion.
    pub wr_id: u64,
    /// Number of this segment within the operation, from 0 (D-84).
    pub segment: u32,
    /// 0.
    pub reserved2: u32,
}

/// What the application may ask of the engine ([`QueuePair::command`]).
pub mod command {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// Complete everything outstanding with `DeadConn` and close.
    pub const CLOSE: u32 = 1;
}

/// A posted receive buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ReceiveRequest {
    /// Offset of the buffer in the node's memory.
    pub local_offset: u64,
    /// Returned in the completion.
    pub wr_id: u64,
    /// Bytes.
    pub length: u32,
    /// 0.
    pub reserved: u32,
}

/// What became of a work request: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Completion {
    /// From the work request.
    pub wr_id: u64,
    /// Bytes placed (READ, atomics, receives) or sent.
    pub length: u32,
    /// Immediate data when [`flag::IMMEDIATE`] is set.
    pub immediate: u32,
    /// RSN of the transaction (of its last segment for a receive).
    pub rsn: u32,
    /// A code of [`crate::transaction::CompletionCode`].
    pub status: u8,
    /// The target ULP's code, for completions in error (F-7.8-7).
    pub ulp_code: u8,
    /// See [`opcode`].
    pub opcode: u8,
    /// See [`flag`].
    pub flags: u8,
    /// In the queue: counts completions from 1 on, modulo 2^32, and is written last, so that the application looks at
    /// the entry alone. 0 once taken.
    pub number: u32,
    /// 0.
    pub reserved: u32,
}

/// A queue entry that the other side may write at any time.
#[repr(transparent)]
#[derive(Zeroable)]
pub struct Slot<T>(UnsafeCell<T>);

// SAFETY: plain data behind volatile accesses; a torn value is checked like any other untrusted one.
unsafe impl<T: Copy> Sync for Slot<T> {}

impl<T: Copy> Slot<T> {
    /// Reads the entry once.
    #[inline(always)]
    pub fn load(&self) -> T {
        // SAFETY: the cell is valid plain data; volatile because another process may write it.
        unsafe { core::ptr::read_volatile(self.0.get()) }
    }

    /// Where the entry stands, for copies by word.
    #[inline(always)]
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }

    /// Writes the entry.
    #[inline(always)]
    pub fn store(&self, value: T) {
        // SAFETY: the cell is valid plain data; readers look at it only after the counter has moved.
        unsafe { core::ptr::write_volatile(self.0.get(), value) }
    }
}

/// The queues of one connection, mapped into the application.
///
/// Counters run freely modulo 2^32; an index is the counter modulo the depth. The send counters start at the
/// connection's first RSN, so that a send entry's index is its transaction's RSN.
#[repr(C)]
#[cfg_attr(not(target_arch = "bpf"), derive(bytemuck::Zeroable))]
pub struct QueuePair {
    /// Application: RSN of the next entry to post.
    pub send_producer: AtomicU32,
    /// Application: number of receives posted.
    pub receive_producer: AtomicU32,
    /// Application: completions taken.
    pub completion_consumer: AtomicU32,
    /// Fills the application's cache line.
    pub reserved: [u32; 13],
    /// Application: see [`command`]; obeyed by the engine at the next doorbell.
    pub command: AtomicU32,
    /// Node: counts settings of congestion control; obeyed by the engine at the next doorbell.
    pub settings_version: AtomicU32,
    /// Kernel: version of the settings in force.
    pub settings_applied: AtomicU32,
    /// Kernel: state of the connection, see [`crate::connection::state`].
    pub state: AtomicU32,
    /// Fills the cache line of what is looked at often and changed rarely.
    pub reserved1: [u32; 12],
    /// Kernel: RSN of the oldest incomplete transaction; entries below may be reused (BRSN, F-8.4.1-1).
    pub send_consumer: AtomicU32,
    /// Kernel: receives consumed.
    pub receive_consumer: AtomicU32,
    /// Kernel: completions written.
    pub completion_producer: AtomicU32,
    /// Fills the kernel's cache line.
    pub reserved2: [u32; 13],
    /// Written by the application.
    pub send: [Slot<WorkRequest>; SEND_QUEUE_DEPTH],
    /// Written by the application.
    pub receive: [Slot<ReceiveRequest>; RECEIVE_QUEUE_DEPTH],
    /// Written by the kernel, under the connection's lock.
    pub completions: [Slot<Completion>; COMPLETION_QUEUE_DEPTH],
    /// Node: congestion control. The one in force is that of `settings_applied` modulo 2; the other is free to be
    /// written once both versions agree.
    pub settings: [Slot<Settings>; 2],
}

impl QueuePair {
    /// Puts settings into force for a connection that is not open yet.
    pub fn start_settings(&self, settings: Settings) {
        self.settings[0].store(settings);
        self.settings_version.store(0, Ordering::Relaxed);
        self.settings_applied.store(0, Ordering::Relaxed);
    }

    /// Asks for other settings: in force from the engine's next turn on. False while earlier ones wait for that.
    pub fn change_settings(&self, settings: Settings) -> bool {
        let version = self.settings_version.load(Ordering::Relaxed);
        if self.settings_applied.load(Ordering::Acquire) != version {
            return false;
        }
        let next = version.wrapping_add(1);
        self.settings[next as usize & 1].store(settings);
        self.settings_version.store(next, Ordering::Release);
        true
    }

    /// The completion behind the first `taken`, if it is there. The application tells the kernel by
    /// `completion_consumer` which ones it has taken.
    #[inline(always)]
    pub fn completion(&self, taken: u32) -> Option<Completion> {
        let slot = &self.completions[taken as usize & (COMPLETION_QUEUE_DEPTH - 1)];
        // SAFETY: a field of a valid entry.
        let number = unsafe { AtomicU32::from_ptr(&raw mut (*slot.as_ptr()).number) };
        if number.load(Ordering::Acquire) != taken.wrapping_add(1) {
            return None;
        }
        Some(Completion { number: 0, ..slot.load() })
    }

    /// Sets the queues up for a connection whose first RSN is `first`: empty, nothing of a former one remains. The
    /// state follows last.
    pub fn start(&self, first: Rsn, state: u32) {
        let zero = [
            &self.receive_producer,
            &self.receive_consumer,
            &self.completion_producer,
            &self.completion_consumer,
            &self.command,
        ];
        zero.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        self.completions.iter().for_each(|slot| slot.store(Completion::default()));
        self.send_producer.store(first.0, Ordering::Relaxed);
        self.send_consumer.store(first.0, Ordering::Relaxed);
        self.state.store(state, Ordering::Release);
    }

    /// What the application has submitted. The send at `next`, most likely the one that is new, is fetched from the
    /// application's cache beside the counter.
    #[inline(always)]
    pub fn look(&self, next: Rsn) -> u32 {
        self.touch(next);
        self.send_producer.load(Ordering::Relaxed)
    }
}

/// Access rights of a region ([`Region::access`]).
pub mod access {
    /// The peer may READ.
    pub const REMOTE_READ: u32 = 1;
    /// The peer may WRITE.
    pub const REMOTE_WRITE: u32 = 2;
    /// The peer may do atomics.
    pub const REMOTE_ATOMIC: u32 = 4;
}

/// A registered memory region; a `key` of 0 marks a free entry.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Region {
    /// Where it starts in the node's memory.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// R_Key.
    pub key: u32,
    /// See [`access`].
    pub access: u32,
}

impl Region {
    /// The memory offset of `[address, address + length)` if key, rights and bounds allow it. The table is untrusted:
    /// a region that reaches beyond the usable memory has no such part.
    #[inline(always)]
    pub fn resolve(&self, key: u32, access: u32, address: u64, length: u32) -> Option<u64> {
        if key == 0 || self.key != key || self.access & access != access {
            return None;
        }
        if address > self.length || self.length - address < length as u64 {
            return None;
        }
        let offset = self.offset.wrapping_add(address);
        if offset > USABLE_BYTES || offset + length as u64 > USABLE_BYTES { None } else { Some(offset) }
    }
}

/// How much later than asked for a sleeping engine may turn to a deadline. Below every retransmission timeout in use,
/// and far above what waking a thread costs.
pub const SLEEPERS_SLACK_NANOS: u64 = 200_000;

/// The node page: doorbells and the state of the engine, shared by application, engine and wire program. What one
/// side writes often does not share a cache line with what another reads often.
#[repr(C)]
#[cfg_attr(not(target_arch = "bpf"), derive(bytemuck::Zeroable))]
pub struct NodePage {
    /// Bit n: connection slot n wants to be looked at by the engine.
    pub ready: [AtomicU64; CONNECTIONS / 64],
    /// Fills the doorbells' cache line.
    pub reserved: [u64; 8 - CONNECTIONS / 64],
    /// Engine thread: 1 while it sleeps and has to be woken; who wakes it writes 0.
    pub engine_sleeping: AtomicU64,
    /// Engine thread: until when it sleeps if nobody wakes it, in picoseconds of the monotonic clock; 0 is for ever.
    pub planned_wake: AtomicU64,
    /// Counts wake-ups by the wire program.
    pub wakeups: AtomicU64,
    /// Fills the cache line of the engine thread.
    pub reserved2: [u64; 5],
    /// Engine program: frames in which it found nothing to do since it last found something.
    pub idle_frames: AtomicU64,
    /// Engine program: frames it was handed, in all.
    pub frames: AtomicU64,
    /// Engine program: next deadline of the timing wheel in nanoseconds of the monotonic clock, 0 for none.
    pub next_deadline: AtomicU64,
    /// Engine program: frames in which it found something to do, in all.
    pub useful_frames: AtomicU64,
    /// Fills the cache line of the engine program.
    pub reserved3: [u64; 4],
    /// Receive cells in use.
    pub cells_in_use: AtomicU64,
}

/// What the loader tells the programs before they are loaded (read-only data of the BPF object).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct NodeConfig {
    /// Own MAC address, see [`crate::datapath::mac_word`].
    pub mac_word: u64,
    /// Own IPv6 address, see [`crate::datapath::words`]; zero for none.
    pub ipv6: [u64; 2],
    /// Own IPv4 address, its bytes in memory order; zero for none.
    pub ipv4: u32,
    /// Interface to send on.
    pub interface_index: u32,
}

const _: () = {
    assert!(size_of::<WorkRequest>() == 64);
    assert!(size_of::<ReceiveRequest>() == 24);
    assert!(size_of::<Completion>() == 32);
    assert!(size_of::<Region>() == 24);
    assert!(size_of::<QueuePair>() == 192 + 64 * 256 + 24 * 256 + 32 * 512 + 2 * size_of::<Settings>());
    assert!(size_of::<QueuePair>().is_multiple_of(8));
    assert!(core::mem::offset_of!(NodePage, engine_sleeping) == 64);
    assert!(core::mem::offset_of!(NodePage, idle_frames) == 128);
    assert!(CONNECTIONS.is_power_of_two() && REGIONS.is_power_of_two() && CELLS.is_power_of_two());
};

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region =
        Region { offset: 4096, length: 100, key: 7, access: access::REMOTE_READ | access::REMOTE_WRITE };

    #[test]
    fn region_resolves_only_inside_with_key_and_rights() {
        assert_eq!(REGION.resolve(7, access::REMOTE_READ, 0, 100), Some(4096));
        assert_eq!(REGION.resolve(7, access::REMOTE_READ, 100, 0), Some(4196));
        assert_eq!(REGION.resolve(7, access::REMOTE_READ, 1, 100), None);
        assert_eq!(REGION.resolve(7, access::REMOTE_READ, u64::MAX, 2), None);
        assert_eq!(REGION.resolve(7, access::REMOTE_ATOMIC, 0, 8), None);
        assert_eq!(REGION.resolve(8, access::REMOTE_READ, 0, 8), None);
        assert_eq!(Region::default().resolve(0, access::REMOTE_READ, 0, 0), None);
        let beyond = Region { offset: USABLE_BYTES - 10, ..REGION };
        assert_eq!(beyond.resolve(7, access::REMOTE_READ, 0, 10), Some(USABLE_BYTES - 10));
        assert_eq!(beyond.resolve(7, access::REMOTE_READ, 1, 10), None);
        let wraps = Region { offset: u64::MAX - 10, length: u64::MAX, ..REGION };
        assert_eq!(wraps.resolve(7, access::REMOTE_READ, 0, 10), None);
    }
}
