//! What two connection managers say to one another over TCP, and how it is framed.
//!
//! A message is a length of 4 bytes, big-endian, and that many bytes of JSON. The exchange is
//! `Hello` -> `Accept` (or `Reject`) -> `Ready`; then either end sends `Heartbeat` every second, `Regions` when its
//! registered regions change, `File` for transfers of files, and `Close` at the end.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use transport_common::queues::REGIONS;

use crate::mac::Mac;

/// Names the protocol in `Hello`.
pub const PROTOCOL: &str = "tiercel-connection-manager";
/// Version of the protocol; both ends must speak the same.
pub const VERSION: u32 = 1;
/// Largest message in bytes: a full region table fits.
pub const LARGEST_MESSAGE: usize = 64 << 10;
/// Longest name or text a peer may send, bytes.
pub(super) const LONGEST_TEXT: usize = 255;

/// A message between connection managers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Message {
    /// The connecting end's offer, the first message of all.
    Hello {
        /// [`PROTOCOL`].
        protocol: String,
        /// [`VERSION`].
        version: u32,
        /// What the connecting end brings.
        offer: Box<Offer>,
    },
    /// The accepting end's half; its connection is open and waits for packets.
    Accept {
        /// What the accepting end brings.
        offer: Box<Offer>,
    },
    /// The accepting end declines.
    Reject {
        /// For programs.
        reason: Rejection,
        /// For people.
        text: String,
    },
    /// The connecting end is open as well: requests may flow.
    Ready,
    /// Nothing to say, still here.
    Heartbeat,
    /// The regions the sender has registered now.
    Regions {
        /// All of them.
        regions: Vec<RegionAdvertisement>,
    },
    /// A step of a file transfer.
    File {
        /// The step.
        step: FileMessage,
    },
    /// The connection ends; nothing follows.
    Close {
        /// Why, for people.
        text: String,
    },
}

/// Why a connection is declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// Another protocol version.
    Version,
    /// No free CID.
    TableFull,
    /// Too many handshakes at once.
    Busy,
    /// The offer cannot be accepted.
    Offer,
    /// The node could not open its half.
    Node,
}

/// One end's half of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// CID to be written into packets to this end (F-6.2-2).
    pub cid: u32,
    /// First PSN this end sends in the request window (D-18).
    pub request_psn: u32,
    /// First PSN this end sends in the data window (D-18).
    pub data_psn: u32,
    /// First RSN this end sends (D-18).
    pub rsn: u32,
    /// IP MTU of this end in bytes; the smaller of both holds.
    pub mtu: u32,
    /// Largest user data of one transaction in bytes; the smaller of both holds.
    pub max_segment: u32,
    /// Requests are delivered in RSN order; the connecting end decides.
    pub ordered: bool,
    /// Receive window for requests, packets: the peer's transmit window stays within.
    pub request_window: u32,
    /// Receive window for data, packets.
    pub data_window: u32,
    /// Security association for packets to this end.
    pub security: SecurityOffer,
    /// This end's MAC address, for peers on the same link that do not find it in their neighbour table. Across a
    /// router they have to find the next hop's there.
    pub mac: Mac,
    /// Destination function to be written into packets to this end (D-15).
    pub function: u32,
    /// This end's clock in picoseconds, the peer's first Remote Time (F-9.2.1-5).
    pub time: u64,
    /// Regions this end has registered.
    pub regions: Vec<RegionAdvertisement>,
}

/// Security association of one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum SecurityOffer {
    /// D-83: no encryption.
    Plaintext {
        /// SPI to be written into packets to this end, not 0.
        spi: u32,
    },
}

/// A registered region as the peer sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionAdvertisement {
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// R_Key.
    pub rkey: u32,
    /// Bytes.
    pub length: u64,
    /// Access rights, bits of [`transport_common::queues::AccessFlags`].
    pub access: u32,
}

/// How the content of a file crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Via {
    /// The source WRITEs into the sink's memory.
    Write,
    /// The sink READs the source's memory.
    Read,
    /// The source SENDs into receives the sink has posted.
    Send,
}

/// Steps of a file transfer. The content itself crosses by Falcon, never here.
///
/// `Offer` (source) or `Fetch` (sink) opens; the sink answers an offer with `Ready`; then for every chunk the
/// source says `Chunk` once the sink can have it (not for SEND, where its arrival says so), and the sink says
/// `Stored`. `End` carries the hash of what the source read, `Verdict` whether the sink stored just that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
pub enum FileMessage {
    /// The sink asks for a file the peer keeps.
    Fetch {
        /// Number of the transfer, chosen by the sink.
        transfer: u64,
        /// Name in the peer's directory.
        name: String,
        /// How it is to cross.
        via: Via,
    },
    /// The source offers a file.
    Offer {
        /// Number of the transfer; that of the `Fetch` it answers, if any.
        transfer: u64,
        /// Name it should get; the `Fetch`'s, if any.
        name: String,
        /// How it is to cross.
        via: Via,
        /// Bytes.
        length: u64,
        /// Bytes of each chunk; the last may be shorter.
        chunk: u32,
        /// Chunks that may be under way at once.
        slots: u32,
        /// R_Key of the source's chunks (READ), else 0.
        rkey: u32,
        /// Whether a file of that name may be replaced.
        overwrite: bool,
    },
    /// The sink is ready.
    Ready {
        /// Number of the transfer.
        transfer: u64,
        /// R_Key of the sink's chunks (WRITE), else 0.
        rkey: u32,
    },
    /// Chunk `index` stands in slot `index % slots`.
    Chunk {
        /// Number of the transfer.
        transfer: u64,
        /// From 0.
        index: u64,
    },
    /// Chunk `index` is stored; its slot is free.
    Stored {
        /// Number of the transfer.
        transfer: u64,
        /// From 0.
        index: u64,
    },
    /// Everything was sent.
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
    /// Either end gives up.
    Abort {
        /// Number of the transfer.
        transfer: u64,
        /// Why, for people.
        text: String,
    },
}

impl FileMessage {
    /// Number of the transfer.
    pub fn transfer(&self) -> u64 {
        match self {
            Self::Fetch { transfer, .. }
            | Self::Offer { transfer, .. }
            | Self::Ready { transfer, .. }
            | Self::Chunk { transfer, .. }
            | Self::Stored { transfer, .. }
            | Self::End { transfer, .. }
            | Self::Verdict { transfer, .. }
            | Self::Abort { transfer, .. } => *transfer,
        }
    }
}

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The peer closed or lost the TCP connection.
    #[error("the TCP connection ended: {0}")]
    Ended(#[from] std::io::Error),
    /// It said nothing, or not all of a message, for too long.
    #[error("no whole message within {} s", .0.as_secs())]
    Silent(Duration),
    /// The length is beyond [`LARGEST_MESSAGE`].
    #[error("a message of {0} bytes, at most {LARGEST_MESSAGE} are allowed")]
    TooLong(usize),
    /// It is not what this protocol says.
    #[error("not a message of the protocol: {0}")]
    Garbage(String),
    /// It speaks another version.
    #[error(
        "it speaks version {0} of the protocol, this node speaks version {VERSION}: install the same release on both"
    )]
    Version(u64),
}

/// Reads one message; all of it has to arrive within `patience`.
///
/// # Errors
/// See [`WireError`]; after any of them the stream is of no more use.
pub(super) async fn read_message(
    stream: &mut (impl AsyncRead + Unpin),
    patience: Duration,
) -> Result<Message, WireError> {
    let bytes = timeout(patience, read_frame(stream)).await.map_err(|_| WireError::Silent(patience))??;
    decode(&bytes)
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, WireError> {
    let length = stream.read_u32().await? as usize;
    if length > LARGEST_MESSAGE {
        return Err(WireError::TooLong(length));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Another version's `Hello` may look different otherwise, so protocol and version are looked at first.
fn decode(bytes: &[u8]) -> Result<Message, WireError> {
    // The error may quote the peer: its text must not reach a terminal as it is.
    let garbage = |error: serde_json::Error| WireError::Garbage(shortened(error.to_string().escape_debug()));
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(garbage)?;
    if value["type"] == "hello" {
        if value["protocol"] != PROTOCOL {
            return Err(WireError::Garbage(format!("the protocol is not {PROTOCOL}")));
        }
        match value["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => return Err(WireError::Version(version)),
            None => return Err(WireError::Garbage("no version".into())),
        }
    }
    let message: Message = serde_json::from_value(value).map_err(garbage)?;
    message.check()?;
    Ok(message)
}

impl Message {
    /// The limits that the type does not hold by itself.
    fn check(&self) -> Result<(), WireError> {
        let short = |text: &str| {
            if text.len() <= LONGEST_TEXT {
                Ok(())
            } else {
                Err(WireError::Garbage("a text is too long".into()))
            }
        };
        match self {
            Self::Hello { offer, .. } | Self::Accept { offer } => check_regions(&offer.regions),
            Self::Regions { regions } => check_regions(regions),
            Self::Reject { text, .. } | Self::Close { text } => short(text),
            Self::File { step: FileMessage::Abort { text, .. } } => short(text),
            Self::File { step: FileMessage::Fetch { name, .. } | FileMessage::Offer { name, .. } } => {
                short(name)
            }
            Self::File { .. } | Self::Ready | Self::Heartbeat => Ok(()),
        }
    }
}

fn check_regions(regions: &[RegionAdvertisement]) -> Result<(), WireError> {
    let named_well = |name: &str| name.len() <= LONGEST_TEXT && !name.contains(char::is_control);
    if regions.len() > REGIONS || !regions.iter().all(|region| region.name.as_deref().is_none_or(named_well))
    {
        return Err(WireError::Garbage("the table of regions is beyond its limits".into()));
    }
    Ok(())
}

/// Writes one message; the peer has to take it within `patience`.
///
/// # Errors
/// The peer is gone or does not read.
pub(super) async fn write_message(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &Message,
    patience: Duration,
) -> Result<(), WireError> {
    let frame = encode(message)?;
    timeout(patience, stream.write_all(&frame)).await.map_err(|_| WireError::Silent(patience))??;
    Ok(())
}

/// A message as it stands on the wire.
///
/// # Errors
/// It is too long.
pub(super) fn encode(message: &Message) -> Result<Vec<u8>, WireError> {
    let json = serde_json::to_vec(message).map_err(|error| WireError::Garbage(error.to_string()))?;
    if json.len() > LARGEST_MESSAGE {
        return Err(WireError::TooLong(json.len()));
    }
    let mut frame = (json.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(&json);
    Ok(frame)
}

/// `text`, cut to what a message may carry.
pub(crate) fn shortened(text: impl std::fmt::Display) -> String {
    let mut text = text.to_string();
    let mut end = text.len().min(LONGEST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
