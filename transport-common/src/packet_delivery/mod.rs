//! The packet delivery sublayer (section 9): two sliding windows on both sides, gating, retransmission,
//! acknowledgement generation and processing.
//!
//! [`PacketDelivery`] owns two equal [`Lane`]s (requests and data), the state of acknowledgement generation and
//! the timers of both lanes. [`DeliveryTables`] holds what only a connection with packets in flight needs. A step
//! borrows both as a [`Delivery`]. Packet delivery does not know transactions: it tells what it finds to a
//! [`Context`], or returns it.
//!
//! ```
//! use bytemuck::Zeroable;
//! use transport_common::ids::{Psn, Rsn};
//! use transport_common::packet_delivery::{
//!     self, AckVerdict, Acknowledgement, Context, Delivery, DeliveryTables, Lane, PacketDelivery, PathClock,
//!     PathTimes, Round, TransmitWindow, TxPacket, Window,
//! };
//! use transport_common::units::{FalconTime, Ticks};
//! use transport_common::wire::PacketType;
//!
//! struct Clock;
//!
//! impl PathClock for Clock {
//!     fn rto(&self) -> Ticks {
//!         Ticks(1000)
//!     }
//!
//!     fn times(&self, now: FalconTime) -> PathTimes {
//!         PathTimes { now, min_rtt: Ticks(0), smoothed_rtt: Ticks(0), rto: self.rto() }
//!     }
//! }
//!
//! /// Collects the RSNs of acknowledged packets.
//! struct Owner {
//!     state: PacketDelivery,
//!     tables: Box<DeliveryTables>,
//!     acknowledged: Vec<u32>,
//! }
//!
//! impl Context for Owner {
//!     type Clock = Clock;
//!
//!     fn delivery(&mut self) -> (Delivery<'_>, &Clock) {
//!         (Delivery { state: &mut self.state, tables: &mut self.tables }, &Clock)
//!     }
//!
//!     fn acknowledged(&mut self, packet: TxPacket) {
//!         self.acknowledged.push(packet.rsn.0);
//!     }
//! }
//!
//! let lane = Lane { tx: TransmitWindow::new(Psn(300), 128), ..Lane::default() };
//! let state = PacketDelivery { lanes: [lane; 2], ..PacketDelivery::default() };
//! let mut owner = Owner { state, tables: Box::new(DeliveryTables::zeroed()), acknowledged: Vec::new() };
//! let packet = TxPacket { rsn: Rsn(7), kind: PacketType::PushData, ..TxPacket::default() };
//! let sent = owner.delivery().0.send(packet, &Clock, FalconTime(50));
//! assert_eq!(sent, (Window::Data, Psn(300)));
//!
//! let ack = Acknowledgement { data_base: Psn(301), request_base: Psn(300), ..Acknowledgement::default() };
//! let round = Round { now: FalconTime(90), rtt: Ticks(40) };
//! assert_eq!(packet_delivery::acknowledge(&mut owner, &ack, round), AckVerdict::Applied);
//! assert_eq!(owner.acknowledged, [7]);
//! assert_eq!(packet_delivery::acknowledge(&mut owner, &ack, round), AckVerdict::Known);
//! ```

mod ack_policy;
mod ack_state;
mod acknowledgement;
mod context;
mod rack;
mod receive_window;
mod retransmission;
mod transmit_window;

use crate::ids::Psn;
use crate::units::{Deadline, FalconTime, Ticks};
use bytemuck::{AnyBitPattern, CheckedBitPattern, NoUninit, Pod, Zeroable};

pub use ack_state::{AckState, NackState, PathReport};
pub use acknowledgement::{AckVerdict, Acknowledgement, NackReport, NackVerdict};
pub use context::{
    Context, Explicit, Found, PathClock, Round, acknowledge, acknowledge_explicit, acknowledge_lane,
};
pub use rack::{Latest, PathTimes, Probe, Rack};
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

/// What packet delivery keeps beside the context: only a connection with packets in flight needs it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Zeroable)]
pub struct DeliveryTables {
    /// Outstanding packets of both windows.
    pub packets: PacketTables,
    /// RACK-TLP.
    pub rack: Rack,
    /// NACK generation.
    pub nack: NackState,
}

/// The bytes of a [`DeliveryTables`] in a file. Any bytes are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, Zeroable)]
pub struct DeliveryTablesBits {
    packets: [[<TxPacket as CheckedBitPattern>::Bits; PACKETS]; 2],
    rack: <Rack as CheckedBitPattern>::Bits,
    nack: NackState,
}

// bytemuck derives nothing for arrays of types that are not `Pod`.

// SAFETY: no field has padding. The assertion proves that there is none between the fields.
unsafe impl NoUninit for DeliveryTables {}
// SAFETY: all fields take any bytes.
unsafe impl AnyBitPattern for DeliveryTablesBits {}
// SAFETY: both types have the same layout, field by field. A value is valid if its fields with invalid values are
// valid.
unsafe impl CheckedBitPattern for DeliveryTables {
    type Bits = DeliveryTablesBits;

    fn is_valid_bit_pattern(bits: &DeliveryTablesBits) -> bool {
        bits.packets.as_flattened().iter().all(TxPacket::is_valid_bit_pattern)
            && Rack::is_valid_bit_pattern(&bits.rack)
    }
}

const _: () = {
    let parts = size_of::<PacketTables>() + size_of::<Rack>() + size_of::<NackState>();
    assert!(size_of::<DeliveryTables>() == parts && size_of::<DeliveryTablesBits>() == parts);
};

impl DeliveryTables {
    /// Returns the packet at `psn` of `window`.
    #[inline(always)]
    pub fn packet(&mut self, window: Window, psn: Psn) -> &mut TxPacket {
        packet(&mut self.packets, window, psn)
    }
}

/// Packet delivery of one connection, borrowed for a step: its state in the context and its tables.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// What is in the context.
    pub state: &'a mut PacketDelivery,
    /// What is beside the context.
    pub tables: &'a mut DeliveryTables,
}

/// The part of packet delivery that is in the context.
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

impl Delivery<'_> {
    /// Records a packet that is sent for the first time and assigns its PSN. The gate must be open (F-9.1.3).
    #[inline(always)]
    pub fn send(&mut self, packet: TxPacket, clock: &impl PathClock, now: FalconTime) -> (Window, Psn) {
        let window = packet.window();
        let psn = self.state.lane(window).tx.assign(packet.is_response());
        self.tables.packets[window.index()][transmit_window::packet_index(psn)] = packet;
        self.state.arm_retransmit(now.after(clock.rto()));
        if self.state.has_rack() {
            rack::arm_probe(self.state, &mut self.tables.rack, clock, now);
        }
        (window, psn)
    }
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
    const fn has_rack(&self) -> bool {
        self.tuning.rack_tlp != 0
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
fn packet(packets: &mut PacketTables, window: Window, psn: Psn) -> &mut TxPacket {
    &mut packets[window.index()][transmit_window::packet_index(psn)]
}
