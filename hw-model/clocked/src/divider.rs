//! A pipelined divider.

use super::delay_line::DelayLine;

/// A division to begin: `dividend / divisor`, and what travels along with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division<T> {
    /// What is divided.
    pub dividend: u64,
    /// What it is divided by.
    pub divisor: u64,
    /// Comes out with the result.
    pub tag: T,
}

/// A result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotient<T> {
    /// The quotient rounded up, all ones if the divisor was 0.
    pub value: u64,
    /// What was given with the division.
    pub tag: T,
}

impl<T> Division<T> {
    fn result(self) -> Quotient<T> {
        let value = if self.divisor == 0 { u64::MAX } else { self.dividend.div_ceil(self.divisor) };
        Quotient { value, tag: self.tag }
    }
}

/// An unsigned divider that begins a division every cycle and completes it a fixed number of cycles later.
#[derive(Clone, Debug)]
pub struct Divider<T>(DelayLine<Quotient<T>>);

impl<T: Clone> Divider<T> {
    /// A divider of `latency` pipeline stages.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(latency: usize) -> Self {
        Self(DelayLine::new(latency))
    }
}

impl<T> Divider<T> {
    /// The result that is complete in this cycle.
    #[inline]
    pub fn output(&self) -> Option<&Quotient<T>> {
        self.0.output()
    }

    /// True if no division is under way.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The clock edge: a division begins.
    #[inline]
    pub fn commit(&mut self, division: Option<Division<T>>) {
        self.0.commit(division.map(Division::result));
    }
}
