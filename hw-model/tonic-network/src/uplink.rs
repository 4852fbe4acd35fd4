//! The cable from a host to its switch.

use std::collections::VecDeque;

use fabric_model::{Rate, Span, Time};

/// The cable from a host to its switch. Frames leave one after another at the cable's rate, and arrive after its
/// delay.
#[derive(Debug)]
pub struct Uplink {
    rate: Rate,
    delay: Span,
    free: Time,
    paused: bool,
    /// The frames in flight, with the time at which their last bit reaches the switch.
    under_way: VecDeque<(Time, Vec<u8>)>,
    /// Buffers for reuse.
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

    /// Returns when the last bit of all frames passed to the cable leaves. While the cable is paused, this is
    /// never (`u64::MAX`).
    pub const fn free(&self) -> Time {
        if self.paused { Time(u64::MAX) } else { self.free }
    }

    /// Pauses this end, or lets it continue, as the switch demands. Frames already passed to the cable still
    /// leave, because they are in the port.
    pub(super) fn pause(&mut self, now: Time, pauses: bool) {
        self.paused = pauses;
        self.free = self.free.max(now);
    }

    /// Returns the number of frames passed to the cable.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns a buffer for a frame.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes back the buffer of a frame that is no longer needed.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < 1 << 10 {
            self.spare.push(buffer);
        }
    }

    /// Passes a frame to the cable at `now`. It leaves when the frames before it have left.
    pub fn send(&mut self, now: Time, frame: Vec<u8>) {
        self.free = self.free.max(now) + self.rate.time_of(frame.len() as u64);
        self.frames += 1;
        self.under_way.push_back((self.free + self.delay, frame));
    }

    /// Returns when the next frame reaches the switch.
    pub(super) fn next(&self) -> Option<Time> {
        self.under_way.front().map(|(time, _)| *time)
    }

    /// Removes and returns the next frame, if it reaches the switch before `end`.
    pub(super) fn arrive(&mut self, end: Time) -> Option<(Time, Vec<u8>)> {
        self.under_way.pop_front_if(|(time, _)| *time < end)
    }
}
