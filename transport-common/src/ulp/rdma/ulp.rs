//! RDMA behind the boundary of the ULPs.

use super::{ATOMIC_REQUEST_LEN, packet, requester, responder};
use crate::ids::Rsn;
use crate::memory::Region;
use crate::ulp::{
    Answer, Operation, Payload, Place, PullVerdict, PushVerdict, Receives, Responder, Ulp, UlpCode,
    WorkRequest,
};
use crate::wire::cursor::Cursor;
use crate::wire::{PacketType, ProtocolType};

/// The RDMA protocol.
pub struct Rdma;

impl Ulp for Rdma {
    const PROTOCOL: ProtocolType = ProtocolType::Rdma;
    const RECEIVES: bool = true;
    const LONGEST_HEADERS: usize = ATOMIC_REQUEST_LEN;

    #[inline(always)]
    fn parse<C: Cursor>(
        cursor: &mut C,
        kind: PacketType,
        payload_length: usize,
        request_length: u16,
        out: &mut Operation,
    ) {
        packet::parse_operation(cursor, kind, payload_length, request_length, out);
    }

    #[inline(always)]
    fn encode<const AT: usize, const N: usize>(payload: &Payload, header: &mut [u8; N]) -> u32 {
        packet::encode::<AT, N>(payload, header)
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
        responder::admit_push(responder, op, region, rsn, receives, place)
    }

    #[inline(always)]
    fn admit_pull(responder: &Responder, op: &Operation, region: &Region) -> PullVerdict {
        responder::admit_pull(responder, op, region)
    }

    #[inline(always)]
    fn is_valid(work: &WorkRequest, max_segment: u32) -> bool {
        requester::is_valid(work, max_segment)
    }

    #[inline(always)]
    fn request_payload(work: &WorkRequest, dest_qp: u32, out: &mut Payload) -> u32 {
        requester::request_payload(work, dest_qp, out)
    }

    #[inline(always)]
    fn response_payload(answer: &Answer, dest_qp: u32, out: &mut Payload) {
        requester::response_payload(answer, dest_qp, out);
    }

    #[inline(always)]
    fn refuse_answer(out: &mut Payload, code: UlpCode) {
        requester::refuse_answer(out, code);
    }
}
