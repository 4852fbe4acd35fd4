//! A first-in first-out queue. It has as many write ports as entries are pushed in a cycle.

use std::collections::VecDeque;

/// More entries were pushed than the queue has space for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a FIFO of {capacity} entries overflows")]
pub struct FifoOverflow {
    /// The number of entries that the queue can hold.
    pub capacity: usize,
}

/// A queue in registers. The results of [`Self::head`] and [`Self::len`] change only in [`Self::commit`].
#[derive(Clone, Debug)]
pub struct Fifo<T> {
    entries: VecDeque<T>,
    capacity: usize,
}

impl<T> Fifo<T> {
    /// Creates an empty queue with space for `capacity` entries.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { entries: VecDeque::with_capacity(capacity), capacity }
    }

    /// Returns the oldest entry.
    #[inline(always)]
    pub fn head(&self) -> Option<&T> {
        self.entries.front()
    }

    /// Returns the number of entries in the queue.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries that the queue can take at the next edge if no entry is removed.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.capacity - self.entries.len()
    }

    /// Performs the clock edge: removes the oldest entry if `pop` is true, then adds `pushes` in their order.
    ///
    /// # Errors
    /// Returns [`FifoOverflow`] if the queue is full. The entries that had space stay in the queue.
    #[inline(always)]
    pub fn commit(&mut self, pop: bool, pushes: impl IntoIterator<Item = T>) -> Result<(), FifoOverflow> {
        if pop {
            self.entries.pop_front();
        }
        pushes.into_iter().try_for_each(|entry| {
            if self.entries.len() == self.capacity {
                return Err(FifoOverflow { capacity: self.capacity });
            }
            self.entries.push_back(entry);
            Ok(())
        })
    }
}
