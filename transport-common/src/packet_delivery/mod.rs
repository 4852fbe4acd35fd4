//! The packet delivery sublayer (section 9): two sliding windows on both sides, gating, retransmission,
//! acknowledgement generation and processing.

mod ack_policy;
mod acknowledgement;
mod receive_window;
mod retransmission;
mod transmit_window;

pub use ack_policy::AckState;
pub(crate) use acknowledgement::ResyncCode;
pub use acknowledgement::{AckVerdict, Acknowledgement, NackReport};
pub use receive_window::{Arrival, ReceiveWindow};
pub use transmit_window::{TransmitWindow, TxPacket, Window, packet_flag};
