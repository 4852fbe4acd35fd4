//! The queue of posted receives.
//!
//! The application writes the entries and the producer counter, the kernel the consumer counter. Both count from the
//! opening of the connection.
//!
//! What the kernel may believe: nothing. It counts by itself what it has used. A producer counter that is behind that, or
//! ahead by more than the depth, means that there is no receive. An entry is read once for each message, and its place is
//! checked when something is written there.

use super::{AtomicU32, Slot};
use crate::ulp::{RECEIVE_QUEUE_DEPTH, ReceiveRequest};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The entries of a [`ReceiveQueue`].
pub type ReceiveEntries = [Slot<ReceiveRequest>; RECEIVE_QUEUE_DEPTH];

/// The queue of posted receives, wherever its counters and entries lie.
///
/// ```
/// use std::sync::atomic::Ordering::Relaxed;
/// use transport_common::queues::{QueuePair, ReceiveRequest};
///
/// let pair: Box<QueuePair> = bytemuck::zeroed_box();
/// let queue = pair.receive_queue();
/// assert!(!queue.has(0));
/// queue.post(0, ReceiveRequest { wr_id: 7, ..ReceiveRequest::default() });
/// assert!(queue.has(0) && !queue.has(1));
/// assert_eq!(queue.load(0).wr_id, 7);
///
/// // The application's counter is untrusted: one that makes no sense offers nothing.
/// pair.receive_producer.store(u32::MAX, Relaxed);
/// assert!(!queue.has(0));
/// ```
#[derive(Clone, Copy)]
pub struct ReceiveQueue<'a> {
    producer: &'a AtomicU32,
    consumer: &'a AtomicU32,
    entries: &'a ReceiveEntries,
}

impl<'a> ReceiveQueue<'a> {
    /// Returns the queue with these parts: the application's counter, the kernel's counter, and the entries.
    #[inline(always)]
    pub const fn new(producer: &'a AtomicU32, consumer: &'a AtomicU32, entries: &'a ReceiveEntries) -> Self {
        Self { producer, consumer, entries }
    }

    #[inline(always)]
    const fn slot(&self, index: u32) -> &'a Slot<ReceiveRequest> {
        &self.entries[index as usize & (RECEIVE_QUEUE_DEPTH - 1)]
    }

    /// Empties the queue.
    pub(super) fn start(&self) {
        self.producer.store(0, Relaxed);
        self.consumer.store(0, Relaxed);
    }

    /// Application: posts number `index`, which follows the last one posted. The caller has made sure that the entry is
    /// free.
    #[inline(always)]
    pub fn post(&self, index: u32, receive: ReceiveRequest) {
        self.slot(index).store(receive);
        self.producer.store(index.wrapping_add(1), Release);
    }

    /// Kernel: returns whether a receive is posted after the first `used`.
    #[inline(always)]
    pub fn has(&self, used: u32) -> bool {
        let posted = self.producer.load(Acquire).wrapping_sub(used);
        posted != 0 && posted <= RECEIVE_QUEUE_DEPTH as u32
    }

    /// Kernel: reads an entry once.
    #[inline(always)]
    pub fn load(&self, index: u32) -> ReceiveRequest {
        self.slot(index).load()
    }

    /// Kernel: returns the first `count` entries to the application.
    #[inline(always)]
    pub fn release(&self, count: u32) {
        self.consumer.store(count, Release);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::queues::QueuePair;
    use std::boxed::Box;

    const DEPTH: u32 = RECEIVE_QUEUE_DEPTH as u32;

    /// A counter that makes no sense offers nothing.
    #[test]
    fn only_a_counter_that_makes_sense_offers_a_receive() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        for used in [0, 7, u32::MAX, 1 << 31] {
            let offers = |posted: u32| {
                pair.receive_producer.store(used.wrapping_add(posted), Relaxed);
                pair.receive_queue().has(used)
            };
            assert_eq!([1, 2, DEPTH].map(offers), [true; 3]);
            assert_eq!([0, DEPTH + 1, 1 << 31, u32::MAX].map(offers), [false; 4]);
        }
    }

    #[test]
    fn each_number_names_the_entry_that_was_posted() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        let queue = pair.receive_queue();
        for index in [0, DEPTH - 1, DEPTH, u32::MAX] {
            let receive = ReceiveRequest { wr_id: index.into(), ..ReceiveRequest::default() };
            queue.post(index, receive);
            assert!(queue.has(index) && !queue.has(index.wrapping_add(1)));
            assert_eq!([queue.load(index), queue.load(index.wrapping_add(DEPTH))], [receive; 2]);
        }
        queue.release(9);
        assert_eq!(pair.receive_consumer.load(Relaxed), 9);
    }
}
