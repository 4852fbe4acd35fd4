//! TCP Reno: RFC 5681 with limited transmit (RFC 3042) and the timer of RFC 6298.

use crate::logic::{Flag, Logic, UserState, Word};
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

use super::tcp::{RoundTrip, Tcp};

/// TCP Reno.
#[derive(Clone, Copy, Debug)]
pub struct Reno(pub Tcp);

crate::user_state!(
    /// The state of Reno. Windows are in segments.
    pub struct RenoState {
        /// Congestion window. It is inflated during fast recovery.
        cwnd: 16,
        /// Slow start threshold.
        ssthresh: 16,
        /// Segments acknowledged since the window last grew in congestion avoidance.
        acked_count: 16,
        /// Duplicate acknowledgments in a row, up to 3.
        dup_acks: 2,
        /// Set during fast recovery.
        in_recovery: 1,
        /// Set if the timer has expired and nothing was acknowledged since.
        timed_out: 1,
        /// See RFC 6298.
        smoothed_rtt: 35,
        /// See RFC 6298.
        rtt_variation: 34,
    }
);

impl Protocol for Reno {
    const NAME: &'static str = "reno";
    const CREDIT: Credit = Credit::Window;
    type State<L: Logic> = RenoState<L>;

    fn initial<L: Logic>(&self, _first: L::Word) -> Initial<RenoState<L>> {
        let state = RenoState {
            cwnd: L::word(self.0.initial_window.into()),
            ssthresh: L::word(self.0.initial_ssthresh.into()),
            ..RenoState::from_words(|_| L::word(0))
        };
        let window_size = self.0.initial_window.into();
        Initial { state, window_size, timer_period: self.0.initial_rto, rate: 0, tokens: 0 }
    }

    #[inline(always)]
    fn incoming<L: Logic>(&self, input: &Incoming<L>, state: &RenoState<L>) -> (Decision<L>, RenoState<L>) {
        let (zero, one, three) = (L::word(0), L::word(1), L::word(3));
        let flow = &input.flow;
        let new = flow.window_start.follows(input.old_window_start);
        // RFC 5681, 2: the acknowledgment number is the greatest received so far, and data is outstanding.
        let repeats = input.cumulative.is(flow.window_start) & flow.next_new.follows(flow.window_start);
        let duplicate = input.is_ack & !new & repeats;
        let was_in_recovery = state.in_recovery.is_set();

        let counted = (state.dup_acks + one).min(three);
        let dup_acks = new.choose(zero, duplicate.choose(counted, state.dup_acks));
        let third = duplicate & state.dup_acks.is(L::word(2)) & !was_in_recovery;
        let in_recovery = third | (was_in_recovery & !new);

        let ssthresh = third.choose(self.0.half_flight(flow, state.cwnd), state.ssthresh);
        // RFC 5681, 3.2: a segment that has left the network inflates the window. An acknowledgment of new data
        // deflates it.
        let (grown, count) = self.0.grown::<L>(state.cwnd, ssthresh, state.acked_count, input.newly_acked);
        let on_new = was_in_recovery.choose(ssthresh, grown);
        let inflated = (duplicate & was_in_recovery).choose(state.cwnd + one, state.cwnd);
        let cwnd = new.choose(on_new, third.choose(ssthresh + three, inflated));
        // RFC 3042: each of the first two duplicates allows one new segment.
        let limited_transmit = in_recovery.choose(zero, dup_acks.min(L::word(2)));

        let round_trip = RoundTrip { smoothed: state.smoothed_rtt, variation: state.rtt_variation };
        let (sampled, timeout) = round_trip.sampled(input, &self.0);
        let next = RenoState {
            cwnd,
            ssthresh,
            acked_count: (new & !was_in_recovery).choose(count, state.acked_count),
            dup_acks,
            in_recovery: in_recovery.word(),
            timed_out: (state.timed_out.is_set() & !new).word(),
            smoothed_rtt: new.choose(sampled.smoothed, state.smoothed_rtt),
            rtt_variation: new.choose(sampled.variation, state.rtt_variation),
        };
        let decision = Decision {
            mark: third,
            mark_to: flow.window_start.segments_on(one),
            window_size: (cwnd + limited_transmit).min(L::word(self.0.max_window.into())),
            timer_period: new.choose(timeout, flow.timer_period),
            reset_timer: new,
            ..Decision::keep(flow)
        };
        (decision, next)
    }

    fn periodic<L: Logic>(&self, input: &Periodic<L>, state: &RenoState<L>) -> (Decision<L>, RenoState<L>) {
        let (zero, one) = (L::word(0), L::word(1));
        let flow = &input.flow;
        // RFC 5681, 3.1: ssthresh is not halved again for a segment that the timer has already sent again.
        let halved = self.0.half_flight(flow, state.cwnd);
        let next = RenoState {
            cwnd: one,
            ssthresh: state.timed_out.is_set().choose(state.ssthresh, halved),
            acked_count: zero,
            dup_acks: zero,
            in_recovery: zero,
            timed_out: one,
            ..*state
        };
        (self.0.at_expiry(input), next)
    }
}
