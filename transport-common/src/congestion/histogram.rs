//! Buckets of a delay histogram: exact below 16 ticks, then 8 per power of two.

use super::nic_time::NicTime;
use crate::units::Ticks;
use crate::verifier::opaque;

/// Number of buckets. A few at the end stay empty.
pub const BUCKETS: usize = 192;
/// Number of delays that are counted: full, fabric, forward, reverse.
pub const DELAYS: usize = 4;
const MANTISSA_BITS: u32 = 3;

/// Counts of the four delays, by bucket.
pub type DelayHistogram = [[u64; BUCKETS]; DELAYS];

/// Returns the bucket of a delay. Ignores the bits above 24.
#[inline(always)]
pub fn bucket_of(delay: Ticks) -> usize {
    let ticks = delay.0 & NicTime::MASK;
    if ticks < 16 {
        return ticks as usize;
    }
    // Finds the position of the highest bit by halving, because BPF has no instruction for it. There are no
    // branches: each would double the number of paths that the kernel's verifier walks.
    let mut rest = ticks as u64;
    let mut exponent = 0;
    let mut half = 16_u64;
    while half != 0 {
        let above = is_below((1 << half) - 1, rest) << half.trailing_zeros();
        rest >>= above;
        exponent += above;
        half /= 2;
    }
    let exponent = exponent as u32;
    let shift = exponent - MANTISSA_BITS;
    let mantissa = (ticks >> shift) & ((1 << MANTISSA_BITS) - 1);
    (((exponent - 2) << MANTISSA_BITS) + mantissa) as usize
}

/// Returns 1 if `low` is below `high`, otherwise 0. Both must be below 2^63.
#[inline(always)]
fn is_below(low: u64, high: u64) -> u64 {
    opaque(low).wrapping_sub(high) >> 63
}

/// Returns the smallest delay of a bucket.
pub const fn lowest_of(bucket: usize) -> Ticks {
    if bucket < 16 {
        return Ticks(bucket as u32);
    }
    let exponent = (bucket as u32 >> MANTISSA_BITS) + 2;
    let mantissa = bucket as u32 & ((1 << MANTISSA_BITS) - 1);
    Ticks(((1 << MANTISSA_BITS) + mantissa) << (exponent - MANTISSA_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_begin_at_their_lowest() {
        let last = bucket_of(Ticks(NicTime::MASK));
        assert!(last < BUCKETS);
        for bucket in 0..=last {
            let lowest = lowest_of(bucket);
            assert_eq!(bucket_of(lowest), bucket);
            assert!(lowest.0 == 0 || bucket_of(Ticks(lowest.0 - 1)) == bucket - 1, "below bucket {bucket}");
        }
    }
}
