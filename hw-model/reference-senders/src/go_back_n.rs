//! Go-back-N, by which RoCEv2 retransmits.

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
    /// At most `window` segments are in flight; all of them are sent again when nothing was acknowledged for `timeout`.
    #[must_use]
    pub const fn new(window: u64, timeout: Span) -> Self {
        Self { window, timeout, unacknowledged: 0, next: 0, highest: 0, timer: None }
    }

    /// When [`Self::on_timer`] is to be called.
    pub const fn timer(&self) -> Option<Time> {
        self.timer
    }

    /// The window allows a segment.
    pub const fn may_send(&self) -> bool {
        self.next < self.unacknowledged + self.window
    }

    /// Sends the next segment, if the window allows: its number, and whether it was sent before.
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

    /// All segments before `next` have arrived.
    pub fn on_ack(&mut self, now: Time, next: u64) {
        if next > self.unacknowledged && next <= self.highest {
            self.unacknowledged = next;
            self.next = self.next.max(next);
            self.timer = (next < self.highest).then(|| now + self.timeout);
        }
    }

    /// The receiver waits for `next`: back to it.
    pub fn on_nack(&mut self, now: Time, next: u64) {
        if next >= self.unacknowledged && next <= self.highest {
            self.unacknowledged = next;
            self.next = next;
            self.timer = Some(now + self.timeout);
        }
    }

    /// The timer has expired: back to the first segment not acknowledged.
    pub fn on_timer(&mut self, now: Time) {
        if self.timer.is_some_and(|timer| timer <= now) {
            self.next = self.unacknowledged;
            self.timer = None;
        }
    }
}

/// What a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoBackNAnswer {
    /// All before this segment have arrived.
    Ack(u64),
    /// This segment is missing.
    Nack(u64),
}

/// A receiver that keeps nothing out of order.
#[derive(Clone, Debug, Default)]
pub struct GoBackNReceiver {
    next: u64,
    /// The negative acknowledgment for `next` is out.
    nacked: bool,
}

impl GoBackNReceiver {
    /// The segment it waits for.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// A segment has arrived. Only the first one behind a gap is answered.
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
