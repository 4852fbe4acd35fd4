//! The steps of a file transfer, which two connection managers pass on.

use serde::{Deserialize, Serialize};
pub use tiercel::control::request::Via;

/// The steps of a file transfer. Falcon carries the content, never these messages.
///
/// A transfer begins with `Offer` (from the source) or `Fetch` (from the sink). The sink answers an offer with
/// `Ready`. For every chunk, the source sends `Chunk` when the chunk is written or can be read, and the sink sends
/// `Stored`. With SEND there is no `Chunk`, because the chunk itself arrives. `End` has the hash of the bytes that
/// the source read. `Verdict` has the hash of the bytes that the sink stored. An end whose file system or whose turn keeps
/// it waiting says so by `Waiting`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
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
