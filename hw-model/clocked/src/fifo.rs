//! A first-in first-out queue with as many write ports as it is given entries.

use std::collections::VecDeque;

/// More entries were pushed than the queue has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a FIFO of {capacity} entries overflows")]
pub struct FifoOverflow {
    /// Entries the queue can hold.
    pub capacity: usize,
}

/// A queue in registers. What [`Self::head`] and [`Self::len`] show changes in [`Self::commit`] only.
#[derive(Clone, Debug)]
pub struct Fifo<T> {
    entries: VecDeque<T>,
    capacity: usize,
}

impl<T> Fifo<T> {
    /// An empty queue for `capacity` entries.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { entries: VecDeque::with_capacity(capacity), capacity }
    }

    /// The oldest entry.
    #[inline(always)]
    pub fn head(&self) -> Option<&T> {
        self.entries.front()
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries it can take over at the next edge if nothing is taken out.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.capacity - self.entries.len()
    }

    /// The clock edge: takes the oldest entry out if `pop`, then puts `pushes` in, in their order.
    ///
    /// # Errors
    /// [`FifoOverflow`]; the entries that fitted stay in.
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
