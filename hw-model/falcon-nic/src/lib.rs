//! The Falcon NIC in cycles.
//!
//! Every frame in flight is one run of the datapath that XDP runs, `transport_common::datapath`, as a coroutine. What the
//! datapath asks of its platform - a header, a checksum, a connection, memory - is a visit to a [`Block`]: the run stops,
//! the block serves it in its cycles, and then the platform's function is really called. So the card executes the
//! datapath's own functions at the cycle and in the order in which the hardware would, and the several steps of a run
//! interleave with those of others.
//!
//! - [`Pipeline`] has the blocks and their queues. It does not know what the frames come from: an [`Offer`] brings the
//!   frame and its [`Backend`].
//! - [`LiveFrame`] is a backend over a host's memory, and [`FalconNic`] a whole card over it.
//! - [`Parameters`] are the architect's; each default says where it comes from.
//! - [`Statistics`] say what events take, where they wait, and which block breaks first.
//!
//! A connection is granted to one run at a time, from the end of its lookup to the write-back of its context. What a step
//! did is seen from the connection before and after it ([`StepWork`]) and decides which sub-blocks it visits.

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

pub use backend::{Backend, LiveFrame};
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
