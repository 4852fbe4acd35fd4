//! The segments that are lost, by their numbers. They are the same for every sender, at whatever time it sends
//! them.

use std::collections::BTreeMap;

use fabric_model::Probability;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The segments of each flow that are lost. For each, the number of its first transmissions that are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropPattern {
    lost: BTreeMap<(u16, u32), u8>,
}

/// A line that is not a segment number and a number of lost transmissions from 1 to 255. The value is the line's
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0}: write a segment and how many of its transmissions are lost, 1 to 255, as in `17 1`")]
pub struct BadLine(pub usize);

impl DropPattern {
    /// Returns a pattern without losses.
    #[must_use]
    pub const fn none() -> Self {
        Self { lost: BTreeMap::new() }
    }

    /// Returns a pattern in which each transmission of the first `segments` segments of a flow is lost with the
    /// same probability.
    #[must_use]
    pub fn random(seed: u64, flow: u16, segments: u32, probability: Probability) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut lost = || random.random_ratio(probability.parts_per_billion(), Probability::DENOMINATOR);
        let mut pattern = Self::none();
        for segment in 0..segments {
            let times = (0..u8::MAX).find(|_| !lost()).unwrap_or(u8::MAX);
            if times > 0 {
                pattern.lost.insert((flow, segment), times);
            }
        }
        pattern
    }

    /// Parses the pattern of one flow. Each line holds a segment and how many of its transmissions are lost.
    ///
    /// # Errors
    /// Returns [`BadLine`] with the number of the first wrong line.
    pub fn parse(flow: u16, text: &str) -> Result<Self, BadLine> {
        let mut pattern = Self::none();
        for (number, line) in (1..).zip(text.lines()) {
            let fields = line.split_once(' ').and_then(|(segment, times)| {
                let times = times.parse().ok().filter(|times| *times > 0)?;
                Some((segment.parse().ok()?, times))
            });
            let (segment, times) = fields.ok_or(BadLine(number))?;
            pattern.lost.insert((flow, segment), times);
        }
        Ok(pattern)
    }

    /// Adds the loss of the first `times` transmissions of a segment.
    #[must_use]
    pub fn with(mut self, flow: u16, segment: u32, times: u8) -> Self {
        self.lost.insert((flow, segment), times);
        self
    }

    /// Returns the segments of a flow that are lost, in order, and how often each is lost.
    pub fn of(&self, flow: u16) -> impl Iterator<Item = (u32, u8)> + '_ {
        self.lost.range((flow, 0)..=(flow, u32::MAX)).map(|((_, segment), times)| (*segment, *times))
    }

    /// Handles a transmission of a segment. Returns true if it is lost.
    pub(super) fn drops(&mut self, flow: u16, segment: u32) -> bool {
        if self.lost.is_empty() {
            return false;
        }
        let Some(times) = self.lost.get_mut(&(flow, segment)) else { return false };
        *times -= 1;
        if *times == 0 {
            self.lost.remove(&(flow, segment));
        }
        true
    }
}
