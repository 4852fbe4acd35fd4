//! The transaction sublayer (sections 8 and 11): initiator, target, order by RSN, responses, completion codes.

mod initiator;
mod response;
mod target;

pub use initiator::{Initiator, PULL_CREDITS, Transaction, transaction_state};
pub use response::{Response, response_kind, response_state};
pub(crate) use target::{NO_REQUEST, request_flag};
pub use target::{Target, TargetRequest, request_state};

/// How a transaction ended (F-11-33, F-11-34); 4 bits.
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
    /// The peer dropped it (remote xLR).
    RemoteError = 0xd,
    /// Local xLR.
    LocalXlr = 0xf,
}

impl CompletionCode {
    /// The code under which a transaction completes whose packet became a Resync with `code` (D-47, F-11-24).
    pub(crate) const fn of_resync(code: u8) -> Self {
        match code {
            1 => Self::TargetNackCie,
            2 => Self::LocalXlr,
            5 => Self::RemoteError,
            6 => Self::TargetNackNre,
            7 => Self::TargetNackCid,
            _ => Self::LocalTimeout,
        }
    }

    /// Decodes the 4-bit value; reserved values give `None`.
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
            0xd => Self::RemoteError,
            0xf => Self::LocalXlr,
            _ => return None,
        })
    }
}
