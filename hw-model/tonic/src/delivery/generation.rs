//! Segment Generation: first lost segments, then new segments (section 3.2.3).

use crate::packet::{FlowId, SegmentAddress};

use super::context::Window;

/// The result of Segment Generation for the flow in processing. Merge decides later, from the merged state,
/// whether the flow can send more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generation {
    pub(crate) flow: FlowId,
    /// The address. `None` if there is nothing to send.
    pub(crate) address: Option<SegmentAddress>,
}

/// Chooses the next segment of a flow.
#[inline(always)]
pub(crate) fn generate<const WORDS: usize>(flow: FlowId, window: &Window<WORDS>) -> Generation {
    let new = SegmentAddress { flow, segment: window.next_new, retransmission: false };
    let address = match window.first_marked() {
        Some(segment) => Some(SegmentAddress { segment, retransmission: true, ..new }),
        None => (window.new_left() > 0).then_some(new),
    };
    Generation { flow, address }
}

/// Performs the writes of Segment Generation to the window.
#[inline(always)]
pub(crate) fn apply<const WORDS: usize>(window: &mut Window<WORDS>, address: &SegmentAddress) {
    window.total_sent += 1;
    if !address.retransmission {
        window.next_new = window.next_new.plus(1);
        return;
    }
    let bit = address.segment.0;
    window.marked.clear(bit);
    let [low, high] = &mut window.retransmissions;
    // Two bits per segment count up to 3 and stay there.
    if !low.get(bit) {
        low.set(bit);
    } else if !high.get(bit) {
        low.clear(bit);
        high.set(bit);
    }
}
