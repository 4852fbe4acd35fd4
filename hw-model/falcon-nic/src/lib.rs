//! A cycle-accurate model of a Falcon NIC.
//!
//! # What it models
//!
//! The card executes the same datapath as the XDP programs, [`transport_common::datapath`]. Every frame in flight
//! is one run of this datapath, as a coroutine. When the datapath needs something from its platform (a header, a
//! checksum, a connection, memory), the run visits a [`Block`]. The run stops, the block serves it for its cycles,
//! and then the platform's function is called. So each function of the datapath executes at the cycle and in the
//! order in which the hardware would execute it. The steps of one run interleave with those of other runs.
//!
//! There are two kinds of runs ([`Task`]): a received frame, and a turn. A *turn* is one service of the engine:
//! the engine serves one connection, which can send one frame.
//!
//! Only one run at a time has a connection, from the end of its lookup to the write-back of its context. The model
//! compares the connection before and after a step ([`StepWork`]). The difference decides which sub-blocks the run
//! visits.
//!
//! # Sources
//!
//! The decisions come from the datapath, and so from the Falcon specification (clauses F-…, decisions D-…). The
//! block structure and the latencies are those of an architect: each default in [`Parameters`] names its source,
//! or says that it is an assumption. The connection lookup is the cache of EP 4 145 803 A1, [`context_cache`].
//!
//! # Where to start
//!
//! - [`FalconNic`] is a whole card over a host's memory. [`Joined`] connects several cards by a fabric.
//! - [`Pipeline`] has the blocks and their queues. It does not depend on the source of the frames: an [`Offer`]
//!   brings a frame and its [`Backend`]. [`LiveFrame`] is the backend over a host's memory.
//! - [`Parameters`] are the parameters of the card.
//! - [`Statistics`] report the cycles of each [`Event`], where runs wait, and which block saturates first.
//! - [`Making`] and [`Script`] make the decisions of a run in advance. The replay of recorded traces uses them.
//!
//! # Units
//!
//! The model counts clock cycles ([`clocked::Cycle`]). [`Parameters::period`] is the length of a cycle in
//! picoseconds, by default 1000 (1 GHz). Times at the lines are in picoseconds.
//!
//! # Experiments
//!
//! `tiercel model experiment nic-pipeline nic-rate nic-connections` runs the [`experiments`].
//! `docs/model/falcon-nic.md` describes the results.
//!
//! # Example
//!
//! ```
//! use clocked::Cycle;
//! use fabric_model::{Fabric, Port};
//! use falcon_nic::{Event, FalconNic, Joined, Parameters};
//! use host_nic::{HostConfig, testbed};
//! use transport_common::queues::{AccessFlags, Region, Verb, WorkFlags, WorkRequest};
//!
//! let mut fabric = Fabric::new(2, "seed=1,delay=1us".parse()?)?;
//! let mut cards = vec![];
//! for side in 0..2 {
//!     fabric.learn(testbed::mac(side), Port(side as u16));
//!     let card = FalconNic::new(HostConfig::new(testbed::node(side)), Parameters::default())?;
//!     card.host_mut().open(0, &testbed::connection(side, 0));
//!     let region = Region { offset: 0, length: 4096, key: 1, access: AccessFlags::REMOTE_WRITE, ..Region::default() };
//!     card.host_mut().register(region);
//!     cards.push(card);
//! }
//! let mut joined = Joined::new(cards, fabric);
//! let work = WorkRequest {
//!     opcode: Verb::WRITE,
//!     flags: WorkFlags::SIGNALED,
//!     length: 64,
//!     rkey: 1,
//!     ..WorkRequest::default()
//! };
//! joined.card(0).host_mut().post(0, work)?;
//! while joined.step(Cycle(1_000_000)) {}
//! assert!(joined.card(0).host_mut().poll_completion(0).is_some());
//! let statistics = joined.card_mut(1).statistics();
//! assert_eq!(statistics.event(Event::WriteReceived).map(|of| of.count), Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
mod block;
mod card;
mod course;
mod event;
pub mod experiments;
mod joined;
mod lookup;
mod nic;
mod offer;
mod parameters;
mod pipeline;
mod request;
mod run;
mod script;
mod station;
mod statistics;
mod task;
mod testbed;
#[cfg(test)]
mod tests;
mod work;

pub use backend::{Backend, LiveFrame, SharedCard};
pub use block::{Block, Hop};
pub use course::Spares;
pub use event::Event;
pub use joined::Joined;
pub use nic::{FalconNic, Sent};
pub use offer::{Offer, Source};
pub use parameters::{LINE_OVERHEAD, ParameterError, Parameters, wire_bytes};
pub use pipeline::Pipeline;
pub use run::Finished;
pub use script::{Making, Script, Written};
pub use statistics::{BlockStatistics, EventStatistics, Statistics};
pub use task::Task;
pub use work::StepWork;
