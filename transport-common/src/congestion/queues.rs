//! The memory that the datapath shares with a rate update engine in user space: event queues and the result queue
//! (10.6.2).

use crate::shared::AtomicU64;
use bytemuck::{Pod, Zeroable};

use super::admission::Admission;
use super::entry::Entry;
use crate::shared::Slot;

/// Event queues of a node (F-10.6.2.1-11).
pub const EVENT_QUEUES: usize = 4;
/// Entries of an event queue; a power of two.
pub const EVENT_QUEUE_DEPTH: usize = 1024;
/// Entries of the result queue; a power of two. It has space for one result per possible event, so an engine that
/// answers no event twice never finds it full.
pub const RESULT_QUEUE_DEPTH: usize = EVENT_QUEUES * EVENT_QUEUE_DEPTH;
/// Entries of an event queue that the admission policy gives out. The rest is a reserve for CPUs that admit an
/// event at the same time, each seeing the same free entry.
pub const EVENT_QUEUE_CAPACITY: u32 = EVENT_QUEUE_DEPTH as u32 - 256;

/// Event and result queues. Zero bytes are empty queues that admit nothing, because there is no engine.
///
/// Producer and consumer counters run freely. The entry of event number `n` is at index `n` modulo the depth. Its
/// poll bit is 1 in the first lap and toggles with each lap (D-74). So a consumer can tell from the entry alone
/// whether it is complete. All values that an engine writes are untrusted.
#[repr(C)]
#[cfg_attr(not(target_arch = "bpf"), derive(bytemuck::Zeroable))]
pub struct CongestionQueues {
    /// Written by the datapath: number of events written to each queue.
    pub event_producer: [AtomicU64; EVENT_QUEUES],
    /// Fills the datapath's cache line.
    pub reserved: [u64; 8 - EVENT_QUEUES],
    /// Written by the rate update engine: number of events taken from each queue.
    pub event_consumer: [AtomicU64; EVENT_QUEUES],
    /// Written by the rate update engine: number of results written.
    pub result_producer: AtomicU64,
    /// Fills the rate update engine's cache line.
    pub reserved2: [u64; 7 - EVENT_QUEUES],
    /// Written by the engine program: number of results taken.
    pub result_consumer: AtomicU64,
    /// Fills the engine program's cache line.
    pub reserved3: [u64; 7],
    /// Written by the rate update engine: the admission policy of every queue (D-73). Its capacity is 0 while
    /// there is no engine.
    pub admission: Slot<Admission>,
    /// The event queues.
    pub events: [[Slot<Entry>; EVENT_QUEUE_DEPTH]; EVENT_QUEUES],
    /// The result queue.
    pub results: [Slot<Entry>; RESULT_QUEUE_DEPTH],
}

/// Returns the poll bit of event number `n`.
#[inline(always)]
pub const fn generation_of(n: u64) -> u8 {
    ((n / EVENT_QUEUE_DEPTH as u64) & 1) as u8 ^ 1
}

const _: () = {
    assert!(EVENT_QUEUE_DEPTH.is_power_of_two() && RESULT_QUEUE_DEPTH.is_power_of_two());
    assert!(core::mem::offset_of!(CongestionQueues, result_consumer) == 128);
    assert!(size_of::<Admission>() == 24);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poll_bit_toggles_with_each_lap() {
        let depth = EVENT_QUEUE_DEPTH as u64;
        assert_eq!([0, depth - 1, depth, 2 * depth].map(generation_of), [1, 1, 0, 1]);
    }
}

/// Input of the admission policy: the event queues as they were before a step.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct AdmissionView {
    /// Entries in each queue.
    pub occupancy: [u32; EVENT_QUEUES],
    /// The policy (D-73). Its capacity is 0 without a rate update engine.
    pub admission: Admission,
}
