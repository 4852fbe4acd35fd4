//! What the data delivery engine keeps of a flow (table 2), in the two groups that make four ports enough
//! (section 4, "Concurrent Memory Access").

use clocked::{Cycle, RingBitmap};

use crate::packet::Segment;
use crate::parameters::Rules;

/// The segments. Touched by both stages of Incoming, Periodic Updates and Segment Generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<const WORDS: usize> {
    /// Acknowledged selectively.
    pub(crate) acked: RingBitmap<WORDS>,
    /// Lost, to be retransmitted.
    pub(crate) marked: RingBitmap<WORDS>,
    /// How often each was retransmitted, two bits that stay at 3: the low ones and the high ones.
    pub(crate) retransmissions: [RingBitmap<WORDS>; 2],
    /// First segment not acknowledged cumulatively.
    pub(crate) start: Segment,
    /// Segments from `start` on that may be sent; the bitmaps' size at most.
    pub(crate) size: u32,
    /// One behind the highest segment generated.
    pub(crate) next_new: Segment,
    /// One behind the last segment there is; `None` if there is no end.
    pub(crate) data_end: Option<Segment>,
    /// Segments generated, retransmissions included.
    pub(crate) total_sent: u64,
}

impl<const WORDS: usize> Window<WORDS> {
    /// No segment yet; `first` is the first one's number.
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

    /// Segments generated and not acknowledged cumulatively.
    #[inline(always)]
    pub(crate) const fn in_flight(&self) -> u32 {
        self.next_new.after(self.start)
    }

    /// New segments that are there to be sent; 2^31 if there is no end.
    #[inline(always)]
    pub(crate) fn data_left(&self) -> u32 {
        self.data_end.map_or(1 << 31, |end| end.after(self.next_new))
    }

    /// New segments that are there and inside the window.
    #[inline(always)]
    pub(crate) fn new_left(&self) -> u32 {
        self.size.saturating_sub(self.in_flight()).min(self.data_left())
    }

    /// The first marked segment from the window's start on, if it is inside the window.
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

    /// All there is was sent and acknowledged cumulatively.
    #[inline(always)]
    pub(crate) fn is_finished(&self) -> bool {
        self.in_flight() == 0 && self.data_end == Some(self.next_new)
    }

    /// Nothing can be generated: no mark inside the window and no new segment. The published hardware looks at every
    /// mark, also at those outside of the window.
    #[inline(always)]
    pub(crate) fn is_idle(&self, rules: Rules) -> bool {
        let has_mark = match rules {
            Rules::Paper => self.first_marked().is_some(),
            Rules::Published => !self.marked.is_empty(),
        };
        self.new_left() == 0 && !has_mark
    }

    /// How often a segment of the window was retransmitted; 3 stands for more too.
    pub(crate) const fn retransmissions(&self, segment: Segment) -> u8 {
        let [low, high] = &self.retransmissions;
        low.get(segment.0) as u8 | (high.get(segment.0) as u8) << 1
    }

    /// The segment is generated and not acknowledged cumulatively.
    #[inline(always)]
    pub(crate) const fn is_in_flight(&self, segment: Segment) -> bool {
        segment.after(self.start) < self.in_flight()
    }
}

/// Who may send when. Touched by the programmable stage of Incoming, Periodic Updates, Segment Generation and
/// Segment Transmitted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// When the retransmission timer expires; never if it is off.
    pub(crate) timer: Cycle,
    /// Length of the retransmission timer, cycles.
    pub(crate) timer_period: u64,
    /// Segment addresses that wait for credit.
    pub(crate) outstanding: u8,
    /// `outstanding` has reached the limit.
    pub(crate) stopped: bool,
    /// The flow has nothing to send.
    pub(crate) idle: bool,
    /// The flow is in the active set or on its way from there through Segment Generation.
    pub(crate) active: bool,
    /// The flow was added.
    pub(crate) open: bool,
}

impl Schedule {
    /// The flow does not exist.
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
