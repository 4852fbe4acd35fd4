//! NDP's sender (Handley et al., "Re-architecting datacenter networks and stacks for low latency and high
//! performance", SIGCOMM 2017): a first window at line rate, then a segment for each pull of the receiver.
//!
//! A trimmed packet's header is answered by a negative acknowledgment: the segment is marked and goes out with
//! one of the next pulls. Pulls carry a counter, so a lost or late one is made up for by the next. Segments of
//! which nothing is heard are sent again, without a pull, when the timer expires. Return-to-sender is not modelled.

use crate::logic::{Bitmap, Flag, Logic, Word};
use crate::parameters::Frequency;
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

/// NDP. In the data of a negative acknowledgment is the trimmed segment, in that of a pull its counter.
#[derive(Clone, Copy, Debug)]
pub struct Ndp {
    /// Segments sent before the first pull.
    pub initial_window: u16,
    /// Segments the sender keeps track of.
    pub window: u16,
    /// Retransmission timeout, cycles.
    pub rto: u64,
}

impl Ndp {
    /// The paper's: a first window of 30 packets, a timeout of 1 ms.
    #[must_use]
    pub const fn new(clock: Frequency) -> Self {
        Self { initial_window: 30, window: 128, rto: clock.cycles(1_000_000) }
    }
}

crate::user_state!(
    /// State of NDP.
    pub struct NdpState {
        /// The highest pull counter seen.
        pulls: 32,
    }
);

impl Protocol for Ndp {
    const NAME: &'static str = "ndp";
    const CREDIT: Credit = Credit::Token;
    type State<L: Logic> = NdpState<L>;

    fn initial<L: Logic>(&self, _first: L::Word) -> Initial<NdpState<L>> {
        let state = NdpState { pulls: L::word(0) };
        let window_size = self.window.into();
        Initial { state, window_size, timer_period: self.rto, rate: 0, tokens: self.initial_window }
    }

    #[inline(always)]
    fn incoming<L: Logic>(&self, input: &Incoming<L>, state: &NdpState<L>) -> (Decision<L>, NdpState<L>) {
        let pulled = input.is_pull & input.data.follows(state.pulls);
        let next = NdpState { pulls: pulled.choose(input.data, state.pulls) };
        let decision = Decision {
            mark: input.is_nack,
            mark_from: input.data,
            mark_to: input.data.segments_on(L::word(1)),
            tokens: pulled.choose(input.data.offset_from(state.pulls), L::word(0)),
            reset_timer: input.is_ack | input.is_nack,
            ..Decision::keep(&input.flow)
        };
        (decision, next)
    }

    fn periodic<L: Logic>(&self, input: &Periodic<L>, state: &NdpState<L>) -> (Decision<L>, NdpState<L>) {
        let flow = &input.flow;
        let missing = flow.in_flight() - flow.acked.count(flow.window_start, flow.in_flight());
        let decision = Decision {
            mark: input.timer_expired,
            mark_to: flow.next_new,
            // With nothing in flight it is pulls that were lost: one segment asks for more.
            tokens: missing.max(L::word(1)),
            reset_timer: input.timer_expired,
            ..Decision::keep(flow)
        };
        (decision, *state)
    }
}
