//! What user logic decided of a flow, and what others have to know of it.

use clocked::RingBitmap;

use crate::logic::{Plain, Value};
use crate::packet::{ControlPacket, FlowId, Segment};
use crate::protocol::{Decision, Protocol};

use super::context::Window;
use super::incoming::Acknowledged;

pub(super) type State<P, const WORDS: usize> = <P as Protocol>::State<Plain<WORDS>>;

/// Parameters on their way to the credit engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreditUpdate {
    pub(crate) flow: FlowId,
    /// The new rate.
    pub(crate) rate: Option<u32>,
    /// Tokens to add.
    pub(crate) tokens: u16,
}

/// What the programmable stage of Incoming saw and decided, for traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingRecord {
    /// The packet.
    pub packet: ControlPacket,
    /// Start of the window before this packet.
    pub window_start_before: Segment,
    /// Size of the window before this packet.
    pub window_size_before: u32,
    /// The next new segment, as seen.
    pub next_new_seen: Segment,
    /// Segments newly acknowledged.
    pub newly_acked: u32,
    /// One of them by the selective acknowledgment.
    pub newly_selective: bool,
    /// The segments marked for retransmission: the first, and one behind the last.
    pub mark: Option<(Segment, Segment)>,
    /// The retransmission timer was started anew.
    pub reset_timer: bool,
    /// Size of the window from now on.
    pub window_size_after: u32,
}

impl IncomingRecord {
    /// Its fields in the order in which traces and the published data have them.
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

/// What user logic changes of a flow.
pub(super) struct UserUpdate<P: Protocol, const WORDS: usize> {
    pub(super) flow: FlowId,
    pub(super) decision: Decision<Plain<WORDS>>,
    pub(super) state: State<P, WORDS>,
}

/// The window size user logic asks for, as far as the bitmaps reach.
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

/// What the credit engine has to know of a decision.
#[inline(always)]
pub(super) fn credit_update<P: Protocol, const WORDS: usize>(
    update: &UserUpdate<P, WORDS>,
) -> Option<CreditUpdate> {
    let decision = &update.decision;
    let rate = decision.set_rate.then_some(decision.rate.0 as u32);
    let tokens = decision.tokens.0 as u16;
    (rate.is_some() || tokens > 0).then_some(CreditUpdate { flow: update.flow, rate, tokens })
}
