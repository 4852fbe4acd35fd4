//! The packet memory that all queues of a switch share.

use core::cmp::Reverse;
use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;
use std::collections::BinaryHeap;

use super::quantity::ByteCount;
use super::text::{ConfigError, bad_value, items, pair, store, unknown_key, value};
use super::time::Time;

/// The factor between the free memory and the limit of one queue, as a fraction. It may be more than 1. Switch
/// chips offer powers of two from 1/128 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpha {
    /// The numerator.
    pub numerator: u32,
    /// The denominator.
    pub denominator: NonZeroU32,
}

impl Default for Alpha {
    /// Returns 1, with which a single full queue takes half of the memory.
    fn default() -> Self {
        Self { numerator: 1, denominator: NonZeroU32::MIN }
    }
}

impl FromStr for Alpha {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "must be a number or a fraction above 0, as in 8 or 1/2";
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        match (numerator.parse(), denominator.parse()) {
            (Ok(numerator), Ok(denominator)) if numerator > 0 => Ok(Self { numerator, denominator }),
            _ => Err(FORM),
        }
    }
}

impl fmt::Display for Alpha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator.get() {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

/// A shared packet memory with dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for
/// shared-memory packet switches", 1998). When a frame comes, its queue may hold at most `alpha` times the memory
/// that is free at that time. It never holds more than its link's own [`queue`](super::Impairments::queue).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBuffer {
    /// Bytes of memory in each switch. `buffer=12MiB`
    pub bytes: ByteCount,
    /// Factor between the free memory and the limit of a queue. `alpha=1/2`
    pub alpha: Alpha,
}

impl FromStr for SharedBuffer {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (mut bytes, mut alpha) = (None, None);
        for item in items(text) {
            let (key, text) = pair(item)?;
            let repeated = match key {
                "buffer" => bytes.is_some(),
                "alpha" => alpha.is_some(),
                _ => return Err(unknown_key(key, ["buffer", "alpha"])),
            };
            if repeated {
                return Err(ConfigError::Repeated(key.to_owned()));
            }
            let read = match key {
                "buffer" => store(&mut bytes, value(text).map(Some)),
                _ => store(&mut alpha, value(text).map(Some)),
            };
            read.map_err(|reason| bad_value(key, text, reason))?;
        }
        let bytes =
            bytes.ok_or_else(|| bad_value("buffer", "", "is missing: the size of the shared memory"))?;
        Ok(Self { bytes, alpha: alpha.unwrap_or_default() })
    }
}

impl fmt::Display for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer={}", self.bytes)?;
        if self.alpha == Alpha::default() { Ok(()) } else { write!(f, ",alpha={}", self.alpha) }
    }
}

/// The state of the memory of one switch. Without a limit every queue has its own memory, and nothing is counted.
#[derive(Debug)]
pub(super) struct Memory {
    limit: Option<SharedBuffer>,
    used: u64,
    /// The largest number of bytes used at one time.
    pub(super) peak: u64,
    /// The time when the last bit of a frame leaves, and the bytes that the frame releases then.
    departures: BinaryHeap<Reverse<(Time, u64)>>,
}

impl Memory {
    pub(super) const fn new(limit: Option<SharedBuffer>) -> Self {
        Self { limit, used: 0, peak: 0, departures: BinaryHeap::new() }
    }

    /// Releases the memory of frames that have left by `now`.
    pub(super) fn advance(&mut self, now: Time) {
        while let Some(&Reverse((_, bytes))) = self.departures.peek().filter(|Reverse((at, _))| *at <= now) {
            self.departures.pop();
            self.used -= bytes;
        }
    }

    /// Returns true if the current dynamic threshold lets a queue grow to `occupancy` bytes by a frame of `bytes`
    /// bytes.
    pub(super) fn admits(&self, occupancy: u64, bytes: u64) -> bool {
        self.limit.is_none_or(|limit| {
            let free = limit.bytes.0.saturating_sub(self.used);
            let Alpha { numerator, denominator } = limit.alpha;
            let scaled = u128::from(occupancy) * u128::from(denominator.get());
            bytes <= free && scaled <= u128::from(free) * u128::from(numerator)
        })
    }

    /// Returns true if `bytes` bytes are free. Headers need only this, because no threshold applies to them.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.limit.is_none_or(|limit| bytes <= limit.bytes.0.saturating_sub(self.used))
    }

    /// Counts a stored frame.
    pub(super) fn take(&mut self, bytes: u64) {
        if self.limit.is_some() {
            self.used += bytes;
            self.peak = self.peak.max(self.used);
        }
    }

    /// Releases the memory of a stored frame that is discarded, or of its discarded part.
    pub(super) fn give_back(&mut self, bytes: u64) {
        if self.limit.is_some() {
            self.used -= bytes;
        }
    }

    /// Schedules the release of a stored frame whose last bit leaves at `departure`.
    pub(super) fn departs(&mut self, departure: Time, bytes: u64) {
        if self.limit.is_some() {
            self.departures.push(Reverse((departure, bytes)));
        }
    }
}
