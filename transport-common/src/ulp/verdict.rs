//! What a ULP decides about the peer's requests, and the verdict on the peer's answers.

use super::operation::{Operation, OperationKind, UlpCode};
use super::request::{Verb, WorkRequest};
use crate::memory::{Domain, LKey, Resolved};
use bitflags::bitflags;
use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

bitflags! {
    /// Additional effects of placing a push.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub struct PlaceFlags: u32 {
        /// It completes a posted receive.
        const RECEIVES = 1;
        /// The receive completion carries immediate data.
        const IMMEDIATE = 2;
        /// It is the last segment that its receive waits for.
        const LAST = 4;
        /// The place is not the application's: its receive ends with a local protection error.
        const DENIED = 8;
    }
}

/// Where to place the data of a push.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Place {
    /// Offset in the node's memory, or in the region that `lkey` names.
    pub memory_offset: u64,
    /// Index of the posted receive that it uses.
    pub receive: u32,
    /// Additional effects of the placement.
    pub flags: PlaceFlags,
    /// Bytes of the message up to and including this segment.
    pub message_length: u32,
    /// The key of the application under which the place has to be found first. [`LKey::OWN`]: it is found.
    pub lkey: LKey,
}

/// The ULP's verdict on a push. All values except the first and the last complete the push in error, with the
/// value as the ULP code (D-84).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PushVerdict {
    /// Place its data.
    Take = 0,
    /// Malformed, at a wrong position in a message, or larger than its receive.
    Invalid = UlpCode::INVALID_REQUEST.0,
    /// Access to the memory is not allowed.
    Access = UlpCode::ACCESS.0,
    /// The ULP is not ready: no receive is posted, its completion has no place, or what the push names is busy (F-6.4-1).
    NotReady = u8::MAX,
}

/// The ULP's verdict on a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullVerdict {
    /// Answer at once.
    Answer(AnswerKind, UlpCode),
    /// Execute the atomic at this place first. Its result is the answer.
    Execute(Atomic, Resolved),
    /// The ULP is not ready, or answers later. It gets the pull again when its RNR time is over (F-8.5.3.4-2).
    NotReady,
}

/// An atomic operation on a word of the node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Atomic {
    /// Stores the swap value if the word equals the compare value.
    CompareSwap,
    /// Adds the addend to the word.
    FetchAdd,
}

/// The content of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
#[repr(u8)]
pub enum AnswerKind {
    /// An error of the ULP (D-45).
    #[default]
    Error = 0,
    /// Data read from registered memory when the packet is built.
    Read = 1,
    /// The original value of an atomic.
    Atomic = 2,
}

/// The answer to a pull. It is kept as long as its Pull Data may have to be built.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct Answer {
    /// READ: address in the region. Atomic: the original value.
    pub operand: u64,
    /// READ: the region.
    pub rkey: u32,
    /// READ: bytes.
    pub length: u32,
    /// Its content.
    pub kind: AnswerKind,
    /// ULP code of an error.
    pub code: UlpCode,
    /// 0.
    pub reserved: [u8; 6],
}

/// What Pull Data contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AnswerVerdict {
    /// The requested data.
    Data,
    /// The original value of the requested atomic.
    Value,
    /// An error of the target ULP (D-45).
    Error,
    /// Something else than requested.
    Misfit,
    /// The requested data, but its place is not the application's.
    Denied,
}

impl AnswerVerdict {
    /// Checks whether the answer `op` fits `work`, a pull of `code` for `length` bytes (F-8.4.3.2-1..3, D-48), and the
    /// memory of `domain`. The work request is read from the application's memory a second time, so `code` and `length` are
    /// those recorded when the request was sent. A place in a region is judged when the region is known.
    ///
    /// This is the same for all ULPs: their parsers have found the kind of answer.
    #[inline(always)]
    pub const fn of(op: &Operation, code: Verb, length: u32, work: &WorkRequest, domain: &Domain) -> Self {
        let read = matches!(code, Verb::READ);
        let held = work.lkey.0 != LKey::OWN.0 || domain.holds(work.local_offset, op.length as u64);
        match op.kind {
            OperationKind::ReadResponse if read && op.length <= length => {
                if held {
                    Self::Data
                } else {
                    Self::Denied
                }
            }
            OperationKind::AtomicResponse if !read => {
                if held {
                    Self::Value
                } else {
                    Self::Denied
                }
            }
            OperationKind::ErrorResponse => Self::Error,
            _ => Self::Misfit,
        }
    }
}
