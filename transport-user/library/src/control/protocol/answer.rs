//! The answers. `tiercel --json` prints exactly these fields.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::Display;

use super::hex::Hex;
use super::via::Via;
use crate::parameters::device::Device;
use crate::status::{
    AttachMode, EngineStatus, Event, ManagerStatistics, NodeStats, Pools, RateUpdateStatus,
    ReceiveTimestamps, Reconnecting, SessionInfo, TraceReport, Transmit,
};
use crate::verbs::info::{ConnectionInfo, RegionInfo};
use crate::verbs::operation_error::describe;
use crate::verbs::transactions::Transactions;

/// The configuration and the state of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Name of the node.
    pub name: String,
    /// Release of the node's program.
    pub version: String,
    /// Version of the control protocol.
    pub control_version: u32,
    /// Process ID of the node.
    pub pid: u32,
    /// Seconds since it came up.
    pub uptime_s: u64,
    /// The interface it runs on.
    pub device: Device,
    /// Attach mode of the wire program.
    pub attach: AttachMode,
    /// How frames of the engine leave.
    pub transmit: Transmit,
    /// The engine thread.
    pub engine: EngineStatus,
    /// The connection manager.
    pub connection_manager: ManagerInfo,
    /// Source of the receive timestamps.
    pub receive_timestamps: ReceiveTimestamps,
    /// Directory in which peers store and fetch files, if any.
    pub receive_directory: Option<PathBuf>,
    /// What peers may store there.
    pub receive_limits: Option<ReceiveLimits>,
    /// The trace that is being recorded, if any.
    pub trace: Option<RunningTrace>,
    /// Algorithms that connections may select by name.
    pub algorithms: Vec<String>,
    /// Profiles of the node file.
    pub profiles: Vec<String>,
    /// Use of the pools.
    pub pools: Pools,
    /// The rate update engine in user space.
    pub rate_update: RateUpdateStatus,
    /// The latest events of the connection manager, oldest first.
    pub events: Vec<Event>,
}

/// What peers may store in the receive directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveLimits {
    /// Whether they may replace files.
    pub overwrite: bool,
    /// Longest file, bytes. `None`: as long as there is space.
    pub max_file: Option<u64>,
    /// Most bytes in the directory and below it. `None`: as long as there is space.
    pub max_total: Option<u64>,
}

/// A connection manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerInfo {
    /// Address on which it listens.
    pub address: SocketAddr,
    /// Number of connections that it manages.
    pub sessions: usize,
    /// Lost connections that it sets up again.
    pub reconnecting: Vec<Reconnecting>,
}

/// A trace that is being recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTrace {
    /// The file of the trace.
    pub file: PathBuf,
    /// State of the trace.
    pub state: TraceState,
    /// Content of the trace so far.
    #[serde(flatten)]
    pub report: TraceReport,
}

/// State of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum TraceState {
    /// The recording programs are being loaded and attached.
    Starting,
    /// Every run of the datapath is recorded.
    Recording,
    /// Recording has ended. The rest is being written to the file.
    Writing,
}

/// The node goes down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WentDown {
    /// Name of the node.
    pub down: String,
}

/// All counters of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Counters of the node.
    #[serde(flatten)]
    pub node: NodeStats,
    /// Counters of the connection manager.
    pub connection_manager: ManagerStatistics,
}

/// A connection in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedConnection {
    /// The connection.
    #[serde(flatten)]
    pub info: ConnectionInfo,
    /// Whether the connection manager manages the connection. Otherwise it is static.
    pub managed: bool,
}

/// One connection in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownConnection {
    /// The connection.
    #[serde(flatten)]
    pub info: ConnectionInfo,
    /// Source of the node's receive timestamps.
    pub receive_timestamps: ReceiveTimestamps,
    /// Whether the connection manager manages the connection. Otherwise it is static.
    pub managed: bool,
    /// Session with the peer's connection manager, if there is one.
    pub session: Option<SessionInfo>,
    /// Transactions of both ends that have not ended.
    #[serde(default)]
    pub transactions: Transactions,
}

/// A connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Local CID of the connection.
    pub closed: u32,
}

/// A region of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// The region.
    #[serde(flatten)]
    pub info: RegionInfo,
    /// Name that peers see, if any.
    pub name: Option<String>,
}

/// A region was deregistered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deregistered {
    /// R_Key of the region.
    pub deregistered: u32,
}

/// Bytes that were read on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Number of bytes.
    pub bytes: u64,
    /// The bytes. `None` if they were written to a file or to a region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<Hex>,
}

/// Bytes that were written on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Number of bytes.
    pub bytes: u64,
}

/// An operation that completed without error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completed {
    /// Falcon completion code (F-11-33): 0.
    pub status: u8,
    /// Text of the code.
    pub status_text: String,
    /// Bytes of user data.
    pub bytes: u64,
    /// Seconds from the call to the completion.
    pub seconds: f64,
}

impl Completed {
    /// Makes the answer for an operation of `bytes` bytes that took `seconds` seconds.
    pub fn new(bytes: u64, seconds: f64) -> Self {
        Self { status: 0, status_text: describe(0, 0), bytes, seconds }
    }
}

/// A READ that completed without error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadCompleted {
    /// The operation.
    #[serde(flatten)]
    pub completed: Completed,
    /// The bytes. `None` if they were written to a file or to a region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<Hex>,
}

/// An atomic that completed without error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtomicCompleted {
    /// The operation.
    #[serde(flatten)]
    pub completed: Completed,
    /// The value of the 8 bytes before the operation.
    pub original: u64,
    /// Whether a compare and swap has stored its value. `None` for fetch and add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swapped: Option<bool>,
}

/// A receive, and the message that arrived in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receive {
    /// Number among the receives of the connection.
    pub id: u64,
    /// State of the receive.
    pub state: ReceiveState,
    /// Size of the buffer, bytes.
    pub length: u64,
    /// Length of the message, bytes.
    pub bytes: Option<u32>,
    /// Immediate data of the sender.
    pub immediate: Option<u32>,
    /// Whether a WRITE with immediate data completed the receive. Its bytes are in the region that it wrote.
    pub by_write: Option<bool>,
    /// The message. The answer of the node has its first 64 bytes. `tiercel recv list --json` fetches the rest
    /// ([`super::request::Message`]).
    pub hex: Option<Hex>,
    /// Why the receive failed.
    pub error: Option<String>,
    /// Falcon completion code of the failure (F-11-33).
    pub status: Option<u8>,
    /// Code of the peer's ULP for the failure (D-84).
    pub ulp_code: Option<u8>,
}

/// State of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ReceiveState {
    /// The receive waits for a message.
    Posted,
    /// A message arrived.
    Received,
    /// The receive completed in error.
    Failed,
}

/// A trace that has ended. Its file is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// The file of the trace.
    pub file: PathBuf,
    /// Why the trace ended.
    pub ended_by: TraceEnd,
    /// Content of the trace.
    #[serde(flatten)]
    pub report: TraceReport,
}

/// Why a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum TraceEnd {
    /// The trace reached its limit of runs or of time.
    Limit,
    /// A client sent [`super::request::StopTrace`], or the client of the trace disconnected.
    Request,
}

/// A trace is about to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// The file of the trace.
    pub stopping: PathBuf,
}

/// A file was copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Copied {
    /// The file on this node.
    pub file: PathBuf,
    /// Name of the file on the peer.
    pub name: String,
    /// The operation that carried the content.
    pub via: Via,
    /// Length of the file, bytes.
    pub bytes: u64,
    /// SHA-256, hexadecimal, the same at both ends.
    pub sha256: String,
    /// Seconds from the offer to the verdict.
    pub seconds: f64,
    /// Files that earlier copies to the same file left on this node, because their node was killed. They were
    /// removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<PathBuf>,
}
