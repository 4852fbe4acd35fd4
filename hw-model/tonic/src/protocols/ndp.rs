//! NDP's sender (Handley et al., "Re-architecting datacenter networks and stacks for low latency and high
//! performance", SIGCOMM 2017): a first window at line rate, then one segment per pull of the receiver.
//!
//! The receiver answers the header of a trimmed packet with a negative acknowledgment. The sender marks the
//! segment and sends it again with one of the next pulls. Pulls carry a counter, so the next pull replaces a lost
//! or late one. When the timer expires, unacknowledged segments are sent again without a pull. Return-to-sender is
//! not modelled.

use crate::logic::{Bitmap, Flag, Logic, Word};
use crate::parameters::Frequency;
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

/// NDP. The data of a negative acknowledgment is the trimmed segment. The data of a pull is its counter.
#[derive(Clone, Copy, Debug)]
pub struct Ndp {
    /// Segments sent before the first pull.
    pub initial_window: u16,
    /// The window of segments that the sender keeps track of.
    pub window: u16,
    /// Retransmission timeout, cycles.
    pub rto: u64,
}

impl Ndp {
    /// Returns the configuration of the paper: a first window of 30 packets, a timeout of 1 ms.
    #[must_use]
    pub const fn new(clock: Frequency) -> Self {
        Self { initial_window: 30, window: 128, rto: clock.cycles(1_000_000) }
    }
}

crate::user_state!(
    /// The state of NDP.
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
            // If nothing is in flight, pulls were lost. One segment makes the receiver send more.
            tokens: missing.max(L::word(1)),
            reset_timer: input.timer_expired,
            ..Decision::keep(flow)
        };
        (decision, *state)
    }
}
