//! NIC time in congestion control: 24 bits of 131.072 ns ticks, and the delays of T1 to T4 (10.1).

use crate::units::{FalconTime, Picoseconds, Ticks};
use bytemuck::{Pod, Zeroable};

/// An instant in ticks of 131.072 ns modulo 2^24 (wraps after 2.199 s), hence no `Ord` (D-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct NicTime(pub u32);

impl NicTime {
    /// Width of event times in the queues.
    pub const BITS: u32 = 24;
    /// The largest instant, and the largest duration of 24 bits.
    pub const MASK: u32 = (1 << Self::BITS) - 1;

    /// Converts from a 64-bit clock or IV (D-12).
    #[inline(always)]
    pub const fn from_picoseconds(time: Picoseconds) -> Self {
        Self::from_falcon_time(time.ticks())
    }

    /// Returns the low 24 bits of a 32-bit time (D-12).
    #[inline(always)]
    pub const fn from_falcon_time(time: FalconTime) -> Self {
        Self(time.0 & Self::MASK)
    }

    /// Returns the time from `earlier` to `self`, modulo 2^24 ticks.
    #[inline(always)]
    pub const fn since(self, earlier: Self) -> Ticks {
        Ticks(self.0.wrapping_sub(earlier.0) & Self::MASK)
    }

    /// Returns the instant `duration` before `self`.
    #[inline(always)]
    #[must_use]
    pub const fn before(self, duration: Ticks) -> Self {
        Self(self.0.wrapping_sub(duration.0) & Self::MASK)
    }

    /// HasRttElapsed: returns whether `self`, the current time, is at least `rtt` later than `marker`
    /// (F-10.3.4-4).
    #[inline(always)]
    pub const fn has_elapsed(self, marker: Self, rtt: Ticks) -> bool {
        self.since(marker).0 >= rtt.0
    }

    /// UpdateTimeMarker: returns the new `marker` of a window that did not change. It follows `self`, the current
    /// time, at a distance of at most one `rtt`, so that the wrap of time cannot make an old marker look new
    /// (F-10.3.4-5, F-10.3.6-5).
    #[inline(always)]
    #[must_use]
    pub const fn drag(self, marker: Self, rtt: Ticks) -> Self {
        if self.since(marker).0 > rtt.0 { self.before(rtt) } else { marker }
    }
}

/// The delay that congestion control uses (F-10.6.2.1-11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum DelaySelect {
    /// T4 - T1: the round trip, including the time that the peer held the acknowledgement.
    Full = 0,
    /// (T4 - T1) - (T3 - T2): the round trip without that time.
    #[default]
    Fabric = 1,
    /// T2 - T1, with synchronised clocks only (F-10.1-4).
    Forward = 2,
    /// T4 - T3, with synchronised clocks only (F-10.1-4).
    Reverse = 3,
}

impl DelaySelect {
    /// All selections, by code.
    pub const ALL: [Self; 4] = [Self::Full, Self::Fabric, Self::Forward, Self::Reverse];

    /// Returns the code of the selection.
    #[inline(always)]
    pub const fn code(self) -> DelayCode {
        DelayCode(self as u8)
    }

    /// Returns the selection as a parameter.
    #[inline(always)]
    pub const fn setting(self) -> DelaySetting {
        DelaySetting(self as u32)
    }

    /// Returns the selection of a code. Ignores the bits above the two of the field.
    #[inline(always)]
    pub const fn from_code(code: DelayCode) -> Self {
        match code.0 & 3 {
            0 => Self::Full,
            1 => Self::Fabric,
            2 => Self::Forward,
            _ => Self::Reverse,
        }
    }

    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Fabric => "fabric",
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }

    /// Returns the selection with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|select| select.name() == name)
    }

    /// Returns whether the delay needs synchronised clocks. One-way delays are valid only if both ends read the
    /// same time (F-10.1-4).
    pub const fn needs_synchronised_clocks(self) -> bool {
        matches!(self, Self::Forward | Self::Reverse)
    }
}

/// A [`DelaySelect`] as the queues carry it, 2 bits. Any byte is allowed: the bits above are ignored.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct DelayCode(pub u8);

/// A [`DelaySelect`] as the parameters carry it, 4 bytes. Any value is allowed here, because programs of users write
/// it. [`Parameters::check`](super::parameters::Parameters::check) refuses the values above 3.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
pub struct DelaySetting(pub u32);

impl DelaySetting {
    /// Returns the code as the queues carry it: the low bits.
    #[inline(always)]
    pub const fn code(self) -> DelayCode {
        DelayCode(self.0 as u8)
    }
}

/// The four delays of an acknowledged packet (F-10.1-3, F-10.1-4), 24 bits each.
///
/// Differences are modular. Fabric, forward and reverse delay mix the clocks of two ends: rounding, drift or
/// offset can put a short delay just below zero. Such a delay is in the upper half of the range. It counts as 0,
/// and not as more than a second. One clock measures the full delay, which uses the whole range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// T4 - T1, the RTT.
    pub full: Ticks,
    /// (T4 - T1) - (T3 - T2).
    pub fabric: Ticks,
    /// T2 - T1.
    pub forward: Ticks,
    /// T4 - T3.
    pub reverse: Ticks,
}

impl Delays {
    /// Computes the delays of a packet sent at `t1` and received at `t2`, whose acknowledgement was sent at `t3`
    /// and received at `t4` (F-10.1-1).
    #[inline(always)]
    pub const fn new(t1: NicTime, t2: NicTime, t3: NicTime, t4: NicTime) -> Self {
        let (full, held) = (t4.since(t1), t3.since(t2));
        Self {
            full,
            fabric: not_negative(full.0.wrapping_sub(held.0)),
            forward: not_negative(t2.0.wrapping_sub(t1.0)),
            reverse: not_negative(t4.0.wrapping_sub(t3.0)),
        }
    }

    /// Returns the selected delay.
    #[inline(always)]
    pub const fn select(&self, select: DelaySelect) -> Ticks {
        match select {
            DelaySelect::Full => self.full,
            DelaySelect::Fabric => self.fabric,
            DelaySelect::Forward => self.forward,
            DelaySelect::Reverse => self.reverse,
        }
    }
}

/// Returns a difference modulo 2^24 as a duration; 0 for the negative half.
#[inline(always)]
const fn not_negative(difference: u32) -> Ticks {
    let difference = difference & NicTime::MASK;
    if difference >> (NicTime::BITS - 1) == 0 { Ticks(difference) } else { Ticks(0) }
}
