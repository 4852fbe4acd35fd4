//! Solicited push: the initiator asks before it sends data (patent, figures 5 and 6).
//!
//! The initiator sends a push request without data. The target grants it when it has space for the data. Only then
//! the initiator sends the data. So many initiators can push to one target without overrunning it.
//!
//! Each request has a request sequence number (RSN). A solicited push also has a solicited sequence number (SSN).
//! Packets have packet sequence numbers (PSN) in a request window and a data window. Grants may arrive in any
//! order. The initiator sends data in RSN order. The target's ULP sees the requests in RSN order, and the
//! initiator's ULP sees the completions in RSN order.
//!
//! [`Initiator`] and [`Target`] are the two ends of a connection. They have no clock and no I/O: they take
//! messages and return messages. The model assumes that the sliding windows below them deliver every packet once.
//! The windows may reorder packets. Falcon has no solicited push. This is the patent's protocol, and the datapath
//! does not use it.
//!
//! Where the patent is silent:
//!
//! - A target grants in SSN order.
//! - The connections of a target share its space ([`GrantPool`]).
//! - A push request is acknowledged when it is received. A pull request and data are acknowledged when the ULP has
//!   acknowledged them.

mod initiator;
mod message;
mod reorder;
mod target;
#[cfg(test)]
mod tests;

pub use initiator::{Completion, Initiator, Request};
pub use message::{Ack, Body, Message, Numbers, Packet, SolicitationError, Ssn, Window};
pub use target::{GrantPool, Target, UlpRequest};
