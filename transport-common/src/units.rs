//! Units as types: picoseconds, Falcon ticks of 131.072 ns, units of the inter-packet gap, fixed-point windows.

use bytemuck::{Pod, Zeroable};

/// Local clock in picoseconds, 64 bits, wraps after 213 days. The PSP IV carries it (D-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Picoseconds(pub u64);

impl Picoseconds {
    /// Converts from a nanosecond clock. Wraps as the counter does.
    #[inline(always)]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.wrapping_mul(1000))
    }

    /// Returns the nanoseconds of this instant, rounded down.
    #[inline(always)]
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1000
    }

    /// Returns the Falcon time of this instant: 2^17 ps per tick (D-12).
    #[inline(always)]
    pub const fn ticks(self) -> FalconTime {
        FalconTime((self.0 >> Ticks::PICOS_SHIFT) as u32)
    }

    /// Returns the instant `d` later, modulo 2^64 ps.
    #[inline(always)]
    #[must_use]
    pub const fn after(self, d: PicosecondSpan) -> Self {
        Self(self.0.wrapping_add(d.0))
    }

    /// Returns the instant `d` earlier, modulo 2^64 ps.
    #[inline(always)]
    #[must_use]
    pub const fn before(self, d: PicosecondSpan) -> Self {
        Self(self.0.wrapping_sub(d.0))
    }

    /// Returns the time from `earlier` to `self`, modulo 2^64 ps.
    #[inline(always)]
    pub const fn since(self, earlier: Self) -> PicosecondSpan {
        PicosecondSpan(self.0.wrapping_sub(earlier.0))
    }

    /// Returns whether `self` is later than `other`: in the half of the number circle after it.
    #[inline(always)]
    pub const fn is_later_than(self, other: Self) -> bool {
        self.since(other).signed() > 0
    }
}

/// A duration in picoseconds, or the lead of one clock over another, modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct PicosecondSpan(pub u64);

impl PicosecondSpan {
    /// Converts nanoseconds. Durations of more than 213 days wrap.
    #[inline(always)]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.wrapping_mul(1000))
    }

    /// Returns the length in nanoseconds, rounded down.
    #[inline(always)]
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1000
    }

    /// Returns the sum, modulo 2^64 ps.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Returns the difference, modulo 2^64 ps.
    #[inline(always)]
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }

    /// Returns the number of picoseconds with a sign: the upper half of the number circle is negative.
    #[inline(always)]
    pub const fn signed(self) -> i64 {
        self.0 as i64
    }
}

/// Time in ticks of 131.072 ns modulo 2^32 (wraps after 563 s). So it has no `Ord` (D-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct FalconTime(pub u32);

impl FalconTime {
    /// Returns the instant `d` later.
    #[inline(always)]
    #[must_use]
    pub const fn after(self, d: Ticks) -> Self {
        Self(self.0.wrapping_add(d.0))
    }

    /// Returns the time from `earlier` to `self`, modulo 2^32 ticks.
    #[inline(always)]
    pub const fn since(self, earlier: Self) -> Ticks {
        Ticks(self.0.wrapping_sub(earlier.0))
    }

    /// Returns true if `deadline` has passed or is now: it is at `self` or in the half of the number circle before
    /// it.
    #[inline(always)]
    pub const fn reached(self, deadline: Self) -> bool {
        (self.0.wrapping_sub(deadline.0) as i32) >= 0
    }
}

/// A duration in ticks of 131.072 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct Ticks(pub u32);

impl Ticks {
    /// A tick is 2 to this power picoseconds (D-12).
    pub const PICOS_SHIFT: u32 = 17;

    /// Converts nanoseconds, rounded to nearest, saturating at 2^32 - 1 ticks.
    pub const fn from_nanos(nanos: u64) -> Self {
        let ticks = (nanos.saturating_mul(1000).saturating_add(1 << 16)) >> Self::PICOS_SHIFT;
        Self(if ticks > u32::MAX as u64 { u32::MAX } else { ticks as u32 })
    }

    /// Returns the length in picoseconds.
    #[inline(always)]
    pub const fn as_picos(self) -> PicosecondSpan {
        PicosecondSpan((self.0 as u64) << Self::PICOS_SHIFT)
    }

    /// Returns the length in nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.as_picos().as_nanos()
    }
}

/// Gap between two packets of a window below 1, in units of 512 ns; 0 is no gap (F-10.6.2.1-7). The entries of the
/// queues carry 20 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct InterPacketGap(pub u32);

impl InterPacketGap {
    /// No gap: packets are not paced.
    pub const NONE: Self = Self(0);
    /// Largest gap that the queues carry: 20 bits, 0.54 s.
    pub const MAX: Self = Self((1 << 20) - 1);
    /// Length of one unit.
    pub const UNIT: PicosecondSpan = PicosecondSpan::from_nanos(512);

    /// Returns the length in picoseconds.
    #[inline(always)]
    pub const fn as_picos(self) -> PicosecondSpan {
        PicosecondSpan(self.0 as u64 * Self::UNIT.0)
    }

    /// Returns the length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.as_picos().as_nanos()
    }
}

/// An instant at which something is due, or none. All zero bytes mean none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Deadline(u64);

impl Deadline {
    /// Nothing is due.
    pub const NONE: Self = Self(0);
    const ARMED: u64 = 1 << 32;

    /// Creates a deadline at `time`.
    #[inline(always)]
    pub const fn at(time: FalconTime) -> Self {
        Self(Self::ARMED | time.0 as u64)
    }

    /// Returns whether there is a deadline.
    #[inline(always)]
    pub const fn is_armed(self) -> bool {
        self.0 & Self::ARMED != 0
    }

    /// Returns the instant, if there is a deadline.
    #[inline(always)]
    pub const fn time(self) -> Option<FalconTime> {
        if self.is_armed() { Some(FalconTime(self.0 as u32)) } else { None }
    }

    /// Returns whether it is due at `now`.
    #[inline(always)]
    pub const fn is_due(self, now: FalconTime) -> bool {
        self.is_armed() && now.reached(FalconTime(self.0 as u32))
    }

    /// Returns whether nothing is due at or before `time`.
    #[inline(always)]
    pub const fn is_due_after(self, time: FalconTime) -> bool {
        !self.is_armed() || !time.reached(FalconTime(self.0 as u32))
    }

    /// Returns a deadline at `time` in its place, if there is one.
    #[inline(always)]
    #[must_use]
    pub const fn moved_to(self, time: FalconTime) -> Self {
        if self.is_armed() { Self::at(time) } else { self }
    }

    /// Returns the earlier of the two.
    #[inline(always)]
    #[must_use]
    pub const fn or_earlier(self, other: Self) -> Self {
        let sooner = self.is_armed()
            && (!other.is_armed() || FalconTime(other.0 as u32).reached(FalconTime(self.0 as u32)));
        if sooner { self } else { other }
    }
}

/// Fabric congestion window in packets, unsigned fixed point 11.10 (D-79).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct Fcwnd(pub u32);

impl Fcwnd {
    /// Fraction bits.
    pub const FRACTION_BITS: u32 = 10;
    /// Largest value: 2047 + 1023/1024.
    pub const MAX: Self = Self((1 << 21) - 1);

    /// Converts a whole number of packets, saturating at the field's maximum.
    pub const fn from_packets(packets: u32) -> Self {
        if packets > 2047 { Self::MAX } else { Self(packets << Self::FRACTION_BITS) }
    }

    /// Returns the number of packets that may be outstanding: the integer part, or 1 for a window below 1 (D-28).
    #[inline(always)]
    pub const fn packets(self) -> u32 {
        let whole = self.0 >> Self::FRACTION_BITS;
        if whole == 0 { 1 } else { whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_is_131_072_ns() {
        assert_eq!(Picoseconds::from_nanos(131_072).ticks(), FalconTime(1000));
        assert_eq!(Ticks(1000).as_nanos(), 131_072);
        assert_eq!(Ticks(u32::MAX).as_picos(), PicosecondSpan(131_072 * u64::from(u32::MAX)));
        assert_eq!(Ticks::from_nanos(25_000), Ticks(191)); // D-78 base target
        assert_eq!(Ticks::from_nanos(1_000_000), Ticks(7629)); // D-78 minimum RTO
    }

    #[test]
    fn picoseconds_compare_across_the_wrap() {
        let (before, span) = (Picoseconds(u64::MAX - 1), PicosecondSpan(4));
        let after = before.after(span);
        assert_eq!((after, after.before(span), after.since(before)), (Picoseconds(2), before, span));
        assert!(after.is_later_than(before) && !before.is_later_than(after) && !after.is_later_than(after));
        assert_eq!(before.since(after).signed(), -4);
        assert_eq!(
            (span.plus(PicosecondSpan(u64::MAX)), span.minus(span)),
            (PicosecondSpan(3), PicosecondSpan(0))
        );
    }

    /// F-10.6.2.1-7
    #[test]
    fn gap_is_counted_in_512_ns() {
        assert_eq!(InterPacketGap(3).as_picos(), PicosecondSpan(1_536_000));
        assert_eq!(InterPacketGap(3).as_nanos(), 1536);
        assert_eq!(InterPacketGap(u32::MAX).as_nanos(), 512 * u64::from(u32::MAX));
        assert_eq!(InterPacketGap::MAX.as_nanos(), 536_870_400);
    }

    #[test]
    fn falcon_time_compares_across_the_wrap() {
        let before = FalconTime(u32::MAX - 1);
        assert!(before.after(Ticks(4)).reached(before));
        assert!(!before.reached(before.after(Ticks(4))));
        assert_eq!(before.after(Ticks(4)).since(before), Ticks(4));
    }

    #[test]
    fn the_earlier_of_two_deadlines_is_found_across_the_wrap() {
        let late = Deadline::at(FalconTime(3));
        let early = Deadline::at(FalconTime(u32::MAX - 3));
        assert_eq!(late.or_earlier(early), early);
        assert_eq!(early.or_earlier(late), early);
        assert_eq!(Deadline::NONE.or_earlier(late), late);
        assert_eq!(late.or_earlier(Deadline::NONE), late);
        assert!(!Deadline::NONE.is_due(FalconTime(0)) && !Deadline::NONE.is_armed());
        assert_eq!(
            (late.moved_to(FalconTime(9)), Deadline::NONE.moved_to(FalconTime(9))),
            (Deadline::at(FalconTime(9)), Deadline::NONE)
        );
        assert!(early.is_due(FalconTime(0)) && !late.is_due(FalconTime(2)) && late.is_due(FalconTime(3)));
        assert_eq!(
            Deadline::at(FalconTime(0)).time(),
            Some(FalconTime(0)),
            "time 0 is a time like any other"
        );
    }

    #[test]
    fn fractional_window_counts_as_integer_part_and_one_below_one() {
        assert_eq!(Fcwnd(2 * 1024 + 900).packets(), 2);
        assert_eq!(Fcwnd(512).packets(), 1);
        assert_eq!(Fcwnd::from_packets(32).packets(), 32);
    }
}
