//! The arithmetic in which user logic is written.
//!
//! User logic is generic over [`Logic`]. It cannot read a value, so it cannot branch or loop on one. Each
//! conditional is a multiplexer ([`Flag::choose`]), as in hardware. A function performs the same operations in the
//! same order for every input, and is therefore bounded. The same source text runs on [`Plain`] numbers, and on
//! [`Counting`] numbers that measure its cost.
//!
//! Words have 64 bits and wrap. A segment id uses 32 of these bits, a time uses 48. In hardware, operands have the
//! widths that the designer chooses. Here a width is declared where a value is stored, in
//! [`user_state!`](crate::user_state).

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

    /// Returns a constant.
    fn word(value: u64) -> Self::Word {
        Self::Word::constant(value)
    }

    /// Runs a function of `transport-common` as a box: it takes the inputs as numbers and returns numbers. In this
    /// way user logic runs the code of the datapath itself. That code does read its inputs. It is bounded by its
    /// own rules, which the kernel's verifier checks.
    fn core<const I: usize, const O: usize>(
        inputs: [Self::Word; I],
        function: impl FnOnce([u64; I]) -> [u64; O],
    ) -> [Self::Word; O];
}

/// A truth value, which is a wire.
pub trait Flag: Copy + Debug + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// The type of numbers in the same logic.
    type Word: Copy;

    /// Returns a constant.
    fn constant(value: bool) -> Self;

    /// Returns `then` if the flag is set, and `otherwise` if not. This is a multiplexer.
    #[must_use]
    fn choose(self, then: Self::Word, otherwise: Self::Word) -> Self::Word;

    /// Returns the flag as 0 or 1. Costs nothing.
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
    /// The type of truth values in the same logic.
    type Flag: Flag<Word = Self>;

    /// Returns a constant.
    fn constant(value: u64) -> Self;

    /// Returns whether both are equal.
    fn is(self, other: Self) -> Self::Flag;

    /// Returns whether this is less than `other`, as unsigned numbers.
    fn below(self, other: Self) -> Self::Flag;

    /// Returns the lowest `width` bits. Costs nothing.
    #[must_use]
    fn low(self, width: u32) -> Self;

    /// Returns bit `index`. Costs nothing.
    fn bit(self, index: u32) -> Self::Flag;

    /// Returns the lowest bit: the inverse of [`Flag::word`]. Costs nothing.
    fn is_set(self) -> Self::Flag {
        self.bit(0)
    }

    /// Returns whether this is less than or equal to `other`, as unsigned numbers.
    fn at_most(self, other: Self) -> Self::Flag {
        !other.below(self)
    }

    /// Returns the smaller of both.
    #[must_use]
    fn min(self, other: Self) -> Self {
        self.below(other).choose(self, other)
    }

    /// Returns the greater of both.
    #[must_use]
    fn max(self, other: Self) -> Self {
        self.below(other).choose(other, self)
    }

    /// Returns the distance of this segment id from `base`, modulo 2^32.
    #[must_use]
    fn offset_from(self, base: Self) -> Self {
        (self - base).low(32)
    }

    /// Returns whether this segment id follows `other` by 1 to 2^31 - 1 segments, modulo 2^32.
    fn follows(self, other: Self) -> Self::Flag {
        let distance = self.offset_from(other);
        !distance.bit(31) & !distance.is(Self::constant(0))
    }

    /// Returns the segment id `count` after this one, modulo 2^32.
    #[must_use]
    fn segments_on(self, count: Self) -> Self {
        (self + count).low(32)
    }

    /// Returns the later of two segment ids that are less than 2^31 apart.
    #[must_use]
    fn later_segment(self, other: Self) -> Self {
        self.offset_from(other).bit(31).choose(other, self)
    }
}

/// A bitmap over the window, indexed by segment id. User logic only reads it. Only the fixed functions change it.
pub trait Bitmap: Copy + Debug {
    /// The type of numbers in the same logic.
    type Word: Copy;
    /// The type of truth values in the same logic.
    type Flag: Copy;

    /// Returns the bit of a segment.
    fn get(self, segment: Self::Word) -> Self::Flag;

    /// Returns how many bits are set among the `length` segments from `first` on.
    fn count(self, first: Self::Word, length: Self::Word) -> Self::Word;

    /// Returns how many set bits come before the first clear one, among the `length` segments from `first` on.
    fn first_clear(self, first: Self::Word, length: Self::Word) -> Self::Word;

    /// Returns how many set bits come after the last clear one, among the `length` segments from `first` on.
    fn last_clear(self, first: Self::Word, length: Self::Word) -> Self::Word;

    /// Returns the 128 bits from segment `first` on. Its bit is bit 0 of the first word.
    fn words_from(self, first: Self::Word) -> [Self::Word; 2];
}

/// The state that user logic keeps of a flow, in fields of fixed width.
pub trait UserState<L: Logic>: Copy + Debug {
    /// The width of each field in bits.
    const WIDTHS: &'static [u32];

    /// Creates a state. `word` returns the value of the field with a given index.
    fn from_words(word: impl FnMut(usize) -> L::Word) -> Self;

    /// Returns field `index`.
    fn word(&self, index: usize) -> L::Word;

    /// Returns the state as it is stored: each field cut to its width.
    #[must_use]
    fn truncated(&self) -> Self;
}

/// Returns the size in bytes of a packed state whose fields have `widths` bits.
#[must_use]
pub const fn packed_bytes(widths: &[u32]) -> usize {
    let (mut bits, mut index) = (0, 0);
    while index < widths.len() {
        bits += widths[index] as usize;
        index += 1;
    }
    bits.div_ceil(8)
}

/// Defines a struct that implements [`UserState`]. Each field has its width in bits.
///
/// ```
/// tonic_model::user_state!(
///     /// A counter of 8 bits and a flag.
///     pub struct Example {
///         counter: 8,
///         flag: 1,
///     }
/// );
/// use tonic_model::logic::{Plain, UserState, packed_bytes};
/// assert_eq!(packed_bytes(<Example<Plain<2>> as UserState<Plain<2>>>::WIDTHS), 2);
/// ```
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
