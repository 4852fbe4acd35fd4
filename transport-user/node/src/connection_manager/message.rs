//! The messages between two connection managers over TCP, and their framing.
//!
//! A message is a length of 4 bytes, big-endian, and that many bytes of JSON. Unknown fields are ignored
//! ([`super::capabilities`] says why that is safe). The exchange is `Hello` -> `Accept`
//! (or `Reject`) -> `Ready`. Between `Hello` and `Accept`, ends that search for the MTU of the path exchange `Probe` and
//! `Path`. After `Ready`, ends that prove the data path exchange `Proof`. Then each end sends `Heartbeat` ten times in the
//! time after which the peer would count as dead, `Regions` when its registered regions change, `File` for file transfers,
//! `Probe` when the path is searched again, `Mtu` when it has become smaller, and `Close` at the end. While the end that has connected hears nothing, it asks
//! with `Alive` over another TCP connection.

use std::time::Duration;

use serde::{Deserialize, Serialize};
pub use tiercel::status::RegionAdvertisement;
use tiercel::{ErrorKind, Mac, Tunnel, Ulp};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use transport_common::queues::REGIONS;

use super::capabilities::{Introduction, VERSIONS, Versions};
use super::file_message::FileMessage;
use super::path_reports::{ProbeOffer, Proof, SmallerMtu};

/// Name of the protocol in `Hello`.
pub const PROTOCOL: &str = "tiercel-connection-manager";
/// Largest message, bytes. A full region table fits.
pub const LARGEST_MESSAGE: usize = 64 << 10;
/// Longest name or text that a peer may send, bytes.
pub(super) const LONGEST_TEXT: usize = 255;
/// Longest path of a file that a peer may send, bytes.
const LONGEST_PATH: usize = 1023;

/// A message between connection managers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// The offer of the connecting end. This is the first message.
    Hello {
        /// [`PROTOCOL`].
        protocol: String,
        /// What the connecting end is able to do.
        introduction: Introduction,
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
        /// What the accepting end is able to do.
        introduction: Introduction,
        /// The offer of the accepting end. Its MTU is at most that of the path.
        offer: Box<Offer>,
        /// Largest IP packet that crosses the path in both directions, bytes, if it was found.
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
        /// The reason, for programs.
        reason: Ending,
        /// The reason, for people at the receiver: there the sender is "the peer".
        text: String,
    },
}

/// Why a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The user of the sender closed the connection.
    User,
    /// The connection was closed at the sender, and not by its connection manager.
    Closed,
    /// Packet delivery of the sender failed (F-11-6).
    Failed,
    /// The node of the sender goes down.
    Down,
    /// The data path does not carry the packets of the connection any more.
    Path,
    /// A reason that a later release has. The text says more.
    #[serde(other)]
    Other,
}

/// Why a connection is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The ends speak no version of the protocol in common.
    Version,
    /// The connection needs a capability that is not common to both ends.
    Capability,
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
    /// A reason that a later release has. The text says more.
    #[serde(other)]
    Other,
}

/// The offer of one end for its half of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The upper layer protocol. The connecting end decides, and requires the capability of this name.
    pub ulp: Ulp,
    /// The inner addresses of this end and of the peer in tunnel mode (F-7.1.2-1), `None` in transport mode. The connecting
    /// end decides, and requires the capability for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// Time in milliseconds after which a peer of which nothing arrives counts as dead, for both ends. The connecting end
    /// decides.
    pub patience_ms: u64,
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
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum SecurityOffer {
    /// D-83: no encryption.
    Plaintext {
        /// SPI that the peer writes into packets to this end, not 0.
        spi: u32,
    },
}

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// The ends speak no version of the protocol in common. These are the peer's.
    #[error(
        "the peer speaks {0} of the protocol, and this node {VERSIONS}: install a newer release on {older}",
        older = older_end(.0)
    )]
    Version(Versions),
    /// The peer requires a capability that this release does not know. Its name.
    #[error(
        "the peer requires the capability \"{0}\", which this release does not know: install a newer release on this node"
    )]
    Capability(String),
}

/// Returns the end that speaks the older versions, if those of the peer have none in common with this end's.
fn older_end(peers: &Versions) -> &'static str {
    if peers.highest < VERSIONS.lowest { "the peer's node" } else { "this node" }
}

impl WireError {
    /// Returns its kind, for programs.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Ended(_) => ErrorKind::ConnectionLost,
            Self::Silent(_) => ErrorKind::TimedOut,
            Self::TooLong(_) | Self::Garbage(_) | Self::Version(_) | Self::Capability(_) => {
                ErrorKind::Unsupported
            }
        }
    }

    /// Returns the error as the peer reads it, for whom this end is "it".
    pub(super) fn for_peer(&self) -> String {
        match self {
            Self::Version(peers) if peers.highest < VERSIONS.lowest => format!(
                "it speaks {VERSIONS} of the protocol, and this node {peers}: install a newer release on this node"
            ),
            Self::Version(peers) => format!(
                "it speaks {VERSIONS} of the protocol, and this node {peers}: install a newer release there"
            ),
            Self::Capability(name) => format!(
                "it does not know the capability \"{name}\", which the connection needs: install a newer release there"
            ),
            error => error.to_string(),
        }
    }
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

/// Decodes a message. Checks how the peer introduces itself first, because an offer of another version, or of a peer that
/// requires what this release does not know, may have another form.
pub(crate) fn decode(bytes: &[u8]) -> Result<Message, WireError> {
    // The error may quote the peer. It is escaped, so that control characters do not reach a terminal.
    let garbage = |error: serde_json::Error| WireError::Garbage(shortened(error.to_string().escape_debug()));
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(garbage)?;
    let is_hello = value["type"] == "hello";
    if is_hello && value["protocol"] != PROTOCOL {
        return Err(WireError::Garbage(format!("the protocol is not {PROTOCOL}")));
    }
    if is_hello || value["type"] == "accept" {
        let introduction = &value["introduction"];
        let versions = Versions::deserialize(&introduction["versions"]).map_err(garbage)?;
        if VERSIONS.in_common(versions).is_none() {
            return Err(WireError::Version(versions));
        }
        let introduction = Introduction::deserialize(introduction).map_err(garbage)?;
        introduction.check().map_err(|text| WireError::Garbage(text.to_owned()))?;
        if let Some(name) = introduction.unknown() {
            return Err(WireError::Capability(name.to_owned()));
        }
    }
    let message: Message = serde_json::from_value(value).map_err(garbage)?;
    message.check()?;
    Ok(message)
}

impl Message {
    /// Returns the last message of a session.
    pub(super) fn close(reason: Ending, text: &str) -> Self {
        Self::Close { reason, text: shortened(text) }
    }

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
            Self::Reject { text, .. } | Self::Close { text, .. } => short(text),
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
