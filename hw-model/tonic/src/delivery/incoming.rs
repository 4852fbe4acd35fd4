//! Incoming: the fixed stage, and the inputs of the programmable stage (section 3.2.3).

use clocked::{Cycle, RingBitmap};
use transport_common::bitmap::Bitmap128;

use crate::logic::{Plain, Value};
use crate::packet::{ControlPacket, Kind, Segment};
use crate::parameters::Rules;
use crate::protocol::{Incoming, Periodic, View};

use super::context::{Schedule, Window};

/// The result of the fixed stage: the register between the two stages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) packet: ControlPacket,
    /// The start of the window before this packet.
    pub(crate) old_start: Segment,
    /// The start of the window after this packet.
    pub(crate) new_start: Segment,
    /// The size of the window before this packet.
    pub(crate) size: u32,
    /// The selective acknowledgment, if it is inside the window and after `new_start`.
    pub(crate) selective: Option<Segment>,
    /// True if the segment of the selective acknowledgment was not known to have arrived.
    pub(crate) newly_selective: bool,
    /// The part of the bitmap that is inside the window. Bit 0 belongs to `new_start`, which cannot have arrived.
    pub(crate) bitmap: [u64; 2],
    /// The number of segments that were not known to have arrived.
    pub(crate) newly_acked: u32,
}

/// The fixed stage. An acknowledgment of a segment that was never sent is ignored. An acknowledgment that says
/// that the new window start has arrived is ignored too: if it had arrived, the window would start after it. If
/// Tonic accepted such an acknowledgment, the segment would never be sent again. The published hardware also drops
/// a selective acknowledgment beyond the window's size.
#[inline(always)]
pub(crate) fn acknowledge<const WORDS: usize>(
    window: &Window<WORDS>,
    packet: &ControlPacket,
    rules: Rules,
) -> Acknowledged {
    let acknowledges = matches!(packet.kind, Kind::Ack | Kind::Nack);
    let advance = packet.cumulative.after(window.start);
    let is_current = acknowledges && advance <= window.in_flight();
    let advance = if is_current { advance } else { 0 };
    let new_start = window.start.plus(advance);
    let selective = packet.selective.filter(|segment| {
        let offset = segment.after(window.start);
        let in_reach = rules == Rules::Paper || offset < advance + window.size;
        acknowledges && window.is_in_flight(*segment) && offset > advance && in_reach
    });
    let newly_selective = selective.is_some_and(|segment| !window.acked.get(segment.0));
    // The segments that the window start passes and that were acknowledged selectively before.
    let known = match window.acked.is_empty() {
        true => 0,
        false => RingBitmap::range(window.start.0, advance).and(&window.acked).count(),
    };
    let bitmap = match packet.selective {
        None if is_current => inside(packet.bitmap, window.in_flight() - advance),
        _ => [0; 2],
    };
    let new_bits = match bitmap {
        [0, 0] => 0,
        bits => RingBitmap::placed(new_start.0, bits).and_not(&window.acked).count(),
    };
    let newly_acked = advance - known + u32::from(newly_selective) + new_bits;
    Acknowledged {
        packet: *packet,
        old_start: window.start,
        new_start,
        size: window.size,
        selective,
        newly_selective,
        bitmap,
        newly_acked,
    }
}

/// Returns the lowest `length` bits without the first one, which belongs to the window's start.
#[inline(always)]
const fn inside(bits: [u64; 2], length: u32) -> [u64; 2] {
    let mask = Bitmap128::low_mask(length);
    [bits[0] & mask.low & !1, bits[1] & mask.high]
}

/// Performs the writes of the fixed stage: moves the window, and clears the bits that it leaves for their next
/// use.
///
/// The published hardware keeps marks in its other memory, which this stage does not write. They stay until the
/// next generation, or until the programmable stage finds that their segments are acknowledged. The published
/// hardware also forgets selective acknowledgments beyond the window's size.
#[inline(always)]
pub(crate) fn apply<const WORDS: usize>(
    window: &mut Window<WORDS>,
    acknowledged: &Acknowledged,
    rules: Rules,
) {
    let marked = window.marked;
    let advance = acknowledged.new_start.after(window.start);
    if advance > 0 {
        let [low, high] = &mut window.retransmissions;
        for bitmap in [&mut window.acked, &mut window.marked, low, high] {
            if !bitmap.is_empty() {
                *bitmap = bitmap.and_not(&RingBitmap::range(window.start.0, advance));
            }
        }
        window.start = acknowledged.new_start;
    }
    if let Some(segment) = acknowledged.selective {
        window.acked.set(segment.0);
        window.marked.clear(segment.0);
    }
    if acknowledged.bitmap != [0; 2] {
        let arrived = RingBitmap::placed(acknowledged.new_start.0, acknowledged.bitmap);
        window.acked = window.acked.or(&arrived);
        window.marked = window.marked.and_not(&arrived);
    }
    if rules == Rules::Published {
        window.marked = marked;
        window.acked = window.acked.and(&RingBitmap::range(window.start.0, acknowledged.size));
    }
}

/// Returns the fixed state of a flow as user logic sees it.
#[inline(always)]
pub(crate) fn view<const WORDS: usize>(
    now: Cycle,
    window: &Window<WORDS>,
    schedule: &Schedule,
) -> View<Plain<WORDS>> {
    View {
        now: Value(now.0),
        window_start: Value(window.start.0.into()),
        window_size: Value(window.size.into()),
        next_new: Value(window.next_new.0.into()),
        data_left: Value(window.data_left().into()),
        total_sent: Value(window.total_sent),
        timer_period: Value(schedule.timer_period),
        acked: window.acked,
        marked: window.marked,
        retransmitted: window.retransmissions[0].or(&window.retransmissions[1]),
    }
}

/// Returns the input of the programmable stage of Incoming.
#[inline(always)]
pub(crate) fn incoming<const WORDS: usize>(
    now: Cycle,
    acknowledged: &Acknowledged,
    window: &Window<WORDS>,
    schedule: &Schedule,
) -> Incoming<Plain<WORDS>> {
    let packet = &acknowledged.packet;
    Incoming {
        is_ack: packet.kind == Kind::Ack,
        is_nack: packet.kind == Kind::Nack,
        is_pull: packet.kind == Kind::Pull,
        is_cnp: packet.kind == Kind::Cnp,
        cumulative: Value(packet.cumulative.0.into()),
        has_selective: acknowledged.selective.is_some(),
        selective: Value(acknowledged.selective.unwrap_or_default().0.into()),
        newly_selective: acknowledged.newly_selective,
        data: Value(packet.data.into()),
        newly_acked: Value(acknowledged.newly_acked.into()),
        old_window_start: Value(acknowledged.old_start.0.into()),
        flow: view(now, window, schedule),
    }
}

/// Returns the input of Periodic Updates.
#[inline(always)]
pub(crate) fn periodic<const WORDS: usize>(
    now: Cycle,
    timer_expired: bool,
    window: &Window<WORDS>,
    schedule: &Schedule,
) -> Periodic<Plain<WORDS>> {
    Periodic { timer_expired, flow: view(now, window, schedule) }
}
