//! The requests. Numbers are decimal. Addresses are offsets within a region (D-84).

use std::net::IpAddr;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};
use transport_common::queues::AccessFlags;

use super::answer;
use super::hex::Hex;
pub use super::via::Via;
use crate::congestion::CongestionChange;
use crate::parameters::tunnel::Tunnel;
use crate::parameters::ulp::Ulp;

/// A request whose answer has one type.
pub trait Call: Into<Request> + Serialize + DeserializeOwned {
    /// The answer of the node if the request succeeded.
    type Answer: Serialize + DeserializeOwned;
}

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
    DropRequests => answer::ShownConnection,
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

/// Returns the configuration and the state of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {}

/// Brings the node down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Down {}

/// Returns all counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stats {}

/// Lists all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {}

/// Shows one connection in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// Local CID of the connection.
    pub cid: u32,
}

/// Connects to the connection manager of another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// The peer's address.
    pub address: IpAddr,
    /// The interface on whose link a link-local address is, by name or index. Absent: that of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// TCP port of the peer's connection manager.
    pub port: u16,
    /// Whether the connection is ordered.
    pub ordered: bool,
    /// Whether to offer the RACK-TLP extension. Absent: as the node's tuning says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack_tlp: Option<bool>,
    /// The upper layer protocol.
    #[serde(default)]
    pub ulp: Ulp,
    /// The inner addresses in tunnel mode. Absent is transport mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// Milliseconds after which a peer of which nothing arrives counts as dead, 100 to 3600000. Absent: as the node file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ms: Option<u64>,
    /// Whether the node sets the connection up again when it is lost, under another CID.
    #[serde(default)]
    pub reconnect: bool,
    /// The differences from the congestion control of the node.
    pub congestion: CongestionChange,
}

/// Changes the congestion control of a connection while traffic flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetCongestion {
    /// Local CID of the connection.
    pub cid: u32,
    /// The settings to change.
    pub congestion: CongestionChange,
}

/// Resets a static connection to its initial state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reset {
    /// Local CID of the connection.
    pub cid: u32,
}

/// Drops new requests of both ends while the host function behind the connection is being reset (xLR, D-50), or takes
/// them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropRequests {
    /// Local CID of the connection.
    pub cid: u32,
    /// Whether new requests are dropped from now on.
    pub dropped: bool,
}

/// Closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Close {
    /// Local CID of the connection.
    pub cid: u32,
}

/// Lists all regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regions {}

/// Registers a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegisterRegion {
    /// Length of the region, bytes.
    pub length: u64,
    /// Rights of the peers.
    pub access: Vec<Right>,
    /// A name that peers see, up to 64 bytes.
    pub name: Option<String>,
    /// R_Key of the region. If absent, the node takes the next free one, from 1 (D-84).
    pub rkey: Option<u32>,
}

/// Deregisters a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeregisterRegion {
    /// R_Key of the region.
    pub rkey: u32,
}

/// Reads a region of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRegion {
    /// R_Key of the region.
    pub rkey: u32,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes. If absent, the node reads to the end of the region.
    pub length: Option<u64>,
    /// Destination of the bytes.
    pub to: Place,
}

/// Writes a region of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRegion {
    /// R_Key of the region.
    pub rkey: u32,
    /// Offset of the first byte.
    pub offset: u64,
    /// The bytes.
    pub data: Data,
}

/// Performs an RDMA WRITE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Local CID of the connection.
    pub cid: u32,
    /// The peer's R_Key.
    pub rkey: u32,
    /// Address in the peer's region.
    pub address: u64,
    /// The bytes.
    pub data: Data,
    /// Immediate data. It consumes a receive of the peer.
    pub immediate: Option<u32>,
}

/// Performs an RDMA READ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// Local CID of the connection.
    pub cid: u32,
    /// The peer's R_Key.
    pub rkey: u32,
    /// Address in the peer's region.
    pub address: u64,
    /// Number of bytes.
    pub length: u64,
    /// Destination of the bytes.
    pub to: Place,
}

/// Performs a SEND.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// Local CID of the connection.
    pub cid: u32,
    /// The message.
    pub data: Data,
    /// Immediate data.
    pub immediate: Option<u32>,
}

/// Posts receives. The node collects their completions in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostReceive {
    /// Local CID of the connection.
    pub cid: u32,
    /// Size of each buffer, bytes.
    pub length: u64,
    /// Number of receives.
    pub count: u32,
    /// Whether the answer waits until all of them have completed.
    pub wait: bool,
}

/// Lists posted receives, and the messages that arrived in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receives {
    /// Local CID of the connection.
    pub cid: u32,
}

/// Returns a part of a received message, at most [`INLINE_LIMIT`](super::INLINE_LIMIT) bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Local CID of the connection.
    pub cid: u32,
    /// The receive, by its [`answer::Receive::id`].
    pub id: u64,
    /// Offset of the first byte in the message.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Performs an atomic operation on 8 bytes of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Atomic {
    /// Local CID of the connection.
    pub cid: u32,
    /// The peer's R_Key.
    pub rkey: u32,
    /// Address in the peer's region, a multiple of 8.
    pub address: u64,
    /// The operation.
    pub operation: AtomicOperation,
}

/// Records a trace of the datapath. It ends at a limit, by [`StopTrace`], or if the client disconnects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The file to write, by absolute path. It must not exist yet.
    pub file: PathBuf,
    /// Limit: runs of the datapath.
    pub runs: Option<u64>,
    /// Limit: milliseconds.
    pub duration_ms: Option<u64>,
}

/// Ends the trace that is being recorded. The client of the trace gets its answer when the file is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopTrace {}

/// Copies a file to or from the peer. The client opens it, and sends the descriptor with the request
/// ([`Client::ask_with_file`](crate::control::Client::ask_with_file)): to the peer the file, from the peer the directory in
/// which the new file gets its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copy {
    /// Local CID of the connection.
    pub cid: u32,
    /// Direction of the copy.
    pub direction: CopyDirection,
    /// The absolute path of the file on this node, for messages. From the peer, its last part is the name of the new file.
    pub file: PathBuf,
    /// Name of the file on the peer. Slashes separate directories.
    pub name: String,
    /// The operation that carries the content.
    pub via: Via,
    /// Whether an existing file may be replaced.
    pub overwrite: bool,
}

/// A right that a region grants to peers. On the command line and in text, the prefix `remote_` is left out.
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
    /// Returns its flag in the region table.
    pub fn flag(self) -> AccessFlags {
        match self {
            Self::RemoteRead => AccessFlags::REMOTE_READ,
            Self::RemoteWrite => AccessFlags::REMOTE_WRITE,
            Self::RemoteAtomic => AccessFlags::REMOTE_ATOMIC,
        }
    }

    /// Returns the rights whose bits are set.
    pub fn of(bits: u32) -> Vec<Self> {
        let flags = AccessFlags::from_bits_retain(bits);
        Self::VARIANTS.iter().copied().filter(|right| flags.contains(right.flag())).collect()
    }
}

/// Source of bytes: the bytes themselves, a file or a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Data {
    /// The bytes, at most [`INLINE_LIMIT`](super::INLINE_LIMIT).
    Hex(Hex),
    /// A whole file, by absolute path.
    File(PathBuf),
    /// Part of a region of this node.
    Region {
        /// R_Key of the region.
        rkey: u32,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

/// Destination of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    /// Into the reply, at most [`INLINE_LIMIT`](super::INLINE_LIMIT) bytes.
    Reply,
    /// Into a new file, by absolute path.
    File(PathBuf),
    /// Into a region of this node.
    Region {
        /// R_Key of the region.
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
        /// The number to add.
        add: u64,
    },
    /// Stores `swap` if the value is `compare`.
    CompareSwap {
        /// The expected value.
        compare: u64,
        /// The value to store.
        swap: u64,
    },
}

/// Direction in which a file is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CopyDirection {
    /// From this node to the peer.
    ToPeer,
    /// From the peer to this node.
    FromPeer,
}
