//! Tonic end to end: hosts with one Tonic each on the packet-level fabric of [`fabric_model`]. The same hosts can
//! run the senders of [`reference_senders`] instead, for comparison. These share no code with the model of Tonic.
//!
//! The source is section 6.2 of the Tonic paper (Arashloo et al., NSDI 2020). All hosts are connected to one
//! switch. All cables have the same rate. The receivers are the same for both kinds of senders. The delay of a
//! cable is a quarter of the round-trip time. A frame is transmitted twice at the cable's rate: to the switch, and
//! after the switch's queue.
//!
//! # Units
//!
//! Times are [`fabric_model::Time`] and [`fabric_model::Span`], in whole picoseconds. Tonic's cycle is 10 ns
//! ([`scenario::CLOCK`]). The length of a frame is the configured length of a segment. It includes 58 bytes of
//! headers and fields.
//!
//! # Main types
//!
//! | type | what it is |
//! |---|---|
//! | [`scenario::Scenario`] | the settings of a run; builds and runs a network |
//! | [`TonicNetwork`], [`Cabling`] | the hosts, the switch and the cables |
//! | [`Sender`] | the sending side of a host: [`TonicNic`], [`NewRenoHost`] or [`DcqcnHost`] |
//! | [`Receiving`] | the receiving side: [`TcpReceiving`], [`RoceReceiving`] or [`TonicReceiving`] |
//! | [`SenderLog`] | the events that a sender records |
//! | [`frame`] | the format of the frames |
//! | [`DropPattern`] | the segments that are lost, by their numbers |
//!
//! # Example
//!
//! Two hosts send one NewReno flow each to a third host for 100 us:
//!
//! ```
//! use fabric_model::{Rate, Span};
//! use reference_senders::Dcqcn;
//! use tonic_network::DropPattern;
//! use tonic_network::scenario::{Scenario, Senders};
//!
//! let scenario = Scenario {
//!     hosts: 2,
//!     flows: 1,
//!     rate: Rate::from_bits_per_second(10_000_000_000).expect("the rate is not 0"),
//!     clock_tolerance: 0,
//!     processing: Span::ZERO,
//!     round_trip: Span::from_micros(10),
//!     spread: Span::ZERO,
//!     drops: DropPattern::none(),
//!     red: None,
//!     flow_control: None,
//!     dcqcn: Dcqcn::new(10e9),
//!     outstanding: 16,
//!     watched: None,
//!     seed: 1,
//! };
//! let network = scenario.new_reno(Senders::Tonic)?;
//! let outcome = scenario.run(network, Span::from_micros(100), 1, |_| ());
//! assert!(outcome.delivered.iter().all(|segments| *segments > 0));
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! # Experiments
//!
//! `tiercel model experiment tonic-new-reno tonic-dcqcn` runs two of them. The module [`experiments`] lists all
//! names. `docs/model/tonic-network.md` describes the measured results.

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
