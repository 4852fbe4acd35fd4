//! The transaction sublayer (sections 8 and 11): initiator, target, order by RSN, responses, completion codes.
//!
//! [`Initiator`] owns our requests to the peer, [`Target`] the peer's requests to us. Neither knows the meaning of
//! a request or the packet that carries it. [`Submissions`] is the application's side. Everything else is an
//! argument or is returned.

mod initiator;
mod record;
mod response;
mod target;
#[cfg(test)]
mod tests;

use crate::ids::{Rsn, WorkPosition};
use crate::wire::resync::ResyncCode;

pub use initiator::{Initiator, PULL_CREDITS};
pub use record::{Transaction, TransactionState};
pub use response::{Response, ResponseState, Responses};
pub use target::{Arrived, Duplicate, Held, RequestFlags, RequestState, Target, TargetRequest};

/// Number of outstanding transactions that an initiator keeps, and of requests that a target can hold for
/// ordering.
pub const TRANSACTIONS: usize = 256;
/// Number of pull responses that a target keeps until they are acknowledged.
pub const RESPONSES: usize = 128;

/// The two kinds of a transaction (F-6.1.1-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Data goes to the target.
    Push = 0,
    /// Data comes from the target.
    Pull = 1,
}

/// Values of the ULP for a request, which its completion repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Push or pull.
    pub kind: Kind,
    /// The ULP's own operation code.
    pub opcode: u8,
    /// The ULP's own flags.
    pub flags: u8,
    /// Bytes of user data.
    pub length: u32,
}

/// The application's side of the initiator: its submitted requests, and the reports of their results. What the
/// application writes is untrusted. Two reads of the same value may differ.
pub trait Submissions: Copy {
    /// Returns the position after the newest request.
    fn submitted(&self) -> WorkPosition;
    /// Prefetches a request that the application wrote.
    fn touch(&self, work: WorkPosition);
    /// Returns the kind of a request.
    fn kind(&self, work: WorkPosition) -> Kind;
    /// Returns the label of a request.
    fn label(&self, work: WorkPosition) -> Label;
    /// Reports how a transaction ended. Returns false if there is no space for the report now.
    fn report(&self, rsn: Rsn, transaction: &Transaction) -> bool;
    /// Lets the application reuse the slots of the requests before `work`.
    fn release(&self, work: WorkPosition);
}

/// Result of a transaction (F-11-33, F-11-34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CompletionCode {
    /// Success.
    Ack = 0x0,
    /// The target ULP completed the push in error.
    TargetNackCie = 0x1,
    /// The target ULP reported a non-recoverable error.
    TargetNackNre = 0x3,
    /// The target ULP does not know the connection.
    TargetNackCid = 0x4,
    /// Timed out locally.
    LocalTimeout = 0x8,
    /// Malformed request, or a response larger than requested.
    OperationError = 0x9,
    /// The connection is dead.
    DeadConnection = 0xa,
    /// Local resources exhausted.
    LocalResources = 0xb,
    /// The ULP submitted beyond its credits (kUlpCmplCdtErr). Packet delivery and transactions never produce it; it
    /// is for a ULP (D-49).
    UlpCredit = 0xc,
    /// The peer dropped the transaction (remote xLR).
    RemoteError = 0xd,
    /// Local xLR.
    LocalXlr = 0xf,
    /// The work request or the receive names memory that is not the application's. It is none of Falcon's codes, which have
    /// 4 bits: no packet carries it.
    LocalProtection = 0x10,
}

impl CompletionCode {
    /// Returns the completion code of a transaction whose packet became a Resync with `code` (D-47, F-11-24).
    pub const fn of_resync(code: ResyncCode) -> Self {
        match code {
            ResyncCode::TARGET_ULP_COMPLETE_IN_ERROR => Self::TargetNackCie,
            ResyncCode::LOCAL_XLR => Self::LocalXlr,
            ResyncCode::REMOTE_XLR => Self::RemoteError,
            ResyncCode::TARGET_ULP_NON_RECOVERABLE => Self::TargetNackNre,
            ResyncCode::TARGET_ULP_INVALID_CID => Self::TargetNackCid,
            _ => Self::LocalTimeout,
        }
    }

    /// Decodes a value. Returns `None` for reserved values.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x0 => Self::Ack,
            0x1 => Self::TargetNackCie,
            0x3 => Self::TargetNackNre,
            0x4 => Self::TargetNackCid,
            0x8 => Self::LocalTimeout,
            0x9 => Self::OperationError,
            0xa => Self::DeadConnection,
            0xb => Self::LocalResources,
            0xc => Self::UlpCredit,
            0xd => Self::RemoteError,
            0xf => Self::LocalXlr,
            0x10 => Self::LocalProtection,
            _ => return None,
        })
    }
}

/// Prefetches the first of the new requests. Each is in a cache line that the application wrote. Fetching them
/// together costs little more than fetching one.
#[inline(always)]
fn fetch_ahead(sends: impl Submissions, from: Rsn, to: Rsn) {
    const AHEAD: u32 = 8;
    let new = to.distance_from(from);
    let mut n = 0;
    while n < AHEAD {
        if n < new {
            sends.touch(WorkPosition::of(from.add(n)));
        }
        n += 1;
    }
}
