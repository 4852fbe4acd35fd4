//! The choice between the upper layer protocols.

use super::block::Block;
use super::boundary::Ulp;
use super::operation::{Operation, UlpCode};
use super::payload::{Headers, Payload};
use super::rdma::Rdma;
use super::request::{Verb, WorkRequest};
use super::responder::{Receives, Responder};
use super::verdict::{Answer, AnswerVerdict, Place, PullVerdict, PushVerdict};
use crate::ids::Rsn;
use crate::memory::{Domain, Region};
use crate::wire::PacketType;
use crate::wire::cursor::Cursor;
use bytemuck::{Pod, Zeroable};

/// The ULP of a connection. Any byte is valid in shared memory: each but [`Self::BLOCK`] stands for RDMA.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Protocol(pub u8);

impl Protocol {
    /// RDMA (D-84).
    pub const RDMA: Self = Self(0);
    /// The block protocol, with the protocol type of NVMe.
    pub const BLOCK: Self = Self(1);

    /// Bytes of the longest headers of any ULP.
    pub(crate) const LONGEST_HEADERS: usize = if Rdma::LONGEST_HEADERS > Block::LONGEST_HEADERS {
        Rdma::LONGEST_HEADERS
    } else {
        Block::LONGEST_HEADERS
    };

    /// Returns the ULP with a number in the base header (F-7.2-6). The decoder has refused reserved numbers.
    #[inline(always)]
    pub(crate) const fn of_wire(number: u8) -> Self {
        if number == Block::PROTOCOL as u8 { Self::BLOCK } else { Self::RDMA }
    }

    /// Returns its number in the base header.
    #[inline(always)]
    pub const fn number(self) -> u8 {
        if self.is_block() { Block::PROTOCOL as u8 } else { Rdma::PROTOCOL as u8 }
    }

    /// Returns whether it is the block protocol.
    #[inline(always)]
    pub const fn is_block(self) -> bool {
        self.0 == Self::BLOCK.0
    }

    /// See [`Ulp::RECEIVES`].
    #[inline(always)]
    pub(crate) const fn receives(self) -> bool {
        if self.is_block() { Block::RECEIVES } else { Rdma::RECEIVES }
    }

    /// Returns the other one.
    #[inline(always)]
    pub(crate) const fn other(self) -> Self {
        if self.is_block() { Self::RDMA } else { Self::BLOCK }
    }

    /// See [`Ulp::parse`].
    #[inline(always)]
    pub fn parse<C: Cursor>(
        self,
        cursor: &mut C,
        kind: PacketType,
        payload_length: usize,
        request_length: u16,
        out: &mut Operation,
    ) {
        if self.is_block() {
            Block::parse(cursor, kind, payload_length, request_length, out);
        } else {
            Rdma::parse(cursor, kind, payload_length, request_length, out);
        }
    }

    /// See [`Ulp::encode`]. A packet without a ULP part has no headers.
    #[inline(always)]
    pub fn encode<const AT: usize, const N: usize>(self, payload: &Payload, header: &mut [u8; N]) -> u32 {
        if matches!(payload.headers, Headers::None) {
            0
        } else if self.is_block() {
            Block::encode::<AT, N>(payload, header)
        } else {
            Rdma::encode::<AT, N>(payload, header)
        }
    }

    /// See [`Ulp::admit_push`].
    #[inline(always)]
    pub(crate) fn admit_push(
        self,
        responder: &mut Responder,
        op: &Operation,
        region: &Region,
        rsn: Rsn,
        receives: impl Receives,
        place: &mut Place,
    ) -> PushVerdict {
        if self.is_block() {
            Block::admit_push(responder, op, region, rsn, receives, place)
        } else {
            Rdma::admit_push(responder, op, region, rsn, receives, place)
        }
    }

    /// See [`Ulp::admit_pull`].
    #[inline(always)]
    pub(crate) fn admit_pull(self, responder: &Responder, op: &Operation, region: &Region) -> PullVerdict {
        if self.is_block() {
            Block::admit_pull(responder, op, region)
        } else {
            Rdma::admit_pull(responder, op, region)
        }
    }

    /// See [`Ulp::is_valid`].
    #[inline(always)]
    pub(crate) fn is_valid(self, work: &WorkRequest, max_segment: u32) -> bool {
        if self.is_block() { Block::is_valid(work, max_segment) } else { Rdma::is_valid(work, max_segment) }
    }

    /// See [`Ulp::request_payload`].
    #[inline(always)]
    pub(crate) fn request_payload(self, work: &WorkRequest, dest_qp: u32, out: &mut Payload) -> u32 {
        if self.is_block() {
            Block::request_payload(work, dest_qp, out)
        } else {
            Rdma::request_payload(work, dest_qp, out)
        }
    }

    /// See [`Ulp::response_payload`].
    #[inline(always)]
    pub(crate) fn response_payload(self, answer: &Answer, dest_qp: u32, out: &mut Payload) {
        if self.is_block() {
            Block::response_payload(answer, dest_qp, out);
        } else {
            Rdma::response_payload(answer, dest_qp, out);
        }
    }

    /// See [`Ulp::refuse_answer`].
    #[inline(always)]
    pub fn refuse_answer(self, out: &mut Payload, code: UlpCode) {
        if self.is_block() {
            Block::refuse_answer(out, code);
        } else {
            Rdma::refuse_answer(out, code);
        }
    }

    /// Judges Pull Data whose base header has the number of a protocol. What another ULP than that of the connection sends
    /// does not fit. For the other arguments see [`AnswerVerdict::of`].
    #[inline(always)]
    pub(crate) const fn check_answer(
        self,
        number: u8,
        op: &Operation,
        code: Verb,
        length: u32,
        work: &WorkRequest,
        domain: &Domain,
    ) -> AnswerVerdict {
        if number == self.number() {
            AnswerVerdict::of(op, code, length, work, domain)
        } else {
            AnswerVerdict::Misfit
        }
    }
}
