//! Swift (Kumar et al., "Swift: Delay is simple and effective for congestion control in the datacenter", SIGCOMM
//! 2020) in Falcon's form (section 10.3), with selective acknowledgment.
//!
//! The fixed-point function of the datapath decides the window and, for a window below one segment, the pace. The
//! receiver echoes the cycle in which a segment was sent, so the delay is the round-trip time. A missing segment
//! counts as lost when a segment at least three higher was acknowledged selectively. It is sent again once. If
//! this copy is lost too, it is sent again when the timer expires.

use crate::logic::{Flag, Logic, Word};
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

use super::fabric_window::{Held, SwiftWindow};

/// Swift.
#[derive(Clone, Copy, Debug)]
pub struct Swift(pub SwiftWindow);

crate::user_state!(
    /// The state of Swift.
    pub struct SwiftState {
        /// Fabric window, in 2^-10 packets.
        fcwnd: 21,
        /// The time from which the wait for the next decrease of the fabric window counts, in ticks.
        marker: 24,
        /// Smoothed delay, in ticks.
        delay: 24,
        /// Smoothed round-trip time, in ticks.
        rtt: 24,
        /// Timeouts in a row, up to 7.
        timeouts: 3,
        /// One after the highest segment sent again.
        high_rxt: 32,
        /// The highest segment known to have arrived. The one before the window if none after its start has
        /// arrived.
        highest: 32,
    }
);

impl<L: Logic> SwiftState<L> {
    const fn held(&self) -> Held<L> {
        Held { fcwnd: self.fcwnd, marker: self.marker, delay: self.delay, rtt: self.rtt }
    }
}

impl Protocol for Swift {
    const NAME: &'static str = "swift";
    const CREDIT: Credit = Credit::Rate;
    type State<L: Logic> = SwiftState<L>;

    fn initial<L: Logic>(&self, first: L::Word) -> Initial<SwiftState<L>> {
        let Held { fcwnd, marker, delay, rtt } = self.0.initial::<L>();
        let highest = (first - L::word(1)).low(32);
        let state = SwiftState { fcwnd, marker, delay, rtt, timeouts: L::word(0), high_rxt: first, highest };
        let window_size = self.0.initial_window.into();
        Initial { state, window_size, timer_period: self.0.initial_rto, rate: self.0.rate, tokens: 0 }
    }

    #[inline(always)]
    fn incoming<L: Logic>(&self, input: &Incoming<L>, state: &SwiftState<L>) -> (Decision<L>, SwiftState<L>) {
        let (zero, one) = (L::word(0), L::word(1));
        let flow = &input.flow;
        let start = flow.window_start;
        let held = state.highest.later_segment((start - one).low(32));
        let highest = input.has_selective.choose(held.later_segment(input.selective), held);
        let from = state.high_rxt.later_segment(start);
        // All missing segments that are at least three below the highest one that has arrived.
        let to = (highest - L::word(2)).low(32);
        let lost = to.follows(from);

        let progress = !input.newly_acked.is(zero);
        let steered = self.0.acknowledged(input, &state.held(), lost);
        let next = SwiftState {
            fcwnd: steered.held.fcwnd,
            marker: steered.held.marker,
            delay: steered.held.delay,
            rtt: steered.held.rtt,
            timeouts: progress.choose(zero, state.timeouts),
            high_rxt: lost.choose(to, from),
            highest,
        };
        let decision = Decision {
            mark: lost,
            mark_from: from,
            mark_to: to,
            reset_timer: progress,
            ..steered.decision(flow, input.is_ack)
        };
        (decision, next)
    }

    fn periodic<L: Logic>(&self, input: &Periodic<L>, state: &SwiftState<L>) -> (Decision<L>, SwiftState<L>) {
        let flow = &input.flow;
        let timeouts = (state.timeouts + L::word(1)).min(L::word(7));
        let steered = self.0.timed_out(flow.now, &state.held(), timeouts);
        let next = SwiftState {
            fcwnd: steered.held.fcwnd,
            marker: steered.held.marker,
            timeouts,
            high_rxt: flow.next_new,
            ..*state
        };
        let decision = Decision {
            mark: input.timer_expired,
            mark_to: flow.next_new,
            reset_timer: input.timer_expired,
            ..steered.decision(flow, input.timer_expired)
        };
        (decision, next)
    }
}
