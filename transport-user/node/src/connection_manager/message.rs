//! The messages between two connection managers over TCP, and their framing.
//!
//! A message is a length of 4 bytes, big-endian, and that many bytes of JSON. The exchange is `Hello` -> `Accept`
//! (or `Reject`) -> `Ready`. Between `Hello` and `Accept`, ends that search for the MTU of the path exchange `Probe` and
//! `Path`. After `Ready`, ends that prove the data path exchange `Proof`. Then each end sends `Heartbeat` ten times in the
//! time after which the peer would count as dead, `Regions` when its registered regions change, `File` for file transfers,
//! `Probe` when the path is searched again, `Mtu` when it has become smaller, and `Close` at the end. While the end that has connected hears nothing, it asks
//! with `Alive` over another TCP connection.

use std::time::Duration;

use serde::{Deserialize, Serialize};
pub use tiercel::control::request::Via;
pub use tiercel::status::RegionAdvertisement;
use tiercel::{Mac, Tunnel, Ulp};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use transport_common::queues::REGIONS;

use super::path_mtu::ProbeOffer;
use super::proof::Proof;
use super::smaller_mtu::SmallerMtu;

/// Name of the protocol in `Hello`.
pub const PROTOCOL: &str = "tiercel-connection-manager";
/// Version of the protocol. Both ends must use the same version.
pub const VERSION: u32 = 1;
/// Largest message, bytes. A full region table fits.
pub const LARGEST_MESSAGE: usize = 64 << 10;
/// Longest name or text that a peer may send, bytes.
pub(super) const LONGEST_TEXT: usize = 255;
/// Longest path of a file that a peer may send, bytes.
const LONGEST_PATH: usize = 1023;

/// A message between connection managers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// The offer of the connecting end. This is the first message.
    Hello {
        /// [`PROTOCOL`].
        protocol: String,
        /// [`VERSION`].
        version: u32,
        /// The offer of the connecting end.
        offer: Box<Offer>,
    },
    /// The sender takes probes here. During the handshake it comes from the accepting end, which sends its probes to the port
    /// in the offer of the connecting end. On an established connection, the end whose packets are lost sends it, and the
    /// other end answers with its own; then both search.
    Probe {
        /// Where it takes probes.
        probe: ProbeOffer,
    },
    /// The connecting end has ended its search.
    Path {
        /// Largest IP packet that reaches the accepting end, bytes, if probes arrived.
        mtu: Option<u32>,
    },
    /// The answer of the accepting end. Its half is open and accepts packets.
    Accept {
        /// The offer of the accepting end. Its MTU is at most that of the path.
        offer: Box<Offer>,
        /// Largest IP packet that crosses the path in both directions, bytes, if it was found. Not in the message if it was
        /// not, so that a node that does not search still understands it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_mtu: Option<u32>,
    },
    /// The accepting end rejects the offer.
    Reject {
        /// The reason, for programs.
        reason: Rejection,
        /// The reason, for people.
        text: String,
    },
    /// The half of the connecting end is open as well. Both ends may send requests.
    Ready,
    /// What came of the packets by which the sender proves its direction of the data path. Both ends send it after `Ready`
    /// if both have offered a region for the proof.
    Proof {
        /// The outcome.
        proof: Proof,
    },
    /// The sender's packets are at most so long from now on, and those of the receiver must be, too.
    Mtu {
        /// The smaller MTU.
        smaller: SmallerMtu,
    },
    /// The sender is alive, and has nothing else to send.
    Heartbeat,
    /// The regions that the sender has registered for access by peers have changed.
    Regions {
        /// All of them.
        regions: Vec<RegionAdvertisement>,
    },
    /// A step of a file transfer.
    File {
        /// The step.
        step: FileMessage,
    },
    /// The sender is alive, and asks for the same about the receiver; or the answer to that. It is the only message of its
    /// TCP connection in each direction.
    Alive {
        /// CID of the receiver.
        cid: u32,
        /// CID of the sender.
        peer_cid: u32,
        /// SPI of Falcon packets to the receiver. Nobody else knows it.
        spi: u32,
    },
    /// The connection ends. No message follows.
    Close {
        /// The reason, for people at the receiver: there the sender is "the peer".
        text: String,
    },
}

/// Why a connection is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The version of the protocol is another one.
    Version,
    /// The node has no free CID, or the peer has reached its limit of connections.
    TableFull,
    /// There are too many unfinished handshakes.
    Busy,
    /// The offer cannot be accepted.
    Offer,
    /// The node could not open its half.
    Node,
    /// The node has no such connection.
    Unknown,
}

/// The offer of one end for its half of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// CID that the peer writes into packets to this end (F-6.2-2).
    pub cid: u32,
    /// First PSN that this end sends in the request window (D-18).
    pub request_psn: u32,
    /// First PSN that this end sends in the data window (D-18).
    pub data_psn: u32,
    /// First RSN that this end sends (D-18).
    pub rsn: u32,
    /// IP MTU of this end, bytes. The smaller MTU of both ends applies.
    pub mtu: u32,
    /// Largest user data of one transaction, bytes. The smaller value of both ends applies.
    pub max_segment: u32,
    /// Whether requests are delivered in RSN order. The connecting end decides.
    pub ordered: bool,
    /// Whether this end has the RACK-TLP extension on (F-9.1.6-9). It is on if both ends offer it. Not in the message if
    /// this end does not, so that a node that does not know it still understands the offer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rack_tlp: bool,
    /// The upper layer protocol. The connecting end decides. Not in the message if it is RDMA, so that a node that
    /// knows no other still understands it.
    #[serde(default, skip_serializing_if = "Ulp::is_rdma")]
    pub ulp: Ulp,
    /// The inner addresses of this end and of the peer in tunnel mode (F-7.1.2-1). The connecting end decides. Not in the
    /// message in transport mode, so that a node that knows no tunnels still understands it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// Time in milliseconds after which a peer of which nothing arrives counts as dead, for both ends. The connecting end
    /// decides. Not in the message if it is 5 seconds, so that a node that knows no other still understands it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ms: Option<u64>,
    /// Where the connecting end takes probes of the path. `None`: it does not search, and the accepting end sends no probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeOffer>,
    /// R_Key of a region of this end, as long as its largest segment, into which the peer proves its direction of the data
    /// path. The accepting end offers one in answer to an offer. `None`: the data path is not proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<u32>,
    /// Receive window for requests, packets. The transmit window of the peer does not exceed it.
    pub request_window: u32,
    /// Receive window for data, packets. The transmit window of the peer does not exceed it.
    pub data_window: u32,
    /// Security association for packets to this end.
    pub security: SecurityOffer,
    /// MAC address of this end. A peer on the same link uses it if its neighbour table has no entry. A peer behind
    /// a router needs the entry of the next hop in its neighbour table.
    pub mac: Mac,
    /// Destination function that the peer writes into packets to this end (D-15).
    pub function: u32,
    /// Clock of this end, picoseconds: the peer's first Remote Time (F-9.2.1-5).
    pub time: u64,
    /// Regions that this end has registered for access by peers.
    pub regions: Vec<RegionAdvertisement>,
}

/// Security association of one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum SecurityOffer {
    /// D-83: no encryption.
    Plaintext {
        /// SPI that the peer writes into packets to this end, not 0.
        spi: u32,
    },
}

/// The steps of a file transfer. Falcon carries the content, never these messages.
///
/// A transfer begins with `Offer` (from the source) or `Fetch` (from the sink). The sink answers an offer with
/// `Ready`. For every chunk, the source sends `Chunk` when the chunk is written or can be read, and the sink sends
/// `Stored`. With SEND there is no `Chunk`, because the chunk itself arrives. `End` has the hash of the bytes that
/// the source read. `Verdict` has the hash of the bytes that the sink stored. An end whose file system or whose turn keeps
/// it waiting says so by `Waiting`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
pub enum FileMessage {
    /// The sink asks for a file of the peer.
    Fetch {
        /// Number of the transfer, chosen by the sink.
        transfer: u64,
        /// Name of the file in the peer's directory.
        name: String,
        /// The operation that carries the content.
        via: Via,
    },
    /// The source offers a file.
    Offer {
        /// Number of the transfer. If the offer answers a `Fetch`, the number of that.
        transfer: u64,
        /// Name for the file on the sink. If the offer answers a `Fetch`, the name in that.
        name: String,
        /// The operation that carries the content.
        via: Via,
        /// Number of bytes that cross. This is the length of the file, unless it is `sparse`.
        length: u64,
        /// Size of each chunk, bytes. The last chunk may be shorter.
        chunk: u32,
        /// Most outstanding chunks.
        slots: u32,
        /// R_Key of the source's buffer (READ), otherwise 0.
        rkey: u32,
        /// Whether a file of that name may be replaced.
        overwrite: bool,
        /// Kind and permission bits as in `st_mode`: a regular file, or a directory, which has no content. Not in the
        /// message if it is a file that its owner may write and everybody may read, so that a node that knows no others
        /// still understands it.
        #[serde(default = "default_mode", skip_serializing_if = "is_default_mode")]
        mode: u32,
        /// The holes of the file. Not in the message if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sparse: Option<Sparse>,
    },
    /// The sink is ready.
    Ready {
        /// Number of the transfer.
        transfer: u64,
        /// R_Key of the sink's buffer (WRITE), otherwise 0.
        rkey: u32,
    },
    /// Chunk `index` is in slot `index % slots`.
    Chunk {
        /// Number of the transfer.
        transfer: u64,
        /// Index of the chunk, from 0.
        index: u64,
    },
    /// Chunk `index` is stored, and its slot is free.
    Stored {
        /// Number of the transfer.
        transfer: u64,
        /// Index of the chunk, from 0.
        index: u64,
    },
    /// The source has sent everything.
    End {
        /// Number of the transfer.
        transfer: u64,
        /// SHA-256 of the content, hexadecimal.
        sha256: String,
    },
    /// The sink has compared the hashes and kept the file.
    Verdict {
        /// Number of the transfer.
        transfer: u64,
        /// SHA-256 of what the sink stored, hexadecimal.
        sha256: String,
    },
    /// One end aborts the transfer.
    Abort {
        /// Number of the transfer.
        transfer: u64,
        /// The reason, for people. It has no numbers and no paths of the sender.
        text: String,
        /// Number of receives that the sink posted in all, if some of them wait for a SEND. The source sends so many
        /// messages, and none is left that a later transfer would take for its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        posted: Option<u64>,
    },
    /// The sender waits for its file system or for its turn, and still wants the transfer.
    Waiting {
        /// Number of the transfer.
        transfer: u64,
    },
}

/// A file with holes. What crosses is its data, one extent after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sparse {
    /// Length of the file, bytes.
    pub length: u64,
    /// Begin and length of each extent of data, bytes, in order.
    pub extents: Vec<(u64, u64)>,
}

/// Kind and permission bits of a file in an offer that has none.
fn default_mode() -> u32 {
    FileMessage::DEFAULT_MODE
}

fn is_default_mode(mode: &u32) -> bool {
    *mode == FileMessage::DEFAULT_MODE
}

impl FileMessage {
    /// Kind and permission bits of a file in an offer that has none: regular, mode 0644.
    pub const DEFAULT_MODE: u32 = 0o100_644;

    /// Returns the number of the transfer.
    pub fn transfer(&self) -> u64 {
        match self {
            Self::Fetch { transfer, .. }
            | Self::Offer { transfer, .. }
            | Self::Ready { transfer, .. }
            | Self::Chunk { transfer, .. }
            | Self::Stored { transfer, .. }
            | Self::End { transfer, .. }
            | Self::Verdict { transfer, .. }
            | Self::Abort { transfer, .. }
            | Self::Waiting { transfer } => *transfer,
        }
    }
}

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The peer closed or lost the TCP connection.
    #[error("the TCP connection ended: {0}")]
    Ended(#[from] std::io::Error),
    /// No whole message arrived in time, or the peer did not read in time.
    #[error("nothing arrived for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The length exceeds [`LARGEST_MESSAGE`].
    #[error("a message has {0} bytes, but at most {LARGEST_MESSAGE} are allowed")]
    TooLong(usize),
    /// The data is not a message of the protocol.
    #[error("not a message of the protocol: {0}")]
    Garbage(String),
    /// The peer uses another version of the protocol.
    #[error(
        "the peer uses version {0} of the protocol, this node uses version {VERSION}: install the same release on both"
    )]
    Version(u64),
}

/// Reads one message. All of it must arrive within `patience`.
///
/// # Errors
/// See [`WireError`]. After an error the stream cannot be used any more.
pub(super) async fn read_message(
    stream: &mut (impl AsyncRead + Unpin),
    patience: Duration,
) -> Result<Message, WireError> {
    let bytes = timeout(patience, read_frame(stream)).await.map_err(|_| WireError::Silent(patience))??;
    decode(&bytes)
}

pub(crate) async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, WireError> {
    let length = stream.read_u32().await? as usize;
    if length > LARGEST_MESSAGE {
        return Err(WireError::TooLong(length));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Decodes a message. Checks the protocol and the version first, because the `Hello` of another version may have
/// other fields.
pub(crate) fn decode(bytes: &[u8]) -> Result<Message, WireError> {
    // The error may quote the peer. It is escaped, so that control characters do not reach a terminal.
    let garbage = |error: serde_json::Error| WireError::Garbage(shortened(error.to_string().escape_debug()));
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(garbage)?;
    if value["type"] == "hello" {
        if value["protocol"] != PROTOCOL {
            return Err(WireError::Garbage(format!("the protocol is not {PROTOCOL}")));
        }
        match value["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => return Err(WireError::Version(version)),
            None => return Err(WireError::Garbage("the version is missing".into())),
        }
    }
    let message: Message = serde_json::from_value(value).map_err(garbage)?;
    message.check()?;
    Ok(message)
}

impl Message {
    /// Checks the limits that the types do not enforce.
    fn check(&self) -> Result<(), WireError> {
        let within = |text: &str, most: usize| match text.len() <= most {
            true => Ok(()),
            false => Err(WireError::Garbage("a text is too long".into())),
        };
        let short = |text: &str| within(text, LONGEST_TEXT);
        match self {
            Self::Hello { offer, .. } | Self::Accept { offer, .. } => check_regions(&offer.regions),
            Self::Regions { regions } => check_regions(regions),
            Self::Reject { text, .. } | Self::Close { text } => short(text),
            Self::File { step: FileMessage::Abort { text, .. } } => short(text),
            Self::File { step: FileMessage::Fetch { name, .. } | FileMessage::Offer { name, .. } } => {
                within(name, LONGEST_PATH)
            }
            Self::File { .. }
            | Self::Probe { .. }
            | Self::Mtu { .. }
            | Self::Path { .. }
            | Self::Alive { .. }
            | Self::Ready
            | Self::Proof { .. }
            | Self::Heartbeat => Ok(()),
        }
    }
}

fn check_regions(regions: &[RegionAdvertisement]) -> Result<(), WireError> {
    let named_well = |name: &str| name.len() <= LONGEST_TEXT && !name.contains(char::is_control);
    if regions.len() > REGIONS || !regions.iter().all(|region| region.name.as_deref().is_none_or(named_well))
    {
        return Err(WireError::Garbage("the table of regions exceeds its limits".into()));
    }
    Ok(())
}

/// Writes one message. The peer must read it within `patience`.
///
/// # Errors
/// The TCP connection has ended, or the peer does not read.
pub(super) async fn write_message(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &Message,
    patience: Duration,
) -> Result<(), WireError> {
    let frame = encode(message)?;
    timeout(patience, stream.write_all(&frame)).await.map_err(|_| WireError::Silent(patience))??;
    Ok(())
}

/// Encodes a message with its length.
///
/// # Errors
/// The message is too long.
pub(crate) fn encode(message: &Message) -> Result<Vec<u8>, WireError> {
    let json = serde_json::to_vec(message).map_err(|error| WireError::Garbage(error.to_string()))?;
    if json.len() > LARGEST_MESSAGE {
        return Err(WireError::TooLong(json.len()));
    }
    let mut frame = (json.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(&json);
    Ok(frame)
}

/// Cuts `text` to the longest text that a message may have.
pub(crate) fn shortened(text: impl std::fmt::Display) -> String {
    let mut text = text.to_string();
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
