//! The operations of an application, and what they are about.

use transport_common::queues::{AccessFlags, Completion, WorkRequest};
use transport_common::transaction::CompletionCode;

/// The purpose of a region at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Words for atomics: 8 for fetch-add, 8 for compare-and-swap.
    Atomics,
    /// Written repeatedly, in an order that matters.
    Overlap,
    /// Read only.
    Constant,
    /// At most one operation writes each byte.
    Unique,
    /// Registered without any right.
    Sealed,
    /// Not registered at all.
    Unknown,
}

impl Area {
    pub(super) const REGISTERED: [Self; 5] =
        [Self::Atomics, Self::Overlap, Self::Constant, Self::Unique, Self::Sealed];

    /// Returns the R_Key of the end at `place` of its host.
    #[must_use]
    pub fn key(self, place: usize) -> u32 {
        1 + place as u32 * 8 + self as u32
    }

    /// Returns the offset in the end's memory, and the length in bytes.
    #[must_use]
    pub const fn place(self) -> (u64, u64) {
        match self {
            Self::Atomics => (0, 128),
            Self::Overlap | Self::Sealed | Self::Unknown => (0x1000, 0x4000),
            Self::Constant => (0x10000, 0x10000),
            Self::Unique => (0x20000, 4 << 20),
        }
    }

    pub(super) const fn access(self) -> AccessFlags {
        match self {
            Self::Atomics => AccessFlags::REMOTE_ATOMIC,
            Self::Overlap | Self::Unique => AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE),
            Self::Constant => AccessFlags::REMOTE_READ,
            Self::Sealed | Self::Unknown => AccessFlags::empty(),
        }
    }

    /// Returns whether a request of `length` bytes at `address` that needs `rights` is within bounds and rights
    /// (D-84).
    #[must_use]
    pub const fn admits(self, rights: AccessFlags, address: u64, length: u32) -> bool {
        let size = self.place().1;
        self.access().contains(rights)
            && !matches!(self, Self::Unknown)
            && address <= size
            && length as u64 <= size - address
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// WRITE, with immediate or not.
    Write,
    /// READ.
    Read,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// A segment of a SEND.
    Send,
    /// An operation that the card refuses and never sends.
    Malformed,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Op {
    /// The work request as posted.
    pub work: WorkRequest,
    /// Its kind.
    pub kind: Kind,
    /// Offset of its buffer in the memory of the initiator's host.
    pub local: u64,
    /// Its place at the target; any for a SEND.
    pub area: Area,
    /// Its data.
    pub data: Vec<u8>,
    /// When it was posted, as a count of the application's actions.
    pub posted: u64,
    /// Its result, and when it ended.
    pub ended: Option<(u64, Completion)>,
}

impl Op {
    /// Returns the code with which a malformed operation ends. Only one that is sent from a wrong place names a place.
    #[must_use]
    pub fn refusal(&self) -> CompletionCode {
        let denied = self.work.local_offset != 0;
        if denied { CompletionCode::LocalProtection } else { CompletionCode::OperationError }
    }
}

/// A receive buffer at the target.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveBuffer {
    /// Offset in the target host's memory.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}
