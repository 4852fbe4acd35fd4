//! The verbs of Tiercel, the Falcon transport for any Linux machine: connections, memory and completions, for programs that
//! send and receive.
//!
//! A [`Connection`] has async functions for WRITE, READ, SEND, receives and atomics. It can also post work requests and poll for
//! their completions without system calls. A [`CompletionQueue`] collects the completions of several connections, and a program
//! that has nothing to do sleeps on its [`CompletionEvent`]. Each
//! connection has its own congestion control, which can be changed while traffic flows: [`CongestionControl`]. The datapath
//! accesses registered memory, and so do peers if [`Access`] allows it: see [`MemoryRegion`].
//!
//! The XDP programs that move the packets belong to a node, which needs privileges. The crate `tiercel-node` brings one up in
//! this process, and its `Node` opens connections and registers memory. The program `tiercel` brings one up for all programs of
//! the machine, and [`control::Client`] sends it requests.
//!
//! This crate needs nothing of a node but descriptors of its maps, and its control socket. It loads no programs and knows no
//! interfaces. What a node is built from is in [`backend`].
//!
//! An error has its own type where it arises: [`Error`] (opening, changing, registering), [`OperationError`], [`PostError`], and in
//! `tiercel-node` `NodeError` (bringing up a node) and `ConnectError`. Their texts say what to do. A program acts on a variant, or on
//! the [`ErrorKind`] that `kind()` returns for each of them.
//!
//! The types of the core that appear here ([`Cid`], [`RKey`], [`WorkRequest`], [`Completion`], ...) are re-exported: a program
//! needs no other crate of Tiercel.

pub mod backend;
pub mod congestion;
pub mod control;
pub mod quantity;
pub mod status;

mod common;
mod parameters;
mod verbs;

pub use transport_common::connection::Initial;
pub use transport_common::ids::{Cid, Psn, RKey, Rsn, Spi};
pub use transport_common::queues::{Completion, Verb, WorkFlags, WorkRequest};
pub use transport_common::security::RemoteTime;
pub use transport_common::units::Picoseconds;

pub use common::error::{Error, TunnelError};
pub use common::error_kind::ErrorKind;
pub use common::mac::{Mac, MacError};
pub use common::scoped::ScopedAddress;
pub use congestion::{CongestionControl, CongestionParameters};
pub use parameters::cid::CidReservation;
pub use parameters::device::Device;
pub use parameters::open::{ConnectionSecurity, LocalCid, OpenConnection, PLAINTEXT_VERSION, Tuning};
pub use parameters::segmentation::{LARGEST_MTU, LARGEST_SEGMENT};
pub use parameters::tunnel::Tunnel;
pub use parameters::ulp::Ulp;
pub use verbs::completion::{CompletionEvent, CompletionQueue};
pub use verbs::connection::{Connection, Received};
pub use verbs::info::{
    Access, ConnectionInfo, ConnectionState, PathInfo, QueueInfo, ReceiveWindowInfo, RegionInfo,
    TransmitWindowInfo,
};
pub use verbs::nic_time::{Bucket, DelayHistograms, DelayInfo, DelayStats, DelaysInfo};
pub use verbs::operation_error::{OperationError, PostError, describe};
pub use verbs::region::MemoryRegion;
pub use verbs::statistics::ConnectionStatistics;
pub use verbs::transactions::{
    InitiatorState, InitiatorTransaction, TargetState, TargetTransaction, TargetWait, TransactionKind,
    Transactions,
};
