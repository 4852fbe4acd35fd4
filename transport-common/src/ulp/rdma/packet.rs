//! RDMA's headers on the wire: from a received packet to an operation, and from a payload to a packet to send.

use super::{
    ATOMIC_REQUEST_LEN, ATOMIC_RESPONSE_LEN, Aeth, AtomicEth, Bth, IMMEDIATE_LEN, Opcode, Position,
    RESPONSE_HEADER_LEN, RdmaPull, RdmaPush, RdmaResponse, Reth, SEND_HEADER_LEN, WRITE_HEADER_LEN,
};
use crate::ids::RKey;
use crate::ulp::{Headers, Operation, OperationKind, Payload};
use crate::wire::PacketType;
use crate::wire::cursor::Cursor;
use crate::wire::field::part_mut;

/// Parses the ULP headers at the cursor into `out`. A malformed payload becomes [`OperationKind::Invalid`]: the
/// transaction is answered with an error, because the packet itself was valid (D-84).
#[inline(always)]
pub(super) fn parse_operation<C: Cursor>(
    cursor: &mut C,
    kind: PacketType,
    payload_length: usize,
    request_length: u16,
    out: &mut Operation,
) {
    out.begin();
    let Ok(bth) = Bth::decode(cursor) else { return };
    out.segment = bth.psn;
    match kind {
        PacketType::PushData => {
            if let Ok((push, header)) = super::decode_push_after(&bth, cursor, payload_length) {
                out.header = header as u16;
                out.length = (payload_length - header) as u32;
                push_operation(&push, out);
            }
        }
        PacketType::PullRequest => {
            if let Ok(pull) = super::decode_pull_after(&bth, cursor, payload_length, request_length) {
                pull_operation(&pull, out);
            }
        }
        _ => {
            let Ok(aeth) = Aeth::decode(cursor) else { return };
            if let Ok((response, header)) = super::decode_response_after(&bth, &aeth, cursor, payload_length)
            {
                out.header = header as u16;
                match response {
                    RdmaResponse::Read => {
                        out.kind = OperationKind::ReadResponse;
                        out.length = (payload_length - header) as u32;
                    }
                    RdmaResponse::Atomic { original } => {
                        out.kind = OperationKind::AtomicResponse;
                        out.length = 8;
                        out.swap_or_add = original;
                    }
                    RdmaResponse::Failed { code } => {
                        out.kind = OperationKind::ErrorResponse;
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
            out.kind = OperationKind::Write;
            out.address = reth.address;
            out.rkey = reth.rkey.0;
            *immediate
        }
        RdmaPush::Send { position, immediate } => {
            out.kind = OperationKind::Send;
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
            out.kind = OperationKind::Read;
            out.address = reth.address;
            out.rkey = reth.rkey.0;
            out.length = reth.length;
            return;
        }
        RdmaPull::CompareSwap { atomic } => (OperationKind::CompareSwap, atomic),
        RdmaPull::FetchAdd { atomic } => (OperationKind::FetchAdd, atomic),
    };
    out.kind = kind;
    out.address = atomic.address;
    out.rkey = atomic.rkey.0;
    out.length = 8;
    out.swap_or_add = atomic.swap_or_add;
    out.compare = atomic.compare;
}

/// Writes the headers at `AT`. Returns their length.
#[inline(always)]
pub(super) fn encode<const AT: usize, const N: usize>(u: &Payload, header: &mut [u8; N]) -> u32 {
    Bth::new(Opcode(u.opcode), u.dest_qp, u.segment).encode(part_mut::<AT, 0, { Bth::LEN }, N>(header));
    match u.headers {
        Headers::Access => {
            let reth = Reth { address: u.address, rkey: RKey(u.rkey), length: u.length };
            reth.encode(part_mut::<AT, { Bth::LEN }, { Reth::LEN }, N>(header));
            if u.has_immediate == 0 {
                return WRITE_HEADER_LEN as u32;
            }
            *part_mut::<AT, WRITE_HEADER_LEN, IMMEDIATE_LEN, N>(header) = u.immediate.to_be_bytes();
            (WRITE_HEADER_LEN + IMMEDIATE_LEN) as u32
        }
        Headers::Atomic => {
            let atomic = AtomicEth {
                address: u.address,
                rkey: RKey(u.rkey),
                swap_or_add: u.swap_or_add,
                compare: u.compare,
            };
            atomic.encode(part_mut::<AT, { Bth::LEN }, { AtomicEth::LEN }, N>(header));
            ATOMIC_REQUEST_LEN as u32
        }
        Headers::Status => {
            let aeth = Aeth { syndrome: u.status, msn: 0 };
            aeth.encode(part_mut::<AT, { Bth::LEN }, { Aeth::LEN }, N>(header));
            RESPONSE_HEADER_LEN as u32
        }
        Headers::Value => {
            let aeth = Aeth { syndrome: u.status, msn: 0 };
            aeth.encode(part_mut::<AT, { Bth::LEN }, { Aeth::LEN }, N>(header));
            *part_mut::<AT, RESPONSE_HEADER_LEN, 8, N>(header) = u.swap_or_add.to_be_bytes();
            ATOMIC_RESPONSE_LEN as u32
        }
        _ => {
            if u.has_immediate == 0 {
                return SEND_HEADER_LEN as u32;
            }
            *part_mut::<AT, SEND_HEADER_LEN, IMMEDIATE_LEN, N>(header) = u.immediate.to_be_bytes();
            (SEND_HEADER_LEN + IMMEDIATE_LEN) as u32
        }
    }
}
