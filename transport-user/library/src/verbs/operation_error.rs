//! The errors of operations on a connection.

use transport_common::transaction::CompletionCode;

use crate::common::error_kind::ErrorKind;

/// ULP code: invalid request (D-84).
const ULP_INVALID_REQUEST: u8 = 1;
/// ULP code: access denied (D-84).
const ULP_ACCESS: u8 = 2;
/// ULP code: operational error (D-84).
const ULP_OPERATIONAL: u8 = 3;

/// An operation that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// Falcon or the peer's ULP completed the operation in error.
    #[error("{text}", text = describe(*code, *ulp_code))]
    Completion {
        /// Falcon's completion code (F-11-33, F-11-34). 0 if only the ULP failed the operation (D-45).
        code: u8,
        /// Code of the peer's ULP (D-84): 0 none, 1 invalid request, 2 access, 3 operational.
        ulp_code: u8,
    },
    /// The data does not fit one transaction, and the operation may not use several.
    #[error(
        "{length} bytes do not fit one transaction of at most {limit} bytes, and on an unordered connection {what} cannot \
         be divided: send less, or use an ordered connection"
    )]
    TooLong {
        /// The operation: "a SEND" or "a WRITE with immediate data".
        what: &'static str,
        /// Bytes asked for.
        length: u64,
        /// Largest user data of one transaction of the connection, bytes.
        limit: u32,
    },
    /// The local buffer does not lie within its region.
    #[error("offset {offset} and length {length} exceed the local region of {size} bytes")]
    OutOfBounds {
        /// Offset in the local region.
        offset: u64,
        /// Length of the buffer, bytes.
        length: u64,
        /// Length of the local region, bytes.
        size: u64,
    },
    /// The local region belongs to another node of this process.
    #[error(
        "the local memory region belongs to another node: register the buffer with the connection's own node"
    )]
    ForeignRegion,
    /// The address of an atomic is not a multiple of 8.
    #[error("atomic address {0} is not a multiple of 8")]
    Misaligned(u64),
    /// The block protocol has no such operation.
    #[error("this connection has the block protocol, which has no {0}: connect again with ulp rdma")]
    NotOfBlocks(&'static str),
    /// The remote address or the length is not a multiple of 512, or the length is 0.
    #[error(
        "remote address {address} and length {length}: the block protocol reads and writes whole blocks of 512 bytes"
    )]
    PartOfBlock {
        /// Remote address.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// The remote address and the length exceed the 64-bit address space.
    #[error("remote address {address} and length {length} exceed 64 bits")]
    AddressOverflow {
        /// Remote address.
        address: u64,
        /// Bytes.
        length: u64,
    },
    /// The receive queue has no space for another receive.
    #[error("the receive queue is full ({0} receives are posted): wait for some to complete")]
    ReceiveQueueFull(usize),
    /// The connection was closed or failed before the operation could start.
    #[error("the connection is closed: open it again")]
    Closed,
}

/// A work request that cannot be posted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostError {
    /// The send queue or the completion queue is full.
    #[error("the queue is full: collect completions, then post again")]
    QueueFull,
    /// The connection was closed or has failed.
    #[error("the connection is closed: open it again")]
    Closed,
    /// The request is malformed. Examples are a length that exceeds one transaction, a local buffer outside the
    /// node's memory, a `wr_id` whose top bit is set, and a segment of a longer SEND on an unordered connection.
    #[error("malformed work request: {0}")]
    Malformed(&'static str),
}

impl OperationError {
    /// Returns its kind, for programs.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Completion { code, .. } => completion_kind(*code),
            Self::TooLong { .. }
            | Self::OutOfBounds { .. }
            | Self::ForeignRegion
            | Self::Misaligned(_)
            | Self::NotOfBlocks(_)
            | Self::PartOfBlock { .. }
            | Self::AddressOverflow { .. } => ErrorKind::Invalid,
            Self::ReceiveQueueFull(_) => ErrorKind::Exhausted,
            Self::Closed => ErrorKind::ConnectionLost,
        }
    }
}

impl PostError {
    /// Returns its kind, for programs.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::QueueFull => ErrorKind::Exhausted,
            Self::Closed => ErrorKind::ConnectionLost,
            Self::Malformed(_) => ErrorKind::Invalid,
        }
    }
}

/// Returns the kind of a completion in error. With code 0, the peer's ULP refused a pull (D-45).
fn completion_kind(code: u8) -> ErrorKind {
    use CompletionCode::*;
    match CompletionCode::from_code(code) {
        Some(LocalTimeout) => ErrorKind::TimedOut,
        Some(DeadConnection) => ErrorKind::ConnectionLost,
        Some(LocalResources | UlpCredit) => ErrorKind::Exhausted,
        Some(OperationError | LocalProtection) => ErrorKind::Invalid,
        Some(Ack | TargetNackCie | TargetNackNre | TargetNackCid | RemoteError | LocalXlr) | None => {
            ErrorKind::Refused
        }
    }
}

/// Returns the text of a completion code and an ULP code.
pub fn describe(code: u8, ulp_code: u8) -> String {
    let ulp = match ulp_code {
        0 => None,
        ULP_INVALID_REQUEST => Some("the peer refused it as an invalid request"),
        ULP_ACCESS => Some(
            "the peer denied access: unknown R_Key, address outside the region, or missing right; check the R_Key and the \
             rights of the region with `tiercel mr list` on the peer",
        ),
        ULP_OPERATIONAL => Some("the peer could not perform it"),
        _ => Some("the peer's ULP reported an unknown code"),
    };
    let falcon = match CompletionCode::from_code(code) {
        Some(CompletionCode::Ack) => "success",
        Some(CompletionCode::TargetNackCie) => "completed in error by the peer (kCmplTargetNackCIE)",
        Some(CompletionCode::TargetNackNre) => "the peer's ULP failed permanently (kCmplTargetNackNRE)",
        Some(CompletionCode::TargetNackCid) => {
            "the peer's ULP does not know the connection (kCmplTargetNackCID)"
        }
        Some(CompletionCode::LocalTimeout) => {
            "no answer in time (kCmplLocalTO): check that the peer runs and the link is up, and for a SEND or immediate data \
             that the peer has posted a receive (`tiercel recv post`); the operation may still take effect"
        }
        Some(CompletionCode::OperationError) => "malformed request or response (kCmplOpErr)",
        Some(CompletionCode::DeadConnection) => {
            "the connection has failed or was closed (kCmplDeadConn): open it again"
        }
        Some(CompletionCode::LocalResources) => "local resources are exhausted (kCmplLocalRsrc): try again",
        Some(CompletionCode::UlpCredit) => {
            "more was submitted than the credits allow (kUlpCmplCdtErr): wait for completions, then try again"
        }
        Some(CompletionCode::RemoteError) => "the peer dropped it (kCmplRemoteErr)",
        Some(CompletionCode::LocalXlr) => "dropped by a local function reset (kCmplLocalXlr)",
        Some(CompletionCode::LocalProtection) => {
            "the local buffer is not memory of this application (local protection error): check key and offset"
        }
        None => "reserved completion code",
    };
    match (code, ulp) {
        (0, Some(ulp)) => format!("{ulp} (ULP code {ulp_code})"),
        (_, Some(ulp)) => format!("{falcon}: {ulp} (completion code {code:#x}, ULP code {ulp_code})"),
        (_, None) => format!("{falcon} (completion code {code:#x})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F-11-33, F-11-34: every code has its sentence and shows its number.
    #[test]
    fn every_completion_code_reads_differently() {
        let texts: Vec<String> = (0..=16).map(|code| describe(code, 0)).collect();
        for (code, text) in texts.iter().enumerate() {
            assert!(text.ends_with(&format!("(completion code {code:#x})")), "{text}");
        }
        assert!(texts[0x8].contains("kCmplLocalTO") && texts[0xa].contains("kCmplDeadConn"));
        assert!(texts[0x8].contains("`tiercel recv post`") && texts[0x8].contains("may still take effect"));
        // F-11-34: these values are reserved, and no others.
        let reserved: Vec<usize> = (0..16).filter(|code| texts[*code].starts_with("reserved")).collect();
        assert_eq!(reserved, [0x2, 0x5, 0x6, 0x7, 0xe]);
        assert!(texts[0x10].contains("local protection error"), "a code of our own");
    }

    /// D-45: a pull that the remote ULP refused has Falcon code 0.
    #[test]
    fn a_refused_pull_speaks_of_the_peer_only() {
        let text = OperationError::Completion { code: 0, ulp_code: 2 }.to_string();
        assert!(text.starts_with("the peer denied access") && text.ends_with("(ULP code 2)"), "{text}");
    }

    #[test]
    fn programs_act_on_the_kind_of_a_failure() {
        let kind = |code| OperationError::Completion { code, ulp_code: 0 }.kind();
        assert_eq!(kind(CompletionCode::LocalTimeout as u8), ErrorKind::TimedOut);
        assert_eq!(kind(CompletionCode::DeadConnection as u8), OperationError::Closed.kind());
        assert_eq!(kind(CompletionCode::LocalResources as u8), PostError::QueueFull.kind());
        assert_eq!(kind(CompletionCode::TargetNackCie as u8), ErrorKind::Refused);
        assert_eq!(OperationError::Completion { code: 0, ulp_code: 2 }.kind(), ErrorKind::Refused);
    }
}
