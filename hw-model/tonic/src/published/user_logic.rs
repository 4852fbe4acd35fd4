//! The user logic of the traces: the hardware's own NewReno with its errors, and a logic that replays decisions.
//!
//! They serve only for the comparison of the core with the data. Do not use them as protocols.

use crate::logic::{Flag, Logic, UserState, Word};
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

crate::user_state!(
    /// The state of the published NewReno. Windows are in segments.
    pub(super) struct PublishedState {
        cwnd: 8,
        dup_acks: 8,
        ssthresh: 8,
        increase_counter: 8,
        recover: 32,
        in_recovery: 1,
        prev_highest_ack: 32,
    }
);

/// The computation of the published hardware on an acknowledgment, from the description of the data (`nreno_1`).
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedNewReno {
    pub(super) window: u32,
    pub(super) ssthresh: u64,
    pub(super) rto: u64,
}

/// Returns the decision of the published hardware when a timer fires: the window shrinks to its first segment,
/// which is marked.
fn on_timeout<L: Logic>(input: &Periodic<L>) -> Decision<L> {
    let one = L::word(1);
    Decision {
        mark: input.timer_expired,
        mark_to: input.flow.window_start.segments_on(one),
        window_size: one,
        ..Decision::keep(&input.flow)
    }
}

impl Protocol for PublishedNewReno {
    const NAME: &'static str = "nreno_1";
    const CREDIT: Credit = Credit::Window;
    type State<L: Logic> = PublishedState<L>;

    fn initial<L: Logic>(&self, _first: L::Word) -> Initial<PublishedState<L>> {
        let state = PublishedState {
            cwnd: L::word(self.window.into()),
            ssthresh: L::word(self.ssthresh),
            ..PublishedState::from_words(|_| L::word(0))
        };
        Initial { state, window_size: self.window, timer_period: self.rto, rate: 0, tokens: 0 }
    }

    fn incoming<L: Logic>(
        &self,
        input: &Incoming<L>,
        state: &PublishedState<L>,
    ) -> (Decision<L>, PublishedState<L>) {
        let (zero, one) = (L::word(0), L::word(1));
        let (old, new, ack) = (input.old_window_start, input.flow.window_start, input.cumulative);
        let is_new = old.below(new);
        let dup_acks = is_new.choose(zero, ack.is(old).choose(state.dup_acks + one, state.dup_acks));
        let sent = (input.flow.next_new - new).low(7);
        let flight = (sent - dup_acks).low(8);
        let close = (ack - state.prev_highest_ack).at_most(L::word(4));
        let may = state.recover.below(ack) | (one.below(input.flow.window_size) & close);
        let fast = dup_acks.is(L::word(3)) & may;
        let in_recovery = state.in_recovery.is_set();

        let halved = flight.at_most(L::word(2)).choose(one, flight >> 1);
        let ssthresh = fast.choose(halved, state.ssthresh);
        let grows = is_new & !in_recovery;
        let linear = state.increase_counter.below(state.cwnd).choose(state.cwnd, state.cwnd + one);
        let cumulatively = input.newly_acked - input.newly_selective.word();
        let grown = state.cwnd.below(ssthresh).choose(state.cwnd + cumulatively, linear);
        let reduced = sent.at_most(L::word(5)).choose(one, (sent >> 1) - one);
        let cwnd = fast.choose(reduced, grows.choose(grown, state.cwnd));
        let held = flight.below(state.cwnd).choose(state.cwnd + dup_acks, sent);
        let window = fast.choose(sent, grows.choose(cwnd, held)).min(L::word(120));

        let still = fast | (in_recovery & ack.at_most(state.recover));
        let counts = is_new & state.ssthresh.at_most(state.cwnd);
        let counter = state.increase_counter;
        let counted = counter.is(state.cwnd).choose(zero, counter + one);
        let next = PublishedState {
            cwnd,
            dup_acks,
            ssthresh,
            increase_counter: still.choose(zero, counts.choose(counted, counter)),
            recover: fast.choose(input.flow.next_new - one, state.recover),
            in_recovery: still.word(),
            prev_highest_ack: is_new.choose(old, state.prev_highest_ack),
        };
        let from = old.max(ack);
        let decision = Decision {
            mark: fast | (is_new & ack.at_most(state.recover)),
            mark_from: from,
            mark_to: from + one,
            window_size: window,
            reset_timer: !still,
            ..Decision::keep(&input.flow)
        };
        (decision, next)
    }

    fn periodic<L: Logic>(
        &self,
        input: &Periodic<L>,
        state: &PublishedState<L>,
    ) -> (Decision<L>, PublishedState<L>) {
        (on_timeout(input), *state)
    }
}

crate::user_state!(
    /// An empty state: the decision arrives with the packet.
    pub(super) struct Stateless {
        nothing: 1,
    }
);

/// User logic that takes its decision from the packet: see [`Replay::encode`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay {
    pub(super) window: u32,
    pub(super) rto: u64,
}

impl Replay {
    /// Encodes a decision as the data of a packet: mark the segment, reset the timer, the window size from now on.
    pub(super) const fn encode(mark: bool, reset_timer: bool, window: u32) -> u32 {
        mark as u32 | (reset_timer as u32) << 1 | window << 2
    }
}

impl Protocol for Replay {
    const NAME: &'static str = "replay";
    const CREDIT: Credit = Credit::Window;
    type State<L: Logic> = Stateless<L>;

    fn initial<L: Logic>(&self, _first: L::Word) -> Initial<Stateless<L>> {
        let state = Stateless { nothing: L::word(0) };
        Initial { state, window_size: self.window, timer_period: self.rto, rate: 0, tokens: 0 }
    }

    fn incoming<L: Logic>(&self, input: &Incoming<L>, state: &Stateless<L>) -> (Decision<L>, Stateless<L>) {
        let from = input.old_window_start.max(input.cumulative);
        let decision = Decision {
            mark: input.data.bit(0),
            mark_from: from,
            mark_to: from + L::word(1),
            window_size: input.data >> 2,
            reset_timer: input.data.bit(1),
            ..Decision::keep(&input.flow)
        };
        (decision, *state)
    }

    fn periodic<L: Logic>(&self, input: &Periodic<L>, state: &Stateless<L>) -> (Decision<L>, Stateless<L>) {
        (on_timeout(input), *state)
    }
}
