//! The queue of the application's sends.
//!
//! The application writes the entries and the producer counter, the kernel the consumer counter. Both counters begin at
//! the connection's first RSN; a [`WorkPosition`] is the number of an entry.
//!
//! What the kernel may believe: nothing. A producer counter may have any value, may go back, and two reads of it may
//! differ: the initiator takes no more requests than its table holds, and takes none back. Each number names an entry,
//! because it is taken modulo the depth. An entry may change at any time, also after its transaction began: it is read
//! once for each packet, and checked there.

use super::{AtomicU32, Slot};
use crate::ids::WorkPosition;
use crate::ulp::{Verb, WorkRequest};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Entries of the send queue per connection. One entry is one Falcon transaction.
pub const SEND_QUEUE_DEPTH: usize = 256;

/// The entries of a [`WorkQueue`].
pub type WorkEntries = [Slot<WorkRequest>; SEND_QUEUE_DEPTH];

/// The queue of the application's sends, wherever its counters and entries lie.
///
/// ```
/// use transport_common::ids::{Cid, Rsn, WorkPosition};
/// use transport_common::queues::{QueuePair, WorkRequest};
///
/// let pair: Box<QueuePair> = bytemuck::zeroed_box();
/// pair.start(Cid(5), Rsn(u32::MAX), 0);
/// let (queue, at) = (pair.work_queue(), WorkPosition(u32::MAX));
/// queue.post(at, WorkRequest { wr_id: 7, ..WorkRequest::default() });
/// assert_eq!(queue.producer(), WorkPosition(0), "numbers begin at the first RSN, and wrap");
/// assert_eq!(queue.load(at).wr_id, 7);
/// assert_eq!(queue.consumer(), at, "the kernel may still read the entry");
/// queue.release(WorkPosition(0));
/// assert_eq!(queue.consumer(), queue.producer());
/// ```
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
    const fn slot(&self, at: WorkPosition) -> &'a Slot<WorkRequest> {
        &self.entries[at.0 as usize & (SEND_QUEUE_DEPTH - 1)]
    }

    /// Empties the queue. The first entry has the number `first`.
    pub(super) fn start(&self, first: WorkPosition) {
        self.producer.store(first.0, Relaxed);
        self.consumer.store(first.0, Relaxed);
    }

    /// Application: posts number `at`, which follows the last one posted. The caller has made sure that the entry is free.
    #[inline(always)]
    pub fn post(&self, at: WorkPosition, work: WorkRequest) {
        self.slot(at).store(work);
        self.producer.store(at.0.wrapping_add(1), Release);
    }

    /// Application: returns the number of the oldest entry that the kernel may still read.
    #[inline(always)]
    pub fn consumer(&self) -> WorkPosition {
        WorkPosition(self.consumer.load(Acquire))
    }

    /// Returns the number after the newest entry, as the application reports it.
    #[inline(always)]
    pub fn producer(&self) -> WorkPosition {
        WorkPosition(self.producer.load(Acquire))
    }

    /// Kernel: returns the producer counter. The entry at `next` is most likely the new one. It is fetched from the
    /// application's cache at the same time as the counter.
    #[inline(always)]
    pub fn look(&self, next: WorkPosition) -> u32 {
        let _ = self.opcode(next);
        self.producer.load(Relaxed)
    }

    /// Returns the opcode of an entry.
    #[inline(always)]
    pub fn opcode(&self, at: WorkPosition) -> Verb {
        // SAFETY: the pointer is to a field of a valid entry. The read is volatile because the application may write the
        // field.
        unsafe { (&raw const (*self.slot(at).as_ptr()).opcode).read_volatile() }
    }

    /// Returns the application's identifier of an entry.
    #[inline(always)]
    pub fn wr_id(&self, at: WorkPosition) -> u64 {
        // SAFETY: the pointer is to a field of a valid entry. The read is volatile because the application may write the
        // field.
        unsafe { (&raw const (*self.slot(at).as_ptr()).wr_id).read_volatile() }
    }

    /// Reads an entry once.
    #[inline(always)]
    pub fn load(&self, at: WorkPosition) -> WorkRequest {
        self.slot(at).load()
    }

    /// Kernel: returns the entries before `at` to the application.
    #[inline(always)]
    pub fn release(&self, at: WorkPosition) {
        self.consumer.store(at.0, Release);
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
        for first in [0_u32, 255, u32::MAX - 1, 1 << 31] {
            for n in (0..3).map(|n| first.wrapping_add(n)) {
                let (at, behind) = (WorkPosition(n), n.wrapping_add(1));
                let id = u64::from(n) << 7;
                let work = WorkRequest { wr_id: id, opcode: Verb(n as u8), ..WorkRequest::default() };
                queue.post(at, work);
                assert_eq!((queue.producer(), queue.look(at)), (WorkPosition(behind), behind));
                assert_eq!((queue.load(at), queue.wr_id(at), queue.opcode(at)), (work, id, work.opcode));
                let later = WorkPosition(n.wrapping_add(SEND_QUEUE_DEPTH as u32));
                assert_eq!(queue.load(later), work, "the ring has one turn");
            }
        }
    }

    #[test]
    fn each_side_writes_its_own_counter() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        let queue = pair.work_queue();
        let at = |queue: WorkQueue<'_>| [queue.producer(), queue.consumer()].map(|at| at.0);
        queue.start(WorkPosition(7));
        assert_eq!(at(queue), [7, 7]);
        queue.post(WorkPosition(7), WorkRequest::default());
        assert_eq!(at(queue), [8, 7]);
        queue.release(WorkPosition(8));
        assert_eq!(at(queue), [8, 8]);
    }
}
