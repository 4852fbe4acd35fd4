//! Fixed-point numbers, in place of floats.
//!
//! | format | type | of |
//! |---|---|---|
//! | 11.10 | [`Fcwnd`] | windows and increments in packets (D-79) |
//! | 24.16 | [`FineTicks`] | smoothed delay and target delay until they are stored |
//! | 16.16 | [`Fraction`] | smoothing weights, decrease factors, multipliers |
//! | 8.24 | `u32` | packets per tick in [`super::dcqcn`] |
//! | 6.40 | `u64` | 1 / sqrt(fcwnd) |
//!
//! Numbers are exact, within their format, until they are stored. Then they are rounded to nearest, halves up
//! (D-65, D-79).

use super::nic_time::NicTime;
use crate::units::{Fcwnd, Ticks};
use bytemuck::{Pod, Zeroable};

/// A duration in units of 2^-16 ticks of 131.072 ns, at most 40 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct FineTicks(pub u64);

impl FineTicks {
    /// Fraction bits.
    pub const BITS: u32 = 16;
    /// The longest duration: just below 2^24 ticks.
    pub const MAX: Self = Self((1 << (NicTime::BITS + Self::BITS)) - 1);

    /// Converts whole ticks, saturating.
    #[inline(always)]
    pub const fn from_ticks(ticks: Ticks) -> Self {
        Self::saturating((ticks.0 as u64) << Self::BITS)
    }

    /// Creates a duration from a number of units, saturating.
    #[inline(always)]
    pub const fn saturating(units: u64) -> Self {
        if units > Self::MAX.0 { Self::MAX } else { Self(units) }
    }

    /// Rounds to the nearest tick, at most 24 bits.
    #[inline(always)]
    pub const fn round(self) -> Ticks {
        let ticks = (self.0 + (1 << (Self::BITS - 1))) >> Self::BITS;
        Ticks(if ticks > NicTime::MASK as u64 { NicTime::MASK } else { ticks as u32 })
    }
}

/// A factor in the format 16.16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct Fraction(pub u32);

impl Fraction {
    /// Fraction bits.
    pub const BITS: u32 = 16;
    /// 0.
    pub const ZERO: Self = Self(0);
    /// 1.
    pub const ONE: Self = Self(1 << Self::BITS);

    /// Returns `numerator / denominator` rounded to nearest, saturating; 0 for a denominator of 0.
    pub const fn ratio(numerator: u32, denominator: u32) -> Self {
        let value = divide((numerator as u64) << Self::BITS, denominator as u64);
        Self(if value > u32::MAX as u64 { u32::MAX } else { value as u32 })
    }

    /// Returns 1 minus this fraction, 0 for a fraction above 1.
    #[inline(always)]
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(Self::ONE.0.saturating_sub(self.0))
    }

    /// Returns `value` times this fraction, rounded to nearest.
    #[inline(always)]
    pub const fn of(self, value: u32) -> u64 {
        (value as u64 * self.0 as u64 + (1 << (Self::BITS - 1))) >> Self::BITS
    }

    /// Computes GetSmoothed exactly: this weight of at most 1 for the history, the rest for the sample
    /// (F-10.3.4-3, D-61).
    #[inline(always)]
    pub const fn smooth(self, history: Ticks, sample: Ticks) -> FineTicks {
        // The sum is the sample plus the weighted difference between history and sample. The difference may be
        // negative. The sum is not negative, and it is correct modulo 2^64.
        let way = (history.0 as u64).wrapping_sub(sample.0 as u64);
        let sum = ((sample.0 as u64) << Self::BITS).wrapping_add(way.wrapping_mul(self.0 as u64));
        FineTicks::saturating(sum)
    }
}

/// Returns `numerator / denominator` rounded to nearest, halves up; 0 for a denominator of 0. The sum of
/// `numerator` and half of `denominator` must be below 2^64.
#[inline(always)]
pub const fn divide(numerator: u64, denominator: u64) -> u64 {
    match numerator.wrapping_add(denominator >> 1).checked_div(denominator) {
        Some(quotient) => quotient,
        None => 0,
    }
}

/// Fraction bits of [`reciprocal_sqrt`].
pub const RECIPROCAL_SQRT_BITS: u32 = 40;

/// Fraction bits in the computation of 1 / sqrt(m) for m in [1, 4), whose result is at most 1.
const UNIT_BITS: u32 = 31;
/// Fraction bits of the square of that result: together with the 22 bits of m, as many as fit into 64 bits.
const SQUARE_BITS: u32 = 40;
/// Fraction bits of m itself.
const MANTISSA_BITS: u32 = 20;
/// 1.31432450 - 0.39174635 m + 0.04759951 m^2, with 31 fraction bits: the parabola through 1 / sqrt(m) at the
/// Chebyshev nodes of [1, 4], with an error of at most 3 % there. [`reciprocal_sqrt`] starts from it.
pub const RECIPROCAL_SQRT_START: [u64; 3] = [2_822_490_379, 841_268_886, 102_219_160];

/// Returns 1 / sqrt(fcwnd) with 40 fraction bits and a relative error below 2^-29.5. A window of 0 counts as
/// 2^-10. A window wider than its 21 bits counts as the largest.
///
/// The window is scaled by a power of four to m in [1, 4). A parabola is the start of Newton's iteration, each
/// step of which squares the error: 2^-5, 2^-9.6, 2^-18.6, 2^-36.7, then the rounding of 31 bits. No division, no
/// loop, no table.
#[inline(always)]
pub const fn reciprocal_sqrt(fcwnd: Fcwnd) -> u64 {
    let window = if fcwnd.0 > Fcwnd::MAX.0 { Fcwnd::MAX.0 } else { fcwnd.0 };
    let mut m = if window == 0 { 1 } else { window as u64 };
    // fcwnd = m * 2^(10 - 2n), hence 1 / sqrt(fcwnd) = 2^(n - 5) / sqrt(m).
    let mut n = 0;
    if m < 1 << 14 {
        // Below 16 packets.
        if m < 1 << 6 {
            m <<= 16;
            n = 8;
        }
        if m < 1 << 14 {
            m <<= 8;
            n += 4;
        }
    }
    if m < 1 << 18 {
        m <<= 4;
        n += 2;
    }
    if m < 1 << 20 {
        m <<= 2;
        n += 1;
    }
    let [start_0, start_1, start_2] = RECIPROCAL_SQRT_START;
    let y = start_0 - (((start_1 - ((start_2 * m) >> MANTISSA_BITS)) * m) >> MANTISSA_BITS);
    let y = newton(m, newton(m, newton(m, y)));
    y << (n + RECIPROCAL_SQRT_BITS - UNIT_BITS - 5)
}

/// Does one step of Newton's iteration towards 1 / sqrt(m): y (3 - m y^2) / 2.
#[inline(always)]
const fn newton(m: u64, y: u64) -> u64 {
    let square = (y * y) >> (2 * UNIT_BITS - SQUARE_BITS);
    let residue = (square * m) >> (SQUARE_BITS + MANTISSA_BITS - UNIT_BITS);
    (y * ((3 << UNIT_BITS) - residue)) >> (UNIT_BITS + 1)
}
