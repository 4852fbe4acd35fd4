//! Window bitmaps: 128 bits for the data window, 64 for the request window (F-9.2.1-2).
//!
//! Bit `n` stands for PSN `base + n` (F-7.7.2-2). The 128-bit map consists of two `u64`, because BPF has no
//! variable 128-bit shift. Every position and distance is accepted: shift counts are masked, positions outside the
//! map read as 0, and writes to them are ignored. So no operation can panic.
//!
//! BPF also has no instruction to count zeros or ones: each scan becomes a multiplication and a table look-up. So
//! [`Bitmap128::trailing_zeros`], [`Bitmap128::trailing_ones`], [`Bitmap128::top`] and [`Bitmap128::take_lowest`]
//! choose their word first and scan only that one. The kernel's verifier does not know the range of a position
//! from the table. The compiler knows it, and may drop a mask on the position (seen with `& 63` after
//! [`Bitmap64::take_lowest`]). To use a position as an index, add it to a base and mask the sum.

use bytemuck::{Pod, Zeroable};

const WORD_BITS: u32 = u64::BITS;
const SHIFT_MASK: u32 = WORD_BITS - 1;

/// Operations that both widths define in the same way, based on their own `bit`, `and`, `or`, `not`, `is_zero`.
macro_rules! derived_operations {
    ($name:ident, $width:literal) => {
        impl $name {
            /// Number of bits.
            pub const WIDTH: u32 = $width;

            /// Sets bit `n`; does nothing beyond the width.
            #[inline(always)]
            pub const fn set(&mut self, n: u32) {
                *self = self.or(Self::bit(n));
            }

            /// Clears bit `n`; does nothing beyond the width.
            #[inline(always)]
            pub const fn clear(&mut self, n: u32) {
                *self = self.and_not(Self::bit(n));
            }

            /// Returns a copy with bit `n` set; an equal copy beyond the width.
            #[inline(always)]
            #[must_use]
            pub const fn with(self, n: u32) -> Self {
                self.or(Self::bit(n))
            }

            /// Returns the bits that are in `self` and not in `other`.
            #[inline(always)]
            #[must_use]
            pub const fn and_not(self, other: Self) -> Self {
                self.and(other.not())
            }
        }
    };
}

/// 128 bits: data Rx and data ACK bitmaps. Any value is valid; all zero bytes is the empty map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct Bitmap128 {
    /// Bits 0 to 63.
    pub low: u64,
    /// Bits 64 to 127.
    pub high: u64,
}

derived_operations!(Bitmap128, 128);

impl Bitmap128 {
    /// No bit set.
    pub const ZERO: Self = Self { low: 0, high: 0 };

    /// Returns a map with only bit `n`; [`Self::ZERO`] beyond the width.
    #[inline(always)]
    pub const fn bit(n: u32) -> Self {
        let word = 1 << (n & SHIFT_MASK);
        if n < 64 {
            Self { low: word, high: 0 }
        } else if n < 128 {
            Self { low: 0, high: word }
        } else {
            Self::ZERO
        }
    }

    /// Returns bit `n`; false beyond the width.
    #[inline(always)]
    pub const fn get(self, n: u32) -> bool {
        let word = if n < 64 { self.low } else { self.high };
        n < 128 && (word >> (n & SHIFT_MASK)) & 1 != 0
    }

    /// Returns the bits that are in both maps.
    #[inline(always)]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { low: self.low & other.low, high: self.high & other.high }
    }

    /// Returns the bits that are in at least one of the maps.
    #[inline(always)]
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self { low: self.low | other.low, high: self.high | other.high }
    }

    /// Returns the map with all 128 bits inverted.
    #[inline(always)]
    #[must_use]
    pub const fn not(self) -> Self {
        Self { low: !self.low, high: !self.high }
    }

    /// Returns true if no bit is set.
    #[inline(always)]
    pub const fn is_zero(self) -> bool {
        (self.low | self.high) == 0
    }

    /// Returns the map relative to a base that is `n` higher: bit `n` becomes bit 0 (F-9.2.2.4-7). Empty for 128
    /// and more.
    #[inline(always)]
    #[must_use]
    pub const fn shift_right(self, n: u32) -> Self {
        let count = n & SHIFT_MASK;
        if n >= 128 {
            Self::ZERO
        } else if n >= 64 {
            Self { low: self.high >> count, high: 0 }
        } else {
            // Two steps, because for a count of 0 one step would be a shift by 64.
            let carried = (self.high << 1) << (SHIFT_MASK - count);
            Self { low: (self.low >> count) | carried, high: self.high >> count }
        }
    }

    /// Returns the map relative to a base that is `n` lower: bit 0 becomes bit `n`. Empty for 128 and more.
    #[inline(always)]
    #[must_use]
    pub const fn shift_left(self, n: u32) -> Self {
        let count = n & SHIFT_MASK;
        if n >= 128 {
            Self::ZERO
        } else if n >= 64 {
            Self { low: 0, high: self.low << count }
        } else {
            let carried = (self.low >> 1) >> (SHIFT_MASK - count);
            Self { low: self.low << count, high: (self.high << count) | carried }
        }
    }

    /// Returns a map with the `n` lowest bits set; all bits from 128 on.
    #[inline(always)]
    pub const fn low_mask(n: u32) -> Self {
        if n >= 64 {
            Self { low: u64::MAX, high: Bitmap64::low_mask(n - 64).0 }
        } else {
            Self { low: Bitmap64::low_mask(n).0, high: 0 }
        }
    }

    /// Returns the length of the run of ones from bit 0: how far a base may advance (F-9.2.2.4-7). 128 if full.
    #[inline(always)]
    pub const fn trailing_ones(self) -> u32 {
        self.not().trailing_zeros()
    }

    /// Returns the position of the lowest set bit; 128 if there is none.
    #[inline(always)]
    pub const fn trailing_zeros(self) -> u32 {
        let (word, first) = if self.low != 0 { (self.low, 0) } else { (self.high, 64) };
        first + word.trailing_zeros()
    }

    /// Returns the position of the highest set bit plus one; 0 if there is none.
    #[inline(always)]
    pub const fn top(self) -> u32 {
        let (word, first) = if self.high != 0 { (self.high, 64) } else { (self.low, 0) };
        first + WORD_BITS - word.leading_zeros()
    }

    /// Returns the number of set bits.
    #[inline(always)]
    pub const fn count_ones(self) -> u32 {
        self.low.count_ones() + self.high.count_ones()
    }

    /// Removes the lowest set bit and returns its position.
    #[inline(always)]
    pub const fn take_lowest(&mut self) -> Option<u32> {
        if self.is_zero() {
            return None;
        }
        let n = self.trailing_zeros();
        // x & (x - 1) clears the lowest one of a word that is not zero.
        if self.low != 0 {
            self.low &= self.low - 1;
        } else {
            self.high &= self.high.wrapping_sub(1);
        }
        Some(n)
    }

    /// Returns true if the ones are not contiguous from bit 0, so something is missing (D-33).
    #[inline(always)]
    pub const fn has_hole(self) -> bool {
        if self.low == u64::MAX {
            Bitmap64(self.high).has_hole()
        } else {
            self.high != 0 || Bitmap64(self.low).has_hole()
        }
    }

    /// Returns the two words, bits 0 to 63 first.
    #[inline(always)]
    pub const fn words(self) -> [u64; 2] {
        [self.low, self.high]
    }

    /// Creates a map from two words, bits 0 to 63 first.
    #[inline(always)]
    pub const fn from_words(words: [u64; 2]) -> Self {
        Self { low: words[0], high: words[1] }
    }
}

/// 64 bits: the request bitmap. Any value is valid; bit `n` has weight 2^n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Bitmap64(pub u64);

derived_operations!(Bitmap64, 64);

impl Bitmap64 {
    /// No bit set.
    pub const ZERO: Self = Self(0);

    /// Returns a map with only bit `n`; [`Self::ZERO`] beyond the width.
    #[inline(always)]
    pub const fn bit(n: u32) -> Self {
        if n < 64 { Self(1 << (n & SHIFT_MASK)) } else { Self::ZERO }
    }

    /// Returns bit `n`; false beyond the width.
    #[inline(always)]
    pub const fn get(self, n: u32) -> bool {
        n < 64 && (self.0 >> (n & SHIFT_MASK)) & 1 != 0
    }

    /// Returns the bits that are in both maps.
    #[inline(always)]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the bits that are in at least one of the maps.
    #[inline(always)]
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the map with all 64 bits inverted.
    #[inline(always)]
    #[must_use]
    pub const fn not(self) -> Self {
        Self(!self.0)
    }

    /// Returns true if no bit is set.
    #[inline(always)]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the map relative to a base that is `n` higher: bit `n` becomes bit 0 (F-9.2.2.4-7). Empty for 64
    /// and more.
    #[inline(always)]
    #[must_use]
    pub const fn shift_right(self, n: u32) -> Self {
        if n < 64 { Self(self.0 >> (n & SHIFT_MASK)) } else { Self::ZERO }
    }

    /// Returns the map relative to a base that is `n` lower: bit 0 becomes bit `n`. Empty for 64 and more.
    #[inline(always)]
    #[must_use]
    pub const fn shift_left(self, n: u32) -> Self {
        if n < 64 { Self(self.0 << (n & SHIFT_MASK)) } else { Self::ZERO }
    }

    /// Returns a map with the `n` lowest bits set; all bits from 64 on.
    #[inline(always)]
    pub const fn low_mask(n: u32) -> Self {
        if n < 64 { Self((1 << (n & SHIFT_MASK)) - 1) } else { Self(u64::MAX) }
    }

    /// Returns the length of the run of ones from bit 0: how far a base may advance (F-9.2.2.4-7). 64 if full.
    #[inline(always)]
    pub const fn trailing_ones(self) -> u32 {
        self.0.trailing_ones()
    }

    /// Returns the position of the lowest set bit; 64 if there is none.
    #[inline(always)]
    pub const fn trailing_zeros(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// Returns the position of the highest set bit plus one; 0 if there is none.
    #[inline(always)]
    pub const fn top(self) -> u32 {
        WORD_BITS - self.0.leading_zeros()
    }

    /// Returns the number of set bits.
    #[inline(always)]
    pub const fn count_ones(self) -> u32 {
        self.0.count_ones()
    }

    /// Removes the lowest set bit and returns its position.
    #[inline(always)]
    pub const fn take_lowest(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let n = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(n)
    }

    /// Returns true if the ones are not contiguous from bit 0, so something is missing (D-33).
    #[inline(always)]
    pub const fn has_hole(self) -> bool {
        self.0 & self.0.wrapping_add(1) != 0
    }
}
