//! TCP with selective acknowledgment: RFC 6675 on top of RFC 5681 and RFC 6298. All segments have full size, so a
//! segment is lost (IsLost; RFC 6675, 4) if three higher ones were acknowledged selectively: if it is missing
//! below the third highest of these, the frontier.

use crate::logic::{Bitmap, Flag, Logic, UserState, Word};
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol, View};

use super::tcp::{RoundTrip, Tcp};

/// TCP with selective acknowledgment.
#[derive(Clone, Copy, Debug)]
pub struct Sack(pub Tcp);

crate::user_state!(
    /// The state of TCP with selective acknowledgment. Windows are in segments.
    pub struct SackState {
        /// Congestion window.
        cwnd: 16,
        /// Slow start threshold.
        ssthresh: 16,
        /// Segments acknowledged since the window last grew in congestion avoidance.
        acked_count: 16,
        /// Duplicate acknowledgments in a row, up to 3.
        dup_acks: 2,
        /// Set during loss recovery.
        in_recovery: 1,
        /// Set if the rescue retransmission of this loss recovery was made (RescueRxt).
        rescued: 1,
        /// Set if the timer has expired and nothing was acknowledged since.
        timed_out: 1,
        /// One after RecoveryPoint.
        recovery_point: 32,
        /// One after HighRxt.
        high_rxt: 32,
        /// The highest of the three highest segments acknowledged selectively. The one before the window if none.
        highest: 32,
        /// See `highest`.
        second: 32,
        /// See `highest`.
        third: 32,
        /// See RFC 6298.
        smoothed_rtt: 35,
        /// See RFC 6298.
        rtt_variation: 34,
    }
);

/// Returns how many of the `length` segments from `first` on are not acknowledged selectively.
fn missing<L: Logic>(flow: &View<L>, first: L::Word, length: L::Word) -> L::Word {
    length - flow.acked.count(first, length)
}

impl Protocol for Sack {
    const NAME: &'static str = "sack";
    const CREDIT: Credit = Credit::Window;
    type State<L: Logic> = SackState<L>;

    fn initial<L: Logic>(&self, first: L::Word) -> Initial<SackState<L>> {
        let before = (first - L::word(1)).low(32);
        let state = SackState {
            cwnd: L::word(self.0.initial_window.into()),
            ssthresh: L::word(self.0.initial_ssthresh.into()),
            recovery_point: first,
            high_rxt: first,
            highest: before,
            second: before,
            third: before,
            ..SackState::from_words(|_| L::word(0))
        };
        let window_size = self.0.initial_window.into();
        Initial { state, window_size, timer_period: self.0.initial_rto, rate: 0, tokens: 0 }
    }

    #[inline(always)]
    fn incoming<L: Logic>(&self, input: &Incoming<L>, state: &SackState<L>) -> (Decision<L>, SackState<L>) {
        let (zero, one, three) = (L::word(0), L::word(1), L::word(3));
        let max_window = L::word(self.0.max_window.into());
        let flow = &input.flow;
        let (start, next_new) = (flow.window_start, flow.next_new);
        let new = start.follows(input.old_window_start);
        let duplicate = !new & input.newly_selective;
        let counted = (state.dup_acks + one).min(three);
        let dup_acks = new.choose(zero, duplicate.choose(counted, state.dup_acks));

        // The three highest segments, with the new one inserted.
        let before = (start - one).low(32);
        let held = [state.highest, state.second, state.third].map(|held| held.later_segment(before));
        let found = input.newly_selective.choose(input.selective, before);
        let above = |i: usize| found.follows(held[i]);
        let highest = above(0).choose(found, held[0]);
        let second = above(0).choose(held[0], above(1).choose(found, held[1]));
        let third = above(1).choose(held[1], above(2).choose(found, held[2]));
        // All missing segments before the frontier are lost.
        let frontier = third.is(before).choose(start, third);

        // Loss recovery begins only after the recovery point of the previous one, or of a timeout, is passed.
        let passed = !state.recovery_point.follows(start);
        let lost = dup_acks.is(three) | frontier.follows(start);
        let enters = duplicate & lost & passed;
        let in_recovery = enters | (state.in_recovery.is_set() & !passed);

        // HighData counts the segments that the window has allowed, even if they are not generated yet.
        let let_out = input.old_window_start.segments_on(flow.window_size).later_segment(next_new);
        let let_out = let_out.offset_from(next_new).min(flow.data_left);
        let high_data = next_new.segments_on(let_out);
        let halved = self.0.half_flight(flow, state.cwnd);
        let (grown, count) =
            self.0.grown::<L>(state.cwnd, state.ssthresh, state.acked_count, input.newly_acked);
        let grows = new & !in_recovery & !state.in_recovery.is_set();
        let cwnd = enters.choose(halved, grows.choose(grown, state.cwnd));

        // SetPipe: segments that are missing and not lost, and segments that are missing and retransmitted.
        let high_rxt = enters.choose(start, state.high_rxt.later_segment(start));
        let flying = missing(flow, frontier, high_data.offset_from(frontier));
        let pipe = flying + missing(flow, start, high_rxt.offset_from(start));
        let may_send = pipe.below(cwnd).choose(cwnd - pipe, zero).max(enters.word());
        // NextSeg (1): lost segments that were not retransmitted, from the first one on, as many as may be sent.
        // If some of these have arrived, the next acknowledgment compensates.
        let end = frontier.later_segment(high_rxt);
        let from = high_rxt.segments_on(flow.acked.first_clear(high_rxt, end.offset_from(high_rxt)));
        let left = end.offset_from(from);
        let run = may_send.min(left);
        let exhausted = run.is(left);
        let rest = exhausted.choose(may_send - missing(flow, from, run), zero);
        // NextSeg (2): new segments, as far as they are available and inside the receiver's window.
        let reach = max_window - high_data.offset_from(start);
        let new_data = rest.min(reach.min(flow.data_left - let_out));
        // NextSeg (3): missing segments below the highest, lost or not.
        let rest = rest - new_data;
        let below = highest.follows(end).choose(highest.offset_from(end), zero);
        let skip = flow.acked.first_clear(end, below);
        let run_3 = rest.is(zero).choose(zero, below.min(skip + rest));
        let to = exhausted.choose(end.segments_on(run_3), from.segments_on(run));
        // NextSeg (4): once per loss recovery, the last missing segment.
        let nothing = left.is(zero) & new_data.is(zero) & (run_3.is(zero) | skip.is(below));
        let rescues = in_recovery & !may_send.is(zero) & nothing & !state.rescued.is_set();
        let last = (next_new - one - flow.acked.last_clear(start, flow.in_flight())).low(32);

        // Outside loss recovery, segments acknowledged selectively have left the network (RFC 6675, 5, step 3).
        // After a timeout this does not apply, because the window then counts retransmissions.
        let arrived = passed.choose(flow.acked.count(start, flow.in_flight()), zero);
        let window = in_recovery.choose(high_data.offset_from(start) + new_data, cwnd + arrived);

        let round_trip = RoundTrip { smoothed: state.smoothed_rtt, variation: state.rtt_variation };
        let (sampled, timeout) = round_trip.sampled(input, &self.0);
        let next = SackState {
            cwnd,
            ssthresh: enters.choose(halved, state.ssthresh),
            acked_count: grows.choose(count, state.acked_count),
            dup_acks,
            in_recovery: in_recovery.word(),
            rescued: (!enters & (rescues | state.rescued.is_set())).word(),
            timed_out: (state.timed_out.is_set() & !new).word(),
            recovery_point: enters.choose(high_data, state.recovery_point.later_segment(start)),
            high_rxt: in_recovery.choose(to, high_rxt),
            highest,
            second,
            third,
            smoothed_rtt: new.choose(sampled.smoothed, state.smoothed_rtt),
            rtt_variation: new.choose(sampled.variation, state.rtt_variation),
        };
        let decision = Decision {
            mark: in_recovery,
            mark_from: rescues.choose(last, from),
            mark_to: rescues.choose(last.segments_on(one), to),
            window_size: window.min(max_window),
            timer_period: new.choose(timeout, flow.timer_period),
            reset_timer: new,
            ..Decision::keep(flow)
        };
        (decision, next)
    }

    fn periodic<L: Logic>(&self, input: &Periodic<L>, state: &SackState<L>) -> (Decision<L>, SackState<L>) {
        let (zero, one) = (L::word(0), L::word(1));
        let flow = &input.flow;
        let halved = self.0.half_flight(flow, state.cwnd);
        // RFC 6675, 5.1: a timeout ends loss recovery. None begins before all segments sent so far are
        // acknowledged.
        let next = SackState {
            cwnd: one,
            ssthresh: state.timed_out.is_set().choose(state.ssthresh, halved),
            acked_count: zero,
            dup_acks: zero,
            in_recovery: zero,
            timed_out: one,
            recovery_point: flow.next_new,
            ..*state
        };
        (self.0.at_expiry(input), next)
    }
}
