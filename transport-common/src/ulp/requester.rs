//! The RDMA ULP at the initiator: work requests become packets, Pull Data is placed and completes the pull.

use super::rdma::{self, operation};
use crate::connection::{Entry, TRANSACTIONS};
use crate::counters::Counter;
use crate::datapath::{Scratch, UlpOut, delivery, ulp_header};
use crate::ids::Rsn;
use crate::queues::{Queues, USABLE_BYTES, WorkRequest, flag, opcode};
use crate::transaction::{CompletionCode, Response, response_kind, transaction_state};
use crate::units::Picoseconds;

/// Whether a work request can be sent at all: a known operation on memory of this node, no longer than a segment.
#[inline(always)]
pub(crate) fn is_valid(work: &WorkRequest, max_segment: u32) -> bool {
    let atomic = matches!(work.opcode, opcode::COMPARE_SWAP | opcode::FETCH_ADD);
    let length = if atomic { 8 } else { work.length as u64 };
    matches!(work.opcode, opcode::WRITE..=opcode::SEND_LAST)
        && length <= max_segment as u64
        && (!atomic || work.remote_address & 7 == 0)
        && work.local_offset <= USABLE_BYTES
        && work.local_offset + length <= USABLE_BYTES
}

/// The ULP part of a request packet, and its Request Length (F-7.3-3, F-7.5-2).
#[inline(always)]
pub(crate) fn request_payload(work: &WorkRequest, dest_qp: u32, out: &mut UlpOut) -> u32 {
    let immediate = work.flags & flag::IMMEDIATE != 0;
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
    out.extension = ulp_header::BTH;
    out.syndrome = 0;
    out.data_length = 0;
    out.resolve = 0;
    let header = match work.opcode {
        opcode::READ => {
            out.bth_opcode = rdma::opcode::READ_REQUEST;
            out.extension = ulp_header::RETH;
            out.has_immediate = 0;
            return rdma::RESPONSE_HEADER_LEN as u32 + work.length;
        }
        opcode::COMPARE_SWAP | opcode::FETCH_ADD => {
            let swap = work.opcode == opcode::COMPARE_SWAP;
            out.bth_opcode = if swap { rdma::opcode::COMPARE_SWAP } else { rdma::opcode::FETCH_ADD };
            out.extension = ulp_header::ATOMIC;
            out.has_immediate = 0;
            return rdma::ATOMIC_RESPONSE_LEN as u32;
        }
        opcode::WRITE => {
            out.extension = ulp_header::RETH;
            out.bth_opcode =
                if immediate { rdma::opcode::WRITE_ONLY_IMMEDIATE } else { rdma::opcode::WRITE_ONLY };
            rdma::WRITE_HEADER_LEN
        }
        opcode::SEND_FIRST => {
            out.bth_opcode = rdma::opcode::SEND_FIRST;
            out.has_immediate = 0;
            rdma::SEND_HEADER_LEN
        }
        opcode::SEND_MIDDLE => {
            out.bth_opcode = rdma::opcode::SEND_MIDDLE;
            out.has_immediate = 0;
            rdma::SEND_HEADER_LEN
        }
        opcode::SEND_LAST => {
            out.bth_opcode =
                if immediate { rdma::opcode::SEND_LAST_IMMEDIATE } else { rdma::opcode::SEND_LAST };
            rdma::SEND_HEADER_LEN
        }
        _ => {
            out.bth_opcode =
                if immediate { rdma::opcode::SEND_ONLY_IMMEDIATE } else { rdma::opcode::SEND_ONLY };
            rdma::SEND_HEADER_LEN
        }
    };
    out.data_length = work.length;
    let immediate = if out.has_immediate != 0 { rdma::IMMEDIATE_LEN } else { 0 };
    (header + immediate) as u32 + work.length
}

/// The ULP part of a Pull Data packet.
#[inline(always)]
pub(crate) fn response_payload(response: &Response, dest_qp: u32, out: &mut UlpOut) {
    out.segment = 0;
    out.dest_qp = dest_qp;
    out.rkey = response.rkey;
    out.address = response.address;
    out.length = response.length;
    out.swap_or_add = response.value;
    out.has_immediate = 0;
    out.extension = ulp_header::AETH;
    out.bth_opcode = rdma::opcode::READ_RESPONSE_ONLY;
    out.syndrome = 0;
    out.data_length = 0;
    out.resolve = 0;
    match response.kind {
        response_kind::READ => {
            out.data_length = response.length;
            out.resolve = 1;
        }
        response_kind::ATOMIC => {
            out.bth_opcode = rdma::opcode::ATOMIC_ACKNOWLEDGE;
            out.extension = ulp_header::AETH_VALUE;
        }
        _ => out.syndrome = rdma::Aeth::ERROR_BASE | response.code,
    }
}

/// What Pull Data brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Answer {
    /// What was asked for, and it is to be placed; or nothing that is waited for.
    Accepted,
    /// The error of the target ULP that stands in the packet: the transaction is over.
    Error,
    /// What was not asked for: the transaction is over.
    Misfit,
}

impl Entry {
    /// Pull Data that is new in the data window: finds its transaction and says where the data goes
    /// (F-8.4.3.2-1..3). The PSN is acknowledged whatever comes of it (D-23).
    #[inline(never)]
    pub(crate) fn accept_response(&mut self, s: &mut Scratch, queues: &impl Queues) -> Answer {
        let rsn = Rsn(s.packet.rsn);
        let in_range = rsn.distance_from(self.connection.initiator.brsn) < TRANSACTIONS as u32;
        let op = &s.packet.operation;
        let t = self.transaction(rsn);
        let pull = matches!(t.opcode, opcode::READ | opcode::COMPARE_SWAP | opcode::FETCH_ADD);
        let waiting = matches!(t.state, transaction_state::SENT | transaction_state::ACKNOWLEDGED);
        if !in_range || !pull || !waiting {
            s.count(Counter::DropPullDataUnknown);
            return Answer::Accepted;
        }
        let read = t.opcode == opcode::READ;
        let fits = match op.kind {
            operation::READ_RESPONSE => read && op.length <= t.length, // D-48
            operation::ATOMIC_RESPONSE => !read,
            operation::ERROR_RESPONSE => true,
            _ => false,
        };
        queues.load_work_request(rsn, &mut s.work);
        let work = &s.work;
        let end = work.local_offset.wrapping_add(op.length as u64);
        if !fits || work.local_offset > USABLE_BYTES || end > USABLE_BYTES {
            t.length = 0;
            return Answer::Misfit;
        }
        t.length = op.length;
        if op.kind == operation::ERROR_RESPONSE {
            t.length = 0;
            return Answer::Error; // D-45
        }
        t.state = transaction_state::PLACING;
        s.delivery.kind = if read { delivery::PLACE_RESPONSE } else { delivery::STORE_VALUE };
        s.delivery.rsn = rsn.0;
        s.delivery.memory_offset = s.work.local_offset;
        s.delivery.length = op.length;
        s.delivery.value = op.swap_or_add;
        Answer::Accepted
    }

    /// The response stands in memory: the pull is complete.
    #[inline(never)]
    pub fn response_placed(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds, placed: bool) {
        let code = if placed { CompletionCode::Ack } else { CompletionCode::OperationError };
        s.begin();
        self.complete(queues, Rsn(s.delivery.rsn), code, 0);
        self.flush_completions(queues);
        self.reply(s, queues, now);
    }
}
