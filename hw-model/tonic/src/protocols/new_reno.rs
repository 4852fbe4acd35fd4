//! TCP NewReno: RFC 6582 on top of RFC 5681, RFC 3042 and RFC 6298.

use crate::logic::{Flag, Logic, UserState, Word};
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

use super::tcp::{RoundTrip, Tcp};

/// TCP NewReno.
#[derive(Clone, Copy, Debug)]
pub struct NewReno(pub Tcp);

crate::user_state!(
    /// The state of NewReno. Windows are in segments.
    pub struct NewRenoState {
        /// Congestion window. It is inflated during fast recovery.
        cwnd: 16,
        /// Slow start threshold.
        ssthresh: 16,
        /// Segments acknowledged since the window last grew in congestion avoidance.
        acked_count: 16,
        /// Duplicate acknowledgments in a row, up to 3.
        dup_acks: 2,
        /// Segments in flight when the first of these duplicates arrived.
        flight_before: 16,
        /// Set during fast recovery.
        in_recovery: 1,
        /// Set if a partial acknowledgment has arrived in this fast recovery.
        had_partial: 1,
        /// Set if the timer has expired and nothing was acknowledged since.
        timed_out: 1,
        /// One after the highest segment sent when fast recovery or a timeout began: the RFC's "recover" plus 1.
        recover: 32,
        /// See RFC 6298.
        smoothed_rtt: 35,
        /// See RFC 6298.
        rtt_variation: 34,
    }
);

impl<L: Logic> NewRenoState<L> {
    /// Returns how many segments in flight count while duplicates arrive. Segments sent since then, beyond the
    /// congestion window, were sent by limited transmit. After a fast recovery, more than the window can be in
    /// flight without it.
    fn counted(&self) -> L::Word {
        self.flight_before.max(self.cwnd)
    }
}

impl Protocol for NewReno {
    const NAME: &'static str = "new_reno";
    const CREDIT: Credit = Credit::Window;
    type State<L: Logic> = NewRenoState<L>;

    fn initial<L: Logic>(&self, first: L::Word) -> Initial<NewRenoState<L>> {
        let state = NewRenoState {
            cwnd: L::word(self.0.initial_window.into()),
            ssthresh: L::word(self.0.initial_ssthresh.into()),
            // RFC 6582, 3.2, step 1: the initial sequence number, which is the one before the first segment.
            recover: first,
            ..NewRenoState::from_words(|_| L::word(0))
        };
        let window_size = self.0.initial_window.into();
        Initial { state, window_size, timer_period: self.0.initial_rto, rate: 0, tokens: 0 }
    }

    #[inline(always)]
    fn incoming<L: Logic>(
        &self,
        input: &Incoming<L>,
        state: &NewRenoState<L>,
    ) -> (Decision<L>, NewRenoState<L>) {
        let (zero, one, three) = (L::word(0), L::word(1), L::word(3));
        let flow = &input.flow;
        let new = flow.window_start.follows(input.old_window_start);
        let outstanding = flow.next_new.follows(flow.window_start);
        let duplicate = input.is_ack & !new & input.cumulative.is(flow.window_start) & outstanding;
        let was_in_recovery = state.in_recovery.is_set();

        let counted = (state.dup_acks + one).min(three);
        let dup_acks = new.choose(zero, duplicate.choose(counted, state.dup_acks));
        // Step 2: the third duplicate, if it covers more than "recover" (section 4: ack - 1 > recover).
        let third = duplicate & state.dup_acks.is(L::word(2));
        let enters = third & !was_in_recovery & flow.window_start.follows(state.recover);
        // Step 3: a full acknowledgment covers all segments up to and including "recover".
        let partial = new & was_in_recovery & state.recover.follows(flow.window_start);
        let full = new & was_in_recovery & !partial;
        let in_recovery = enters | (was_in_recovery & !full);

        let first = duplicate & state.dup_acks.is(zero);
        let ssthresh = enters.choose(self.0.half_flight(flow, state.counted()), state.ssthresh);
        let (grown, count) = self.0.grown::<L>(state.cwnd, ssthresh, state.acked_count, input.newly_acked);
        let exit = ssthresh.min(flow.in_flight().max(one) + one);
        // Partial: deflate by the acknowledged segments and add one segment back, but keep at least one segment.
        let acked = flow.window_start.offset_from(input.old_window_start);
        let deflated = state.cwnd.below(acked + one).choose(one, state.cwnd + one - acked);
        let on_new = partial.choose(deflated, full.choose(exit, grown));
        let inflated = (duplicate & was_in_recovery).choose(state.cwnd + one, state.cwnd);
        let cwnd = new.choose(on_new, enters.choose(ssthresh + three, inflated));
        let limited_transmit = in_recovery.choose(zero, dup_acks.min(L::word(2)));

        let round_trip = RoundTrip { smoothed: state.smoothed_rtt, variation: state.rtt_variation };
        let (sampled, timeout) = round_trip.sampled(input, &self.0);
        let had_partial = state.had_partial.is_set();
        let next = NewRenoState {
            cwnd,
            ssthresh,
            acked_count: (new & !was_in_recovery).choose(count, state.acked_count),
            dup_acks,
            flight_before: first.choose(flow.in_flight(), state.flight_before),
            in_recovery: in_recovery.word(),
            had_partial: (in_recovery & (partial | had_partial)).word(),
            timed_out: (state.timed_out.is_set() & !new).word(),
            recover: enters.choose(flow.next_new, state.recover),
            smoothed_rtt: new.choose(sampled.smoothed, state.smoothed_rtt),
            rtt_variation: new.choose(sampled.variation, state.rtt_variation),
        };
        let decision = Decision {
            mark: enters | partial,
            mark_to: flow.window_start.segments_on(one),
            window_size: (cwnd + limited_transmit).min(L::word(self.0.max_window.into())),
            timer_period: new.choose(timeout, flow.timer_period),
            // Step 3: in fast recovery only the first partial acknowledgment restarts the timer.
            reset_timer: new & !(partial & had_partial),
            ..Decision::keep(flow)
        };
        (decision, next)
    }

    fn periodic<L: Logic>(
        &self,
        input: &Periodic<L>,
        state: &NewRenoState<L>,
    ) -> (Decision<L>, NewRenoState<L>) {
        let (zero, one) = (L::word(0), L::word(1));
        let flow = &input.flow;
        let limited = !state.dup_acks.is(zero) & !state.in_recovery.is_set();
        let halved = self.0.half_flight(flow, limited.choose(state.counted(), flow.in_flight()));
        // Step 4: a timeout ends fast recovery.
        let next = NewRenoState {
            cwnd: one,
            ssthresh: state.timed_out.is_set().choose(state.ssthresh, halved),
            acked_count: zero,
            dup_acks: zero,
            in_recovery: zero,
            had_partial: zero,
            timed_out: one,
            recover: flow.next_new,
            ..*state
        };
        (self.0.at_expiry(input), next)
    }
}
