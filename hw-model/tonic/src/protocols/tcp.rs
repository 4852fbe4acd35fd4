//! The common parts of the TCP variants: configuration, window growth (RFC 5681), retransmission timer (RFC 6298).

use serde::{Deserialize, Serialize};

use crate::logic::{Flag, Logic, Word};
use crate::parameters::Frequency;
use crate::protocol::{Decision, Incoming, Periodic, View};

/// The configuration of a TCP variant. Windows are in segments, times in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tcp {
    /// Initial window (RFC 5681, 3.1).
    pub initial_window: u16,
    /// Initial slow start threshold.
    pub initial_ssthresh: u16,
    /// The receiver's window. The sender never sends more.
    pub max_window: u16,
    /// Retransmission timeout before the first measurement, at most 2^47 (RFC 6298, 2.1).
    pub initial_rto: u64,
    /// Lower bound of the timeout (RFC 6298, 2.4).
    pub min_rto: u64,
    /// Upper bound of the timeout (RFC 6298, 2.5), at most 2^47.
    pub max_rto: u64,
}

impl Tcp {
    /// Returns the configuration of the paper's experiments (section 6.2.1): a minimum timeout of 200 ms, the
    /// default of Linux.
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

    /// Returns half of the segments in flight, at least two (RFC 5681, equation 4). Segments in flight beyond
    /// `counted` were sent by limited transmit and do not count.
    pub(super) fn half_flight<L: Logic>(&self, flow: &View<L>, counted: L::Word) -> L::Word {
        (flow.in_flight().min(counted) >> 1).max(L::word(2))
    }

    /// Returns the congestion window and the count of acknowledged segments after an acknowledgment of
    /// `newly_acked` segments. The window grows by one segment per acknowledgment in slow start, and by one
    /// segment per window in congestion avoidance (RFC 5681, 3.1).
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

    /// Returns the timeout after another expiry: it is doubled (RFC 6298, 5.5).
    fn backed_off<L: Logic>(&self, period: L::Word) -> L::Word {
        (period << 1).min(L::word(self.max_rto))
    }

    /// Returns the decision at an expiry: all outstanding segments are marked. They are sent again as the window
    /// grows from one segment.
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

/// A round-trip time estimate (RFC 6298, 2). Each acknowledgment echoes the cycle in which the segment was sent,
/// like the timestamps of RFC 7323. Retransmissions are therefore not ambiguous.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip<L: Logic> {
    /// The smoothed round-trip time, in eighths of a cycle. 0 before the first measurement.
    pub(super) smoothed: L::Word,
    /// The variation, in quarters of a cycle.
    pub(super) variation: L::Word,
}

impl<L: Logic> RoundTrip<L> {
    /// Returns the estimate and the timeout after an acknowledgment.
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
