//! Segment Generation: lost segments first, new segments next (section 3.2.3).

use crate::tonic::packet::{FlowId, SegmentAddress};

use super::context::Window;

/// What Segment Generation decides for the flow in its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generation {
    pub(crate) flow: FlowId,
    /// The address, if there is anything to send.
    pub(crate) address: Option<SegmentAddress>,
    /// There is more to send.
    pub(crate) has_more: bool,
}

/// Chooses the next segment of a flow.
#[inline(always)]
pub(crate) fn generate<const WORDS: usize>(flow: FlowId, window: &Window<WORDS>) -> Generation {
    let new = SegmentAddress { flow, segment: window.next_new, retransmission: false };
    if let Some(segment) = window.first_marked() {
        let mut behind = *window;
        behind.marked.clear(segment.0);
        let address = SegmentAddress { segment, retransmission: true, ..new };
        return Generation { flow, address: Some(address), has_more: !behind.is_idle() };
    }
    // Nothing is marked inside the window.
    let left = window.new_left();
    Generation { flow, address: (left > 0).then_some(new), has_more: left > 1 }
}

/// What Segment Generation writes of the window.
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
    // Two bits a segment that count up to 3 and stay there.
    if !low.get(bit) {
        low.set(bit);
    } else if !high.get(bit) {
        low.clear(bit);
        high.set(bit);
    }
}
