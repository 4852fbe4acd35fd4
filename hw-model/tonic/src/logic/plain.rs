//! Plain numbers, with which the model computes.

use core::ops::{Add, Mul, Shl, Shr, Sub};

use clocked::RingBitmap;

use super::{Bitmap, Flag, Logic, Word};

/// The logic on plain numbers, with a window of `64 * WORDS` segments.
#[derive(Clone, Copy, Debug)]
pub struct Plain<const WORDS: usize>;

impl<const WORDS: usize> Logic for Plain<WORDS> {
    type Flag = bool;
    type Word = Value;
    type Bitmap = RingBitmap<WORDS>;

    #[inline]
    fn core<const I: usize, const O: usize>(
        inputs: [Value; I],
        function: impl FnOnce([u64; I]) -> [u64; O],
    ) -> [Value; O] {
        function(inputs.map(|input| input.0)).map(Value)
    }
}

/// A number of 64 bits that wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value(pub u64);

impl Value {
    /// Returns the number as a segment id.
    #[inline(always)]
    #[must_use]
    pub const fn segment(self) -> u32 {
        self.0 as u32
    }
}

impl Flag for bool {
    type Word = Value;

    #[inline(always)]
    fn constant(value: bool) -> Self {
        value
    }

    #[inline(always)]
    fn choose(self, then: Value, otherwise: Value) -> Value {
        if self { then } else { otherwise }
    }

    #[inline(always)]
    fn word(self) -> Value {
        Value(self.into())
    }
}

impl Add for Value {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl Sub for Value {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
}

impl Mul for Value {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(self.0.wrapping_mul(other.0))
    }
}

impl Shl<u32> for Value {
    type Output = Self;
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        Self(self.0 << bits)
    }
}

impl Shr<u32> for Value {
    type Output = Self;
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        Self(self.0 >> bits)
    }
}

impl Word for Value {
    type Flag = bool;

    #[inline(always)]
    fn constant(value: u64) -> Self {
        Self(value)
    }

    #[inline(always)]
    fn is(self, other: Self) -> bool {
        self.0 == other.0
    }

    #[inline(always)]
    fn below(self, other: Self) -> bool {
        self.0 < other.0
    }

    #[inline(always)]
    fn low(self, width: u32) -> Self {
        Self(if width < 64 { self.0 & ((1 << width) - 1) } else { self.0 })
    }

    #[inline(always)]
    fn bit(self, index: u32) -> bool {
        self.0 >> index & 1 != 0
    }
}

impl<const WORDS: usize> Bitmap for RingBitmap<WORDS> {
    type Word = Value;
    type Flag = bool;

    #[inline]
    fn get(self, segment: Value) -> bool {
        Self::get(&self, segment.segment())
    }

    #[inline]
    fn count(self, first: Value, length: Value) -> Value {
        let length = length.0.min(Self::BITS.into()) as u32;
        Value(Self::count(&self.and(&Self::range(first.segment(), length))).into())
    }

    #[inline]
    fn first_clear(self, first: Value, length: Value) -> Value {
        let length = length.0.min(Self::BITS.into()) as u32;
        let clear = Self::range(first.segment(), length).and_not(&self);
        let offset = |index: u32| index.wrapping_sub(first.segment()) % Self::BITS;
        Value(clear.find_first(first.segment()).map_or(length, offset).into())
    }

    #[inline]
    fn last_clear(self, first: Value, length: Value) -> Value {
        let length = length.0.min(Self::BITS.into()) as u32;
        let end = first.segment().wrapping_add(length);
        let clear = Self::range(first.segment(), length).and_not(&self);
        // Search backwards from the end. The segment before the end comes first.
        let last = clear.find_last(end).map(|last| end.wrapping_sub(last).wrapping_sub(1) % Self::BITS);
        Value(last.unwrap_or(length).into())
    }

    #[inline]
    fn words_from(self, first: Value) -> [Value; 2] {
        self.unrolled(first.segment()).map(Value)
    }
}
