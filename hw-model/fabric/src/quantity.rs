//! Quantities in text form: `0.1%`, `50us`, `1Gbps`, `256KiB`. They are decimal and exact, without floating point.

use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;

use ::quantity::{self, Unit};

use super::time::Span;

/// The reason why a quantity could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a decimal number followed by a unit.
    #[error("is not a number with a unit")]
    Malformed,
    /// The unit is missing or unknown.
    #[error("needs one of the units {0}")]
    Unit(String),
    /// A fraction of the smallest step, or more than 64 bits.
    #[error("is finer or larger than can be represented")]
    Range,
    /// A probability above 100 %.
    #[error("is more than 100%")]
    MoreThanCertain,
    /// Zero where only a positive value makes sense.
    #[error("must be more than 0")]
    Zero,
}

const TIME_UNITS: &[Unit] =
    &[("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];
const RATE_UNITS: &[Unit] = &[("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("Kbps", 1_000), ("bps", 1)];
const BYTE_UNITS: &[Unit] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const PROBABILITY_UNITS: &[Unit] = &[("%", 10_000_000), ("ppm", 1_000), ("", 1_000_000_000)];

fn parse(text: &str, units: &[Unit]) -> Result<u64, QuantityError> {
    quantity::quantity(text, units).or_else(|error| match error {
        quantity::QuantityError::Malformed => Err(QuantityError::Malformed),
        quantity::QuantityError::TooFine | quantity::QuantityError::TooLarge => Err(QuantityError::Range),
        // Zero needs no unit.
        quantity::QuantityError::Unit if quantity::quantity(text, &[("", 1)]) == Ok(0) => Ok(0),
        quantity::QuantityError::Unit => {
            let names: Vec<_> = units.iter().map(|unit| unit.0).filter(|name| !name.is_empty()).collect();
            Err(QuantityError::Unit(names.join(", ")))
        }
    })
}

/// Writes the value in the largest unit in which it is a whole number.
fn show(value: u64, units: &[Unit], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match units.iter().find(|(_, scale)| value.is_multiple_of(*scale)) {
        Some((name, scale)) => write!(f, "{}{name}", value / scale),
        None => write!(f, "{value}"),
    }
}

impl FromStr for Span {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse(text, TIME_UNITS).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.0, TIME_UNITS, f)
    }
}

/// A probability in steps of 10^-9, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(u32);

impl Probability {
    /// The number of steps from 0 to 1.
    pub const DENOMINATOR: u32 = 1_000_000_000;
    /// Probability 0.
    pub const NEVER: Self = Self(0);
    /// Probability 1.
    pub const ALWAYS: Self = Self(Self::DENOMINATOR);

    /// Creates a probability from parts in 10^9. Returns `None` above 1.
    pub const fn from_parts_per_billion(parts: u32) -> Option<Self> {
        if parts <= Self::DENOMINATOR { Some(Self(parts)) } else { None }
    }

    /// Returns the probability in parts in 10^9.
    pub const fn parts_per_billion(self) -> u32 {
        self.0
    }
}

impl FromStr for Probability {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let parts = parse(text, PROBABILITY_UNITS)?;
        let parts = u32::try_from(parts).ok().and_then(Self::from_parts_per_billion);
        parts.ok_or(QuantityError::MoreThanCertain)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 10_000_000, self.0 % 10_000_000);
        if fraction == 0 {
            return write!(f, "{whole}%");
        }
        write!(f, "{whole}.{}%", format!("{fraction:07}").trim_end_matches('0'))
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

impl FromStr for ByteCount {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse(text, BYTE_UNITS).map(Self)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.0, BYTE_UNITS, f)
    }
}

/// A rate in bits per second, above 0. It counts the bytes of a frame from its destination address to the end of
/// its payload. It does not count preamble, check sequence and inter-frame gap, because no program sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(NonZeroU64);

/// Picoseconds in a second, times the bits of a byte.
const BIT_PICOSECONDS: u128 = 8 * 1_000_000_000_000;

impl Rate {
    /// Creates a rate from bits per second. Returns `None` for 0.
    pub const fn from_bits_per_second(bits: u64) -> Option<Self> {
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// Returns the rate in bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }

    /// Returns the time that `bytes` bytes take, rounded up to a picosecond.
    #[must_use]
    pub fn time_of(self, bytes: u64) -> Span {
        let picoseconds = (u128::from(bytes) * BIT_PICOSECONDS).div_ceil(self.0.get().into());
        Span(u64::try_from(picoseconds).unwrap_or(u64::MAX))
    }
}

impl FromStr for Rate {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::from_bits_per_second(parse(text, RATE_UNITS)?).ok_or(QuantityError::Zero)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self.0.get(), RATE_UNITS, f)
    }
}
