//! Blocks and the clock that drives them.

use core::fmt;
use core::ops::{Add, Sub};

/// A period of the clock, counted from reset: cycle `c` ends with rising edge `c`. 64 bits do not wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cycle(pub u64);

impl Cycle {
    /// The first cycle after reset.
    pub const ZERO: Self = Self(0);
    /// Later than any cycle that is reached.
    pub const NEVER: Self = Self(u64::MAX);

    /// Cycles from `earlier` to `self`; zero if `earlier` is later.
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

/// A clocked block. Its state is `Self`.
pub trait Block {
    /// What stands on the input wires in a cycle.
    type Input;
    /// What stands on the output wires in the same cycle.
    type Output;
    /// What the registers and memories take over at the edge that ends the cycle.
    type Next;

    /// The logic between two edges: outputs and next state from inputs and state.
    fn evaluate(&self, now: Cycle, input: &Self::Input) -> (Self::Output, Self::Next);

    /// The edge that ends cycle `now`.
    fn commit(&mut self, now: Cycle, next: &Self::Next);

    /// The first cycle from `now` on in which the block does anything although its inputs are idle; `None`: never.
    ///
    /// May be too early, never too late. Up to that cycle, evaluating with idle inputs must change nothing and
    /// put nothing on the outputs: these cycles are not evaluated at all.
    fn next_event(&self, now: Cycle) -> Option<Cycle>;
}

/// Drives a block, one cycle after the other.
#[derive(Clone, Debug)]
pub struct Clock<B> {
    block: B,
    now: Cycle,
    evaluated: u64,
}

impl<B: Block> Clock<B> {
    /// A block just reset: the next cycle is cycle 0.
    pub const fn new(block: B) -> Self {
        Self { block, now: Cycle::ZERO, evaluated: 0 }
    }

    /// The cycle that the next [`Self::step`] computes.
    pub const fn now(&self) -> Cycle {
        self.now
    }

    /// Cycles computed so far; the others up to [`Self::now`] were passed over.
    pub const fn evaluated(&self) -> u64 {
        self.evaluated
    }

    /// The block, between two cycles.
    pub const fn block(&self) -> &B {
        &self.block
    }

    /// The block, to be set up from outside between two cycles.
    pub const fn block_mut(&mut self) -> &mut B {
        &mut self.block
    }

    /// Computes a cycle and ends it: the outputs.
    #[inline]
    pub fn step(&mut self, input: &B::Input) -> B::Output {
        let (output, next) = self.block.evaluate(self.now, input);
        self.block.commit(self.now, &next);
        self.now = self.now + 1;
        self.evaluated += 1;
        output
    }

    /// Passes over the cycles in which nothing happens while the inputs are idle, but not over `limit`.
    #[inline]
    pub fn skip_idle(&mut self, limit: Cycle) {
        let event = self.block.next_event(self.now).unwrap_or(Cycle::NEVER);
        self.now = self.now.max(event.min(limit));
    }
}
