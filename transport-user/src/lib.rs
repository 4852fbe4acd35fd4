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
pub mod programs;
pub mod quantity;
pub mod rate_update;

mod attached;
mod bound_program;
mod bpf_log;
mod cid;
mod closing;
mod completion;
mod connection;
mod connections;
mod engine;
mod error;
mod ethtool;
mod files;
mod grace;
#[cfg(test)]
mod grace_order_tests;
mod gro;
mod info;
mod interrupt;
mod kernel;
mod link;
mod loader;
mod mac;
mod maps;
mod memory;
mod mutex;
mod netdev;
mod netlink;
mod nic_time;
mod node;
mod open_files;
mod operation_error;
mod own_address;
mod parameters;
mod poller;
mod queue_pair;
mod receive_queues;
mod receive_timestamps;
mod refusal;
mod region;
mod scoped;
mod scratch;
mod segmentation;
mod shared;
mod statistics;
mod telemetry;
mod trace;
mod transactions;
mod transmit;
mod tunnel;
mod watch;

pub use transport_common::connection::Initial;
pub use transport_common::ids::{Cid, Psn, RKey, Rsn, Spi};
pub use transport_common::queues::{Completion, Verb, WorkFlags, WorkRequest};
pub use transport_common::security::RemoteTime;
pub use transport_common::units::Picoseconds;

pub use attached::has_no_node;
pub use cid::CidReservation;
pub use completion::CompletionQueue;
pub use congestion::{CongestionControl, CongestionParameters};
pub use connection::{Connection, Received};
pub use engine::{EngineMode, EngineOptions, EngineState, EngineStatus};
pub use error::Error;
pub use info::{
    Access, ConnectionInfo, ConnectionState, Device, PathInfo, QueueInfo, ReceiveWindowInfo, RegionInfo,
    TransmitWindowInfo,
};
pub use loader::AttachMode;
pub use mac::{Mac, MacError};
pub use nic_time::{Bucket, DelayHistograms, DelayInfo, DelayStats, DelaysInfo};
pub use node::{NATIVE_MTU, Node, NodeOptions};
pub use operation_error::{OperationError, PostError, describe};
pub use parameters::{ConnectionSecurity, LocalCid, OpenConnection, PLAINTEXT_VERSION, Tuning, Ulp};
pub use receive_timestamps::{CardClock, ReceiveTimestamps, StampedPackets, TimestampSource};
pub use region::MemoryRegion;
pub use scoped::ScopedAddress;
pub use segmentation::{LARGEST_MTU, LARGEST_SEGMENT};
pub use statistics::ConnectionStatistics;
pub use telemetry::{NodeStats, Pools};
pub use trace::{TraceOptions, TraceReport, Tracing};
pub use transactions::{
    InitiatorState, InitiatorTransaction, TargetState, TargetTransaction, TargetWait, TransactionKind,
    Transactions,
};
pub use transmit::Transmit;
pub use tunnel::Tunnel;
pub use watch::Lost;
