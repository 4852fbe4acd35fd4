//! The retransmission timeout of TCP: RFC 6298.

use fabric_model::Span;

/// Bounds of the timeout. The numbers are sections of RFC 6298.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutBounds {
    /// The timeout before the first measurement (2.1).
    pub initial: Span,
    /// The shortest timeout (2.4).
    pub min: Span,
    /// The longest timeout (2.5).
    pub max: Span,
}

/// The smoothed round-trip time, its variation, and the timeout that follows from them.
#[derive(Clone, Copy, Debug)]
pub struct RetransmissionTimer {
    bounds: TimeoutBounds,
    /// SRTT and RTTVAR, in picoseconds.
    estimate: Option<(u64, u64)>,
    timeout: Span,
}

impl RetransmissionTimer {
    /// Creates a timer without a measurement.
    #[must_use]
    pub const fn new(bounds: TimeoutBounds) -> Self {
        Self { bounds, estimate: None, timeout: bounds.initial }
    }

    /// Returns RTO, the current timeout.
    pub const fn timeout(&self) -> Span {
        self.timeout
    }

    /// Returns SRTT, or `None` before the first measurement.
    pub fn smoothed(&self) -> Option<Span> {
        self.estimate.map(|(smoothed, _)| Span(smoothed))
    }

    /// Takes in the measurement of a round trip (2.2, 2.3). `alpha` is 1/8, `beta` is 1/4, K is 4. The clock's
    /// granularity G is one picosecond.
    pub fn measured(&mut self, sample: Span) {
        let sample = sample.0;
        let (smoothed, variation) = match self.estimate {
            None => (sample, sample / 2),
            // The variation uses the former SRTT.
            Some((smoothed, variation)) => {
                ((7 * smoothed + sample) / 8, (3 * variation + smoothed.abs_diff(sample)) / 4)
            }
        };
        self.estimate = Some((smoothed, variation));
        let timeout = Span(smoothed) + Span((4 * variation).max(1));
        self.timeout = timeout.max(self.bounds.min).min(self.bounds.max);
    }

    /// Doubles the timeout, because the timer has expired (5.5).
    pub fn back_off(&mut self) {
        self.timeout = Span(self.timeout.0.saturating_mul(2)).min(self.bounds.max);
    }
}
