//! The queue of the application's sends.
//!
//! The application writes the entries and the producer counter, the kernel the consumer counter. Both counters begin at
//! the connection's first RSN, so the number of an entry is the RSN of its transaction.
//!
//! What the kernel may believe: nothing. A producer counter may have any value, may go back, and two reads of it may
//! differ: the initiator takes no more requests than its table holds, and takes none back. Each number names an entry,
//! because it is taken modulo the depth. An entry may change at any time, also after its transaction began: it is read
//! once for each packet, and checked there.

use super::{AtomicU32, Slot};
use crate::ids::Rsn;
use crate::ulp::rdma::{Verb, WorkRequest};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Entries of the send queue per connection. One entry is one Falcon transaction.
pub const SEND_QUEUE_DEPTH: usize = 256;

/// The entries of a [`WorkQueue`].
pub type WorkEntries = [Slot<WorkRequest>; SEND_QUEUE_DEPTH];

/// The queue of the application's sends, wherever its counters and entries lie.
#[derive(Clone, Copy)]
pub struct WorkQueue<'a> {
    producer: &'a AtomicU32,
    consumer: &'a AtomicU32,
    entries: &'a WorkEntries,
}

impl<'a> WorkQueue<'a> {
    /// Returns the queue with these parts: the application's counter, the kernel's counter, and the entries.
    #[inline(always)]
    pub const fn new(producer: &'a AtomicU32, consumer: &'a AtomicU32, entries: &'a WorkEntries) -> Self {
        Self { producer, consumer, entries }
    }

    #[inline(always)]
    const fn slot(&self, rsn: Rsn) -> &'a Slot<WorkRequest> {
        &self.entries[rsn.0 as usize & (SEND_QUEUE_DEPTH - 1)]
    }

    /// Empties the queue of a connection whose first RSN is `first`.
    pub(super) fn start(&self, first: Rsn) {
        self.producer.store(first.0, Relaxed);
        self.consumer.store(first.0, Relaxed);
    }

    /// Application: posts number `rsn`, which follows the last one posted. The caller has made sure that the entry is free.
    #[inline(always)]
    pub fn post(&self, rsn: Rsn, work: WorkRequest) {
        self.slot(rsn).store(work);
        self.producer.store(rsn.add(1).0, Release);
    }

    /// Application: returns the number of the oldest entry that the kernel may still read.
    #[inline(always)]
    pub fn consumer(&self) -> Rsn {
        Rsn(self.consumer.load(Acquire))
    }

    /// Returns the number after the newest entry, as the application reports it.
    #[inline(always)]
    pub fn producer(&self) -> u32 {
        self.producer.load(Acquire)
    }

    /// Kernel: returns [`Self::producer`]. The entry at `next` is most likely the new one. It is fetched from the
    /// application's cache at the same time as the counter.
    #[inline(always)]
    pub fn look(&self, next: Rsn) -> u32 {
        let _ = self.opcode(next);
        self.producer.load(Relaxed)
    }

    /// Returns the opcode of an entry.
    #[inline(always)]
    pub fn opcode(&self, rsn: Rsn) -> Verb {
        // SAFETY: the pointer is to a field of a valid entry. The read is volatile because the application may write the
        // field.
        unsafe { (&raw const (*self.slot(rsn).as_ptr()).opcode).read_volatile() }
    }

    /// Returns the application's identifier of an entry.
    #[inline(always)]
    pub fn wr_id(&self, rsn: Rsn) -> u64 {
        // SAFETY: the pointer is to a field of a valid entry. The read is volatile because the application may write the
        // field.
        unsafe { (&raw const (*self.slot(rsn).as_ptr()).wr_id).read_volatile() }
    }

    /// Reads an entry once.
    #[inline(always)]
    pub fn load(&self, rsn: Rsn) -> WorkRequest {
        self.slot(rsn).load()
    }

    /// Kernel: returns the entries below `rsn` to the application.
    #[inline(always)]
    pub fn release(&self, rsn: Rsn) {
        self.consumer.store(rsn.0, Release);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::queues::QueuePair;
    use std::boxed::Box;

    /// Whatever the application says, a number names an entry of the queue, and what was posted under it.
    #[test]
    fn each_number_names_the_entry_that_was_posted() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        let queue = pair.work_queue();
        for first in [0, 255, u32::MAX - 1, 1 << 31] {
            for rsn in (0..3).map(|n| Rsn(first).add(n)) {
                let id = u64::from(rsn.0) << 7;
                let work = WorkRequest { wr_id: id, opcode: Verb(rsn.0 as u8), ..WorkRequest::default() };
                queue.post(rsn, work);
                assert_eq!((queue.producer(), queue.look(rsn)), (rsn.add(1).0, rsn.add(1).0));
                assert_eq!((queue.load(rsn), queue.wr_id(rsn), queue.opcode(rsn)), (work, id, work.opcode));
                assert_eq!(queue.load(rsn.add(SEND_QUEUE_DEPTH as u32)), work, "the ring has one turn");
            }
        }
    }

    #[test]
    fn each_side_writes_its_own_counter() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        let queue = pair.work_queue();
        queue.start(Rsn(7));
        assert_eq!((queue.producer(), queue.consumer()), (7, Rsn(7)));
        queue.post(Rsn(7), WorkRequest::default());
        assert_eq!((queue.producer(), queue.consumer()), (8, Rsn(7)));
        queue.release(Rsn(8));
        assert_eq!((queue.producer(), queue.consumer()), (8, Rsn(8)));
    }
}
