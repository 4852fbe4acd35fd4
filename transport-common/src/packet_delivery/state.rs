//! What packet delivery keeps in the context of a connection.

use super::{AckState, ReceiveWindow, TransmitWindow, Window};
use crate::units::{Deadline, FalconTime, Ticks};
use bytemuck::{Pod, Zeroable};

/// Values that are fixed at setup.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Tuning {
    /// Coalescing time of acknowledgements.
    pub ack_coalescing: Ticks,
    /// Every packet carries AR while fcwnd is at or below this many packets (F-9.1.3.1-2).
    pub ack_request_threshold: u32,
    /// Percent of packets that carry AR while fcwnd is above the threshold (F-9.1.3.1-2).
    pub ack_request_percent: u32,
    /// Out-of-order distance of early retransmission (F-9.1.4-1).
    pub ooo_threshold: u32,
    /// Timeout retransmissions before a Resync. Also the retransmissions of the Resync before the connection fails
    /// (D-46).
    pub max_retransmit_attempts: u32,
    /// 1: retransmissions keep the order of RSNs across the windows (F-9.1.5-3).
    pub ordered: u16,
    /// 1: the RACK-TLP extension is on (F-9.1.6-9).
    pub rack_tlp: u16,
}

/// Both sides of one window.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Lane {
    /// Transmit side.
    pub tx: TransmitWindow,
    /// Receive side.
    pub rx: ReceiveWindow,
}

/// The part of packet delivery that is in the context. The [module](super) shows by an example how a packet is sent and
/// acknowledged.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PacketDelivery {
    /// Both windows, indexed by [`Window`].
    pub lanes: [Lane; 2],
    /// Acknowledgement generation.
    pub ack: AckState,
    /// No packet times out before this time. It is a lower bound.
    pub retransmit: Deadline,
    /// Values fixed at setup.
    pub tuning: Tuning,
}

impl PacketDelivery {
    /// Returns one window.
    #[inline(always)]
    pub fn lane(&mut self, window: Window) -> &mut Lane {
        &mut self.lanes[window.index()]
    }

    /// Returns the data window for writing.
    #[inline(always)]
    pub const fn data_mut(&mut self) -> &mut Lane {
        &mut self.lanes[Window::Data as usize]
    }

    /// Returns the request window for writing.
    #[inline(always)]
    pub const fn request_mut(&mut self) -> &mut Lane {
        &mut self.lanes[Window::Request as usize]
    }

    /// Returns the data window.
    #[inline(always)]
    pub const fn data(&self) -> &Lane {
        &self.lanes[Window::Data as usize]
    }

    /// Returns the request window.
    #[inline(always)]
    pub const fn request(&self) -> &Lane {
        &self.lanes[Window::Request as usize]
    }

    /// Returns whether packets wait for retransmission, if the gate lets them pass.
    #[inline(always)]
    pub fn has_retransmissions(&self) -> bool {
        !self.data().tx.retransmit.or(self.request().tx.retransmit).is_zero()
    }

    /// Returns whether the RACK-TLP extension is on.
    #[inline(always)]
    pub(super) const fn has_rack(&self) -> bool {
        self.tuning.rack_tlp != 0
    }

    /// Moves the retransmission timer to `deadline` if that is earlier.
    #[inline(always)]
    pub(super) fn arm_retransmit(&mut self, deadline: FalconTime) {
        if !self.retransmit.is_due_after(deadline) {
            return;
        }
        self.retransmit = Deadline::at(deadline);
    }

    /// Applies a new retransmission timeout to timers that already run (F-10.6.2.1-8, D-69).
    #[inline(always)]
    pub fn timeout_changed(&mut self, old: Ticks, new: Ticks) {
        if new < old
            && let Some(at) = self.retransmit.time()
        {
            // The deadline is a lower bound for all packets. The deadline of each packet moves by the same
            // difference.
            self.retransmit = Deadline::at(FalconTime(at.0.wrapping_sub(old.0 - new.0)));
        }
    }
}
