//! Solicited push: the option of asking before data is sent (patent, figures 5 and 6).
//!
//! The initiator sends a push request and no data. The target grants it when it has room for the data; only then
//! does the data leave. So many initiators that push to one target do not overrun it. Requests have request
//! sequence numbers (RSN), solicited ones solicited sequence numbers (SSN) besides; packets have sequence numbers
//! (PSN) in a request and a data window. Grants may arrive in any order: data leaves in that of the RSN, the
//! target's ULP sees requests in that order, and so does the initiator's ULP their completions.
//!
//! [`Initiator`] and [`Target`] are the two ends of a connection, without time and without I/O: messages in,
//! messages out. The sliding windows below them are taken to deliver every packet once; they may reorder. Falcon
//! has no solicited push, so this is the patent's protocol and none of the datapath's.
//!
//! Where the patent is silent: a target grants in the order of the SSN; its room is shared by its connections
//! ([`GrantPool`]); a request is acknowledged when it is received, a pull and data when the ULP has acknowledged.

mod initiator;
mod message;
mod reorder;
mod target;
#[cfg(test)]
mod tests;

pub use initiator::{Completion, Initiator, Request};
pub use message::{Ack, Body, Message, Numbers, Packet, SolicitationError, Ssn, Window};
pub use target::{GrantPool, Target, UlpRequest};
