//! A TCP receiver: RFC 5681, 4.2, with the timestamps of RFC 7323.

use std::collections::BTreeSet;

use fabric_model::{Span, Time};

/// An acknowledgment to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpAck {
    /// All segments before this one have arrived.
    pub next: u64,
    /// The timestamp echoed.
    pub echo: u32,
}

/// A receiver of segments of equal size, counted from 0.
#[derive(Clone, Debug)]
pub struct TcpReceiver {
    /// How long an acknowledgment may be delayed; `None`: it is not.
    delay: Option<Span>,
    /// Segments it has room for, from the next one on.
    window: u64,
    next: u64,
    /// What has arrived beyond.
    beyond: BTreeSet<u64>,
    /// TS.Recent.
    echo: u32,
    /// A segment waits to be acknowledged, at the latest then.
    delayed: Option<Time>,
    duplicates: u64,
}

impl TcpReceiver {
    /// Nothing has arrived.
    #[must_use]
    pub const fn new(delay: Option<Span>, window: u64) -> Self {
        let beyond = BTreeSet::new();
        Self { delay, window, next: 0, beyond, echo: 0, delayed: None, duplicates: 0 }
    }

    /// The lowest segment that has not arrived.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Segments that have arrived, each counted once.
    pub fn delivered(&self) -> u64 {
        self.next + self.beyond.len() as u64
    }

    /// Segments that were there already.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// When [`Self::on_timer`] is to be called.
    pub const fn timer(&self) -> Option<Time> {
        self.delayed
    }

    fn acknowledge(&mut self) -> Option<TcpAck> {
        self.delayed = None;
        Some(TcpAck { next: self.next, echo: self.echo })
    }

    /// A segment has arrived that was stamped with `stamp`.
    pub fn on_segment(&mut self, now: Time, segment: u64, stamp: u32) -> Option<TcpAck> {
        if segment >= self.next + self.window {
            return self.acknowledge();
        }
        // RFC 7323, 4.3: that of the segment that fills the lowest hole, or repeats what came before it; while an
        // acknowledgment is delayed, that of the first segment it will acknowledge.
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
            // "At least for every second full-sized segment"; immediately for one that fills a gap.
            _ => self.acknowledge(),
        }
    }

    /// The time of a delayed acknowledgment has come.
    pub fn on_timer(&mut self, now: Time) -> Option<TcpAck> {
        if self.delayed.is_some_and(|due| due <= now) { self.acknowledge() } else { None }
    }
}
