//! Operations: which headers form one, and which lengths must agree (D-84).

use super::{Aeth, AtomicEth, Bth, Opcode, RdmaError, Reth};
use crate::ulp::UlpCode;
use crate::wire::cursor::Cursor;
use crate::wire::field::{get_u32, get_u64};

/// Bytes of the immediate that follows the other headers.
pub const IMMEDIATE_LEN: usize = 4;
/// Bytes of the headers of a SEND segment without immediate.
pub const SEND_HEADER_LEN: usize = Bth::LEN;
/// Bytes of the headers of a WRITE segment without immediate.
pub const WRITE_HEADER_LEN: usize = Bth::LEN + Reth::LEN;
/// Bytes of payload of a READ's Pull Request.
pub const READ_REQUEST_LEN: usize = Bth::LEN + Reth::LEN;
/// Bytes of payload of an atomic's Pull Request.
pub const ATOMIC_REQUEST_LEN: usize = Bth::LEN + AtomicEth::LEN;
/// Bytes of the headers before the data of a READ's answer. The answer to a failed pull has only these.
pub const RESPONSE_HEADER_LEN: usize = Bth::LEN + Aeth::LEN;
/// Bytes of payload of an atomic's answer.
pub const ATOMIC_RESPONSE_LEN: usize = RESPONSE_HEADER_LEN + 8;

/// Position of a segment in a SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither the first nor the last of several.
    Middle,
    /// The last of several.
    Last,
    /// The only one.
    Only,
}

/// The operation that Push Data asks the target for. The data follows the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaPush {
    /// Place the data in a region.
    Write {
        /// Where to place it.
        reth: Reth,
        /// Passed to the receiver's completion queue.
        immediate: Option<u32>,
    },
    /// Place the data in a posted receive.
    Send {
        /// Which segment of the message this is.
        position: Position,
        /// Passed to the receiver's completion queue; only with the last segment.
        immediate: Option<u32>,
    },
}

/// The operation that a Pull Request asks the target for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaPull {
    /// Return data from a region.
    Read {
        /// Where the data is.
        reth: Reth,
    },
    /// Replace a value if it equals the expected one. The answer carries the original value.
    CompareSwap {
        /// The address, the expected value and the new value.
        atomic: AtomicEth,
    },
    /// Add to a value. The answer carries the original value.
    FetchAdd {
        /// The address and the addend.
        atomic: AtomicEth,
    },
}

/// The answer in Pull Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaResponse {
    /// The READ's data follows the headers.
    Read,
    /// The atomic's original value.
    Atomic {
        /// The value at the address before the operation.
        original: u64,
    },
    /// The operation failed at the target.
    Failed {
        /// See [`UlpCode`].
        code: UlpCode,
    },
}

/// Parses the headers of a Push Data payload of `payload_len` bytes. Returns the operation and the length of the
/// headers.
///
/// # Errors
/// See [`RdmaError`]. `Length` if the RETH length of a WRITE is not the length of its data.
#[inline(always)]
pub fn decode_push<C: Cursor>(c: &mut C, payload_len: usize) -> Result<(RdmaPush, usize), RdmaError> {
    let bth = Bth::decode(c)?;
    decode_push_after(&bth, c, payload_len)
}

/// Like [`decode_push`], for a caller that has parsed the BTH. `payload_len` and the result include the BTH.
///
/// # Errors
/// Those of [`decode_push`].
#[inline(always)]
pub fn decode_push_after<C: Cursor>(
    bth: &Bth,
    c: &mut C,
    payload_len: usize,
) -> Result<(RdmaPush, usize), RdmaError> {
    let (position, has_immediate) = match bth.opcode {
        Opcode::WRITE_ONLY => (None, false),
        Opcode::WRITE_ONLY_IMMEDIATE => (None, true),
        Opcode::SEND_FIRST => (Some(Position::First), false),
        Opcode::SEND_MIDDLE => (Some(Position::Middle), false),
        Opcode::SEND_LAST => (Some(Position::Last), false),
        Opcode::SEND_LAST_IMMEDIATE => (Some(Position::Last), true),
        Opcode::SEND_ONLY => (Some(Position::Only), false),
        Opcode::SEND_ONLY_IMMEDIATE => (Some(Position::Only), true),
        _ => return Err(RdmaError::Opcode),
    };
    let fixed = if position.is_some() { SEND_HEADER_LEN } else { WRITE_HEADER_LEN };
    let header_len = if has_immediate { fixed + IMMEDIATE_LEN } else { fixed };
    let Some(data_len) = payload_len.checked_sub(header_len) else {
        return Err(RdmaError::Truncated);
    };
    let reth = match position {
        None => Some(Reth::decode(c)?),
        Some(_) => None,
    };
    let immediate =
        if has_immediate { Some(get_u32::<0, _>(&c.take::<4>().ok_or(RdmaError::Truncated)?)) } else { None };
    match (position, reth) {
        (Some(position), _) => Ok((RdmaPush::Send { position, immediate }, header_len)),
        (None, Some(reth)) if reth.length as usize == data_len => {
            Ok((RdmaPush::Write { reth, immediate }, header_len))
        }
        (None, _) => Err(RdmaError::Length), // D-84
    }
}

/// Parses a Pull Request payload of `payload_len` bytes. The answer has a payload of `request_length` bytes.
///
/// # Errors
/// See [`RdmaError`]. `Length` if bytes follow the headers, or if Request Length is not the length of the answer.
#[inline(always)]
pub fn decode_pull<C: Cursor>(
    c: &mut C,
    payload_len: usize,
    request_length: u16,
) -> Result<RdmaPull, RdmaError> {
    let bth = Bth::decode(c)?;
    decode_pull_after(&bth, c, payload_len, request_length)
}

/// Like [`decode_pull`], for a caller that has parsed the BTH. `payload_len` includes the BTH.
///
/// # Errors
/// Those of [`decode_pull`].
#[inline(always)]
pub fn decode_pull_after<C: Cursor>(
    bth: &Bth,
    c: &mut C,
    payload_len: usize,
    request_length: u16,
) -> Result<RdmaPull, RdmaError> {
    let expected = match bth.opcode {
        Opcode::READ_REQUEST => READ_REQUEST_LEN,
        Opcode::COMPARE_SWAP | Opcode::FETCH_ADD => ATOMIC_REQUEST_LEN,
        _ => return Err(RdmaError::Opcode),
    };
    if payload_len < expected {
        return Err(RdmaError::Truncated);
    }
    if payload_len > expected {
        return Err(RdmaError::Length);
    }
    if bth.opcode == Opcode::READ_REQUEST {
        let reth = Reth::decode(c)?;
        if request_length as u64 != RESPONSE_HEADER_LEN as u64 + reth.length as u64 {
            return Err(RdmaError::Length); // D-84: Request Length = 16 + length
        }
        return Ok(RdmaPull::Read { reth });
    }
    if request_length as usize != ATOMIC_RESPONSE_LEN {
        return Err(RdmaError::Length); // D-84: Request Length = 24
    }
    let atomic = AtomicEth::decode(c)?;
    if bth.opcode == Opcode::COMPARE_SWAP {
        Ok(RdmaPull::CompareSwap { atomic })
    } else {
        Ok(RdmaPull::FetchAdd { atomic })
    }
}

/// Parses the headers of a Pull Data payload of `payload_len` bytes. Returns the answer and the length of the
/// headers.
///
/// # Errors
/// See [`RdmaError`]. `Length` if the answer to a failed pull or to an atomic is longer than its headers.
#[inline(always)]
pub fn decode_response<C: Cursor>(c: &mut C, payload_len: usize) -> Result<(RdmaResponse, usize), RdmaError> {
    let bth = Bth::decode(c)?;
    let aeth = Aeth::decode(c)?;
    decode_response_after(&bth, &aeth, c, payload_len)
}

/// Like [`decode_response`], for a caller that has parsed BTH and AETH. `payload_len` and the result include both.
///
/// # Errors
/// Those of [`decode_response`].
#[inline(always)]
pub fn decode_response_after<C: Cursor>(
    bth: &Bth,
    aeth: &Aeth,
    c: &mut C,
    payload_len: usize,
) -> Result<(RdmaResponse, usize), RdmaError> {
    let atomic = match bth.opcode {
        Opcode::READ_RESPONSE_ONLY => false,
        Opcode::ATOMIC_ACKNOWLEDGE => true,
        _ => return Err(RdmaError::Opcode),
    };
    if let Some(code) = aeth.error_code() {
        return exactly(payload_len, RESPONSE_HEADER_LEN, RdmaResponse::Failed { code });
    }
    if aeth.syndrome != Aeth::SUCCESS {
        return Err(RdmaError::Syndrome);
    }
    if atomic {
        let original = get_u64::<0, _>(&c.take::<8>().ok_or(RdmaError::Truncated)?);
        return exactly(payload_len, ATOMIC_RESPONSE_LEN, RdmaResponse::Atomic { original });
    }
    if payload_len < RESPONSE_HEADER_LEN {
        return Err(RdmaError::Truncated);
    }
    Ok((RdmaResponse::Read, RESPONSE_HEADER_LEN))
}

/// Returns `response` if the payload is exactly as long as its headers.
#[inline(always)]
const fn exactly(
    payload_len: usize,
    header_len: usize,
    response: RdmaResponse,
) -> Result<(RdmaResponse, usize), RdmaError> {
    if payload_len < header_len {
        Err(RdmaError::Truncated)
    } else if payload_len > header_len {
        Err(RdmaError::Length)
    } else {
        Ok((response, header_len))
    }
}
