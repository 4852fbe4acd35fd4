//! What RDMA sends: work requests and answers become the ULP part of packets.

use super::{
    ATOMIC_RESPONSE_LEN, Aeth, IMMEDIATE_LEN, Opcode, RESPONSE_HEADER_LEN, SEND_HEADER_LEN, WRITE_HEADER_LEN,
};
use crate::ulp::{Answer, AnswerKind, Headers, Payload, UlpCode, Verb, WorkFlags, WorkRequest};

/// Returns whether a work request can be sent at all: a known operation, not longer than a segment.
#[inline(always)]
pub(super) const fn is_valid(work: &WorkRequest, max_segment: u32) -> bool {
    const FIRST: u8 = Verb::WRITE.0;
    const LAST: u8 = Verb::SEND_LAST.0;
    matches!(work.opcode.0, FIRST..=LAST)
        && work.local_length() <= max_segment
        && (!work.is_atomic() || work.remote_address & 7 == 0)
}

/// Writes the ULP part of a request packet. Returns its Request Length (F-7.3-3, F-7.5-2).
#[inline(always)]
pub(super) fn request_payload(work: &WorkRequest, dest_qp: u32, out: &mut Payload) -> u32 {
    let immediate = work.flags.contains(WorkFlags::IMMEDIATE);
    out.segment = work.segment;
    out.dest_qp = dest_qp;
    out.rkey = work.rkey;
    out.address = work.remote_address;
    out.swap_or_add = work.swap_or_add;
    out.compare = work.compare;
    out.length = work.length;
    out.immediate = work.immediate;
    out.memory_offset = work.local_offset;
    out.has_immediate = immediate as u8;
    out.headers = Headers::Message;
    out.status = 0;
    out.data_length = 0;
    out.key = work.lkey.0;
    let header = match work.opcode {
        Verb::READ => {
            out.opcode = Opcode::READ_REQUEST.0;
            out.headers = Headers::Access;
            out.has_immediate = 0;
            return RESPONSE_HEADER_LEN as u32 + work.length;
        }
        Verb::COMPARE_SWAP | Verb::FETCH_ADD => {
            let swap = work.opcode == Verb::COMPARE_SWAP;
            out.opcode = if swap { Opcode::COMPARE_SWAP.0 } else { Opcode::FETCH_ADD.0 };
            out.headers = Headers::Atomic;
            out.has_immediate = 0;
            return ATOMIC_RESPONSE_LEN as u32;
        }
        Verb::WRITE => {
            out.headers = Headers::Access;
            out.opcode = if immediate { Opcode::WRITE_ONLY_IMMEDIATE.0 } else { Opcode::WRITE_ONLY.0 };
            WRITE_HEADER_LEN
        }
        Verb::SEND_FIRST => {
            out.opcode = Opcode::SEND_FIRST.0;
            out.has_immediate = 0;
            SEND_HEADER_LEN
        }
        Verb::SEND_MIDDLE => {
            out.opcode = Opcode::SEND_MIDDLE.0;
            out.has_immediate = 0;
            SEND_HEADER_LEN
        }
        Verb::SEND_LAST => {
            out.opcode = if immediate { Opcode::SEND_LAST_IMMEDIATE.0 } else { Opcode::SEND_LAST.0 };
            SEND_HEADER_LEN
        }
        _ => {
            out.opcode = if immediate { Opcode::SEND_ONLY_IMMEDIATE.0 } else { Opcode::SEND_ONLY.0 };
            SEND_HEADER_LEN
        }
    };
    out.data_length = work.length;
    let immediate = if out.has_immediate != 0 { IMMEDIATE_LEN } else { 0 };
    (header + immediate) as u32 + work.length
}

/// Returns the ULP part of a Pull Data packet.
#[inline(always)]
pub(super) fn response_payload(answer: &Answer, dest_qp: u32, out: &mut Payload) {
    out.segment = 0;
    out.dest_qp = dest_qp;
    out.rkey = answer.rkey;
    out.address = answer.operand;
    out.length = answer.length;
    out.swap_or_add = answer.operand;
    out.has_immediate = 0;
    out.headers = Headers::Status;
    out.opcode = Opcode::READ_RESPONSE_ONLY.0;
    out.status = 0;
    out.data_length = 0;
    out.key = 0;
    match answer.kind {
        AnswerKind::Read => {
            out.memory_offset = answer.operand;
            out.data_length = answer.length;
            out.key = answer.rkey;
        }
        AnswerKind::Atomic => {
            out.opcode = Opcode::ATOMIC_ACKNOWLEDGE.0;
            out.headers = Headers::Value;
        }
        AnswerKind::Error => out.status = Aeth::ERROR_BASE | answer.code.0,
    }
}

/// Makes an answer with data one that reports an error.
#[inline(always)]
pub(super) fn refuse_answer(out: &mut Payload, code: UlpCode) {
    out.data_length = 0;
    out.status = Aeth::ERROR_BASE | code.0;
}
