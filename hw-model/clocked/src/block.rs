//! Blocks, and the clock that drives them.

use core::fmt;
use core::ops::{Add, Sub};

/// A period of the clock, counted from reset. Cycle `c` ends with rising edge `c`. 64 bits do not wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cycle(pub u64);

impl Cycle {
    /// The first cycle after reset.
    pub const ZERO: Self = Self(0);
    /// A cycle later than any that a simulation reaches.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the number of cycles from `earlier` to `self`, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Cycle {
    type Output = Self;
    fn add(self, cycles: u64) -> Self {
        Self(self.0.saturating_add(cycles))
    }
}

impl Sub<Self> for Cycle {
    type Output = u64;
    fn sub(self, earlier: Self) -> u64 {
        self.since(earlier)
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A clocked block. `Self` is its state.
pub trait Block {
    /// The values of the input wires in a cycle.
    type Input;
    /// The values of the output wires in the same cycle.
    type Output;
    /// The changes that the registers and memories take over at the edge that ends the cycle.
    type Next;

    /// Computes the logic between two edges: outputs and next state from inputs and state.
    fn evaluate(&self, now: Cycle, input: &Self::Input) -> (Self::Output, Self::Next);

    /// Performs the clock edge that ends cycle `now`.
    fn commit(&mut self, now: Cycle, next: &Self::Next);

    /// Returns the first cycle from `now` on in which the block does anything although its inputs are idle. `None`
    /// means never.
    ///
    /// The result may be too early, but never too late. In the cycles before it, an evaluation with idle inputs
    /// must change nothing and output nothing, because these cycles are not evaluated at all.
    fn next_event(&self, now: Cycle) -> Option<Cycle>;
}

/// Drives a block, one cycle after another.
#[derive(Clone, Debug)]
pub struct Clock<B> {
    block: B,
    now: Cycle,
    evaluated: u64,
}

impl<B: Block> Clock<B> {
    /// Takes a block after reset. The next cycle is cycle 0.
    pub const fn new(block: B) -> Self {
        Self { block, now: Cycle::ZERO, evaluated: 0 }
    }

    /// Returns the cycle that the next [`Self::step`] computes.
    pub const fn now(&self) -> Cycle {
        self.now
    }

    /// Returns the number of cycles computed so far. The other cycles before [`Self::now`] were skipped.
    pub const fn evaluated(&self) -> u64 {
        self.evaluated
    }

    /// Returns the block as it is between two cycles.
    pub const fn block(&self) -> &B {
        &self.block
    }

    /// Returns the block so that the caller can set it up between two cycles.
    pub const fn block_mut(&mut self) -> &mut B {
        &mut self.block
    }

    /// Computes one cycle, performs the edge that ends it, and returns the outputs.
    #[inline]
    pub fn step(&mut self, input: &B::Input) -> B::Output {
        let (output, next) = self.block.evaluate(self.now, input);
        self.block.commit(self.now, &next);
        self.now = self.now + 1;
        self.evaluated += 1;
        output
    }

    /// Skips the cycles in which nothing happens while the inputs are idle. Does not skip past `limit`.
    #[inline]
    pub fn skip_idle(&mut self, limit: Cycle) {
        let event = self.block.next_event(self.now).unwrap_or(Cycle::NEVER);
        self.now = self.now.max(event.min(limit));
    }
}
