//! Rates.

use anyhow::{Context, Result};
use fabric_model::Rate;

/// Returns a fraction of a rate.
pub(super) fn part(rate: Rate, divisor: u64) -> Result<Rate> {
    Rate::from_bits_per_second(rate.bits_per_second() / divisor).context("the rate is too small")
}
