//! The decisions of user logic for a flow, and the parts of them that other modules need.

use clocked::RingBitmap;

use crate::logic::{Plain, Value};
use crate::packet::{ControlPacket, FlowId, Segment};
use crate::protocol::{Decision, Protocol};

use super::context::Window;
use super::incoming::Acknowledged;

pub(super) type State<P, const WORDS: usize> = <P as Protocol>::State<Plain<WORDS>>;

/// New parameters of a flow, in flight to the credit engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreditUpdate {
    pub(crate) flow: FlowId,
    /// The new rate.
    pub(crate) rate: Option<u32>,
    /// The number of tokens to add.
    pub(crate) tokens: u16,
}

/// A record of what the programmable stage of Incoming saw and decided, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingRecord {
    /// The packet.
    pub packet: ControlPacket,
    /// The start of the window before this packet.
    pub window_start_before: Segment,
    /// The size of the window before this packet.
    pub window_size_before: u32,
    /// The next new segment, as the stage saw it.
    pub next_new_seen: Segment,
    /// The number of segments newly acknowledged.
    pub newly_acked: u32,
    /// True if the selective acknowledgment is new: it then acknowledges one of these segments.
    pub newly_selective: bool,
    /// The segments marked for retransmission: the first one, and the one after the last.
    pub mark: Option<(Segment, Segment)>,
    /// True if the retransmission timer was restarted.
    pub reset_timer: bool,
    /// The size of the window from now on.
    pub window_size_after: u32,
}

impl IncomingRecord {
    /// Returns the fields in the order that traces and the published data use.
    pub(crate) fn fields(&self) -> [u64; 9] {
        [
            self.packet.flow.0.into(),
            self.packet.cumulative.0.into(),
            self.window_start_before.0.into(),
            self.window_size_before.into(),
            self.next_new_seen.0.into(),
            self.newly_acked.into(),
            self.mark.is_some().into(),
            self.reset_timer.into(),
            self.window_size_after.into(),
        ]
    }
}

/// The changes of user logic to a flow.
pub(super) struct UserUpdate<P: Protocol, const WORDS: usize> {
    pub(super) flow: FlowId,
    pub(super) decision: Decision<Plain<WORDS>>,
    pub(super) state: State<P, WORDS>,
}

/// Returns the window size that user logic asks for, capped at the size of the bitmaps.
pub(super) fn capped<const WORDS: usize>(size: Value) -> u32 {
    size.0.min(RingBitmap::<WORDS>::BITS.into()) as u32
}

#[inline(always)]
pub(super) fn record<const WORDS: usize>(
    acknowledged: &Acknowledged,
    window: &Window<WORDS>,
    decision: &Decision<Plain<WORDS>>,
) -> IncomingRecord {
    let segment = |value: Value| Segment(value.segment());
    IncomingRecord {
        packet: acknowledged.packet,
        window_start_before: acknowledged.old_start,
        window_size_before: window.size,
        next_new_seen: window.next_new,
        newly_acked: acknowledged.newly_acked,
        newly_selective: acknowledged.newly_selective,
        mark: decision.mark.then(|| (segment(decision.mark_from), segment(decision.mark_to))),
        reset_timer: decision.reset_timer,
        window_size_after: capped::<WORDS>(decision.window_size),
    }
}

/// Returns the part of a decision that the credit engine needs.
#[inline(always)]
pub(super) fn credit_update<P: Protocol, const WORDS: usize>(
    update: &UserUpdate<P, WORDS>,
) -> Option<CreditUpdate> {
    let decision = &update.decision;
    let rate = decision.set_rate.then_some(decision.rate.0 as u32);
    let tokens = decision.tokens.0 as u16;
    (rate.is_some() || tokens > 0).then_some(CreditUpdate { flow: update.flow, rate, tokens })
}
