//! The context of a flow in the data delivery engine (table 2). It has two groups, so that four ports per memory
//! are enough (section 4, "Concurrent Memory Access").

use clocked::{Cycle, RingBitmap};

use crate::packet::Segment;
use crate::parameters::Rules;

/// The state of a flow's segments. Both stages of Incoming, Periodic Updates and Segment Generation use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<const WORDS: usize> {
    /// The segments acknowledged selectively.
    pub(crate) acked: RingBitmap<WORDS>,
    /// The lost segments, which must be retransmitted.
    pub(crate) marked: RingBitmap<WORDS>,
    /// How often each segment was retransmitted: the low and the high bit of a counter that stays at 3.
    pub(crate) retransmissions: [RingBitmap<WORDS>; 2],
    /// The first segment that is not acknowledged cumulatively.
    pub(crate) start: Segment,
    /// The number of segments from `start` on that may be sent. At most the size of the bitmaps.
    pub(crate) size: u32,
    /// The segment after the highest one generated.
    pub(crate) next_new: Segment,
    /// The segment after the last one available. `None` if the supply is endless.
    pub(crate) data_end: Option<Segment>,
    /// The number of segments generated, including retransmissions.
    pub(crate) total_sent: u64,
}

impl<const WORDS: usize> Window<WORDS> {
    /// Creates a window without segments. `first` is the number of the first segment.
    pub(crate) fn new(first: Segment, size: u32, data_end: Option<Segment>) -> Self {
        Self {
            acked: RingBitmap::EMPTY,
            marked: RingBitmap::EMPTY,
            retransmissions: [RingBitmap::EMPTY; 2],
            start: first,
            size: size.min(RingBitmap::<WORDS>::BITS),
            next_new: first,
            data_end,
            total_sent: 0,
        }
    }

    /// Returns the number of segments generated and not acknowledged cumulatively.
    #[inline(always)]
    pub(crate) const fn in_flight(&self) -> u32 {
        self.next_new.after(self.start)
    }

    /// Returns the number of new segments available, or 2^31 if the supply is endless.
    #[inline(always)]
    pub(crate) fn data_left(&self) -> u32 {
        self.data_end.map_or(1 << 31, |end| end.after(self.next_new))
    }

    /// Returns the number of new segments that are available and inside the window.
    #[inline(always)]
    pub(crate) fn new_left(&self) -> u32 {
        self.size.saturating_sub(self.in_flight()).min(self.data_left())
    }

    /// Returns the first marked segment from the window's start on, if it is inside the window.
    #[inline(always)]
    pub(crate) fn first_marked(&self) -> Option<Segment> {
        if self.marked.is_empty() {
            return None;
        }
        let bits = RingBitmap::<WORDS>::BITS;
        let index = self.marked.find_first(self.start.0)?;
        let offset = index.wrapping_sub(self.start.0) % bits;
        (offset < self.size).then(|| self.start.plus(offset))
    }

    /// Returns true if all available segments were sent and acknowledged cumulatively.
    #[inline(always)]
    pub(crate) fn is_finished(&self) -> bool {
        self.in_flight() == 0 && self.data_end == Some(self.next_new)
    }

    /// Returns true if nothing can be generated: no mark is inside the window, and there is no new segment. The
    /// published hardware looks at every mark, even outside of the window.
    #[inline(always)]
    pub(crate) fn is_idle(&self, rules: Rules) -> bool {
        let has_mark = match rules {
            Rules::Paper => self.first_marked().is_some(),
            Rules::Published => !self.marked.is_empty(),
        };
        self.new_left() == 0 && !has_mark
    }

    /// Returns how often a segment of the window was retransmitted. 3 means three times or more.
    pub(crate) const fn retransmissions(&self, segment: Segment) -> u8 {
        let [low, high] = &self.retransmissions;
        low.get(segment.0) as u8 | (high.get(segment.0) as u8) << 1
    }

    /// Returns true if the segment was generated and is not acknowledged cumulatively.
    #[inline(always)]
    pub(crate) const fn is_in_flight(&self, segment: Segment) -> bool {
        segment.after(self.start) < self.in_flight()
    }
}

/// The scheduling state of a flow. The programmable stage of Incoming, Periodic Updates, Segment Generation and
/// Segment Transmitted use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// The cycle in which the retransmission timer expires. [`Cycle::NEVER`] if it is off.
    pub(crate) timer: Cycle,
    /// The length of the retransmission timer, in cycles.
    pub(crate) timer_period: u64,
    /// The number of segment addresses that wait for credit.
    pub(crate) outstanding: u8,
    /// True if `outstanding` has reached the limit and the flow has not restarted since.
    pub(crate) stopped: bool,
    /// True if the flow has nothing to send.
    pub(crate) idle: bool,
    /// True if the flow is in the active set, or on its way from there through Segment Generation.
    pub(crate) active: bool,
    /// True if the flow was added.
    pub(crate) open: bool,
}

impl Schedule {
    /// The schedule of a flow that does not exist.
    pub(crate) const CLOSED: Self = Self {
        timer: Cycle::NEVER,
        timer_period: 0,
        outstanding: 0,
        stopped: false,
        idle: true,
        active: false,
        open: false,
    };
}
