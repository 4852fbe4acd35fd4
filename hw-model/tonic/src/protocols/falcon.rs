//! Falcon's packet delivery (section 9) with its fabric window (section 10.3), as far as Tonic's interface allows
//! it.
//!
//! It calls the functions of the datapath. The transmit window finds the packets that the bitmap of acknowledged
//! packets shows to be lost by the out-of-order distance (F-9.1.4-1, D-36). Swift controls the window, the pace
//! and the timeout. The receiver is the datapath's receive window. Its bitmap is in each acknowledgment.
//!
//! Not everything fits. The datapath keeps 16 bytes per packet: when its last copy left, its attempts and more.
//! That is 2048 bytes for 128 packets. Table 4 allows 340 bytes, and the times alone are 512. No user function
//! runs when a segment leaves, so nothing could write the times. This module does the following instead:
//! - The last copy of a packet must be one RTT old before the next is sent (F-9.1.4-2, D-37). This holds for an
//!   original: it left before the packet whose acknowledgment shows its loss. Copies are tracked by rounds. A
//!   round lasts at least one RTT. When the next begins, packets sent again before this round (below `round_end`)
//!   may be sent again. So a lost copy is replaced at most one RTT late. User logic does not see how long a copy
//!   waits for credit in the ring of N. By this time, a copy may be younger than an RTT.
//! - There is one timer per flow, not one per packet (F-9.1.5). It expires one RTO after the last progress. Then
//!   all missing packets are sent again.
//! - A timeout has no other effect. When the attempts are exhausted, the datapath ends the connection by a Resync
//!   (D-46). A sender that knows only segments cannot do this. Pull Requests, responses and RNR are transactions,
//!   not segments. So there is one window.

use transport_common::bitmap::Bitmap128;
use transport_common::ids::Psn;
use transport_common::packet_delivery::TransmitWindow;
use transport_common::units::FalconTime;

use crate::logic::{Bitmap, Flag, Logic, Word};
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

use super::fabric_window::{Held, SwiftWindow};

/// The number of packets in the transmit window (F-9.2.1-2).
const WINDOW: u32 = Bitmap128::WIDTH;

/// Falcon.
#[derive(Clone, Copy, Debug)]
pub struct Falcon {
    /// The fabric window.
    pub swift: SwiftWindow,
    /// The out-of-order distance of early retransmission (F-9.1.4-1).
    pub ooo_threshold: u8,
}

crate::user_state!(
    /// The state of Falcon.
    pub struct FalconState {
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
        /// When the round of retransmissions began, in ticks.
        round: 32,
        /// The value of `high_rxt` when the round began.
        round_end: 32,
    }
);

impl<L: Logic> FalconState<L> {
    const fn held(&self) -> Held<L> {
        Held { fcwnd: self.fcwnd, marker: self.marker, delay: self.delay, rtt: self.rtt }
    }
}

impl Falcon {
    /// Returns Falcon with the default of the datapath: an out-of-order distance of 3.
    #[must_use]
    pub const fn new(swift: SwiftWindow) -> Self {
        Self { swift, ooo_threshold: 3 }
    }

    /// The box. Returns the packets to send again (from one offset in the window up to another; equal if there are
    /// none), the new offsets of `high_rxt` and `round_end`, when the round began, and whether the bitmap shows
    /// loss.
    ///
    /// The inputs are the window's length, the bitmaps of acknowledged and of marked packets, the offsets of
    /// `high_rxt` and `round_end`, when the round began, the current cycle and the cycle in which the segment was
    /// sent.
    fn lost(&self, inputs: [u64; 10]) -> [u64; 6] {
        let [length, a0, a1, m0, m1, high, end, round, now, sent] = inputs;
        let acknowledged = Bitmap128::from_words([a0, a1]);
        let window = TransmitWindow {
            next: Psn(length as u32),
            acknowledged,
            retransmit: Bitmap128::from_words([m0, m1]),
            ..TransmitWindow::new(Psn(0), WINDOW)
        };
        let (lost, shown) = window.shown_lost(acknowledged, self.ooo_threshold.into(), 0);
        let shown = shown.into();
        let fresh = lost.and_not(Bitmap128::low_mask(high as u32));
        if !fresh.is_zero() {
            let top = fresh.top().into();
            return [high, top, top, end, round, shown];
        }
        // Compare the age of the round with the round-trip time of this acknowledgment (D-37).
        let rtt = (now.wrapping_sub(sent) & u64::from(u32::MAX)).min(now);
        let (now, since) = (self.swift.ticks(now), self.swift.ticks(now - rtt));
        if since.reached(FalconTime(round as u32)) {
            let again = lost.and(Bitmap128::low_mask(end as u32)).top().into();
            return [0, again, high, high, now.0.into(), shown];
        }
        [0, 0, high, end, round, shown]
    }
}

impl Protocol for Falcon {
    const NAME: &'static str = "falcon";
    const CREDIT: Credit = Credit::Rate;
    type State<L: Logic> = FalconState<L>;

    fn initial<L: Logic>(&self, first: L::Word) -> Initial<FalconState<L>> {
        let Held { fcwnd, marker, delay, rtt } = self.swift.initial::<L>();
        let (timeouts, round) = (L::word(0), L::word(0));
        let state =
            FalconState { fcwnd, marker, delay, rtt, timeouts, high_rxt: first, round, round_end: first };
        let (timer_period, rate) = (self.swift.initial_rto, self.swift.rate);
        Initial { state, window_size: self.swift.initial_window.into(), timer_period, rate, tokens: 0 }
    }

    #[inline(always)]
    fn incoming<L: Logic>(
        &self,
        input: &Incoming<L>,
        state: &FalconState<L>,
    ) -> (Decision<L>, FalconState<L>) {
        let flow = &input.flow;
        let start = flow.window_start;
        let [high, end] =
            [state.high_rxt, state.round_end].map(|segment| segment.later_segment(start).offset_from(start));
        let ([a0, a1], [m0, m1]) = (flow.acked.words_from(start), flow.marked.words_from(start));
        let inputs = [flow.in_flight(), a0, a1, m0, m1, high, end, state.round, flow.now, input.data];
        let [from, to, high_rxt, round_end, round, shown] = L::core(inputs, |inputs| self.lost(inputs));
        let shown = shown.is_set();
        let steered = self.swift.acknowledged(input, &state.held(), shown & input.is_ack);
        let progress = !input.newly_acked.is(L::word(0));
        let next = FalconState {
            fcwnd: steered.held.fcwnd,
            marker: steered.held.marker,
            delay: steered.held.delay,
            rtt: steered.held.rtt,
            timeouts: progress.choose(L::word(0), state.timeouts),
            high_rxt: input.is_ack.choose(start.segments_on(high_rxt), state.high_rxt),
            round: input.is_ack.choose(round, state.round),
            round_end: input.is_ack.choose(start.segments_on(round_end), state.round_end),
        };
        let decision = Decision {
            mark: input.is_ack & from.below(to),
            mark_from: start.segments_on(from),
            mark_to: start.segments_on(to),
            reset_timer: progress,
            ..steered.capped(WINDOW).decision(flow, input.is_ack)
        };
        (decision, next)
    }

    fn periodic<L: Logic>(
        &self,
        input: &Periodic<L>,
        state: &FalconState<L>,
    ) -> (Decision<L>, FalconState<L>) {
        let flow = &input.flow;
        let timeouts = (state.timeouts + L::word(1)).min(L::word(7));
        let steered = self.swift.timed_out(flow.now, &state.held(), timeouts);
        let [now] = L::core([flow.now], |[now]| [self.swift.ticks(now).0.into()]);
        let next = FalconState {
            fcwnd: steered.held.fcwnd,
            marker: steered.held.marker,
            timeouts,
            high_rxt: flow.next_new,
            round: now,
            round_end: flow.next_new,
            ..*state
        };
        let decision = Decision {
            mark: input.timer_expired,
            mark_to: flow.next_new,
            reset_timer: input.timer_expired,
            ..steered.capped(WINDOW).decision(flow, input.timer_expired)
        };
        (decision, next)
    }
}
