//! Tonic: programmable transport logic in hardware, cycle by cycle.
//!
//! After Arashloo, Lavrov, Ghobadi, Rexford, Walker, Wentzlaff, "Enabling Programmable Transport Protocols in
//! High-Speed NICs", NSDI 2020; sections, tables and appendices cited here are that paper's. Every clock cycle
//! Tonic generates the address of the next segment of one of a thousand flows. Two engines share the work: the
//! data delivery engine decides which segment (`delivery`), the credit engine when (`credit`); [`Tonic`] is both.
//!
//! A transport protocol is two bounded functions over a user state of fixed width ([`Protocol`]), written in the
//! arithmetic of [`logic`].
//!
//! Latencies between the stages, and the order in which flows enter the sets, are those measured of the published
//! hardware (`hw-model/tonic/data`). Its departures from the paper are not imitated, except that [`Rules::Published`]
//! asks for those its traces depend on.

mod credit;
mod delivery;
mod engine;
pub mod experiments;
pub mod logic;
mod packet;
mod parameters;
mod protocol;
pub mod protocols;
pub mod published;
mod receiver;
pub mod report;
mod testbed;
#[cfg(test)]
mod tests;
mod trace;

pub use delivery::IncomingRecord;
pub use engine::{FlowError, FlowStatus, Tonic, TonicInput, TonicNext, TonicOutput, user_state_bytes};
pub use packet::{ControlPacket, FlowId, Kind, Segment, SegmentAddress};
pub use parameters::{Frequency, Latencies, MAX_FLOWS, ParameterError, Parameters, RATE_CYCLES, Rules};
pub use protocol::{Credit, Decision, Incoming, Initial, Periodic, Protocol, View};
pub use receiver::{Answer, Arrival, Receiver};
pub use testbed::{Path, Testbed};
