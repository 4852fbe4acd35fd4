//! The user-space part of Tiercel: the loader, the engine thread, the connection manager, the verbs API and the
//! program `tiercel`.
//!
//! [`Node::up`] loads the XDP programs, attaches them to an interface and starts the engine thread. A node
//! [registers memory](Node::register) and [opens connections](Node::open). A [`Connection`] has async functions
//! for WRITE, READ, SEND, receives and atomics. It can also post work requests and poll for their completions
//! without system calls. A [`CompletionQueue`] collects the completions of several connections. Each connection
//! has its own congestion control, which can be changed while traffic flows: [`CongestionControl`].
//!
//! The types of the core that appear here ([`Cid`], [`RKey`], [`WorkRequest`], [`Completion`], ...) are
//! re-exported: a program needs no other crate of Tiercel.
//!
//! The datapath accesses registered memory, and so do peers if [`Access`] allows it: see [`MemoryRegion`].

pub mod config;
pub mod congestion;
pub mod connection_manager;
pub mod control;
pub mod decode;
#[doc(hidden)]
pub mod fuzz;
pub mod quantity;

mod common;
mod files;
mod library;
mod node;
mod parameters;

pub use transport_common::connection::Initial;
pub use transport_common::ids::{Cid, Psn, RKey, Rsn, Spi};
pub use transport_common::queues::{Completion, Verb, WorkFlags, WorkRequest};
pub use transport_common::security::RemoteTime;
pub use transport_common::units::Picoseconds;

pub use common::error::Error;
pub use common::mac::{Mac, MacError};
pub use common::scoped::ScopedAddress;
pub use congestion::{CongestionControl, CongestionParameters};
pub use library::completion::CompletionQueue;
pub use library::connection::{Connection, Received};
pub use library::info::{
    Access, ConnectionInfo, ConnectionState, PathInfo, QueueInfo, ReceiveWindowInfo, RegionInfo,
    TransmitWindowInfo,
};
pub use library::nic_time::{Bucket, DelayHistograms, DelayInfo, DelayStats, DelaysInfo};
pub use library::operation_error::{OperationError, PostError, describe};
pub use library::region::MemoryRegion;
pub use library::statistics::ConnectionStatistics;
pub use library::transactions::{
    InitiatorState, InitiatorTransaction, TargetState, TargetTransaction, TargetWait, TransactionKind,
    Transactions,
};
pub use node::engine::{EngineMode, EngineOptions, EngineState, EngineStatus};
pub use node::options::{NATIVE_MTU, NodeOptions};
pub use node::receive_timestamps::{CardClock, ReceiveTimestamps, StampedPackets, TimestampSource};
pub use node::telemetry::{NodeStats, Pools};
pub use node::trace::{TraceOptions, TraceReport, Tracing};
pub use node::watch::Lost;
pub use node::xdp::attach_mode::AttachMode;
pub use node::xdp::attached::has_no_node;
pub use node::xdp::programs;
pub use node::xdp::transmit::Transmit;
pub use node::{Node, rate_update};
pub use parameters::cid::CidReservation;
pub use parameters::device::Device;
pub use parameters::open::{ConnectionSecurity, LocalCid, OpenConnection, PLAINTEXT_VERSION, Tuning};
pub use parameters::segmentation::{LARGEST_MTU, LARGEST_SEGMENT};
pub use parameters::tunnel::Tunnel;
pub use parameters::ulp::Ulp;
