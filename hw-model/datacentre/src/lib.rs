//! Data centres on virtual time: hosts with the very datapath of [`host_nic`], the switches of
//! [`fabric_model`] between them, and flows of RDMA WRITEs.
//!
//! What is modelled beside protocol and fabric is the card: the time a turn of its engine takes, the rate of its
//! wire, the cable to the switch, and a ULP that takes data no faster than it can ([`HostModel`]). There is no randomness
//! but the fabric's; one [`Plan`] has one course, to the bit.
//!
//! ```
//! use datacentre::{DataCentre, FlowPlan, Message, Plan};
//! use fabric_model::{Span, Time, Topology};
//!
//! let mut plan = Plan::new(Topology::star(2), "rate=100Gbps,delay=1us,hops=1".parse()?);
//! plan.flows.push(FlowPlan::new(0, 1, vec![Message { at: Time::ZERO, bytes: 1 << 20 }]));
//! let mut data_centre = DataCentre::new(plan)?;
//! data_centre.run_until(Time::ZERO + Span::from_millis(1));
//! let completed = data_centre.flow(0).completions()[0].expect("a millisecond is ample");
//! assert!(completed > Time::ZERO + Span::from_micros(84), "the bytes alone take that long");
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
