//! RDMA behind the boundary of the ULPs.

use super::super::boundary::Ulp;
use super::{
    Answer, Operation, Payload, Place, PullVerdict, PushVerdict, Receives, Region, Responder, WorkRequest,
};
use crate::ids::Rsn;
use crate::wire::cursor::Cursor;
use crate::wire::{PacketType, ProtocolType};

/// The RDMA protocol.
pub struct Rdma;

impl Ulp for Rdma {
    const PROTOCOL: ProtocolType = ProtocolType::Rdma;

    #[inline(always)]
    fn parse<C: Cursor>(
        cursor: &mut C,
        kind: PacketType,
        payload_length: usize,
        request_length: u16,
        out: &mut Operation,
    ) {
        super::parse_operation(cursor, kind, payload_length, request_length, out);
    }

    #[inline(always)]
    fn admit_push(
        responder: &mut Responder,
        op: &Operation,
        region: &Region,
        rsn: Rsn,
        receives: impl Receives,
        place: &mut Place,
    ) -> PushVerdict {
        responder.admit_push(op, region, rsn, receives, place)
    }

    #[inline(always)]
    fn admit_pull(responder: &Responder, op: &Operation, region: &Region) -> PullVerdict {
        responder.admit_pull(op, region)
    }

    #[inline(always)]
    fn is_valid(work: &WorkRequest, max_segment: u32, memory: u64) -> bool {
        super::is_valid(work, max_segment, memory)
    }

    #[inline(always)]
    fn request_payload(work: &WorkRequest, dest_qp: u32, out: &mut Payload) -> u32 {
        super::request_payload(work, dest_qp, out)
    }

    #[inline(always)]
    fn response_payload(answer: &Answer, dest_qp: u32, out: &mut Payload) {
        super::response_payload(answer, dest_qp, out);
    }
}
