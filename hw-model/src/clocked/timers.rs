//! A bank of timers, one an id.

use std::collections::VecDeque;

use transport_common::timing_wheel::{Polled, TimingWheel};

use super::block::Cycle;

/// One timer for each of `N` ids, `N` a power of two. They come out one a cycle, in the order of their expiry;
/// the order of those that expire in one cycle is that of the wheel, which depends on what was set when and on
/// nothing else.
#[derive(Clone)]
pub struct Timers<const N: usize> {
    /// Its tick is a cycle here.
    wheel: Box<TimingWheel<N>>,
    due: VecDeque<u32>,
}

impl<const N: usize> Default for Timers<N> {
    fn default() -> Self {
        Self { wheel: Box::default(), due: VecDeque::new() }
    }
}

impl<const N: usize> Timers<N> {
    /// The id whose timer has expired and waits longest, in this cycle.
    #[inline]
    pub fn expired(&self) -> Option<u32> {
        self.due.front().copied()
    }

    /// The first cycle from `now` on that has to be computed: the one before a timer may expire. Too early it may
    /// be, too late never.
    #[inline]
    pub fn next_event(&self, now: Cycle) -> Option<Cycle> {
        if !self.due.is_empty() {
            return Some(now);
        }
        self.wheel.next_event().map(|tick| now.max(Cycle(tick.saturating_sub(1))))
    }

    /// The clock edge that ends cycle `now`: `taken` is the id shown by [`Self::expired`] and dealt with in this
    /// cycle, `set` are the timers that are set and when they expire: in the next cycle at the earliest.
    #[inline]
    pub fn commit(&mut self, now: Cycle, taken: bool, set: impl IntoIterator<Item = (u32, Cycle)>) {
        if taken {
            self.due.pop_front();
        }
        for (id, expiry) in set {
            self.wheel.schedule(id, expiry.0);
        }
        loop {
            match self.wheel.poll(now.0 + 1) {
                Polled::Expired(id) => self.due.push_back(id),
                Polled::Busy => {}
                Polled::Idle => break,
            }
        }
    }
}
