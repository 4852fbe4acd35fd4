//! A host's cable to its switch.

use std::collections::VecDeque;

use fabric_model::{Rate, Span, Time};

/// A cable: frames leave one after the other, at its rate, and arrive at the switch after its delay.
#[derive(Debug)]
pub struct Uplink {
    rate: Rate,
    delay: Span,
    free: Time,
    paused: bool,
    /// When each frame's last bit reaches the switch.
    under_way: VecDeque<(Time, Vec<u8>)>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    frames: u64,
}

impl Uplink {
    pub(super) const fn new(rate: Rate, delay: Span) -> Self {
        Self {
            rate,
            delay,
            free: Time::ZERO,
            paused: false,
            under_way: VecDeque::new(),
            spare: Vec::new(),
            frames: 0,
        }
    }

    /// When the last bit of all that was handed over leaves; never, while the cable is paused.
    pub const fn free(&self) -> Time {
        if self.paused { Time(u64::MAX) } else { self.free }
    }

    /// The switch pauses this end, or lets it go on. What was handed over leaves all the same: it is on its way through
    /// the port.
    pub(super) fn pause(&mut self, now: Time, pauses: bool) {
        self.paused = pauses;
        self.free = self.free.max(now);
    }

    /// Frames that left.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// A buffer for a frame.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back the buffer of a frame that is no longer needed.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < 1 << 10 {
            self.spare.push(buffer);
        }
    }

    /// A frame is handed over at `now`: it leaves once those before it have left.
    pub fn send(&mut self, now: Time, frame: Vec<u8>) {
        self.free = self.free.max(now) + self.rate.time_of(frame.len() as u64);
        self.frames += 1;
        self.under_way.push_back((self.free + self.delay, frame));
    }

    /// When the next frame reaches the switch.
    pub(super) fn next(&self) -> Option<Time> {
        self.under_way.front().map(|(time, _)| *time)
    }

    /// The next frame, if it reaches the switch before `end`.
    pub(super) fn arrive(&mut self, end: Time) -> Option<(Time, Vec<u8>)> {
        self.under_way.pop_front_if(|(time, _)| *time < end)
    }
}
