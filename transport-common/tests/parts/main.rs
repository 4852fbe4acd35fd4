//! The parts of a connection, each built and used alone: what it returns to the step that composes it. The parts
//! whose steps are internal to the crate, initiator and target, have such tests beside them.

mod congestion;
mod packet_delivery;
mod rack;
mod requester;
mod responder;
mod ulp;
