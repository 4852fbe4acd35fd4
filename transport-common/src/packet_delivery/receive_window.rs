//! Receive side of one sliding window (F-9.2.1): base PSN, received and acknowledged bitmaps.

use super::WindowBits;
use crate::ids::Psn;
use bytemuck::{Pod, Zeroable};

/// Relation of an arriving PSN to the window (F-9.2.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Below the base (F-9.2.2.4-1).
    Old,
    /// At or beyond base + size (F-9.2.2.4-2, D-17).
    Beyond,
    /// In the window and already received (D-21).
    Duplicate,
    /// In the window and new.
    New,
}

/// Receive window. The request window uses the low 64 bits, and its received bitmap equals its acknowledged one
/// (F-9-1).
///
/// ```
/// use transport_common::ids::Psn;
/// use transport_common::packet_delivery::{Arrival, ReceiveWindow};
///
/// let first = Psn(u32::MAX);
/// let mut window = ReceiveWindow::new(first, 128);
/// window.receive(Psn(0)); // a push that its ULP does not have yet
/// assert_eq!(window.classify(Psn(0)), Arrival::Duplicate);
/// assert!(!window.is_acknowledged(Psn(0)));
/// window.acknowledge(Psn(0));
/// assert_eq!(window.base, first, "the base waits for the oldest packet");
/// window.acknowledge(first);
/// assert_eq!(window.base, Psn(1), "it passes everything acknowledged");
/// let seen = [Psn(0), Psn(1), Psn(129)].map(|psn| window.classify(psn));
/// assert_eq!(seen, [Arrival::Old, Arrival::New, Arrival::Beyond]);
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ReceiveWindow {
    /// Oldest PSN not acknowledged (D-20).
    pub base: Psn,
    /// Packets the window holds: 64 or 128.
    pub size: u32,
    /// 1 after a packet beyond the right edge was dropped, until an EACK has reported it (F-9.2.1-3).
    pub own: u32,
    /// Always 0.
    pub reserved: u32,
    /// Bit n: base + n was received.
    pub received: WindowBits,
    /// Bit n: base + n is acknowledged.
    pub acknowledged: WindowBits,
    /// Bit n: base + n is Pull Data that answered one of our pulls. Once the base has passed it, its sender knows
    /// that we have it.
    pub answers: WindowBits,
}

impl ReceiveWindow {
    /// Creates an empty window that starts at `base` (D-18).
    pub const fn new(base: Psn, size: u32) -> Self {
        Self {
            base,
            size,
            own: 0,
            reserved: 0,
            received: WindowBits::ZERO,
            acknowledged: WindowBits::ZERO,
            answers: WindowBits::ZERO,
        }
    }

    /// Classifies `psn` without changing anything.
    #[inline(always)]
    pub fn classify(&self, psn: Psn) -> Arrival {
        if psn.is_before(self.base) {
            return Arrival::Old;
        }
        let offset = psn.distance_from(self.base);
        if offset >= self.size {
            Arrival::Beyond
        } else if self.received.get(offset) {
            Arrival::Duplicate
        } else {
            Arrival::New
        }
    }

    /// Marks an in-window `psn` as received but not acknowledged (Push Data before its ULP has it).
    #[inline(always)]
    pub fn receive(&mut self, psn: Psn) {
        self.received.set(psn.distance_from(self.base));
    }

    /// Marks an in-window `psn` as Pull Data that answered one of our pulls.
    #[inline(always)]
    pub fn mark_answer(&mut self, psn: Psn) {
        self.answers.set(psn.distance_from(self.base));
    }

    /// Marks an in-window `psn` as received and acknowledged, and advances the base past everything acknowledged
    /// (F-9.2.2.4-6, F-9.2.2.4-7). Returns the number of answers that the base passed. Ignores a PSN outside the
    /// window.
    #[inline(always)]
    pub fn acknowledge(&mut self, psn: Psn) -> u32 {
        let offset = psn.distance_from(self.base);
        if offset >= self.size {
            return 0;
        }
        self.received.set(offset);
        self.acknowledged.set(offset);
        if offset != 0 {
            return 0;
        }
        let run = self.acknowledged.trailing_ones();
        let answered = if self.answers.is_zero() {
            0
        } else {
            let passed = self.answers.and(WindowBits::low_mask(run)).count_ones();
            self.answers = self.answers.shift_right(run);
            passed
        };
        self.base = self.base.add(run);
        self.received = self.received.shift_right(run);
        self.acknowledged = self.acknowledged.shift_right(run);
        answered
    }

    /// Returns whether `psn` is acknowledged: below the base, or marked as acknowledged.
    #[inline(always)]
    pub fn is_acknowledged(&self, psn: Psn) -> bool {
        psn.is_before(self.base) || self.acknowledged.get(psn.distance_from(self.base))
    }
}
