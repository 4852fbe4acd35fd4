//! The layout of the memory that kernel and user space share: queue pairs and region table entries.
//!
//! Each field has one writer; the comment beside the field names it. Values that the application writes are
//! untrusted. The reader reads each of them once ([`Slot::load`]) and checks it where it uses it.

mod port;

use crate::congestion::settings::Settings;
use crate::ids::{Cid, Rsn};
use bytemuck::{Pod, Zeroable};
use core::sync::atomic::Ordering;

pub use crate::resources::{CELL_BYTES, CELLS};
pub use crate::shared::{AtomicU32, AtomicU64, Slot, fence};
pub use crate::ulp::{
    AccessFlags, BANK_BYTES, BANK_GUARD, Completion, DEFAULT_BANKS, DEFAULT_MEMORY, MAX_BANKS, PAGE_BYTES,
    RECEIVE_QUEUE_DEPTH, Readiness, ReceiveRequest, Region, Verb, WorkFlags, WorkRequest,
};
pub use port::Queues;

/// Largest number of connections of a node, a power of two. The slot of a CID is its value modulo this number.
pub const CONNECTIONS: usize = 256;
/// Returns the slot of a CID in the connection table: its value modulo [`CONNECTIONS`].
#[inline(always)]
pub const fn slot_of(cid: Cid) -> u32 {
    cid.0 & (CONNECTIONS as u32 - 1)
}
/// Entries of the send queue per connection. One entry is one Falcon transaction.
pub const SEND_QUEUE_DEPTH: usize = 256;
/// Entries of the completion queue per connection. Every send entry and every receive entry can be outstanding at
/// once.
pub const COMPLETION_QUEUE_DEPTH: usize = SEND_QUEUE_DEPTH + RECEIVE_QUEUE_DEPTH;
/// Largest number of memory regions that a node can register. The slot of an R_Key is its value modulo this
/// number.
pub const REGIONS: usize = 256;

/// A command of the application to the engine ([`QueuePair::command`]). The engine ignores values without a name.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command(pub u32);

impl Command {
    /// No command.
    pub const NONE: Self = Self(0);
    /// Complete everything outstanding with `DeadConn`, and close.
    pub const CLOSE: Self = Self(1);
    /// The host function behind the connection is being reset (xLR, D-50): drop new requests, of the peer with a
    /// NACK, and of the application with `LocalXlr`. Another command ends this.
    pub const DROP_REQUESTS: Self = Self(2);
}

/// The queues of one connection. They are mapped into the application.
///
/// Counters wrap at 2^32. An index is the counter modulo the depth. The send counters start at the connection's
/// first RSN, so the counter of a send entry is the RSN of its transaction.
#[repr(C)]
#[cfg_attr(not(target_arch = "bpf"), derive(Zeroable))]
pub struct QueuePair {
    /// Application: RSN of the next entry to post.
    pub send_producer: AtomicU32,
    /// Application: number of receives that it has posted.
    pub receive_producer: AtomicU32,
    /// Application: number of completions that it has taken.
    pub completion_consumer: AtomicU32,
    /// Fills the application's cache line.
    pub reserved: [u32; 13],
    /// Application: see [`Command`]. The engine reads it at the next doorbell.
    pub command: AtomicU32,
    /// Node: version of the congestion control settings. The engine applies a new version at the next doorbell.
    pub settings_version: AtomicU32,
    /// Kernel: version of the settings in force.
    pub settings_applied: AtomicU32,
    /// Kernel: state of the connection, see [`crate::connection::State`].
    pub state: AtomicU32,
    /// Fills the cache line of the fields that are read often and written rarely.
    pub reserved1: [u32; 12],
    /// Kernel: RSN of the oldest incomplete transaction. The application may reuse the entries below it (BRSN,
    /// F-8.4.1-1).
    pub send_consumer: AtomicU32,
    /// Kernel: number of receives consumed.
    pub receive_consumer: AtomicU32,
    /// Kernel: number of completions written.
    pub completion_producer: AtomicU32,
    /// Kernel: 1 while a request of the peer waits for a receive or for a place for its completion, or a dead connection
    /// for places for its last completions. Then the application rings the doorbell after it posts a receive
    /// ([`Self::post_receive`]) or takes completions from a full queue ([`Self::take_completions`]).
    pub receive_wanted: AtomicU32,
    /// Fills the kernel's cache line.
    pub reserved2: [u32; 12],
    /// Written by the application.
    pub send: [Slot<WorkRequest>; SEND_QUEUE_DEPTH],
    /// Written by the application.
    pub receive: [Slot<ReceiveRequest>; RECEIVE_QUEUE_DEPTH],
    /// Written by the kernel, under the connection's lock.
    pub completions: [Slot<Completion>; COMPLETION_QUEUE_DEPTH],
    /// Node: congestion control settings. The settings in force are those at index `settings_applied` modulo 2.
    /// The node may write the other entry once both versions are equal.
    pub settings: [Slot<Settings>; 2],
}

impl QueuePair {
    /// Sets the settings of a connection that is not open yet.
    pub fn start_settings(&self, settings: Settings) {
        self.settings[0].store(settings);
        self.settings_version.store(0, Ordering::Relaxed);
        self.settings_applied.store(0, Ordering::Relaxed);
    }

    /// Requests other settings. They apply from the engine's next service of the connection. Returns false while
    /// earlier settings are still pending.
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

    /// Returns the completion after the first `taken`, if the kernel has written it. The application reports in
    /// `completion_consumer` how many it has taken.
    #[inline(always)]
    pub fn completion(&self, taken: u32) -> Option<Completion> {
        let slot = &self.completions[taken as usize & (COMPLETION_QUEUE_DEPTH - 1)];
        // SAFETY: the pointer is to a field of a valid entry.
        let number = unsafe { AtomicU32::from_ptr(&raw mut (*slot.as_ptr()).number) };
        if number.load(Ordering::Acquire) != taken.wrapping_add(1) {
            return None;
        }
        Some(Completion { number: 0, ..slot.load() })
    }

    /// Resets the queues for a connection whose first RSN is `first`. They are then empty, and nothing of an
    /// earlier connection remains. The state is written last.
    pub fn start(&self, first: Rsn, state: u32) {
        let zero = [
            &self.receive_producer,
            &self.receive_consumer,
            &self.completion_producer,
            &self.completion_consumer,
            &self.receive_wanted,
            &self.command,
        ];
        zero.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        self.completions.iter().for_each(|slot| slot.store(Completion::default()));
        self.send_producer.store(first.0, Ordering::Relaxed);
        self.send_consumer.store(first.0, Ordering::Relaxed);
        self.state.store(state, Ordering::Release);
    }

    /// Application: posts a send as number `rsn`, which follows the last one posted. The caller has made sure that the
    /// entry is free.
    #[inline(always)]
    pub fn post_send(&self, rsn: Rsn, work: WorkRequest) {
        self.send[rsn.0 as usize % SEND_QUEUE_DEPTH].store(work);
        self.send_producer.store(rsn.add(1).0, Ordering::Release);
    }

    /// Application: posts a receive as number `index`, which follows the last one posted. The caller has made sure that
    /// the entry is free. Returns whether a request of the peer waits for it. Then the doorbell must be rung.
    #[inline(always)]
    #[must_use]
    pub fn post_receive(&self, index: u32, receive: ReceiveRequest) -> bool {
        self.receive[index as usize % RECEIVE_QUEUE_DEPTH].store(receive);
        self.receive_producer.store(index.wrapping_add(1), Ordering::Release);
        // The other half is `Queues::set_receive_wanted`. With both barriers, either the kernel sees this receive, or
        // this function sees that a request waits.
        fence(Ordering::SeqCst);
        self.receive_wanted.load(Ordering::Relaxed) != 0
    }

    /// Application: reports that it has taken the first `taken` completions. Returns whether something waits for the place
    /// of one of them. Then the doorbell must be rung.
    #[inline(always)]
    #[must_use]
    pub fn take_completions(&self, taken: u32) -> bool {
        let before = self.completion_consumer.load(Ordering::Relaxed);
        self.completion_consumer.store(taken, Ordering::Release);
        // The other half is `Queues::set_receive_wanted`. With both barriers, either the kernel sees the places, or this
        // function sees that the queue was full and that something waits.
        fence(Ordering::SeqCst);
        let written = self.completion_producer.load(Ordering::Relaxed).wrapping_sub(before);
        written >= COMPLETION_QUEUE_DEPTH as u32 && self.receive_wanted.load(Ordering::Relaxed) != 0
    }

    /// Returns the application's send counter. The send entry at `next` is most likely the new one. It is fetched
    /// from the application's cache at the same time as the counter.
    #[inline(always)]
    pub fn look(&self, next: Rsn) -> u32 {
        self.touch(next);
        self.send_producer.load(Ordering::Relaxed)
    }
}

/// The values that the loader gives the programs before it loads them (read-only data of the BPF object).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct NodeConfig {
    /// The node's MAC address, see [`crate::datapath::mac_word`].
    pub mac_word: u64,
    /// The node's IPv6 address, see [`crate::datapath::words`]; zero means none.
    pub ipv6: [u64; 2],
    /// The node's IPv4 address, bytes in memory order; zero means none.
    pub ipv4: u32,
    /// Index of the interface to send on.
    pub interface_index: u32,
    /// Bytes of the node's memory, a multiple of [`BANK_BYTES`].
    pub memory: u64,
}

const _: () = {
    assert!(size_of::<QueuePair>() == 192 + 64 * 256 + 24 * 256 + 32 * 512 + 2 * size_of::<Settings>());
    assert!(size_of::<QueuePair>().is_multiple_of(8));
    assert!(CONNECTIONS.is_power_of_two() && REGIONS.is_power_of_two() && CELLS.is_power_of_two());
};
