//! Virtual time in whole picoseconds.

use core::ops::Add;
use core::time::Duration;

/// A length of time in picoseconds, up to 213 days. Sums saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

impl Span {
    /// Zero time.
    pub const ZERO: Self = Self(0);

    /// Creates a span from nanoseconds, saturating.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.saturating_mul(1_000))
    }

    /// Creates a span from microseconds, saturating.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000_000))
    }

    /// Creates a span from milliseconds, saturating.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000_000))
    }
}

impl From<Duration> for Span {
    /// Saturates at 213 days.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos().saturating_mul(1_000)).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    /// Rounds up to a whole nanosecond, so that a thread that sleeps this long does not wake before the event is
    /// due.
    fn from(span: Span) -> Self {
        Self::from_nanos(span.0.div_ceil(1_000))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// A point in time: picoseconds since the start of the fabric. It does not wrap (213 days), so times are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start of the fabric.
    pub const ZERO: Self = Self(0);

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}
