//! Packet delivery (section 9), tested through the steps of a connection: acknowledgement, gating, retransmission,
//! the checks that a packet has to pass.

mod acceptance;
mod ack_policy;
mod acknowledgement;
mod congestion;
mod early;
mod gating;
mod harness;
mod rack;
mod timeout;
