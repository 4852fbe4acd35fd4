//! Rates and credit in integers (section 4 and appendix B).
//!
//! A rate R has several representations: R_i whole bytes per q_i cycles. A flow that lacks C bytes has them after
//! ceil(C / R_i) times q_i cycles. A small quantum q_i gives a precise time, but rounds a low rate to zero. A
//! large quantum represents a low rate, but gives a coarse time. Each result is late rather than early, so the
//! earliest is the most precise. Credit itself is counted in 2^-20 bytes. A flow therefore keeps the credit that
//! it gains while its timer is late.
//!
//! The paper's appendix gives a time of 8 cycles for 20 Gb/s and 1500 bytes. This is an erratum: 20 Gb/s are 25
//! bytes per cycle of 10 ns, and 1500 bytes take 60 cycles.

use clocked::Cycle;

use crate::parameters::RATE_CYCLES;

/// The number of fraction bits of an amount of credit.
const FRACTION: u32 = RATE_CYCLES.trailing_zeros();

/// An amount of credit in units of 2^-20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Amount(u64);

impl Amount {
    pub(super) const fn from_bytes(bytes: u64) -> Self {
        Self(bytes << FRACTION)
    }

    /// Returns the amount in whole bytes, rounded up.
    pub(super) const fn bytes_up(self) -> u64 {
        self.0.div_ceil(RATE_CYCLES)
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(super) const fn times(self, count: u16) -> Self {
        Self(self.0.saturating_mul(count as u64))
    }

    pub(super) const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Returns the credit at `now` of a flow with a rate of `rate` bytes per [`RATE_CYCLES`] that had `credit` at
/// `since`. The result is at most `burst`.
#[inline(always)]
pub(super) fn credit_at(now: Cycle, since: Cycle, credit: Amount, rate: u32, burst: Amount) -> Amount {
    // The product saturates at 2^64 - 1, that is 2^44 bytes. The burst is smaller, so the result is exact.
    let gained = (now - since).saturating_mul(rate.into());
    credit.plus(Amount(gained)).min(burst)
}

/// Returns the number of cycles in which a flow at `rate` gains `lacking` bytes. There is one divider per quantum,
/// in ascending order. The smallest result counts.
#[inline(always)]
pub(super) fn cycles_to_gain(lacking: u32, rate: u32, quanta: &[u32]) -> u64 {
    let representation = |quantum: u32| ((u64::from(rate) * u64::from(quantum)) >> FRACTION) as u32;
    let cycles = |(quantum, rate): (u32, u32)| u64::from(lacking.div_ceil(rate)) * u64::from(quantum);
    let represented = quanta.iter().map(|quantum| (*quantum, representation(*quantum)));
    let precise = represented.filter(|(_, rate)| *rate > 0).map(cycles).min();
    // If no quantum can represent the rate, take one byte per largest quantum. The flow wakes too early and waits
    // again.
    precise.unwrap_or_else(|| quanta.last().map_or(1, |quantum| cycles((*quantum, 1))))
}
