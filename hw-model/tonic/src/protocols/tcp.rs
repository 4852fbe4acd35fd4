//! What the TCP variants share: configuration, window growth (RFC 5681), retransmission timer (RFC 6298).

use serde::{Deserialize, Serialize};

use crate::logic::{Flag, Logic, Word};
use crate::parameters::Frequency;
use crate::protocol::{Decision, Incoming, Periodic, View};

/// Configuration of a TCP variant. Windows in segments, times in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// Initial window (RFC 5681, 3.1).
    pub initial_window: u16,
    /// Initial slow start threshold.
    pub initial_ssthresh: u16,
    /// The receiver's window: more is never sent.
    pub max_window: u16,
    /// Retransmission timeout before the first measurement, at most 2^47 (RFC 6298, 2.1).
    pub initial_rto: u64,
    /// Lower bound of the timeout (RFC 6298, 2.4).
    pub min_rto: u64,
    /// Upper bound of the timeout (RFC 6298, 2.5), at most 2^47.
    pub max_rto: u64,
}

impl Tcp {
    /// As the paper's experiments have it (section 6.2.1): a minimum timeout of 200 ms, Linux's default.
    #[must_use]
    pub const fn new(clock: Frequency) -> Self {
        Self {
            initial_window: 3,
            initial_ssthresh: u16::MAX,
            max_window: 128,
            initial_rto: clock.cycles(1_000_000_000),
            min_rto: clock.cycles(200_000_000),
            max_rto: clock.cycles(60_000_000_000),
        }
    }

    /// Half of what is in flight, two segments at least (RFC 5681, equation 4). What is in flight beyond `counted` was
    /// sent by limited transmit and does not count.
    pub(super) fn half_flight<L: Logic>(&self, flow: &View<L>, counted: L::Word) -> L::Word {
        (flow.in_flight().min(counted) >> 1).max(L::word(2))
    }

    /// The congestion window and the count of acknowledged segments behind an acknowledgment of `newly_acked`
    /// segments: a segment an acknowledgment in slow start, a segment a window in congestion avoidance
    /// (RFC 5681, 3.1).
    pub(super) fn grown<L: Logic>(
        &self,
        cwnd: L::Word,
        ssthresh: L::Word,
        count: L::Word,
        newly_acked: L::Word,
    ) -> (L::Word, L::Word) {
        let slow_start = cwnd.below(ssthresh);
        let counted = count + newly_acked;
        let full = cwnd.at_most(counted);
        let grown = (slow_start | full).choose(cwnd + L::word(1), cwnd);
        let count = slow_start.choose(count, full.choose(counted - cwnd, counted));
        (grown.min(L::word(self.max_window.into())), count)
    }

    /// The timeout after another expiry: doubled (RFC 6298, 5.5).
    fn backed_off<L: Logic>(&self, period: L::Word) -> L::Word {
        (period << 1).min(L::word(self.max_rto))
    }

    /// At an expiry all that is outstanding is sent again as the window opens, from one segment on.
    pub(super) fn at_expiry<L: Logic>(&self, input: &Periodic<L>) -> Decision<L> {
        let flow = &input.flow;
        Decision {
            mark: input.timer_expired,
            mark_to: flow.next_new,
            window_size: L::word(1),
            timer_period: self.backed_off::<L>(flow.timer_period),
            ..Decision::keep(flow)
        }
    }
}

/// A round-trip time estimate (RFC 6298, 2). The receiver echoes in each acknowledgment the cycle in which the
/// segment was sent, as the timestamps of RFC 7323 do, so that retransmissions are not ambiguous.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip<L: Logic> {
    /// Smoothed round-trip time, eighths of a cycle; 0 before the first measurement.
    pub(super) smoothed: L::Word,
    /// Variation, quarters of a cycle.
    pub(super) variation: L::Word,
}

impl<L: Logic> RoundTrip<L> {
    /// The estimate and the timeout behind an acknowledgment.
    pub(super) fn sampled(&self, input: &Incoming<L>, tcp: &Tcp) -> (Self, L::Word) {
        let sample = (input.flow.now - input.data).low(32);
        let first = self.smoothed.is(L::word(0));
        let old = self.smoothed >> 3;
        let late = old.below(sample);
        let deviation = late.choose(sample - old, old - sample);
        let smoothed = first.choose(sample << 3, self.smoothed - old + sample);
        let variation = first.choose(sample << 1, self.variation - (self.variation >> 2) + deviation);
        let timeout = ((smoothed >> 3) + variation.max(L::word(1))).max(L::word(tcp.min_rto));
        (Self { smoothed, variation }, timeout.min(L::word(tcp.max_rto)))
    }
}
