//! Data centres on virtual time. The hosts run the real datapath ([`host_nic`]), the switches of [`fabric_model`]
//! are between them, and the flows are RDMA WRITEs.
//!
//! # What it models
//!
//! Protocol and fabric come from the two other crates. This crate adds the card ([`HostModel`]): the time of an
//! engine service (one run of the engine that can produce one frame), the rate of the wire, the cable to the
//! switch, and a ULP with a limited rate ([`SlowUlp`]). [`go_back_n`] is a second, simpler transport for
//! comparison: a card without selective acknowledgement, as in RoCEv2.
//!
//! The only randomness is that of the fabric. One [`Plan`] always gives the same run, bit by bit. The clauses
//! (F-…) and decisions (D-…) in the comments are those of the specification and of the project.
//!
//! # Where to start
//!
//! - [`Plan`] describes a data centre: topology, fabric, hosts and flows.
//! - [`FlowPlan`] and [`Message`] describe what crosses it. [`incast`] and [`permutation`] make usual patterns.
//! - [`Tuning`] holds the connection's windows, timers and congestion control.
//! - [`DataCentre`] runs a plan. [`DataCentre::run_until`] and [`DataCentre::run_to_completion`] advance the time.
//! - [`Flow`], [`Record`] and [`HostStats`] are the results.
//!
//! # Units
//!
//! Time is [`fabric_model::Time`] in picoseconds. The model is event-driven: it has no cycles. Windows are in
//! packets.
//!
//! # Experiments
//!
//! `cargo xtask experiment` runs the experiments that use this crate. They are not part of `tiercel model`.
//! `docs/experiments.md` describes them and their results.
//!
//! # Example
//!
//! ```
//! use datacentre::{DataCentre, FlowPlan, Message, Plan};
//! use fabric_model::{Span, Time, Topology};
//!
//! let mut plan = Plan::new(Topology::star(2), "rate=100Gbps,delay=1us,hops=1".parse()?);
//! plan.flows.push(FlowPlan::new(0, 1, vec![Message { at: Time::ZERO, bytes: 1 << 20 }]));
//! let mut data_centre = DataCentre::new(plan)?;
//! data_centre.run_until(Time::ZERO + Span::from_millis(1));
//! let completed = data_centre.flow(0).completions()[0].expect("complete within a millisecond");
//! assert!(completed > Time::ZERO + Span::from_micros(84), "the bytes alone take longer at 100 Gb/s");
//! # Ok::<(), fabric_model::ConfigError>(())
//! ```

mod address;
mod flow;
pub mod go_back_n;
mod host;
mod plan;
mod record;
mod tap;
#[cfg(test)]
mod tests;
mod traffic;
mod world;

pub use flow::Flow;
pub use host::HostStats;
pub use plan::{FIRST_ENTROPY_PORT, FlowPlan, HostModel, Message, Plan, SlowUlp, Tuning};
pub use record::{FlowSample, PacketDeparture, Record};
pub use traffic::{entropy_ports, incast, permutation};
pub use world::DataCentre;
