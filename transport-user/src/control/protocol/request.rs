//! Requests. Numbers are decimal; addresses are offsets within a region (D-84).

use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use transport_common::queues::AccessFlags;

use super::{Call, Hex, answer};
use crate::congestion::CongestionChange;
use crate::connection_manager::Via;

/// The list of requests, each with the type of its answer.
macro_rules! requests {
    ($($name:ident => $answer:ty,)+) => {
        /// Any request.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "request", rename_all = "snake_case")]
        pub enum Request {
            $(#[doc = concat!("[`struct@", stringify!($name), "`].")] $name($name),)+
        }

        $(
            impl Call for $name {
                type Answer = $answer;
            }

            impl From<$name> for Request {
                fn from(call: $name) -> Self {
                    Self::$name(call)
                }
            }
        )+
    };
}

requests! {
    Status => answer::NodeStatus,
    Down => answer::WentDown,
    Stats => answer::Stats,
    Connections => Vec<answer::ListedConnection>,
    Connection => answer::ShownConnection,
    Connect => answer::ShownConnection,
    SetCongestion => answer::ShownConnection,
    Reset => answer::ShownConnection,
    Close => answer::Closed,
    Regions => Vec<answer::Region>,
    RegisterRegion => answer::Region,
    DeregisterRegion => answer::Deregistered,
    ReadRegion => answer::Content,
    WriteRegion => answer::Written,
    Write => answer::Completed,
    Read => answer::ReadCompleted,
    Send => answer::Completed,
    PostReceive => Vec<answer::Receive>,
    Receives => Vec<answer::Receive>,
    Message => answer::Content,
    Atomic => answer::AtomicCompleted,
    Trace => answer::Traced,
    StopTrace => answer::Stopping,
    Copy => answer::Copied,
}

/// What the node is and how it fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {}

/// Bring the node down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Down {}

/// Every counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stats {}

/// All connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {}

/// One connection in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// Its local CID.
    pub cid: u32,
}

/// Connect to another node's connection manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// The peer's address.
    pub address: IpAddr,
    /// Its control port.
    pub port: u16,
    /// Whether the connection is ordered.
    pub ordered: bool,
    /// How its congestion control differs from the node's.
    pub congestion: CongestionChange,
}

/// Change a connection's congestion control while traffic flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetCongestion {
    /// Its local CID.
    pub cid: u32,
    /// What is to be different.
    pub congestion: CongestionChange,
}

/// Set a static connection back to its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// Its local CID.
    pub cid: u32,
}

/// Close a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Close {
    /// Its local CID.
    pub cid: u32,
}

/// All regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regions {}

/// Register a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterRegion {
    /// Bytes.
    pub length: u64,
    /// What peers may do with it.
    pub access: Vec<Right>,
    /// A name peers see.
    pub name: Option<String>,
    /// Its R_Key; the next free one, from 1, unless given (D-84).
    pub rkey: Option<u32>,
}

/// Give a region back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeregisterRegion {
    /// Its R_Key.
    pub rkey: u32,
}

/// Read a region of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRegion {
    /// Its R_Key.
    pub rkey: u32,
    /// Offset of the first byte.
    pub offset: u64,
    /// Bytes; to the end unless given.
    pub length: Option<u64>,
    /// Where the bytes go.
    pub to: Place,
}

/// Write a region of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRegion {
    /// Its R_Key.
    pub rkey: u32,
    /// Offset of the first byte.
    pub offset: u64,
    /// The bytes.
    pub data: Data,
}

/// RDMA WRITE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Connection.
    pub cid: u32,
    /// The peer's R_Key.
    pub rkey: u32,
    /// Address in the peer's region.
    pub address: u64,
    /// The bytes.
    pub data: Data,
    /// Immediate data: consumes a receive of the peer.
    pub immediate: Option<u32>,
}

/// RDMA READ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// Connection.
    pub cid: u32,
    /// The peer's R_Key.
    pub rkey: u32,
    /// Address in the peer's region.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Where the bytes go.
    pub to: Place,
}

/// SEND.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// Connection.
    pub cid: u32,
    /// The message.
    pub data: Data,
    /// Immediate data.
    pub immediate: Option<u32>,
}

/// Post receives; they are collected in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostReceive {
    /// Connection.
    pub cid: u32,
    /// Bytes of each buffer.
    pub length: u64,
    /// How many.
    pub count: u32,
    /// Answer only once all of them have completed.
    pub wait: bool,
}

/// Receives that were posted, and what arrived in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receives {
    /// Connection.
    pub cid: u32,
}

/// A part of a message that was received, in the answer; at most [`INLINE_LIMIT`](super::INLINE_LIMIT) bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Connection.
    pub cid: u32,
    /// The receive, by its [`answer::Receive::id`].
    pub id: u64,
    /// Offset of the first byte in the message.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// An atomic operation on 8 bytes of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Atomic {
    /// Connection.
    pub cid: u32,
    /// The peer's R_Key.
    pub rkey: u32,
    /// Address in the peer's region, a multiple of 8.
    pub address: u64,
    /// Which.
    pub operation: AtomicOperation,
}

/// Take a trace of the datapath, until a limit is reached, [`StopTrace`] comes or the client goes away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The file to write, absolute and new.
    pub file: PathBuf,
    /// Runs of the datapath.
    pub runs: Option<u64>,
    /// Milliseconds.
    pub duration_ms: Option<u64>,
}

/// End the trace that is being taken. Whoever asked for it gets the answer when its file is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopTrace {}

/// Copy a file to or from the peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copy {
    /// Connection.
    pub cid: u32,
    /// Which way.
    pub direction: CopyDirection,
    /// The file on this side, absolute.
    pub file: PathBuf,
    /// Its name on the peer's side.
    pub name: String,
    /// How the content crosses.
    pub via: Via,
    /// Whether an existing file may be replaced.
    pub overwrite: bool,
}

/// A right a region grants to peers. In text, as on the command line, the prefix `remote_` is left out.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
pub enum Right {
    /// READ.
    #[serde(rename = "remote_read")]
    #[strum(serialize = "read")]
    RemoteRead,
    /// WRITE.
    #[serde(rename = "remote_write")]
    #[strum(serialize = "write")]
    RemoteWrite,
    /// Atomics.
    #[serde(rename = "remote_atomic")]
    #[strum(serialize = "atomic")]
    RemoteAtomic,
}

impl Right {
    /// Its bit in the region table.
    pub fn flag(self) -> AccessFlags {
        match self {
            Self::RemoteRead => AccessFlags::REMOTE_READ,
            Self::RemoteWrite => AccessFlags::REMOTE_WRITE,
            Self::RemoteAtomic => AccessFlags::REMOTE_ATOMIC,
        }
    }

    /// The rights whose bits are set.
    pub fn of(bits: u32) -> Vec<Self> {
        let flags = AccessFlags::from_bits_retain(bits);
        Self::VARIANTS.iter().copied().filter(|right| flags.contains(right.flag())).collect()
    }
}

/// Bytes that come along, or where to find them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Data {
    /// The bytes, at most [`INLINE_LIMIT`](super::INLINE_LIMIT).
    Hex(Hex),
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
    /// Into the reply, at most [`INLINE_LIMIT`](super::INLINE_LIMIT) bytes.
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
pub enum AtomicOperation {
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
