//! Numbers that count the operations applied to them.
//!
//! The counts are those of the user logic as written, before any synthesis. An operation is a node of its data
//! flow graph. Constant shifts, bit selections and operations on constants only are wires and cost nothing.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::{Add, BitAnd, BitOr, Mul, Not, Shl, Shr, Sub};

use clocked::RingBitmap;
use serde::{Deserialize, Serialize};

use super::{Bitmap, Flag, Logic, Value, Word};

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Addition or subtraction.
    Add,
    /// Multiplication.
    Multiply,
    /// Comparison.
    Compare,
    /// And, or, not of wires.
    Gate,
    /// Multiplexer.
    Choose,
    /// Look-up, count, search or rotation of a bitmap.
    Bitmap,
    /// A function of `transport-common`. It computes with plain numbers, which are not counted. The whole function
    /// is one operation.
    Core,
}

impl Operation {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Add, Self::Multiply, Self::Compare, Self::Gate, Self::Choose, Self::Bitmap, Self::Core];

    /// Returns how many levels the operation adds to a path. A bitmap operation is a tree: seven levels reduce 128
    /// bits in pairs.
    #[must_use]
    pub const fn levels(self) -> u32 {
        match self {
            Self::Bitmap => 7,
            _ => 1,
        }
    }
}

/// The counters of the operations. This is the only place with interior mutability. It is an instrument and not
/// part of the model.
#[derive(Debug, Default)]
pub struct Tape {
    counts: [Cell<u32>; Operation::ALL.len()],
}

impl Tape {
    /// Returns the number of operations of a kind so far.
    pub fn count(&self, operation: Operation) -> u32 {
        self.counts[operation as usize].get()
    }

    fn note(&self, operation: Operation) {
        let count = &self.counts[operation as usize];
        count.set(count.get() + 1);
    }

    /// Returns an input: a number at depth 0.
    pub fn input(&self, value: u64) -> Counted<'_, u64> {
        Counted { value, depth: 0, tape: Some(self) }
    }

    /// Returns an input wire: a truth value at depth 0.
    pub fn flag(&self, value: bool) -> Counted<'_, bool> {
        Counted { value, depth: 0, tape: Some(self) }
    }

    /// Returns an input bitmap at depth 0.
    pub fn bitmap(&self, value: RingBitmap<2>) -> Counted<'_, RingBitmap<2>> {
        Counted { value, depth: 0, tape: Some(self) }
    }
}

/// A value, and the number of levels on the longest path to it.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'t, T> {
    /// The value.
    pub value: T,
    /// The number of levels on the longest path from an input.
    pub depth: u32,
    /// `None` for a constant.
    tape: Option<&'t Tape>,
}

impl<'t, T> Counted<'t, T> {
    /// Returns the result of an operation on `self` and other operands, which are given by depth and tape.
    fn after<U>(self, operation: Operation, others: &[(u32, Option<&'t Tape>)], value: U) -> Counted<'t, U> {
        let depth = others.iter().map(|other| other.0).fold(self.depth, u32::max);
        let tape = others.iter().fold(self.tape, |tape, other| tape.or(other.1));
        tape.inspect(|tape| tape.note(operation));
        Counted { value, depth: depth + tape.map_or(0, |_| operation.levels()), tape }
    }

    /// Returns another value with the same path. Wires cost nothing.
    fn wire<U>(self, value: U) -> Counted<'t, U> {
        Counted { value, depth: self.depth, tape: self.tape }
    }

    fn path(&self) -> (u32, Option<&'t Tape>) {
        (self.depth, self.tape)
    }
}

/// The logic on counted numbers, with a window of 128 segments.
#[derive(Clone, Copy, Debug)]
pub struct Counting<'t>(PhantomData<&'t Tape>);

impl<'t> Logic for Counting<'t> {
    type Flag = Counted<'t, bool>;
    type Word = Counted<'t, u64>;
    type Bitmap = Counted<'t, RingBitmap<2>>;

    fn core<const I: usize, const O: usize>(
        inputs: [Self::Word; I],
        function: impl FnOnce([u64; I]) -> [u64; O],
    ) -> [Self::Word; O] {
        let paths = inputs.map(|input| input.path());
        let box_of_core = Counted { value: (), depth: 0, tape: None }.after(Operation::Core, &paths, ());
        function(inputs.map(|input| input.value)).map(|output| box_of_core.wire(output))
    }
}

impl BitAnd for Counted<'_, bool> {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        self.after(Operation::Gate, &[other.path()], self.value & other.value)
    }
}

impl BitOr for Counted<'_, bool> {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.after(Operation::Gate, &[other.path()], self.value | other.value)
    }
}

impl Not for Counted<'_, bool> {
    type Output = Self;
    fn not(self) -> Self {
        self.after(Operation::Gate, &[], !self.value)
    }
}

impl<'t> Flag for Counted<'t, bool> {
    type Word = Counted<'t, u64>;

    fn constant(value: bool) -> Self {
        Self { value, depth: 0, tape: None }
    }

    fn choose(self, then: Self::Word, otherwise: Self::Word) -> Self::Word {
        let value = if self.value { then.value } else { otherwise.value };
        self.after(Operation::Choose, &[then.path(), otherwise.path()], value)
    }

    fn word(self) -> Self::Word {
        self.wire(self.value.into())
    }
}

impl Add for Counted<'_, u64> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.after(Operation::Add, &[other.path()], self.value.wrapping_add(other.value))
    }
}

impl Sub for Counted<'_, u64> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.after(Operation::Add, &[other.path()], self.value.wrapping_sub(other.value))
    }
}

impl Mul for Counted<'_, u64> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        self.after(Operation::Multiply, &[other.path()], self.value.wrapping_mul(other.value))
    }
}

impl Shl<u32> for Counted<'_, u64> {
    type Output = Self;
    fn shl(self, bits: u32) -> Self {
        self.wire(self.value << bits)
    }
}

impl Shr<u32> for Counted<'_, u64> {
    type Output = Self;
    fn shr(self, bits: u32) -> Self {
        self.wire(self.value >> bits)
    }
}

impl<'t> Word for Counted<'t, u64> {
    type Flag = Counted<'t, bool>;

    fn constant(value: u64) -> Self {
        Self { value, depth: 0, tape: None }
    }

    fn is(self, other: Self) -> Self::Flag {
        self.after(Operation::Compare, &[other.path()], self.value == other.value)
    }

    fn below(self, other: Self) -> Self::Flag {
        self.after(Operation::Compare, &[other.path()], self.value < other.value)
    }

    fn low(self, width: u32) -> Self {
        self.wire(Value(self.value).low(width).0)
    }

    fn bit(self, index: u32) -> Self::Flag {
        self.wire(Value(self.value).bit(index))
    }
}

impl<'t> Counted<'t, RingBitmap<2>> {
    fn over<T>(self, first: Counted<'t, u64>, length: Counted<'t, u64>, value: T) -> Counted<'t, T> {
        self.after(Operation::Bitmap, &[first.path(), length.path()], value)
    }
}

impl<'t> Bitmap for Counted<'t, RingBitmap<2>> {
    type Word = Counted<'t, u64>;
    type Flag = Counted<'t, bool>;

    fn get(self, segment: Self::Word) -> Self::Flag {
        self.over(segment, segment, Bitmap::get(self.value, Value(segment.value)))
    }

    fn count(self, first: Self::Word, length: Self::Word) -> Self::Word {
        let count = Bitmap::count(self.value, Value(first.value), Value(length.value));
        self.over(first, length, count.0)
    }

    fn first_clear(self, first: Self::Word, length: Self::Word) -> Self::Word {
        let place = Bitmap::first_clear(self.value, Value(first.value), Value(length.value));
        self.over(first, length, place.0)
    }

    fn last_clear(self, first: Self::Word, length: Self::Word) -> Self::Word {
        let place = Bitmap::last_clear(self.value, Value(first.value), Value(length.value));
        self.over(first, length, place.0)
    }

    fn words_from(self, first: Self::Word) -> [Self::Word; 2] {
        let rotated = self.over(first, first, ());
        self.value.unrolled(first.value as u32).map(|word| rotated.wire(word))
    }
}
