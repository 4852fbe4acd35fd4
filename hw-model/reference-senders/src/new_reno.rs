//! The sender of TCP NewReno: RFC 6582, with congestion control by RFC 5681, limited transmit by RFC 3042 and the
//! timer of RFC 6298.
//!
//! Where the RFCs leave a choice, this sender does the following:
//! - Slow start ends when cwnd reaches ssthresh (RFC 5681, 3.1: when they are equal, both are allowed).
//! - Congestion avoidance counts acknowledged bytes and adds one segment per window (RFC 5681, 3.1, the
//!   recommended way). Fast recovery does not reset the count. A timeout does.
//! - ssthresh is rounded down to whole segments.
//! - A full acknowledgment sets cwnd to the smaller of ssthresh and one segment more than the data in flight
//!   (RFC 6582, 3.2, step 3, option 1, which avoids a burst).
//! - Only the first partial acknowledgment of a fast recovery restarts the timer (step 3: the impatient variant).
//! - "Recover" alone decides about a fast retransmit. None of the heuristics of section 4 is used.

use fabric_model::{Span, Time};

use super::retransmission_timer::{RetransmissionTimer, TimeoutBounds};

/// The configuration of a sender. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewRenoConfig {
    /// SMSS. Every segment has this size.
    pub segment: u64,
    /// IW, the initial window.
    pub initial_window: u64,
    /// The receiver's window.
    pub receive_window: u64,
    /// Bounds of RTO, the retransmission timeout.
    pub timeout: TimeoutBounds,
}

/// A segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The sequence number of its first byte.
    pub sequence: u64,
    /// True if the segment was sent before.
    pub retransmission: bool,
}

/// An event that the sender takes as a sign of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossEvent {
    /// Three duplicate acknowledgments.
    FastRetransmit,
    /// The retransmission timer expired.
    Timeout,
}

/// A sender with endless data. Sequence numbers count bytes from 0.
#[derive(Clone, Debug)]
pub struct NewRenoSender {
    config: NewRenoConfig,
    /// SND.UNA.
    unacknowledged: u64,
    /// SND.NXT. A timeout sets it back.
    next: u64,
    /// One more than the highest byte sent.
    highest: u64,
    cwnd: u64,
    ssthresh: u64,
    /// Bytes acknowledged since cwnd last grew in congestion avoidance.
    acknowledged: u64,
    duplicates: u32,
    /// Bytes sent by limited transmit since the first of the current duplicates.
    limited: u64,
    in_fast_recovery: bool,
    had_partial: bool,
    /// One more than the RFC's "recover".
    recover: u64,
    /// The segment at SND.UNA must be retransmitted, even if the window does not allow it.
    retransmits: bool,
    /// One more than the last byte of the segment that the timer last retransmitted.
    timer_retransmitted: u64,
    estimate: RetransmissionTimer,
    timer: Option<Time>,
}

impl NewRenoSender {
    /// Creates a sender that has sent nothing yet.
    #[must_use]
    pub const fn new(config: NewRenoConfig) -> Self {
        Self {
            config,
            unacknowledged: 0,
            next: 0,
            highest: 0,
            cwnd: config.initial_window,
            // "SHOULD be set arbitrarily high" (RFC 5681, 3.1).
            ssthresh: u64::MAX,
            acknowledged: 0,
            duplicates: 0,
            limited: 0,
            in_fast_recovery: false,
            had_partial: false,
            recover: 0,
            retransmits: false,
            timer_retransmitted: 0,
            estimate: RetransmissionTimer::new(config.timeout),
            timer: None,
        }
    }

    /// Returns the congestion window in bytes. It is inflated during fast recovery.
    pub const fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Returns the slow start threshold in bytes.
    pub const fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Returns SND.UNA: one more than the highest byte acknowledged.
    pub const fn unacknowledged(&self) -> u64 {
        self.unacknowledged
    }

    /// Returns true from the third duplicate acknowledgment to the full acknowledgment.
    pub const fn in_fast_recovery(&self) -> bool {
        self.in_fast_recovery
    }

    /// Returns RTO, the current retransmission timeout.
    pub const fn timeout(&self) -> Span {
        self.estimate.timeout()
    }

    /// Returns when the caller must call [`Self::on_timer`]. `None` if the timer does not run.
    pub const fn timer(&self) -> Option<Time> {
        self.timer
    }

    /// Returns FlightSize: the bytes sent and not yet acknowledged cumulatively.
    const fn flight(&self) -> u64 {
        self.highest - self.unacknowledged
    }

    /// Returns half of FlightSize (RFC 5681, equation 4). "Additional data sent in limited transmit MUST NOT be
    /// included" (3.2, step 2).
    fn half_flight(&self) -> u64 {
        let half = (self.flight() - self.limited) / 2;
        (half - half % self.config.segment).max(2 * self.config.segment)
    }

    fn start_timer(&mut self, now: Time) {
        self.timer = Some(now + self.estimate.timeout());
    }

    /// Returns the next segment to send at `now`. The caller repeats the call until it returns `None`.
    pub fn transmit(&mut self, now: Time) -> Option<Transmission> {
        let segment = self.config.segment;
        let transmission = if self.retransmits {
            self.retransmits = false;
            Transmission { sequence: self.unacknowledged, retransmission: true }
        } else {
            // RFC 3042: each of the first two duplicates allows one segment beyond the window.
            let extra = if self.in_fast_recovery { 0 } else { u64::from(self.duplicates.min(2)) * segment };
            let window = (self.cwnd + extra).min(self.config.receive_window);
            if self.next + segment > self.unacknowledged + window {
                return None;
            }
            let sequence = self.next;
            self.next += segment;
            if self.next > self.unacknowledged + self.cwnd {
                self.limited += segment;
            }
            Transmission { sequence, retransmission: sequence < self.highest }
        };
        self.highest = self.highest.max(self.next);
        // RFC 6298, 5.1.
        if self.timer.is_none() {
            self.start_timer(now);
        }
        Some(transmission)
    }

    /// Handles an acknowledgment of all bytes before `acknowledgment`. `round_trip` is the round-trip time by its
    /// timestamp. Returns the loss that the acknowledgment shows, if any.
    pub fn on_ack(&mut self, now: Time, acknowledgment: u64, round_trip: Option<Span>) -> Option<LossEvent> {
        if acknowledgment > self.highest || acknowledgment < self.unacknowledged {
            return None;
        }
        if acknowledgment == self.unacknowledged {
            return if self.flight() > 0 { self.on_duplicate() } else { None };
        }
        if let Some(round_trip) = round_trip {
            self.estimate.measured(round_trip);
        }
        let bytes = acknowledgment - self.unacknowledged;
        self.unacknowledged = acknowledgment;
        self.next = self.next.max(acknowledgment);
        self.duplicates = 0;
        self.limited = 0;
        self.retransmits = false;
        let is_partial = self.in_fast_recovery && acknowledgment < self.recover;
        let restarts = !(is_partial && self.had_partial);
        if is_partial {
            self.on_partial(bytes);
        } else if self.in_fast_recovery {
            self.in_fast_recovery = false;
            let segment = self.config.segment;
            self.cwnd = self.ssthresh.min(self.flight().max(segment) + segment);
        } else {
            self.grow(bytes);
        }
        // RFC 6298, 5.2 and 5.3.
        if self.flight() == 0 {
            self.timer = None;
        } else if restarts {
            self.start_timer(now);
        }
        None
    }

    /// Handles a duplicate acknowledgment: RFC 6582, 3.2, step 2; RFC 5681, 3.2, steps 2 to 4.
    fn on_duplicate(&mut self) -> Option<LossEvent> {
        if self.in_fast_recovery {
            self.cwnd += self.config.segment;
            return None;
        }
        self.duplicates += 1;
        if self.duplicates != 3 || self.unacknowledged <= self.recover {
            return None;
        }
        self.ssthresh = self.half_flight();
        // From here on the new window includes the segments of limited transmit.
        self.limited = 0;
        self.recover = self.highest;
        self.cwnd = self.ssthresh + 3 * self.config.segment;
        self.in_fast_recovery = true;
        self.had_partial = false;
        self.retransmits = true;
        Some(LossEvent::FastRetransmit)
    }

    /// Handles a partial acknowledgment: RFC 6582, 3.2, step 3, "partial acknowledgments".
    fn on_partial(&mut self, bytes: u64) {
        let segment = self.config.segment;
        self.retransmits = true;
        self.had_partial = true;
        self.cwnd = self.cwnd.saturating_sub(bytes);
        if bytes >= segment {
            self.cwnd += segment;
        }
    }

    /// Grows the congestion window: RFC 5681, 3.1.
    fn grow(&mut self, bytes: u64) {
        let segment = self.config.segment;
        if self.cwnd < self.ssthresh {
            self.cwnd += bytes.min(segment);
        } else {
            self.acknowledged += bytes;
            if self.acknowledged >= self.cwnd {
                self.acknowledged -= self.cwnd;
                self.cwnd += segment;
            }
        }
        self.cwnd = self.cwnd.min(self.config.receive_window);
    }

    /// Handles the timer, if it has expired: RFC 6298, 5.4 to 5.6; RFC 5681, 3.1; RFC 6582, 3.2, step 4.
    pub fn on_timer(&mut self, now: Time) -> Option<LossEvent> {
        if self.timer.is_none_or(|timer| timer > now) {
            return None;
        }
        // "When the given segment has already been retransmitted by way of the retransmission timer at least once,
        // the value of ssthresh is held constant."
        if self.unacknowledged >= self.timer_retransmitted {
            self.ssthresh = self.half_flight();
        }
        self.timer_retransmitted = self.unacknowledged + self.config.segment;
        self.cwnd = self.config.segment;
        self.acknowledged = 0;
        self.duplicates = 0;
        self.limited = 0;
        self.in_fast_recovery = false;
        self.retransmits = false;
        self.recover = self.highest;
        self.next = self.unacknowledged;
        self.estimate.back_off();
        self.timer = None;
        Some(LossEvent::Timeout)
    }
}
