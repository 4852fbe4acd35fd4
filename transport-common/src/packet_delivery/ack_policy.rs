//! When to acknowledge, and with which packet (F-9.1.6); when to ask the peer for it (F-9.1.3.1).

use crate::connection::{Connection, nothing_beyond_bases, timer};
use crate::units::FalconTime;

/// Acknowledgement generation state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckState {
    /// 1: an ACK has to leave at once and could not yet.
    pub pending: u32,
    /// 0.
    pub reserved: u32,
}

impl Connection {
    /// A packet fell into the receive window or was acknowledged by the ULP: the coalescing timer runs
    /// (F-9.1.6-1, F-9.1.1-9).
    #[inline(always)]
    pub(crate) fn coalesce_ack(&mut self, now: FalconTime) {
        if self.timers.armed & timer::COALESCING == 0 {
            self.timers.armed |= timer::COALESCING;
            self.timers.coalescing = now.after(self.config.ack_coalescing).0;
        }
    }

    /// An ACK is due now: asked for (F-9.1.6-2) or the coalescing timer ran out (F-9.1.6-5).
    #[inline(always)]
    pub(crate) fn request_ack(&mut self) {
        self.ack.pending = 1;
    }

    /// Whether an ACK has to leave now.
    #[inline(always)]
    pub(crate) fn ack_is_due(&self, now: FalconTime) -> bool {
        self.ack.pending != 0
            || (self.timers.armed & timer::COALESCING != 0 && now.reached(FalconTime(self.timers.coalescing)))
    }

    /// Whether the ACK has to be an EACK: a bitmap or OWN bit says more than the bases (F-9.1.6-7, D-33).
    #[inline(always)]
    pub(crate) fn needs_eack(&self) -> bool {
        !self.request_rx.received.is_zero()
            || !self.data_rx.acknowledged.is_zero()
            || self.data_rx.received.has_hole()
            || self.request_rx.own != 0
            || self.data_rx.own != 0
    }

    /// An ACK left: the timer stops, and an EACK has carried the OWN bits (F-9.1.1-10, F-9.2.1-3).
    #[inline(always)]
    pub(crate) fn ack_sent(&mut self, eack: bool) {
        self.ack.pending = 0;
        self.timers.armed &= !timer::COALESCING;
        if eack {
            self.request_rx.own = 0;
            self.data_rx.own = 0;
        }
    }

    /// A packet with our bases leaves: it replaces a coalesced ACK if the bases say it all (F-9.1.6-4). An ACK
    /// that was asked for is still sent (D-88).
    #[inline(always)]
    pub(crate) fn bases_piggybacked(&mut self) {
        if nothing_beyond_bases(self) {
            self.timers.armed &= !timer::COALESCING;
        }
    }

    /// Whether a reliable packet asks for an ACK (F-9.1.3.1-2, D-81): always while the fabric window is small,
    /// else a steady fraction. The last request of a burst asks as well (F-9.1.3.1-1), so that nothing waits for
    /// the peer's coalescing timer.
    #[inline(always)]
    pub(crate) fn choose_ack_request(&mut self, last_of_burst: bool) -> bool {
        if self.congestion.fcwnd.packets() <= self.config.ack_request_threshold {
            return true;
        }
        let credit = self.congestion.ack_request_credit + self.config.ack_request_percent as u32;
        if credit >= 100 {
            self.congestion.ack_request_credit = credit - 100;
            return true;
        }
        self.congestion.ack_request_credit = credit;
        last_of_burst
    }
}
