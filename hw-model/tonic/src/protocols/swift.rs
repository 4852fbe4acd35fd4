//! Swift (Kumar et al., "Swift: Delay is simple and effective for congestion control in the datacenter", SIGCOMM 2020)
//! as Falcon has it (section 10.3), with selective acknowledgment.
//!
//! The fixed-point function of the datapath decides the window and, below one segment, the pace. The receiver echoes
//! the cycle in which a segment was sent: the round trip is the delay. A segment is lost when three with higher numbers
//! were acknowledged selectively; it is sent again once, and if that is lost too when the timer expires.

use crate::logic::{Flag, Logic, Word};
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

use super::fabric_window::{Held, SwiftWindow};

/// Swift.
#[derive(Clone, Copy, Debug)]
pub struct Swift(pub SwiftWindow);

crate::user_state!(
    /// State of Swift.
    pub struct SwiftState {
        /// Fabric window, 2^-10 packets.
        fcwnd: 21,
        /// When it may fall again counts from here, ticks.
        marker: 24,
        /// Smoothed delay, ticks.
        delay: 24,
        /// Smoothed round-trip time, ticks.
        rtt: 24,
        /// Timeouts in a row, up to 7.
        timeouts: 3,
        /// One behind the highest segment sent again.
        high_rxt: 32,
        /// The highest segment known to have arrived; one before the window if none is beyond its start.
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
        // All missing segments below the third highest that can have arrived.
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
