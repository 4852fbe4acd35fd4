//! A TCP receiver: RFC 5681, 4.2, with the timestamps of RFC 7323.

use std::collections::BTreeSet;

use fabric_model::{Span, Time};

/// An acknowledgment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpAck {
    /// All segments before this one have arrived.
    pub next: u64,
    /// The timestamp to echo.
    pub echo: u32,
}

/// A receiver of segments of equal size. Segments count from 0.
#[derive(Clone, Debug)]
pub struct TcpReceiver {
    /// How long an acknowledgment may be delayed. `None` if acknowledgments are not delayed.
    delay: Option<Span>,
    /// The number of segments that the receiver can hold, from the next one on.
    window: u64,
    next: u64,
    /// The segments beyond `next` that have arrived.
    beyond: BTreeSet<u64>,
    /// TS.Recent.
    echo: u32,
    /// If a segment waits for its acknowledgment: the latest time to send it.
    delayed: Option<Time>,
    duplicates: u64,
}

impl TcpReceiver {
    /// Creates a receiver to which nothing has arrived. `delay` is the longest delay of an acknowledgment,
    /// `window` the number of segments that the receiver can hold.
    #[must_use]
    pub const fn new(delay: Option<Span>, window: u64) -> Self {
        let beyond = BTreeSet::new();
        Self { delay, window, next: 0, beyond, echo: 0, delayed: None, duplicates: 0 }
    }

    /// Returns the lowest segment that has not arrived.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of segments that have arrived, each counted once.
    pub fn delivered(&self) -> u64 {
        self.next + self.beyond.len() as u64
    }

    /// Returns the number of segments that arrived again.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns when the caller must call [`Self::on_timer`].
    pub const fn timer(&self) -> Option<Time> {
        self.delayed
    }

    fn acknowledge(&mut self) -> Option<TcpAck> {
        self.delayed = None;
        Some(TcpAck { next: self.next, echo: self.echo })
    }

    /// Handles a segment that has arrived with the timestamp `stamp`. Returns the acknowledgment to send, if any.
    pub fn on_segment(&mut self, now: Time, segment: u64, stamp: u32) -> Option<TcpAck> {
        if segment >= self.next + self.window {
            return self.acknowledge();
        }
        // RFC 7323, 4.3: echo the timestamp of the segment that fills the lowest gap or repeats an earlier one.
        // While an acknowledgment is delayed, keep the timestamp of the first segment that it will acknowledge.
        if segment <= self.next && self.delayed.is_none() {
            self.echo = stamp;
        }
        if segment != self.next {
            let new = segment > self.next && self.beyond.insert(segment);
            self.duplicates += u64::from(!new);
            // "SHOULD be sent immediately when an out-of-order segment arrives".
            return self.acknowledge();
        }
        let filled_gap = !self.beyond.is_empty();
        self.next += 1;
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
        match self.delay {
            Some(delay) if !filled_gap && self.delayed.is_none() => {
                self.delayed = Some(now + delay);
                None
            }
            // "At least for every second full-sized segment"; immediately for a segment that fills a gap.
            _ => self.acknowledge(),
        }
    }

    /// Handles the timer. Returns the delayed acknowledgment if its time has come.
    pub fn on_timer(&mut self, now: Time) -> Option<TcpAck> {
        if self.delayed.is_some_and(|due| due <= now) { self.acknowledge() } else { None }
    }
}
