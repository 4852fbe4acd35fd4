//! The packet delivery sublayer (section 9): two sliding windows on both sides, gating, retransmission,
//! acknowledgement generation and processing.
//!
//! [`PacketDelivery`] owns two equal [`Lane`]s (requests and data), the state of acknowledgement generation and
//! the timers of both lanes. It does not know transactions. It returns the result for each packet, and the
//! connection's step passes it to the owner of the packet's content.

mod ack_policy;
mod ack_state;
mod acknowledgement;
mod rack;
mod receive_window;
mod retransmission;
mod transmit_window;

use crate::ids::Psn;
use crate::units::{Deadline, FalconTime, Ticks};
use bytemuck::{Pod, Zeroable};

pub use ack_state::{AckState, NackState, PathReport};
pub use acknowledgement::{AckVerdict, Acknowledgement, NackReport, NackVerdict};
pub use rack::{PathTimes, Rack, RackFlags};
pub use receive_window::{Arrival, ReceiveWindow};
pub use retransmission::{Cause, Resend, Retransmission};
pub use transmit_window::{Gate, PACKETS, PacketFlags, TransmitWindow, TxPacket, Window};

/// Largest transmit and receive window for Pull Requests, packets (F-9-1).
pub const REQUEST_WINDOW: u32 = 64;
/// Largest transmit and receive window for Push and Pull Data, packets (F-9-1).
pub const DATA_WINDOW: u32 = 128;

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

/// Outstanding packets of both windows, by [`Window`].
pub type PacketTables = [PacketTable; 2];
/// Outstanding packets of one window, by PSN modulo [`PACKETS`].
pub type PacketTable = [TxPacket; PACKETS];

/// Both sides of one window.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Lane {
    /// Transmit side.
    pub tx: TransmitWindow,
    /// Receive side.
    pub rx: ReceiveWindow,
}

/// Packet delivery of one connection. Its packet tables are stored beside it, because only a connection with
/// packets in flight needs them.
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

    /// Records a packet that is sent for the first time and assigns its PSN. The gate must be open (F-9.1.3).
    #[inline(always)]
    pub fn send(
        &mut self,
        packets: &mut PacketTables,
        packet: TxPacket,
        now: FalconTime,
        rto: Ticks,
    ) -> (Window, Psn) {
        let window = packet.window();
        let psn = self.lane(window).tx.assign(packet.is_response());
        packets[window.index()][transmit_window::packet_index(psn)] = packet;
        self.arm_retransmit(now.after(rto));
        (window, psn)
    }

    /// Moves the retransmission timer to `deadline` if that is earlier.
    #[inline(always)]
    fn arm_retransmit(&mut self, deadline: FalconTime) {
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

/// Returns the packet at `psn` of `window`.
#[inline(always)]
pub fn packet(packets: &mut PacketTables, window: Window, psn: Psn) -> &mut TxPacket {
    &mut packets[window.index()][transmit_window::packet_index(psn)]
}
