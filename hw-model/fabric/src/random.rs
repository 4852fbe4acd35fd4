//! Random draws that depend on the frame and the decision, never on the time of the draw.
//!
//! This is a counter-based generator. It hashes the key of a frame, so the draws of the millionth frame do not
//! need the draws of the frames before it. The hash is the output function of SplitMix64 (Steele, Lea, Flood,
//! "Fast splittable pseudorandom number generators", 2014). It is good enough for losses, but must not be used for
//! secrets.

use super::quantity::Probability;

/// The odd constant of SplitMix64, 2^64 divided by the golden ratio.
pub(super) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64.
pub(super) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The decision of a draw. Each decision has its own stream, so that one does not shift another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    BurstTransition,
    BurstLoss,
    Loss,
    Duplicate,
    Corrupt,
    CorruptPlace,
    Reorder,
    ReorderDistance,
    Jitter,
    Trim,
}

/// All draws of one frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws(u64);

impl Draws {
    /// Creates the draws of a frame. `copy` is 0 for the frame itself and 1 for its duplicate.
    pub(super) const fn new(seed: u64, ingress: u16, egress: u16, ordinal: u64, copy: u8) -> Self {
        let place = (ingress as u64) << 32 | (egress as u64) << 16 | copy as u64;
        let stream = mix(mix(seed.wrapping_add(GOLDEN)).wrapping_add(place.wrapping_mul(GOLDEN)));
        Self(mix(stream.wrapping_add(ordinal.wrapping_mul(GOLDEN))))
    }

    /// Returns the stream for one decision.
    pub(super) const fn of(self, decision: Decision) -> Stream {
        Stream(mix(self.0 ^ (decision as u64 + 1).wrapping_mul(GOLDEN)))
    }
}

/// SplitMix64 with a hashed start value.
#[derive(Debug)]
pub(super) struct Stream(u64);

impl Stream {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Draws a uniform number in `0..bound`, or 0 if `bound` is 0. The bias is below bound / 2^64.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true with the given probability.
    pub(super) fn happens(&mut self, probability: Probability) -> bool {
        self.below(Probability::DENOMINATOR.into()) < u64::from(probability.parts_per_billion())
    }
}
