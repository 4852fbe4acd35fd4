//! Tonic end to end: hosts with a Tonic each on the packet-level fabric of [`fabric_model`], and beside them the
//! same hosts with the senders of [`reference_senders`], which share nothing with the cycles.
//!
//! As section 6.2 of the Tonic paper has it, hosts are joined by cables of one rate to one switch, and what receives
//! is the same for both kinds of senders. A cable is a quarter of the round-trip time long; frames take their time at
//! the cable's rate twice, on the way to the switch and behind its queue.
//!
//! A segment's frame is as long as the segment is said to be: its 58 bytes of headers and fields are part of it.

mod alarms;
mod drops;
pub mod experiments;
pub mod frame;
mod nic;
mod receiving;
mod reference;
pub mod scenario;
mod sender;
#[cfg(test)]
mod tests;
mod uplink;
mod world;

pub use drops::{BadLine, DropPattern};
pub use nic::{FlowPlan, Look, TonicNic, Visible};
pub use receiving::{Arrived, Receiving, RoceReceiving, TcpReceiving, TonicReceiving};
pub use reference::{DcqcnHost, NewRenoHost};
pub use sender::{Loss, LossKind, Sender, SenderLog};
pub use uplink::Uplink;
pub use world::{Cabling, NetworkError, TonicNetwork};
