//! The arithmetic user logic is written in.
//!
//! User logic is generic over [`Logic`]. It cannot look at a value, so it cannot branch or loop on one: each
//! conditional is a multiplexer ([`Flag::choose`]), as in hardware, and a function has the same operations in the
//! same order for every input. That is what makes it bounded, and what lets the same text be run on [`Plain`]
//! numbers and measured on [`Counting`] ones.
//!
//! Words have 64 bits and wrap. Segment ids are 32 bits of them, times 48. Operands are what a hardware designer
//! would choose: the width is declared where a value is kept, in [`user_state!`](crate::user_state).

mod counted;
mod plain;

use core::fmt::Debug;
use core::ops::{Add, BitAnd, BitOr, Mul, Not, Shl, Shr, Sub};

pub use counted::{Counted, Counting, Operation, Tape};
pub use plain::{Plain, Value};

/// A set of types to compute with.
pub trait Logic: Copy + Debug {
    /// A truth value.
    type Flag: Flag<Word = Self::Word>;
    /// A number.
    type Word: Word<Flag = Self::Flag>;
    /// A read-only bitmap over the window.
    type Bitmap: Bitmap<Word = Self::Word, Flag = Self::Flag>;

    /// A constant.
    fn word(value: u64) -> Self::Word {
        Self::Word::constant(value)
    }

    /// A function of `transport-common`, as a box: it gets the inputs as numbers and gives numbers. This is how user
    /// logic runs the very code of the datapath. That code does look at its inputs; it is bounded by its own rules, as
    /// the kernel's verifier checks.
    fn core<const I: usize, const O: usize>(
        inputs: [Self::Word; I],
        function: impl FnOnce([u64; I]) -> [u64; O],
    ) -> [Self::Word; O];
}

/// A truth value: a wire.
pub trait Flag: Copy + Debug + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// The numbers it goes with.
    type Word: Copy;

    /// A constant.
    fn constant(value: bool) -> Self;

    /// A multiplexer.
    #[must_use]
    fn choose(self, then: Self::Word, otherwise: Self::Word) -> Self::Word;

    /// The flag as 0 or 1. Costs nothing.
    fn word(self) -> Self::Word;
}

/// A number of 64 bits that wraps.
pub trait Word:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// The truth values it goes with.
    type Flag: Flag<Word = Self>;

    /// A constant.
    fn constant(value: u64) -> Self;

    /// Equal.
    fn is(self, other: Self) -> Self::Flag;

    /// Less, as unsigned numbers.
    fn below(self, other: Self) -> Self::Flag;

    /// The lowest `width` bits. Costs nothing.
    #[must_use]
    fn low(self, width: u32) -> Self;

    /// Bit `index`. Costs nothing.
    fn bit(self, index: u32) -> Self::Flag;

    /// The lowest bit: the inverse of [`Flag::word`]. Costs nothing.
    fn is_set(self) -> Self::Flag {
        self.bit(0)
    }

    /// Less or equal, as unsigned numbers.
    fn at_most(self, other: Self) -> Self::Flag {
        !other.below(self)
    }

    /// The lesser.
    #[must_use]
    fn min(self, other: Self) -> Self {
        self.below(other).choose(self, other)
    }

    /// The greater.
    #[must_use]
    fn max(self, other: Self) -> Self {
        self.below(other).choose(other, self)
    }

    /// How far this segment id is from `base`, modulo 2^32.
    #[must_use]
    fn offset_from(self, base: Self) -> Self {
        (self - base).low(32)
    }

    /// This segment id follows `other`: by 1 to 2^31 - 1 segments, modulo 2^32.
    fn follows(self, other: Self) -> Self::Flag {
        let distance = self.offset_from(other);
        !distance.bit(31) & !distance.is(Self::constant(0))
    }

    /// The segment id `count` behind this one, modulo 2^32.
    #[must_use]
    fn segments_on(self, count: Self) -> Self {
        (self + count).low(32)
    }

    /// The later of two segment ids that are less than 2^31 apart.
    #[must_use]
    fn later_segment(self, other: Self) -> Self {
        self.offset_from(other).bit(31).choose(other, self)
    }
}

/// A bitmap over the window, by segment id. Read-only: the fixed functions alone change it.
pub trait Bitmap: Copy + Debug {
    /// The numbers it goes with.
    type Word: Copy;
    /// The truth values it goes with.
    type Flag: Copy;

    /// The bit of a segment.
    fn get(self, segment: Self::Word) -> Self::Flag;

    /// Bits set among the `length` segments from `first` on.
    fn count(self, first: Self::Word, length: Self::Word) -> Self::Word;

    /// How many set bits there are among the `length` segments from `first` on before the first clear one.
    fn first_clear(self, first: Self::Word, length: Self::Word) -> Self::Word;

    /// How many set bits there are at the end of the `length` segments from `first` on, behind the last clear one.
    fn last_clear(self, first: Self::Word, length: Self::Word) -> Self::Word;

    /// The 128 bits from segment `first` on, the first in bit 0 of the first word.
    fn words_from(self, first: Self::Word) -> [Self::Word; 2];
}

/// What user logic keeps of a flow, in fields of fixed width.
pub trait UserState<L: Logic>: Copy + Debug {
    /// Bits of each field.
    const WIDTHS: &'static [u32];

    /// Field by field.
    fn from_words(word: impl FnMut(usize) -> L::Word) -> Self;

    /// Field `index`.
    fn word(&self, index: usize) -> L::Word;

    /// The state as it is kept: each field in its width.
    #[must_use]
    fn truncated(&self) -> Self;
}

/// Bytes of a state whose fields have `widths` bits, packed.
#[must_use]
pub const fn packed_bytes(widths: &[u32]) -> usize {
    let (mut bits, mut index) = (0, 0);
    while index < widths.len() {
        bits += widths[index] as usize;
        index += 1;
    }
    bits.div_ceil(8)
}

/// Defines a struct that implements [`UserState`]: fields with their width in bits.
#[macro_export]
macro_rules! user_state {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $width:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $name<L: $crate::logic::Logic> {
            $($(#[$field_meta])* $vis $field: L::Word,)*
        }

        impl<L: $crate::logic::Logic> $crate::logic::UserState<L> for $name<L> {
            const WIDTHS: &'static [u32] = &[$($width),*];

            #[inline]
            #[allow(unused_assignments, reason = "the last field's index is not counted on")]
            fn from_words(mut word: impl FnMut(usize) -> L::Word) -> Self {
                let mut index = 0;
                $(
                    let $field = word(index);
                    index += 1;
                )*
                Self { $($field),* }
            }

            #[inline]
            fn word(&self, index: usize) -> L::Word {
                [$(self.$field),*][index]
            }

            #[inline(always)]
            fn truncated(&self) -> Self {
                Self { $($field: $crate::logic::Word::low(self.$field, $width)),* }
            }
        }
    };
}
