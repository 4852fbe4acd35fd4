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
mod delivery;
mod path_clock;
mod rack;
mod rack_state;
mod receive_window;
mod retransmission;
mod state;
mod tables;
mod transmit_window;
mod window_bits;

pub use ack_state::{AckState, NackState, PathReport};
pub use acknowledgement::{AckVerdict, Acknowledgement, NackReport, NackVerdict};
pub use context::{Context, Explicit, Found, Owner, acknowledge, acknowledge_explicit, acknowledge_lane};
pub use delivery::Delivery;
pub use path_clock::{PathClock, PathTimes, Round};
pub use rack_state::{Latest, Probe, Rack};
pub use receive_window::{Arrival, ReceiveWindow};
pub use retransmission::{Cause, Retransmission};
pub use state::{Lane, PacketDelivery, Tuning};
pub use tables::{DeliveryTables, PacketTable, PacketTables, Resend};
pub(crate) use transmit_window::packet_index;
pub use transmit_window::{Gate, PacketFlags, TransmitWindow, TxPacket, Window};
pub use window_bits::{DATA_WINDOW, PACKETS, REQUEST_WINDOW, WindowBits};
