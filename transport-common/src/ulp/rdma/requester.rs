//! The RDMA ULP at the initiator. It converts work requests into packets, and checks Pull Data against the
//! request.

use super::{
    ATOMIC_RESPONSE_LEN, Aeth, Answer, AnswerKind, Extension, IMMEDIATE_LEN, Opcode, Operation,
    OperationKind, Payload, RESPONSE_HEADER_LEN, SEND_HEADER_LEN, Verb, WRITE_HEADER_LEN, WorkFlags,
    WorkRequest,
};
use crate::transaction::{Kind, Label};

/// Returns whether an operation is a pull. An unknown operation counts as a push, and is refused when it is
/// served.
#[inline(always)]
pub const fn is_pull(code: Verb) -> bool {
    matches!(code, Verb::READ | Verb::COMPARE_SWAP | Verb::FETCH_ADD)
}

/// Returns the label of a work request's transaction.
#[inline(always)]
pub const fn label(work: &WorkRequest) -> Label {
    let kind = if is_pull(work.opcode) { Kind::Pull } else { Kind::Push };
    Label { kind, opcode: work.opcode.0, flags: work.flags.bits(), length: work.length }
}

/// Returns whether a work request can be sent at all: a known operation on the `memory` bytes of this node, not longer
/// than a segment.
#[inline(always)]
pub const fn is_valid(work: &WorkRequest, max_segment: u32, memory: u64) -> bool {
    const FIRST: u8 = Verb::WRITE.0;
    const LAST: u8 = Verb::SEND_LAST.0;
    let atomic = matches!(work.opcode, Verb::COMPARE_SWAP | Verb::FETCH_ADD);
    let length = if atomic { 8 } else { work.length as u64 };
    matches!(work.opcode.0, FIRST..=LAST)
        && length <= max_segment as u64
        && (!atomic || work.remote_address & 7 == 0)
        && work.local_offset <= memory
        && work.local_offset + length <= memory
}

/// Writes the ULP part of a request packet. Returns its Request Length (F-7.3-3, F-7.5-2).
#[inline(always)]
pub fn request_payload(work: &WorkRequest, dest_qp: u32, out: &mut Payload) -> u32 {
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
    out.extension = Extension::Bth;
    out.syndrome = 0;
    out.data_length = 0;
    out.resolve = 0;
    let header = match work.opcode {
        Verb::READ => {
            out.bth_opcode = Opcode::READ_REQUEST;
            out.extension = Extension::Reth;
            out.has_immediate = 0;
            return RESPONSE_HEADER_LEN as u32 + work.length;
        }
        Verb::COMPARE_SWAP | Verb::FETCH_ADD => {
            let swap = work.opcode == Verb::COMPARE_SWAP;
            out.bth_opcode = if swap { Opcode::COMPARE_SWAP } else { Opcode::FETCH_ADD };
            out.extension = Extension::Atomic;
            out.has_immediate = 0;
            return ATOMIC_RESPONSE_LEN as u32;
        }
        Verb::WRITE => {
            out.extension = Extension::Reth;
            out.bth_opcode = if immediate { Opcode::WRITE_ONLY_IMMEDIATE } else { Opcode::WRITE_ONLY };
            WRITE_HEADER_LEN
        }
        Verb::SEND_FIRST => {
            out.bth_opcode = Opcode::SEND_FIRST;
            out.has_immediate = 0;
            SEND_HEADER_LEN
        }
        Verb::SEND_MIDDLE => {
            out.bth_opcode = Opcode::SEND_MIDDLE;
            out.has_immediate = 0;
            SEND_HEADER_LEN
        }
        Verb::SEND_LAST => {
            out.bth_opcode = if immediate { Opcode::SEND_LAST_IMMEDIATE } else { Opcode::SEND_LAST };
            SEND_HEADER_LEN
        }
        _ => {
            out.bth_opcode = if immediate { Opcode::SEND_ONLY_IMMEDIATE } else { Opcode::SEND_ONLY };
            SEND_HEADER_LEN
        }
    };
    out.data_length = work.length;
    let immediate = if out.has_immediate != 0 { IMMEDIATE_LEN } else { 0 };
    (header + immediate) as u32 + work.length
}

/// Returns the ULP part of a Pull Data packet.
#[inline(always)]
pub fn response_payload(answer: &Answer, dest_qp: u32, out: &mut Payload) {
    out.segment = 0;
    out.dest_qp = dest_qp;
    out.rkey = answer.rkey;
    out.address = answer.operand;
    out.length = answer.length;
    out.swap_or_add = answer.operand;
    out.has_immediate = 0;
    out.extension = Extension::Aeth;
    out.bth_opcode = Opcode::READ_RESPONSE_ONLY;
    out.syndrome = 0;
    out.data_length = 0;
    out.resolve = 0;
    match answer.kind {
        AnswerKind::Read => {
            out.data_length = answer.length;
            out.resolve = 1;
        }
        AnswerKind::Atomic => {
            out.bth_opcode = Opcode::ATOMIC_ACKNOWLEDGE;
            out.extension = Extension::AethValue;
        }
        AnswerKind::Error => out.syndrome = Aeth::ERROR_BASE | answer.code.0,
    }
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
}

/// Checks whether the answer `op` fits `work`, a pull of `opcode` for `length` bytes (F-8.4.3.2-1..3, D-48), and the
/// `memory` bytes of this node. The work request is read from the application's memory a second time, so `opcode` and
/// `length` are those recorded when the request was sent.
#[inline(always)]
pub const fn check_answer(
    op: &Operation,
    code: Verb,
    length: u32,
    work: &WorkRequest,
    memory: u64,
) -> AnswerVerdict {
    let read = matches!(code, Verb::READ);
    let end = work.local_offset.wrapping_add(op.length as u64);
    let in_bounds = work.local_offset <= memory && end <= memory;
    match op.kind {
        OperationKind::ReadResponse if read && op.length <= length && in_bounds => AnswerVerdict::Data,
        OperationKind::AtomicResponse if !read && in_bounds => AnswerVerdict::Value,
        OperationKind::ErrorResponse => AnswerVerdict::Error,
        _ => AnswerVerdict::Misfit,
    }
}
