//! The operation of a received packet, flat: what the steps on a connection read.

use super::{
    Aeth, Bth, Position, RdmaPull, RdmaPush, RdmaResponse, decode_pull_after, decode_push_after,
    decode_response_after,
};
use crate::wire::PacketType;
use crate::wire::cursor::Cursor;

/// Operations that a packet can carry ([`Operation::kind`]).
pub mod operation {
    /// None, or not parsed.
    pub const NONE: u8 = 0;
    /// RDMA WRITE segment.
    pub const WRITE: u8 = 1;
    /// SEND segment; see [`super::Operation::first`] and [`super::Operation::last`].
    pub const SEND: u8 = 2;
    /// RDMA READ request.
    pub const READ: u8 = 3;
    /// Compare and swap request.
    pub const COMPARE_SWAP: u8 = 4;
    /// Fetch and add request.
    pub const FETCH_ADD: u8 = 5;
    /// READ response with data.
    pub const READ_RESPONSE: u8 = 6;
    /// Atomic response with the original value.
    pub const ATOMIC_RESPONSE: u8 = 7;
    /// Response that reports an error of the target ULP.
    pub const ERROR_RESPONSE: u8 = 8;
    /// Malformed: answered in error (D-84).
    pub const INVALID: u8 = 9;
}

/// The RDMA operation of a packet, flat.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// See [`operation`].
    pub kind: u8,
    /// 1: first segment of its message.
    pub first: u8,
    /// 1: last segment of its message.
    pub last: u8,
    /// 1: `immediate` is valid.
    pub has_immediate: u8,
    /// ULP code of an error response, or of an invalid request.
    pub code: u8,
    /// 0.
    pub reserved: u8,
    /// Bytes of ULP header before the data.
    pub header: u16,
    /// Bytes of data, or asked for by a READ.
    pub length: u32,
    /// R_Key.
    pub rkey: u32,
    /// Address in the region.
    pub address: u64,
    /// Swap value or addend; the original value in a response.
    pub swap_or_add: u64,
    /// Compare value.
    pub compare: u64,
    /// Immediate data.
    pub immediate: u32,
    /// Segment number (BTH PSN).
    pub segment: u32,
}

/// Reads the ULP headers at the cursor into `out`. A malformed payload becomes [`operation::INVALID`]: the
/// transaction is answered in error, the packet itself was sound (D-84).
#[inline(always)]
pub(crate) fn parse_operation<C: Cursor>(
    cursor: &mut C,
    kind: PacketType,
    payload_length: usize,
    request_length: u16,
    out: &mut Operation,
) {
    // Field by field: a struct literal becomes a slow byte loop on the BPF target.
    out.kind = operation::INVALID;
    out.first = 0;
    out.last = 0;
    out.has_immediate = 0;
    out.code = 0;
    out.header = 0;
    out.length = 0;
    out.rkey = 0;
    out.immediate = 0;
    let Ok(bth) = Bth::decode(cursor) else { return };
    out.segment = bth.psn;
    match kind {
        PacketType::PushData => {
            if let Ok((push, header)) = decode_push_after(&bth, cursor, payload_length) {
                out.header = header as u16;
                out.length = (payload_length - header) as u32;
                push_operation(&push, out);
            }
        }
        PacketType::PullRequest => {
            if let Ok(pull) = decode_pull_after(&bth, cursor, payload_length, request_length) {
                pull_operation(&pull, out);
            }
        }
        _ => {
            let Ok(aeth) = Aeth::decode(cursor) else { return };
            if let Ok((response, header)) = decode_response_after(&bth, &aeth, cursor, payload_length) {
                out.header = header as u16;
                match response {
                    RdmaResponse::Read => {
                        out.kind = operation::READ_RESPONSE;
                        out.length = (payload_length - header) as u32;
                    }
                    RdmaResponse::Atomic { original } => {
                        out.kind = operation::ATOMIC_RESPONSE;
                        out.length = 8;
                        out.swap_or_add = original;
                    }
                    RdmaResponse::Failed { code } => {
                        out.kind = operation::ERROR_RESPONSE;
                        out.code = code;
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn push_operation(push: &RdmaPush, out: &mut Operation) {
    let immediate = match push {
        RdmaPush::Write { reth, immediate } => {
            out.kind = operation::WRITE;
            out.address = reth.address;
            out.rkey = reth.rkey.0;
            *immediate
        }
        RdmaPush::Send { position, immediate } => {
            out.kind = operation::SEND;
            out.first = matches!(position, Position::First | Position::Only) as u8;
            out.last = matches!(position, Position::Last | Position::Only) as u8;
            *immediate
        }
    };
    if let Some(immediate) = immediate {
        out.has_immediate = 1;
        out.immediate = immediate;
    }
}

#[inline(always)]
fn pull_operation(pull: &RdmaPull, out: &mut Operation) {
    let (kind, atomic) = match pull {
        RdmaPull::Read { reth } => {
            out.kind = operation::READ;
            out.address = reth.address;
            out.rkey = reth.rkey.0;
            out.length = reth.length;
            return;
        }
        RdmaPull::CompareSwap { atomic } => (operation::COMPARE_SWAP, atomic),
        RdmaPull::FetchAdd { atomic } => (operation::FETCH_ADD, atomic),
    };
    out.kind = kind;
    out.address = atomic.address;
    out.rkey = atomic.rkey.0;
    out.length = 8;
    out.swap_or_add = atomic.swap_or_add;
    out.compare = atomic.compare;
}
