//! The transaction sublayer (section 8), tested through the steps of a connection: initiator, target, resources,
//! errors.

mod block;
mod errors;
mod flows;
#[path = "../packet_delivery/harness/mod.rs"]
mod harness;
mod initiator;
mod liveness;
mod memory;
mod order;
mod resync;
mod rnr;
mod send;
