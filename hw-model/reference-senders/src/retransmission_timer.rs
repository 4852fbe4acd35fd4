//! The retransmission timeout: RFC 6298.

use fabric_model::Span;

/// Bounds of the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutBounds {
    /// Before the first measurement (2.1).
    pub initial: Span,
    /// At least (2.4).
    pub min: Span,
    /// At most (2.5).
    pub max: Span,
}

/// Smoothed round-trip time, variation, and the timeout that follows from them.
#[derive(Clone, Copy, Debug)]
pub struct RetransmissionTimer {
    bounds: TimeoutBounds,
    /// SRTT and RTTVAR, picoseconds.
    estimate: Option<(u64, u64)>,
    timeout: Span,
}

impl RetransmissionTimer {
    /// Before the first measurement.
    #[must_use]
    pub const fn new(bounds: TimeoutBounds) -> Self {
        Self { bounds, estimate: None, timeout: bounds.initial }
    }

    /// RTO.
    pub const fn timeout(&self) -> Span {
        self.timeout
    }

    /// SRTT; `None` before the first measurement.
    pub fn smoothed(&self) -> Option<Span> {
        self.estimate.map(|(smoothed, _)| Span(smoothed))
    }

    /// A round trip was measured (2.2, 2.3): `alpha` is 1/8, `beta` 1/4, K 4. The clock's granularity G is a
    /// picosecond.
    pub fn measured(&mut self, sample: Span) {
        let sample = sample.0;
        let (smoothed, variation) = match self.estimate {
            None => (sample, sample / 2),
            // The variation first, with the former SRTT.
            Some((smoothed, variation)) => {
                ((7 * smoothed + sample) / 8, (3 * variation + smoothed.abs_diff(sample)) / 4)
            }
        };
        self.estimate = Some((smoothed, variation));
        let timeout = Span(smoothed) + Span((4 * variation).max(1));
        self.timeout = timeout.max(self.bounds.min).min(self.bounds.max);
    }

    /// The timer has expired (5.5): doubled.
    pub fn back_off(&mut self) {
        self.timeout = Span(self.timeout.0.saturating_mul(2)).min(self.bounds.max);
    }
}
