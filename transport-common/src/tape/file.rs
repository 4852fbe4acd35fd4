//! The layout of a recorded trace: a [`Head`], then chunks up to [`ChunkKind::END`]. Each chunk is a [`ChunkHead`]
//! and its payload.
//!
//! Numbers are little endian. So is everything that is copied from memory: contexts and tapes. Their
//! layout depends on the build, so the head contains their sizes, and only the build that wrote a trace can read
//! it.

use super::Tag;
use crate::connection::Snapshot;

/// First bytes of a trace.
pub const MAGIC: [u8; 8] = *b"TIERCELT";
/// Version of this layout, of the notes, and of the order in which the datapath asks and decides. It is raised
/// when older traces can no longer be replayed.
pub const VERSION: u32 = 12;

/// Kind of a chunk ([`ChunkHead::kind`]). A reader refuses values without a name.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkKind(pub u32);

impl ChunkKind {
    /// The state of a connection at this point: slot (4 bytes), 0 (4), the entry. Steps that the entry already counts may still follow; the entry includes them.
    pub const CONNECTION: Self = Self(1);
    /// A run: kind, words in use, steps, 0 (4 bytes each), then the words in use.
    pub const RUN: Self = Self(2);
    /// Runs were lost here. The payload is the number of lost runs since the beginning (8 bytes). The connections
    /// are written again after it.
    pub const LOST: Self = Self(3);
    /// The last steps of the trace: for each connection its slot (4 bytes), generation (4) and number of steps (8). All
    /// these steps are in the trace. Later runs may contain steps beyond these, or of connections that are not named
    /// here. A replay cannot repeat them, because programs that do not record have made steps in between.
    pub const LAST: Self = Self(4);
    /// The trace is complete. The payload is the number of runs kept and the number of runs lost (8 bytes each).
    pub const END: Self = Self(5);
}

/// The beginning of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// [`VERSION`].
    pub version: u32,
    /// Size of an [`Snapshot`], bytes.
    pub entry_bytes: u32,
    /// Number of tags a note can have.
    pub tags: u32,
}

impl Head {
    /// Bytes of the head, including the magic.
    pub const LEN: usize = 20;
    /// The head of the traces that this build writes.
    pub const THIS: Self =
        Self { version: VERSION, entry_bytes: size_of::<Snapshot>() as u32, tags: Tag::COUNT };

    /// Returns the head's bytes in the file.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        let fields = [self.version, self.entry_bytes, self.tags];
        for (to, field) in bytes[8..].chunks_exact_mut(4).zip(fields) {
            to.copy_from_slice(&field.to_le_bytes());
        }
        bytes
    }

    /// Parses a head. Returns `None` if the magic differs.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let field = |n: usize| u32::from_le_bytes([bytes[n], bytes[n + 1], bytes[n + 2], bytes[n + 3]]);
        (bytes[..8] == MAGIC).then(|| Self { version: field(8), entry_bytes: field(12), tags: field(16) })
    }
}

/// The beginning of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// See [`ChunkKind`].
    pub kind: ChunkKind,
    /// Bytes of the payload.
    pub bytes: u32,
}

impl ChunkHead {
    /// Bytes of a chunk's head.
    pub const LEN: usize = 8;
    /// Longest payload of any chunk, bytes.
    pub const LONGEST: u32 = 1 << 18;

    /// Returns the bytes in the file.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let ([a, b, c, d], [e, f, g, h]) = (self.kind.0.to_le_bytes(), self.bytes.to_le_bytes());
        [a, b, c, d, e, f, g, h]
    }

    /// Parses the bytes in a file.
    pub const fn from_bytes([a, b, c, d, e, f, g, h]: [u8; Self::LEN]) -> Self {
        Self { kind: ChunkKind(u32::from_le_bytes([a, b, c, d])), bytes: u32::from_le_bytes([e, f, g, h]) }
    }
}

const _: () = assert!(size_of::<Snapshot>() + 8 <= ChunkHead::LONGEST as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_the_file() {
        assert_eq!(Head::from_bytes(&Head::THIS.to_bytes()), Some(Head::THIS));
        let mut other = Head::THIS.to_bytes();
        other[3] ^= 1;
        assert_eq!(Head::from_bytes(&other), None);
        let chunk = ChunkHead { kind: ChunkKind::RUN, bytes: 0x1234_5678 };
        assert_eq!(ChunkHead::from_bytes(chunk.to_bytes()), chunk);
    }
}
