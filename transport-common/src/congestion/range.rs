//! Checks of parameters against their ranges.

use super::fixed_point::Fraction;
use core::fmt;

/// A parameter out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Name of the parameter, as in the specification.
    pub name: &'static str,
    /// The allowed range.
    pub range: &'static str,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.name, self.range)
    }
}

impl core::error::Error for OutOfRange {}

/// Checks that a number is between `least` and `most`.
pub(super) const fn ranged(
    name: &'static str,
    value: u32,
    least: u32,
    most: u32,
    range: &'static str,
) -> Result<(), OutOfRange> {
    if value >= least && value <= most { Ok(()) } else { Err(OutOfRange { name, range }) }
}

/// Checks that a fraction is between 0 and 1.
pub(super) const fn fraction(name: &'static str, value: Fraction) -> Result<(), OutOfRange> {
    ranged(name, value.0, 0, Fraction::ONE.0, "0 to 1")
}

/// Returns the first error of a list of checks.
pub(super) const fn first_of(checks: &[Result<(), OutOfRange>]) -> Result<(), OutOfRange> {
    let mut next = 0;
    while next < checks.len() {
        if checks[next].is_err() {
            return checks[next];
        }
        next += 1;
    }
    Ok(())
}
