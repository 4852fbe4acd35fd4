//! The boundary between the transaction sublayer and an upper layer protocol.

use super::rdma::{
    Answer, Operation, Payload, Place, PullVerdict, PushVerdict, Receives, Region, Responder, WorkRequest,
};
use crate::ids::Rsn;
use crate::wire::cursor::Cursor;
use crate::wire::{PacketType, ProtocolType};

/// An upper layer protocol. All functions are pure: what they read and write are their arguments.
pub trait Ulp {
    /// Its number in the base header (F-7.2-6).
    const PROTOCOL: ProtocolType;

    /// Parses the ULP headers at the cursor, of a packet with `payload_length` bytes of ULP payload. A malformed
    /// payload becomes [`OperationKind::Invalid`](super::rdma::OperationKind::Invalid).
    fn parse<C: Cursor>(
        cursor: &mut C,
        kind: PacketType,
        payload_length: usize,
        request_length: u16,
        out: &mut Operation,
    );

    /// Decides about a push of the peer.
    fn admit_push(
        responder: &mut Responder,
        op: &Operation,
        region: &Region,
        rsn: Rsn,
        receives: impl Receives,
        place: &mut Place,
    ) -> PushVerdict;

    /// Decides about a pull of the peer.
    fn admit_pull(responder: &Responder, op: &Operation, region: &Region) -> PullVerdict;

    /// Returns whether this end can send a work request at all: at most `max_segment` bytes of the `memory` bytes that
    /// the node has.
    fn is_valid(work: &WorkRequest, max_segment: u32, memory: u64) -> bool;

    /// Writes the ULP part of a request packet. Returns its Request Length (F-7.3-3, F-7.5-2).
    fn request_payload(work: &WorkRequest, dest_qp: u32, out: &mut Payload) -> u32;

    /// Writes the ULP part of a Pull Data packet.
    fn response_payload(answer: &Answer, dest_qp: u32, out: &mut Payload);
}
