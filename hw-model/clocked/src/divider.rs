//! A pipelined divider.

use super::delay_line::DelayLine;

/// A division to begin: `dividend / divisor`, and a tag that travels with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division<T> {
    /// The number to divide.
    pub dividend: u64,
    /// The number to divide by.
    pub divisor: u64,
    /// A value that comes out with the result.
    pub tag: T,
}

/// The result of a [`Division`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotient<T> {
    /// The quotient, rounded up. All ones if the divisor was 0.
    pub value: u64,
    /// The tag of the division.
    pub tag: T,
}

impl<T> Division<T> {
    fn result(self) -> Quotient<T> {
        let value = if self.divisor == 0 { u64::MAX } else { self.dividend.div_ceil(self.divisor) };
        Quotient { value, tag: self.tag }
    }
}

/// An unsigned divider. It can begin one division per cycle, and completes it a fixed number of cycles later.
#[derive(Clone, Debug)]
pub struct Divider<T>(DelayLine<Quotient<T>>);

impl<T: Clone> Divider<T> {
    /// Creates a divider with `latency` pipeline stages.
    ///
    /// # Panics
    /// Panics if `latency` is 0.
    #[must_use]
    pub fn new(latency: usize) -> Self {
        Self(DelayLine::new(latency))
    }
}

impl<T> Divider<T> {
    /// Returns the result that completes in this cycle.
    #[inline]
    pub fn output(&self) -> Option<&Quotient<T>> {
        self.0.output()
    }

    /// Returns true if no division is in progress.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Performs the clock edge: begins `division`, if there is one.
    #[inline]
    pub fn commit(&mut self, division: Option<Division<T>>) {
        self.0.commit(division.map(Division::result));
    }
}
