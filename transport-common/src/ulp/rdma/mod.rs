//! The RDMA operation header: InfiniBand's transport headers, with one self-contained segment per transaction
//! (D-84).

use crate::wire::Malformed;
use bytemuck::{Pod, Zeroable};

mod decode;
mod headers;
mod packet;
mod requester;
mod responder;
mod ulp;

pub use decode::{
    ATOMIC_REQUEST_LEN, ATOMIC_RESPONSE_LEN, IMMEDIATE_LEN, Position, READ_REQUEST_LEN, RESPONSE_HEADER_LEN,
    RdmaPull, RdmaPush, RdmaResponse, SEND_HEADER_LEN, WRITE_HEADER_LEN, decode_pull, decode_pull_after,
    decode_push, decode_push_after, decode_response, decode_response_after,
};
pub use headers::{Aeth, AtomicEth, Bth, Reth};
pub use ulp::Rdma;

/// Opcode of a BTH. The named ones are in use; they are InfiniBand's for reliable connections (D-84). A packet may
/// carry any other value.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct Opcode(pub u8);

impl Opcode {
    /// First segment of a SEND.
    pub const SEND_FIRST: Self = Self(0x00);
    /// A segment of a SEND between first and last.
    pub const SEND_MIDDLE: Self = Self(0x01);
    /// Last segment of a SEND.
    pub const SEND_LAST: Self = Self(0x02);
    /// Last segment of a SEND, with immediate.
    pub const SEND_LAST_IMMEDIATE: Self = Self(0x03);
    /// A SEND of one segment.
    pub const SEND_ONLY: Self = Self(0x04);
    /// A SEND of one segment, with immediate.
    pub const SEND_ONLY_IMMEDIATE: Self = Self(0x05);
    /// A segment of a WRITE.
    pub const WRITE_ONLY: Self = Self(0x0a);
    /// The last segment of a WRITE, with immediate.
    pub const WRITE_ONLY_IMMEDIATE: Self = Self(0x0b);
    /// A READ of one segment.
    pub const READ_REQUEST: Self = Self(0x0c);
    /// Answer to a READ.
    pub const READ_RESPONSE_ONLY: Self = Self(0x10);
    /// Answer to an atomic.
    pub const ATOMIC_ACKNOWLEDGE: Self = Self(0x12);
    /// Compare and swap.
    pub const COMPARE_SWAP: Self = Self(0x13);
    /// Fetch and add.
    pub const FETCH_ADD: Self = Self(0x14);
}

/// Why a payload is not an RDMA operation. A target answers each of these with
/// [`UlpCode::INVALID_REQUEST`](super::UlpCode::INVALID_REQUEST).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RdmaError {
    /// The payload is shorter than the operation's headers.
    Truncated,
    /// A BTH transport version other than 0.
    Version,
    /// An opcode that this Falcon packet type does not carry.
    Opcode,
    /// Lengths that disagree, or a pad count.
    Length,
    /// An atomic on an address that is not a multiple of 8.
    Alignment,
    /// An AETH syndrome that is neither success nor an error code.
    Syndrome,
}

impl From<RdmaError> for Malformed {
    #[inline(always)]
    fn from(error: RdmaError) -> Self {
        match error {
            RdmaError::Truncated => Self::RdmaTruncated,
            RdmaError::Version => Self::RdmaVersion,
            RdmaError::Opcode => Self::RdmaOpcode,
            RdmaError::Length => Self::RdmaLength,
            RdmaError::Alignment => Self::RdmaAlignment,
            RdmaError::Syndrome => Self::RdmaSyndrome,
        }
    }
}
