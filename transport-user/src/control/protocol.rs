//! What a client can ask of a node, and what comes back.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use transport_common::queues::access;

use crate::congestion::CongestionChange;
use crate::connection_manager::Via;

/// Version of the control protocol; node and client must speak the same.
pub const VERSION: u32 = 1;
/// Longest line either side accepts, bytes.
pub const LARGEST_LINE: usize = 2 << 20;
/// Most data bytes inside a line; more goes through a file.
pub const INLINE_LIMIT: u64 = 256 << 10;

/// A request with the version its sender speaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// [`VERSION`].
    pub version: u32,
    /// The request.
    pub request: Request,
}

/// What a client can ask for. Numbers are decimal; addresses are offsets within a region (D-84).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What the node is and how it fares.
    Status,
    /// Bring the node down.
    Down,
    /// Every counter.
    Stats,
    /// All connections.
    Connections,
    /// One connection in full.
    Connection {
        /// Its local CID.
        cid: u32,
    },
    /// Connect to another node's connection manager.
    Connect {
        /// The peer's address.
        address: IpAddr,
        /// Its control port.
        port: u16,
        /// Whether the connection is ordered.
        ordered: bool,
        /// How its congestion control differs from the node's.
        congestion: CongestionChange,
    },
    /// Change a connection's congestion control while traffic flows.
    SetCongestion {
        /// Its local CID.
        cid: u32,
        /// What is to be different.
        congestion: CongestionChange,
    },
    /// Set a static connection back to its beginning.
    Reset {
        /// Its CID.
        cid: u32,
    },
    /// Close a connection.
    Close {
        /// Its local CID.
        cid: u32,
    },
    /// All regions.
    Regions,
    /// Register a region.
    RegisterRegion {
        /// Bytes.
        length: u64,
        /// What peers may do with it.
        access: Vec<Right>,
        /// A name peers see.
        name: Option<String>,
    },
    /// Give a region back.
    DeregisterRegion {
        /// Its R_Key.
        rkey: u32,
    },
    /// Read a region of this node.
    ReadRegion {
        /// Its R_Key.
        rkey: u32,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Where the bytes go.
        to: Place,
    },
    /// Write a region of this node.
    WriteRegion {
        /// Its R_Key.
        rkey: u32,
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        data: Data,
    },
    /// RDMA WRITE.
    Write {
        /// Connection.
        cid: u32,
        /// The peer's R_Key.
        rkey: u32,
        /// Address in the peer's region.
        address: u64,
        /// The bytes.
        data: Data,
        /// Immediate data: consumes a receive of the peer.
        immediate: Option<u32>,
    },
    /// RDMA READ.
    Read {
        /// Connection.
        cid: u32,
        /// The peer's R_Key.
        rkey: u32,
        /// Address in the peer's region.
        address: u64,
        /// Bytes.
        length: u64,
        /// Where the bytes go.
        to: Place,
    },
    /// SEND.
    Send {
        /// Connection.
        cid: u32,
        /// The message.
        data: Data,
        /// Immediate data.
        immediate: Option<u32>,
    },
    /// Post receives; they are collected in the background.
    PostReceive {
        /// Connection.
        cid: u32,
        /// Bytes of each buffer.
        length: u64,
        /// How many.
        count: u32,
        /// Answer only once all of them have completed.
        wait: bool,
    },
    /// Receives that were posted, and what arrived in them.
    Receives {
        /// Connection.
        cid: u32,
    },
    /// An atomic operation on 8 bytes of the peer.
    Atomic {
        /// Connection.
        cid: u32,
        /// The peer's R_Key.
        rkey: u32,
        /// Address in the peer's region, a multiple of 8.
        address: u64,
        /// Which.
        operation: Atomic,
    },
    /// Take a trace of the datapath, until a limit is reached or the client goes away.
    Trace {
        /// The file to write, absolute and new.
        file: PathBuf,
        /// Runs of the datapath.
        runs: Option<u64>,
        /// Milliseconds.
        duration_ms: Option<u64>,
    },
    /// Copy a file to or from the peer.
    Copy {
        /// Connection.
        cid: u32,
        /// Which way.
        direction: CopyDirection,
        /// The file on this side, absolute.
        file: PathBuf,
        /// Its name on the peer's side.
        name: String,
        /// How the content crosses.
        via: Via,
        /// Whether an existing file may be replaced.
        overwrite: bool,
    },
}

/// A right a region grants to peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// READ.
    RemoteRead,
    /// WRITE.
    RemoteWrite,
    /// Atomics.
    RemoteAtomic,
}

impl Right {
    /// All of them, in the order they are shown.
    pub const ALL: [Self; 3] = [Self::RemoteRead, Self::RemoteWrite, Self::RemoteAtomic];

    /// Its bit of [`transport_common::queues::access`].
    pub fn bit(self) -> u32 {
        match self {
            Self::RemoteRead => access::REMOTE_READ,
            Self::RemoteWrite => access::REMOTE_WRITE,
            Self::RemoteAtomic => access::REMOTE_ATOMIC,
        }
    }

    /// The rights whose bits are set.
    pub fn of(bits: u32) -> Vec<Self> {
        Self::ALL.into_iter().filter(|right| bits & right.bit() != 0).collect()
    }
}

/// Bytes that come along, or where to find them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Data {
    /// Hexadecimal, at most [`INLINE_LIMIT`] bytes.
    Hex(String),
    /// A whole file, by absolute path.
    File(PathBuf),
    /// Part of a region of this node.
    Region {
        /// Its R_Key.
        rkey: u32,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

/// Where bytes go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    /// Into the reply, in hexadecimal, at most [`INLINE_LIMIT`] bytes.
    Reply,
    /// Into a new file, by absolute path.
    File(PathBuf),
    /// Into a region of this node.
    Region {
        /// Its R_Key.
        rkey: u32,
        /// Offset of the first byte.
        offset: u64,
    },
}

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Atomic {
    /// Adds, modulo 2^64.
    FetchAdd {
        /// What to add.
        add: u64,
    },
    /// Stores `swap` if the value is `compare`.
    CompareSwap {
        /// What to compare with.
        compare: u64,
        /// What to store.
        swap: u64,
    },
}

/// Which way a file is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyDirection {
    /// From this node to the peer.
    ToPeer,
    /// From the peer to this node.
    FromPeer,
}

/// A line from the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// More is to come.
    Progress(Progress),
    /// The request is done.
    Done {
        /// Its result; the shape depends on the request.
        result: serde_json::Value,
    },
    /// The request failed.
    Failed(Failure),
}

/// How far a long operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes of a copy, or runs or milliseconds of a trace done.
    pub done: u64,
    /// All of them.
    pub total: u64,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// For programs; decides the exit code of `tiercel`.
    pub kind: FailureKind,
    /// What happened and what to do.
    pub text: String,
    /// Falcon completion code, when an operation completed in error (F-11-33).
    pub status: Option<u8>,
    /// The peer ULP's code (D-84).
    pub ulp_code: Option<u8>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request makes no sense: an unknown CID or key, bounds, a name.
    Invalid,
    /// An operation completed in error.
    Operation,
    /// No connection could be made.
    Connect,
    /// A file could not be read, written or verified.
    File,
    /// The node could not do it.
    Node,
}

impl Failure {
    /// A failure without completion codes.
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), status: None, ulp_code: None }
    }

    /// A request that makes no sense.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(FailureKind::Invalid, text)
    }
}
