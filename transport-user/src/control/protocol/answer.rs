//! Answers, field by field as `tiercel` prints them with `--json`.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::Display;

use super::Hex;
use crate::connection_manager::{Event, ManagerStatistics, SessionInfo, Via};
use crate::rate_update::RateUpdateStatus;
use crate::{
    AttachMode, ConnectionInfo, Device, EngineStatus, NodeStats, Pools, ReceiveTimestamps, RegionInfo,
    TraceReport, Transmit, describe,
};

/// What a node is and how it fares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Release of its program.
    pub version: String,
    /// Version of the control protocol.
    pub control_version: u32,
    /// Its process.
    pub pid: u32,
    /// Seconds since it came up.
    pub uptime_s: u64,
    /// The interface it runs on.
    pub device: Device,
    /// How the wire program is attached.
    pub attach: AttachMode,
    /// How frames of the engine leave.
    pub transmit: Transmit,
    /// The engine thread.
    pub engine: EngineStatus,
    /// Its connection manager.
    pub connection_manager: ManagerInfo,
    /// Where receive timestamps come from.
    pub receive_timestamps: ReceiveTimestamps,
    /// Where peers store and fetch files, if anywhere.
    pub receive_directory: Option<PathBuf>,
    /// The trace that is being taken, if any.
    pub trace: Option<RunningTrace>,
    /// Algorithms that connections may choose by name.
    pub algorithms: Vec<String>,
    /// Profiles of its node file.
    pub profiles: Vec<String>,
    /// How full the pools are.
    pub pools: Pools,
    /// The rate update engine in user space.
    pub rate_update: RateUpdateStatus,
    /// What the connection manager saw lately, oldest first.
    pub events: Vec<Event>,
}

/// A connection manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerInfo {
    /// Where it listens.
    pub address: SocketAddr,
    /// Connections it looks after.
    pub sessions: usize,
}

/// A trace that is being taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTrace {
    /// Its file.
    pub file: PathBuf,
    /// How far it is.
    pub state: TraceState,
    /// What it holds so far.
    #[serde(flatten)]
    pub report: TraceReport,
}

/// How far a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum TraceState {
    /// The recording programs are loaded and put in place.
    Starting,
    /// Every run of the datapath is recorded.
    Recording,
    /// Nothing more is recorded; the rest is being written to the file.
    Writing,
}

/// The node goes down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WentDown {
    /// Its name.
    pub down: String,
}

/// Everything a node counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The node.
    #[serde(flatten)]
    pub node: NodeStats,
    /// Its connection manager.
    pub connection_manager: ManagerStatistics,
}

/// A connection in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedConnection {
    /// The connection.
    #[serde(flatten)]
    pub info: ConnectionInfo,
    /// Whether the connection manager looks after it; otherwise it is static.
    pub managed: bool,
}

/// One connection in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShownConnection {
    /// The connection.
    #[serde(flatten)]
    pub info: ConnectionInfo,
    /// Where the node's receive timestamps come from.
    pub receive_timestamps: ReceiveTimestamps,
    /// Whether the connection manager looks after it; otherwise it is static.
    pub managed: bool,
    /// Its session with the peer's connection manager.
    pub session: Option<SessionInfo>,
}

/// A connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// Its CID.
    pub closed: u32,
}

/// A region of the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// The region.
    #[serde(flatten)]
    pub info: RegionInfo,
    /// The name peers see.
    pub name: Option<String>,
}

/// A region was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deregistered {
    /// Its R_Key.
    pub deregistered: u32,
}

/// Bytes that were read here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// How many.
    pub bytes: u64,
    /// The bytes, unless they went elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<Hex>,
}

/// Bytes that were written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// How many.
    pub bytes: u64,
}

/// An operation that completed without error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completed {
    /// Falcon completion code (F-11-33): 0.
    pub status: u8,
    /// The same in words.
    pub status_text: String,
    /// Bytes of user data.
    pub bytes: u64,
    /// Seconds from the call to the completion.
    pub seconds: f64,
}

impl Completed {
    /// Of so many bytes, after so long.
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
    /// The bytes, unless they went elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<Hex>,
}

/// An atomic that completed without error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AtomicCompleted {
    /// The operation.
    #[serde(flatten)]
    pub completed: Completed,
    /// What the 8 bytes were.
    pub original: u64,
    /// Whether a compare and swap has stored its value; none for fetch and add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swapped: Option<bool>,
}

/// A receive, and what arrived in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receive {
    /// Its number among the connection's receives.
    pub id: u64,
    /// What became of it.
    pub state: ReceiveState,
    /// Bytes of its buffer.
    pub length: u64,
    /// Bytes that arrived.
    pub bytes: Option<u32>,
    /// The sender's immediate data.
    pub immediate: Option<u32>,
    /// A WRITE with immediate data completed it: its bytes are in the region that was written.
    pub by_write: Option<bool>,
    /// The message. The node gives its first 64 bytes; `tiercel recv list --json` the whole ([`super::request::Message`]).
    pub hex: Option<Hex>,
    /// Why it failed.
    pub error: Option<String>,
    /// Falcon completion code of the failure (F-11-33).
    pub status: Option<u8>,
    /// The peer ULP's code of the failure (D-84).
    pub ulp_code: Option<u8>,
}

/// What became of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ReceiveState {
    /// It waits for a message.
    Posted,
    /// A message came.
    Received,
    /// It completed in error.
    Failed,
}

/// A trace that has ended; its file is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traced {
    /// Its file.
    pub file: PathBuf,
    /// Why it ended.
    pub ended_by: TraceEnd,
    /// What it holds.
    #[serde(flatten)]
    pub report: TraceReport,
}

/// Why a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceEnd {
    /// It has the runs, or lasted the time, that were asked for.
    Limit,
    /// [`super::request::StopTrace`], or its client went away.
    Request,
}

/// A trace is about to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopping {
    /// Its file.
    pub stopping: PathBuf,
}

/// A file was copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Copied {
    /// The file on this side.
    pub file: PathBuf,
    /// Its name on the peer's side.
    pub name: String,
    /// How the content crossed.
    pub via: Via,
    /// Bytes.
    pub bytes: u64,
    /// SHA-256, hexadecimal, the same at both ends.
    pub sha256: String,
    /// Seconds from the offer to the verdict.
    pub seconds: f64,
    /// What copies to the same file, whose node was killed, had left on this side; it was removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<PathBuf>,
}
