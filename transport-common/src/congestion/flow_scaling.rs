//! Flow scaling: the smaller the fabric window, the larger the target delay (F-10.3.4-1, F-10.3.4-2, D-62).

use super::fixed_point::{FineTicks, divide, reciprocal_sqrt};
use crate::units::{Fcwnd, Ticks};
use bytemuck::{Pod, Zeroable};

/// Bits of the range of 1 / sqrt(fcwnd) that are used in the product with the slope.
const RANGE_BITS: u32 = 31;

/// Constants of flow scaling, computed when parameters are set.
///
/// With y = 1 / sqrt(fcwnd) the adder is alpha * y + beta, clamped to 0..=max (D-62). alpha and beta are such that
/// the adder is 0 at `y_low`, the y of the largest window, and max at `y_high`, the y of the smallest. It is
/// computed as the distance of y from `y_low`, times the slope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct FlowScaling {
    /// 1 / sqrt(max_flow_scaling_window), 40 fraction bits.
    y_low: u64,
    /// 1 / sqrt(min_flow_scaling_window), 40 fraction bits.
    y_high: u64,
    /// Fine ticks per unit of the distance, which is cut to 31 bits.
    slope: u64,
    /// max_flow_scaling.
    max: FineTicks,
    /// Number of low bits that are cut from the distance.
    way_shift: u32,
    /// Fraction bits of the slope: as many as fit in the product with the distance.
    slope_bits: u32,
}

impl FlowScaling {
    /// Computes the constants for windows of 2^-10 to 2047.999 packets, the larger at least twice the smaller, and
    /// an adder of at most 2^24 - 1 ticks.
    pub(super) const fn new(min_window: Fcwnd, max_window: Fcwnd, max: Ticks) -> Self {
        let (y_low, y_high) = (reciprocal_sqrt(max_window), reciprocal_sqrt(min_window));
        let range = y_high.saturating_sub(y_low);
        let way_shift = (u64::BITS - range.leading_zeros()).saturating_sub(RANGE_BITS);
        let max = FineTicks::from_ticks(max);
        let slope_bits = max.0.leading_zeros() - 1;
        let slope = divide(max.0 << slope_bits, range >> way_shift);
        Self { y_low, y_high, slope, max, way_shift, slope_bits }
    }

    /// Returns 1 / sqrt of the largest window and of the smallest, 40 fraction bits.
    pub const fn range(&self) -> (u64, u64) {
        (self.y_low, self.y_high)
    }

    /// Returns the fine ticks per unit of the distance within [`Self::range`], and the fraction bits of this
    /// value.
    pub const fn slope(&self) -> (u64, u32) {
        (self.slope, self.slope_bits)
    }

    /// Returns the number of low bits that are cut from the distance before it is multiplied with the slope.
    pub const fn way_shift(&self) -> u32 {
        self.way_shift
    }

    /// Returns the addition for the smallest window.
    pub const fn max(&self) -> FineTicks {
        self.max
    }

    /// Returns the addition of a window of `fcwnd` to the target delay: max at and below the smallest window, 0 at
    /// and above the largest. The error is below 2^-27 of max and 2^-16 ticks.
    #[inline(always)]
    pub const fn adder(&self, fcwnd: Fcwnd) -> FineTicks {
        let y = reciprocal_sqrt(fcwnd);
        if y >= self.y_high {
            return self.max;
        }
        if y <= self.y_low {
            return FineTicks(0);
        }
        let way = (y - self.y_low) >> (self.way_shift & (u64::BITS - 1));
        let shift = self.slope_bits & (u64::BITS - 1);
        let half = (1 << shift) >> 1;
        FineTicks::saturating(way.wrapping_mul(self.slope).wrapping_add(half) >> shift)
    }
}
