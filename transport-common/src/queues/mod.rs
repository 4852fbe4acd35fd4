//! Layout of what kernel and user space share: queue pairs, the node page, region table entries.
//!
//! One side writes each field; the comment beside it says which. Values written by the application are
//! untrusted: they are read once ([`Slot::load`]) and checked where they are used.

mod port;

use crate::congestion::settings::Settings;
use crate::ids::{Cid, Rsn};
use bytemuck::{Pod, Zeroable};
use core::sync::atomic::Ordering;

pub use crate::resources::{CELL_BYTES, CELLS};
pub use crate::shared::{AtomicU32, AtomicU64, Slot};
pub use crate::ulp::rdma::{
    AccessFlags, Completion, MEMORY_BYTES, MEMORY_GUARD, RECEIVE_QUEUE_DEPTH, ReceiveRequest, Region,
    USABLE_BYTES, Verb, WorkFlags, WorkRequest,
};
pub use port::Queues;

/// Connections a node can hold; a power of two. A CID's slot is its value modulo this number.
pub const CONNECTIONS: usize = 256;
/// Slot of a CID in the connection table: its value modulo [`CONNECTIONS`].
#[inline(always)]
pub const fn slot_of(cid: Cid) -> u32 {
    cid.0 & (CONNECTIONS as u32 - 1)
}
/// Send queue entries a connection; one entry is one Falcon transaction.
pub const SEND_QUEUE_DEPTH: usize = 256;
/// Completion queue entries a connection: every send and receive entry can be outstanding at once.
pub const COMPLETION_QUEUE_DEPTH: usize = SEND_QUEUE_DEPTH + RECEIVE_QUEUE_DEPTH;
/// Memory regions a node can register; the slot of an R_Key is its value modulo this number.
pub const REGIONS: usize = 256;

/// What the application asks of the engine ([`QueuePair::command`]). The engine ignores values without a name.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command(pub u32);

impl Command {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Complete everything outstanding with `DeadConn` and close.
    pub const CLOSE: Self = Self(1);
}

/// The queues of one connection, mapped into the application.
///
/// Counters run freely modulo 2^32; an index is the counter modulo the depth. The send counters start at the
/// connection's first RSN, so that a send entry's index is its transaction's RSN.
#[repr(C)]
#[cfg_attr(not(target_arch = "bpf"), derive(Zeroable))]
pub struct QueuePair {
    /// Application: RSN of the next entry to post.
    pub send_producer: AtomicU32,
    /// Application: number of receives posted.
    pub receive_producer: AtomicU32,
    /// Application: completions taken.
    pub completion_consumer: AtomicU32,
    /// Fills the application's cache line.
    pub reserved: [u32; 13],
    /// Application: see [`Command`]; obeyed by the engine at the next doorbell.
    pub command: AtomicU32,
    /// Node: counts settings of congestion control; obeyed by the engine at the next doorbell.
    pub settings_version: AtomicU32,
    /// Kernel: version of the settings in force.
    pub settings_applied: AtomicU32,
    /// Kernel: state of the connection, see [`crate::connection::State`].
    pub state: AtomicU32,
    /// Fills the cache line of what is looked at often and changed rarely.
    pub reserved1: [u32; 12],
    /// Kernel: RSN of the oldest incomplete transaction; entries below may be reused (BRSN, F-8.4.1-1).
    pub send_consumer: AtomicU32,
    /// Kernel: receives consumed.
    pub receive_consumer: AtomicU32,
    /// Kernel: completions written.
    pub completion_producer: AtomicU32,
    /// Kernel: 1 while a request of the peer waits for a receive; who posts one then rings the doorbell.
    pub receive_wanted: AtomicU32,
    /// Fills the kernel's cache line.
    pub reserved2: [u32; 12],
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
            &self.receive_wanted,
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

/// How much later than asked for a sleeping engine may turn to a deadline. Below every retransmission timeout in use,
/// and far above what waking a thread costs.
pub const SLEEPERS_SLACK_NANOS: u64 = 200_000;

/// The node page: doorbells and the state of the engine, shared by application, engine and wire program. What one
/// side writes often does not share a cache line with what another reads often.
#[repr(C)]
#[cfg_attr(not(target_arch = "bpf"), derive(Zeroable))]
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
    assert!(size_of::<QueuePair>() == 192 + 64 * 256 + 24 * 256 + 32 * 512 + 2 * size_of::<Settings>());
    assert!(size_of::<QueuePair>().is_multiple_of(8));
    assert!(core::mem::offset_of!(NodePage, engine_sleeping) == 64);
    assert!(core::mem::offset_of!(NodePage, idle_frames) == 128);
    assert!(CONNECTIONS.is_power_of_two() && REGIONS.is_power_of_two() && CELLS.is_power_of_two());
};
