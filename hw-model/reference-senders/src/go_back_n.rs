//! Go-back-N, the retransmission scheme of RoCEv2.

use fabric_model::{Span, Time};

/// A sender with endless data. Segments count from 0.
#[derive(Clone, Debug)]
pub struct GoBackNSender {
    window: u64,
    timeout: Span,
    unacknowledged: u64,
    next: u64,
    highest: u64,
    timer: Option<Time>,
}

impl GoBackNSender {
    /// Creates a sender with at most `window` segments in flight. It sends all of them again if nothing was
    /// acknowledged for `timeout`.
    #[must_use]
    pub const fn new(window: u64, timeout: Span) -> Self {
        Self { window, timeout, unacknowledged: 0, next: 0, highest: 0, timer: None }
    }

    /// Returns when the caller must call [`Self::on_timer`].
    pub const fn timer(&self) -> Option<Time> {
        self.timer
    }

    /// Returns true if the window allows another segment.
    pub const fn may_send(&self) -> bool {
        self.next < self.unacknowledged + self.window
    }

    /// Sends the next segment, if the window allows it. Returns its number, and whether it was sent before.
    pub fn transmit(&mut self, now: Time) -> Option<(u64, bool)> {
        if !self.may_send() {
            return None;
        }
        let segment = self.next;
        self.next += 1;
        let retransmission = segment < self.highest;
        self.highest = self.highest.max(self.next);
        self.timer.get_or_insert(now + self.timeout);
        Some((segment, retransmission))
    }

    /// Handles an acknowledgment: all segments before `next` have arrived.
    pub fn on_ack(&mut self, now: Time, next: u64) {
        if next > self.unacknowledged && next <= self.highest {
            self.unacknowledged = next;
            self.next = self.next.max(next);
            self.timer = (next < self.highest).then(|| now + self.timeout);
        }
    }

    /// Handles a negative acknowledgment: the receiver waits for `next`, and the sender goes back to it.
    pub fn on_nack(&mut self, now: Time, next: u64) {
        if next >= self.unacknowledged && next <= self.highest {
            self.unacknowledged = next;
            self.next = next;
            self.timer = Some(now + self.timeout);
        }
    }

    /// Handles the timer. If it has expired, the sender goes back to the first segment that is not acknowledged.
    pub fn on_timer(&mut self, now: Time) {
        if self.timer.is_some_and(|timer| timer <= now) {
            self.next = self.unacknowledged;
            self.timer = None;
        }
    }
}

/// The answer of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoBackNAnswer {
    /// All segments before this one have arrived.
    Ack(u64),
    /// This segment is missing.
    Nack(u64),
}

/// A receiver that discards segments that arrive out of order.
#[derive(Clone, Debug, Default)]
pub struct GoBackNReceiver {
    next: u64,
    /// True if the negative acknowledgment for `next` was sent.
    nacked: bool,
}

impl GoBackNReceiver {
    /// Returns the segment that the receiver waits for.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Handles a segment that has arrived. After a gap, only the first segment is answered.
    pub fn on_segment(&mut self, segment: u64) -> Option<GoBackNAnswer> {
        if segment > self.next {
            let answers = !self.nacked;
            self.nacked = true;
            return answers.then_some(GoBackNAnswer::Nack(self.next));
        }
        if segment == self.next {
            self.next += 1;
            self.nacked = false;
        }
        Some(GoBackNAnswer::Ack(self.next))
    }
}
