//! A cycle-accurate model of Tonic, programmable transport logic for a network card.
//!
//! The source is Arashloo, Lavrov, Ghobadi, Rexford, Walker, Wentzlaff, "Enabling Programmable Transport Protocols
//! in High-Speed NICs", NSDI 2020. All sections, tables and appendices cited in this crate are those of that
//! paper.
//!
//! In every clock cycle Tonic generates the address of the next segment of one of a thousand flows. It has two
//! engines. The data delivery engine (module `delivery`) decides which segment is next. The credit engine (module
//! `credit`) decides when it leaves. [`Tonic`] joins both. Segment data is not modelled.
//!
//! # Units
//!
//! A cycle is one period of Tonic's clock, by default 10 ns ([`Frequency`]). A segment has a fixed size
//! ([`Parameters::segment_bytes`]). Windows count segments. Rates are in bytes per [`RATE_CYCLES`] cycles.
//!
//! # Main types
//!
//! | type | what it is |
//! |---|---|
//! | [`Tonic`], [`TonicInput`], [`TonicOutput`] | the two engines, and their pins in one cycle |
//! | [`Parameters`], [`Rules`], [`Latencies`] | the hardware's parameters |
//! | [`Protocol`] | a transport protocol: two bounded functions over a user state of fixed width |
//! | [`protocols`] | eight protocols, among them TCP NewReno, DCQCN, Swift and Falcon |
//! | [`logic`] | the arithmetic in which a protocol is written |
//! | [`report`] | what a protocol costs in hardware: state, operations, depth |
//! | [`Testbed`], [`Receiver`], [`Path`] | one Tonic with a receiver and a path, for experiments |
//! | [`published`] | the comparison with traces of the published hardware |
//! | [`experiments`] | the experiments of this crate |
//!
//! # Example
//!
//! One NewReno flow sends 100 segments to a receiver:
//!
//! ```
//! use clocked::Cycle;
//! use tonic_model::protocols::{NewReno, Tcp};
//! use tonic_model::{Answer, FlowId, Frequency, Parameters, Path, Receiver, Segment, Testbed, Tonic};
//!
//! let protocol = NewReno(Tcp::new(Frequency::default()));
//! let tonic = Tonic::<_, 2>::new(protocol, &Parameters::default())?;
//! let receiver = Receiver::new(Answer::Cumulative, 1, Segment(0), 1);
//! let mut testbed = Testbed::new(tonic, receiver, Path::default());
//! testbed.tonic_mut().open(Cycle::ZERO, FlowId(0), Segment(0), Some(100))?;
//! testbed.run(Cycle(100_000), |testbed| testbed.receiver().delivered() == 100);
//! assert_eq!((testbed.receiver().delivered(), testbed.transmitted()), (100, 100));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Fidelity
//!
//! The latencies between the stages, and the order in which flows enter the sets, were measured on the published
//! hardware (`hw-model/tonic/data`). Where that hardware departs from the paper, the model follows the paper. With
//! [`Rules::Published`] it follows the departures on which the hardware's traces depend.
//!
//! # Experiments
//!
//! `tiercel model experiment tonic-hardware` compares the model with the published hardware. The module
//! [`experiments`] lists all names. `docs/model/tonic.md` describes the measured results. The crate
//! `tonic_network` connects several Tonics to a network.

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
