//! The queue of completions.
//!
//! The kernel writes the entries and the producer counter, under the connection's lock; the application writes the
//! consumer counter. An entry has its number, which is written last: so the application polls one entry, and not a counter
//! that the kernel writes often.
//!
//! What the kernel may believe: nothing. A consumer counter that is ahead of the producer's, or behind by the depth or
//! more, leaves no place. Then the application's own messages wait. The kernel's counter lies in a page that the
//! application can write: if it does, completions get lost or are repeated, its own.
//!
//! An application that wants to sleep arms the queue ([`CompletionQueue::arm`]) and looks once more. The program that
//! then appends a completion disarms it and has the application woken ([`CompletionQueue::takes_notice`]). It looks at the
//! word `armed` when it has released the connection's lock, which is a full barrier: so either the application finds the
//! completion, or the program finds the queue armed.

use super::{AtomicU32, ControlPage, SEND_QUEUE_DEPTH, Slot};
use crate::shared::fence;
use crate::ulp::{Completion, RECEIVE_QUEUE_DEPTH};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Entries of the completion queue per connection. Every send entry and every receive entry can be outstanding at
/// once.
pub const COMPLETION_QUEUE_DEPTH: usize = SEND_QUEUE_DEPTH + RECEIVE_QUEUE_DEPTH;

/// The entries of a [`CompletionQueue`].
pub type CompletionEntries = [Slot<Completion>; COMPLETION_QUEUE_DEPTH];

/// The queue of completions, wherever its counters and entries lie.
///
/// ```
/// use transport_common::queues::{COMPLETION_QUEUE_DEPTH, Completion, QueuePair};
///
/// let pair: Box<QueuePair> = bytemuck::zeroed_box();
/// let queue = pair.completion_queue();
/// assert!(queue.append(Completion { wr_id: 7, ..Completion::default() }));
/// assert_eq!(queue.get(0).map(|completion| completion.wr_id), Some(7));
/// assert_eq!(queue.get(1), None, "not written yet");
///
/// while queue.has_place() {
///     assert!(queue.append(Completion::default()));
/// }
/// assert_eq!(queue.producer() as usize, COMPLETION_QUEUE_DEPTH);
/// assert!(!queue.append(Completion::default()), "a full queue overwrites nothing");
/// queue.take(1);
/// assert!(queue.has_place());
/// ```
#[derive(Clone, Copy)]
pub struct CompletionQueue<'a> {
    producer: &'a AtomicU32,
    consumer: &'a AtomicU32,
    entries: &'a CompletionEntries,
    control: &'a ControlPage,
}

/// Bit of [`ControlPage::armed`] that is set if the queue is armed.
const ARMED: u64 = 1 << 63;

/// Returns what [`ControlPage::armed`] is while an application sleeps that knows this state of the connection, and this
/// number of completions.
#[inline(always)]
const fn armed_at(state: u32, written: u32) -> u64 {
    ARMED | (state as u64) << 32 | written as u64
}

impl<'a> CompletionQueue<'a> {
    /// Returns the queue with these parts: the kernel's counter, the application's counter, the entries, and the page with
    /// the word by which the application is woken.
    #[inline(always)]
    pub const fn new(
        producer: &'a AtomicU32,
        consumer: &'a AtomicU32,
        entries: &'a CompletionEntries,
        control: &'a ControlPage,
    ) -> Self {
        Self { producer, consumer, entries, control }
    }

    /// Returns the entry of the completion after the first `before`, and the word of its number.
    #[inline(always)]
    fn slot(&self, before: u32) -> (&'a Slot<Completion>, &'a AtomicU32) {
        let slot = &self.entries[before as usize & (COMPLETION_QUEUE_DEPTH - 1)];
        // SAFETY: the pointer is to a field of a valid entry.
        (slot, unsafe { AtomicU32::from_ptr(&raw mut (*slot.as_ptr()).number) })
    }

    /// Empties the queue, and removes the completions of an earlier connection.
    pub(super) fn start(&self) {
        self.producer.store(0, Relaxed);
        self.consumer.store(0, Relaxed);
        self.entries.iter().for_each(|slot| slot.store(Completion::default()));
    }

    /// Kernel: returns whether there is a place. The caller must hold the connection's lock. Until it calls
    /// [`Self::append`], the place stays.
    #[inline(always)]
    pub fn has_place(&self) -> bool {
        self.has_place_after(self.producer.load(Relaxed))
    }

    #[inline(always)]
    fn has_place_after(&self, written: u32) -> bool {
        // The entry is written again only after the application has read it.
        let taken = self.consumer.load(Acquire);
        written.wrapping_sub(taken) < COMPLETION_QUEUE_DEPTH as u32
    }

    /// Kernel: appends a completion. Returns false if the queue is full. The caller must hold the connection's lock.
    #[inline(always)]
    pub fn append(&self, completion: Completion) -> bool {
        let before = self.producer.load(Relaxed);
        if !self.has_place_after(before) {
            return false;
        }
        let (slot, number) = self.slot(before);
        let next = before.wrapping_add(1);
        slot.store(completion);
        number.store(next, Release);
        self.producer.store(next, Release);
        true
    }

    /// Application: returns the completion after the first `taken`, if the kernel has written it.
    #[inline(always)]
    pub fn get(&self, taken: u32) -> Option<Completion> {
        let (slot, number) = self.slot(taken);
        if number.load(Acquire) != taken.wrapping_add(1) {
            return None;
        }
        Some(Completion { number: 0, ..slot.load() })
    }

    /// Application: returns how many completions the kernel has written.
    #[inline(always)]
    pub fn producer(&self) -> u32 {
        self.producer.load(Acquire)
    }

    /// Application: returns how many completions it has reported as taken.
    #[inline(always)]
    pub fn consumer(&self) -> u32 {
        self.consumer.load(Relaxed)
    }

    /// Application: reports that it has taken the first `taken`. If something may wait for a place,
    /// [`QueuePair::take_completions`](super::QueuePair::take_completions) has to be used.
    #[inline(always)]
    pub fn take(&self, taken: u32) {
        self.consumer.store(taken, Release);
    }

    /// Application: asks for one notice when there is a completion after the first `taken`, or when the state of the connection
    /// is no longer `state`. Then the application has to look at the queue ([`Self::get`]) and at the state once more, and may
    /// sleep if both are as before. Before the notice, another call replaces this one.
    #[inline(always)]
    pub fn arm(&self, state: u32, taken: u32) {
        // Another half is `takes_notice`.
        self.control.armed.store(armed_at(state, taken), SeqCst);
        fence(SeqCst);
    }

    /// Application: withdraws [`Self::arm`]. A notice may be on its way.
    #[inline(always)]
    pub fn disarm(&self) {
        self.control.armed.store(0, Relaxed);
    }

    /// Kernel: returns whether the application has to be woken, and disarms the queue. The caller has executed a full barrier
    /// after the last completion, such as [`Lock::release`](crate::shared::Lock::release). Whatever the application writes, each
    /// value that it writes yields `true` at most once.
    #[inline(always)]
    pub fn takes_notice(&self) -> bool {
        let armed = self.control.armed.load(Relaxed);
        armed != 0
            && armed != armed_at(self.control.state.load(Relaxed), self.producer.load(Relaxed))
            // Of two CPUs, one finds it.
            && self.control.armed.swap(0, SeqCst) != 0
    }

    /// Application: returns whether the queue was full when its counter was `before`. Without a barrier after
    /// [`Self::take`] it may miss that the kernel has just filled the queue.
    #[inline(always)]
    pub(super) fn was_full(&self, before: u32) -> bool {
        self.producer.load(Relaxed).wrapping_sub(before) >= COMPLETION_QUEUE_DEPTH as u32
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::queues::QueuePair;
    use std::boxed::Box;

    const DEPTH: u32 = COMPLETION_QUEUE_DEPTH as u32;

    #[test]
    fn what_is_appended_is_read_in_order_until_the_queue_is_full() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        let queue = pair.completion_queue();
        queue.start();
        let completion = |n: u32| Completion { wr_id: n.into(), ..Completion::default() };
        assert!((0..DEPTH).all(|n| queue.append(completion(n))));
        assert!(!queue.has_place() && !queue.append(completion(DEPTH)), "nothing is overwritten");
        assert!((0..DEPTH).all(|n| queue.get(n) == Some(completion(n))));
        assert_eq!((queue.get(DEPTH), queue.producer(), queue.consumer()), (None, DEPTH, 0));
        queue.take(1);
        assert!(queue.append(completion(DEPTH)) && !queue.append(completion(DEPTH + 1)));
        assert_eq!((queue.get(DEPTH), queue.get(0)), (Some(completion(DEPTH)), None));
    }

    /// A counter that makes no sense makes the application's own completions wait.
    #[test]
    fn only_a_counter_that_makes_sense_leaves_a_place() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        for written in [0, 3, u32::MAX - 1] {
            let has_place = |untaken: u32| {
                pair.completion_producer.store(written, Relaxed);
                pair.completion_consumer.store(written.wrapping_sub(untaken), Relaxed);
                let has_place = pair.completion_queue().has_place();
                assert_eq!(pair.completion_queue().append(Completion::default()), has_place);
                has_place
            };
            assert_eq!([0, 1, DEPTH - 1].map(has_place), [true; 3]);
            assert_eq!([DEPTH, DEPTH + 1, 1 << 31, u32::MAX].map(has_place), [false; 4]);
        }
    }

    #[test]
    fn an_earlier_connection_leaves_no_completions() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        let queue = pair.completion_queue();
        assert!(queue.append(Completion::default()) && queue.get(0).is_some());
        queue.start();
        assert_eq!((queue.get(0), queue.producer()), (None, 0));
    }

    #[test]
    fn an_armed_queue_takes_one_notice_of_completions_and_one_of_a_new_state() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        let queue = pair.completion_queue();
        assert!(queue.append(Completion::default()) && !queue.takes_notice(), "not armed");
        pair.control.set_state(1);
        queue.arm(1, 1);
        assert!(!queue.takes_notice(), "nothing came");
        assert!(queue.append(Completion::default()) && queue.append(Completion::default()));
        assert_eq!([(); 2].map(|()| queue.takes_notice()), [true, false]);
        queue.arm(1, 2);
        assert!(queue.takes_notice(), "what came before counts as well");
        queue.arm(1, 3);
        pair.control.set_state(3);
        assert_eq!([(); 2].map(|()| queue.takes_notice()), [true, false]);
        queue.arm(3, 0);
        queue.disarm();
        assert!(!queue.takes_notice());
    }

    /// Any value of the word yields at most one notice.
    #[test]
    fn garbage_in_the_armed_word_yields_one_notice() {
        let pair: Box<QueuePair> = bytemuck::zeroed_box();
        for garbage in [1, 0xffff, ARMED - 1, ARMED | 7 << 32, u64::MAX] {
            pair.control.armed.store(garbage, Relaxed);
            assert_eq!([(); 3].map(|()| pair.completion_queue().takes_notice()), [true, false, false]);
        }
        pair.control.set_state(u32::MAX);
        pair.control.armed.store(u64::MAX, Relaxed);
        pair.completion_producer.store(u32::MAX, Relaxed);
        assert!(!pair.completion_queue().takes_notice(), "the application alone made it seem true");
    }
}
