//! Rates and credit in integers (section 4 and appendix B).
//!
//! A rate R is kept in several representations, R_i whole bytes per q_i cycles. A flow that lacks C bytes has
//! them in ceil(C / R_i) times q_i cycles: a small quantum q_i shows the time finely, but rounds a low rate to
//! nothing; a large one the other way round. Each answer is late rather than early, so the earliest is the most
//! precise. Credit itself is accounted for in 2^-20 bytes: what a timer is late by is not lost.
//!
//! The paper's appendix gives for 20 Gb/s and 1500 bytes a time of 8 cycles: an erratum. 20 Gb/s are 25 bytes in a
//! cycle of 10 ns, and 1500 bytes take 60.

use clocked::Cycle;

use crate::parameters::RATE_CYCLES;

/// Bits behind the binary point of an amount of credit.
const FRACTION: u32 = RATE_CYCLES.trailing_zeros();

/// Credit in units of 2^-20 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Amount(u64);

impl Amount {
    pub(super) const fn from_bytes(bytes: u64) -> Self {
        Self(bytes << FRACTION)
    }

    /// Whole bytes, rounded up.
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

/// What a flow at `rate` bytes per [`RATE_CYCLES`] has at `now`: `credit` at `since`, at most `burst`.
#[inline(always)]
pub(super) fn credit_at(now: Cycle, since: Cycle, credit: Amount, rate: u32, burst: Amount) -> Amount {
    // At 2^20 cycles a byte and more the product needs more than 64 bits only when the burst is reached anyway.
    let gained = (now - since).saturating_mul(rate.into());
    credit.plus(Amount(gained)).min(burst)
}

/// Cycles in which a flow at `rate` gains `lacking` bytes: the least of what a divider for each of the ascending
/// quanta finds.
#[inline(always)]
pub(super) fn cycles_to_gain(lacking: u32, rate: u32, quanta: &[u32]) -> u64 {
    let representation = |quantum: u32| ((u64::from(rate) * u64::from(quantum)) >> FRACTION) as u32;
    let cycles = |(quantum, rate): (u32, u32)| u64::from(lacking.div_ceil(rate)) * u64::from(quantum);
    let represented = quanta.iter().map(|quantum| (*quantum, representation(*quantum)));
    let precise = represented.filter(|(_, rate)| *rate > 0).map(cycles).min();
    // A rate below all of them: as if it were the least of the coarsest. The flow wakes too early and waits again.
    precise.unwrap_or_else(|| quanta.last().map_or(1, |quantum| cycles((*quantum, 1))))
}
