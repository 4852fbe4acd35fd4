//! A node of Tiercel, the Falcon transport for any Linux machine: the loader of the XDP programs, the engine thread, the
//! connection manager, and the service behind the control socket. It needs privileges.
//!
//! [`Node::up`] loads the XDP programs, attaches them to an interface and starts the engine thread. A node
//! [registers memory](Node::register) and [opens connections](Node::open). What a program does with them is in the crate
//! [`tiercel`]: [`Connection`](tiercel::Connection), [`MemoryRegion`](tiercel::MemoryRegion),
//! [`CompletionQueue`](tiercel::CompletionQueue).
//!
//! [`connection_manager`] agrees with the nodes of peers on connections, [`config`] reads the node file, and
//! [`control::service`] is a whole node as `tiercel up` runs it.

pub mod config;
pub mod connection_manager;
pub mod control;
#[doc(hidden)]
pub mod fuzz;

mod common;
mod files;
mod node;
mod parameters;

pub use node::engine::{EngineMode, EngineOptions, EngineState, EngineStatus};
pub use node::error::{NextHopError, NodeError, XdpMode};
pub use node::options::{NATIVE_MTU, NodeOptions};
pub use node::receive_timestamps::{CardClock, ReceiveTimestamps, StampedPackets, TimestampSource};
pub use node::trace::{TraceOptions, TraceReport, Tracing};
pub use node::watch::Lost;
pub use node::xdp::attach_mode::AttachMode;
pub use node::xdp::attached::has_no_node;
pub use node::xdp::programs;
pub use node::xdp::transmit::Transmit;
pub use node::{Node, rate_update};
pub use tiercel::status::{NodeStats, Pools};
