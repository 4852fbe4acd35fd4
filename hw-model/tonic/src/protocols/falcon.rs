//! Falcon's packet delivery (section 9) under its fabric window (section 10.3), as far as Tonic's interface carries it.
//!
//! The functions of the datapath are called: the transmit window shows what the acknowledged bitmap tells to be lost
//! by the out-of-order distance (F-9.1.4-1, D-36), Swift steers the window, the pace and the timeout. The receiver is
//! the datapath's receive window; its bitmap is in each acknowledgment.
//!
//! What does not fit. The datapath keeps of each packet when its last copy left, its attempts and more, 16 bytes a
//! packet: 2048 bytes for 128 packets, where table 4 allows 340; the times alone are 512. And no function of the user
//! runs when a segment leaves, so nothing could write them. In their place:
//! - The last copy of a packet must be an RTT old before another is sent (F-9.1.4-2, D-37). An original that is shown to
//!   be lost left before the packet whose acknowledgment shows it, so it is. Copies are remembered by rounds: a round
//!   lasts an RTT at least, and what was sent again before it began, below `round_end`, may be sent again: a lost copy
//!   is followed at most an RTT too late. How long a copy waits for credit in the ring of N is not seen, and by so much
//!   it may be younger than an RTT.
//! - One timer a flow, not one a packet (F-9.1.5): it expires an RTO after the last progress, and all that is missing is
//!   sent again.
//! - A timeout is no more than that: when attempts are exhausted the datapath ends the connection by a Resync (D-46),
//!   which is beyond a sender that knows segments only. Pull Requests, responses and RNR are transactions, not segments:
//!   there is one window.

use transport_common::bitmap::Bitmap128;
use transport_common::ids::Psn;
use transport_common::packet_delivery::TransmitWindow;
use transport_common::units::FalconTime;

use crate::logic::{Bitmap, Flag, Logic, Word};
use crate::protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol};

use super::fabric_window::{Held, SwiftWindow};

/// Packets the transmit window holds (F-9.2.1-2).
const WINDOW: u32 = Bitmap128::WIDTH;

/// Falcon.
#[derive(Clone, Copy, Debug)]
pub struct Falcon {
    /// The fabric window.
    pub swift: SwiftWindow,
    /// Out-of-order distance of early retransmission (F-9.1.4-1).
    pub ooo_threshold: u8,
}

crate::user_state!(
    /// State of Falcon.
    pub struct FalconState {
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
        /// When the round of retransmissions began, ticks.
        round: 32,
        /// What `high_rxt` was then.
        round_end: 32,
    }
);

impl<L: Logic> FalconState<L> {
    const fn held(&self) -> Held<L> {
        Held { fcwnd: self.fcwnd, marker: self.marker, delay: self.delay, rtt: self.rtt }
    }
}

impl Falcon {
    /// The defaults of the datapath: an out-of-order distance of 3.
    #[must_use]
    pub const fn new(swift: SwiftWindow) -> Self {
        Self { swift, ooo_threshold: 3 }
    }

    /// The box: what is to be sent again, from one offset in the window to another, 0 and 0 for nothing; where `high_rxt`
    /// and `round_end` lie then, when the round began, and whether the bitmap shows loss.
    ///
    /// The inputs are the window's length, the bitmaps of what is acknowledged and of what is marked, `high_rxt` and
    /// `round_end` as offsets, when the round began, the cycle at hand and the one in which the segment was sent.
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
        // The age of what was sent again before the round, by the round trip of this acknowledgment (D-37).
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
