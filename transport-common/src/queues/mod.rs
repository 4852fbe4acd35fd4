//! The memory that kernel and user space share: queues, their control page and region table entries.
//!
//! Each field has one writer; the comment beside the field names it. Values that the application writes are
//! untrusted. The reader reads each of them once ([`Slot::load`]) and checks it where it uses it.

mod completion;
mod control;
mod port;
mod receive;
mod work;

use crate::ids::{Cid, Rsn, WorkPosition};
use bytemuck::{Pod, Zeroable};
use core::mem::offset_of;
use core::sync::atomic::Ordering;

pub use crate::ids::CONNECTIONS;
pub use crate::memory::{
    AccessFlags, BANK_BYTES, BANK_GUARD, DEFAULT_BANKS, DEFAULT_MEMORY, Domain, LKey, MAX_BANKS, PAGE_BYTES,
    ProtectionDomain, REGIONS, Region,
};
pub use crate::resources::{CELL_BYTES, CELLS};
pub use crate::shared::{AtomicU32, AtomicU64, Slot, fence};
pub use crate::ulp::{
    Completion, RECEIVE_QUEUE_DEPTH, Readiness, ReceiveRequest, Verb, WorkFlags, WorkRequest,
};
pub use completion::{COMPLETION_QUEUE_DEPTH, CompletionEntries, CompletionQueue};
pub use control::{Command, ControlPage};
pub use port::{Published, Queues};
pub use receive::{ReceiveEntries, ReceiveQueue};
pub use work::{SEND_QUEUE_DEPTH, WorkEntries, WorkQueue};

/// The queues of one connection. They are mapped into the application.
///
/// This is only the layout; [`WorkQueue`], [`ReceiveQueue`], [`CompletionQueue`] and [`ControlPage`] have the rules. What
/// the application writes often, what is written rarely, and what the kernel writes often has a cache line each, whichever
/// queue it belongs to. Counters wrap at 2^32. An index is the counter modulo the depth.
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
    /// Command, state and requests for the doorbell.
    pub control: ControlPage,
    /// Kernel: RSN of the oldest incomplete transaction. The application may reuse the entries below it (BRSN,
    /// F-8.4.1-1).
    pub send_consumer: AtomicU32,
    /// Kernel: number of receives consumed.
    pub receive_consumer: AtomicU32,
    /// Kernel: number of completions written.
    pub completion_producer: AtomicU32,
    /// Node: the local CID, for [`Completion::queue_pair`]. The kernel copies it and decides nothing by it, because the
    /// application may overwrite it.
    pub number: AtomicU32,
    /// Fills the kernel's cache line.
    pub reserved2: [u32; 12],
    /// Written by the application.
    pub send: WorkEntries,
    /// Written by the application.
    pub receive: ReceiveEntries,
    /// Written by the kernel, under the connection's lock.
    pub completions: CompletionEntries,
}

impl QueuePair {
    /// Returns the queue of sends.
    #[inline(always)]
    pub const fn work_queue(&self) -> WorkQueue<'_> {
        WorkQueue::new(&self.send_producer, &self.send_consumer, &self.send)
    }

    /// Returns the queue of posted receives.
    #[inline(always)]
    pub const fn receive_queue(&self) -> ReceiveQueue<'_> {
        ReceiveQueue::new(&self.receive_producer, &self.receive_consumer, &self.receive)
    }

    /// Returns the queue of completions.
    #[inline(always)]
    pub const fn completion_queue(&self) -> CompletionQueue<'_> {
        CompletionQueue::new(
            &self.completion_producer,
            &self.completion_consumer,
            &self.completions,
            &self.control,
        )
    }

    /// Resets the queues for the connection with the local CID `number`, whose first RSN is `first`. They are then
    /// empty, and nothing of an earlier connection remains. The state is written last.
    pub fn start(&self, number: Cid, first: Rsn, state: u32) {
        self.number.store(number.0, Ordering::Relaxed);
        self.work_queue().start(WorkPosition::of(first));
        self.receive_queue().start();
        self.completion_queue().start();
        self.control.start();
        self.control.set_state(state);
    }

    /// Application: posts a receive as number `index`, which follows the last one posted. The caller has made sure that
    /// the entry is free. Returns whether a request of the peer waits for it. Then the doorbell must be rung.
    #[inline(always)]
    #[must_use]
    pub fn post_receive(&self, index: u32, receive: ReceiveRequest) -> bool {
        self.receive_queue().post(index, receive);
        // The other half is `Queues::set_receive_wanted`. With both barriers, either the kernel sees this receive, or
        // this function sees that a request waits.
        fence(Ordering::SeqCst);
        self.control.waits()
    }

    /// Application: reports that it has taken the first `taken` completions. Returns whether something waits for the place
    /// of one of them. Then the doorbell must be rung.
    #[inline(always)]
    #[must_use]
    pub fn take_completions(&self, taken: u32) -> bool {
        let queue = self.completion_queue();
        let before = queue.consumer();
        queue.take(taken);
        // The other half is `Queues::set_receive_wanted`. With both barriers, either the kernel sees the places, or this
        // function sees that the queue was full and that something waits.
        fence(Ordering::SeqCst);
        queue.was_full(before) && self.control.waits()
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
    assert!(size_of::<QueuePair>() == 192 + 64 * 256 + 24 * 256 + 32 * 512);
    // So the lines of the pairs that follow are lines of the cache as well.
    assert!(size_of::<QueuePair>().is_multiple_of(64));
    assert!(offset_of!(QueuePair, control) == 64 && offset_of!(QueuePair, send_consumer) == 128);
    assert!(offset_of!(QueuePair, send) == 192);
    assert!(SEND_QUEUE_DEPTH.is_power_of_two() && RECEIVE_QUEUE_DEPTH.is_power_of_two());
    assert!(COMPLETION_QUEUE_DEPTH.is_power_of_two());
    assert!(CONNECTIONS.is_power_of_two() && CELLS.is_power_of_two());
};
