//! The boundary between Falcon and an upper layer protocol.

use super::operation::{Operation, UlpCode};
use super::payload::Payload;
use super::request::WorkRequest;
use super::responder::{Receives, Responder};
use super::verdict::{Answer, Place, PullVerdict, PushVerdict};
use crate::ids::Rsn;
use crate::memory::Region;
use crate::wire::cursor::Cursor;
use crate::wire::{PacketType, ProtocolType};

/// An upper layer protocol. All functions are pure: what they read and write are their arguments.
///
/// # Both ends begin transactions
///
/// Each end of a connection has a send queue, and each is target of what the other one posts. The roles of a ULP, such as
/// host and controller, are not those of Falcon: a controller that has received a command in a push may pull its data from
/// the host, and push a status afterwards. The work requests of both directions are of this ULP.
///
/// # A pull may be answered later
///
/// A ULP that has no answer yet returns [`PullVerdict::NotReady`]. The pull is acknowledged and kept in a receive cell. Its
/// initiator learns nothing of that, and waits until its transaction timeout. When the RNR time is over, the ULP gets the
/// same operation again, with the region as it is then. So it does not need to remember what it owes. Each further refusal
/// doubles the time, up to 164 ms: an answer is late by at most as much as its pull has waited before, and the first RNR
/// time. Nothing makes it due earlier.
///
/// On an ordered connection, all later requests of the peer wait for this one; the requests of the other direction do not.
/// On an unordered one, nothing waits for it. A pull that waits occupies no slot of the responses.
pub trait Ulp {
    /// Its number in the base header (F-7.2-6).
    const PROTOCOL: ProtocolType;

    /// Whether it completes posted receives. Then a receive that is posted makes it ready for the pushes that it was not
    /// ready for.
    const RECEIVES: bool;

    /// Bytes of its longest headers.
    const LONGEST_HEADERS: usize;

    /// Parses the ULP headers at the cursor, of a packet with `payload_length` bytes of ULP payload. A malformed
    /// payload becomes [`OperationKind::Invalid`](super::OperationKind::Invalid).
    fn parse<C: Cursor>(
        cursor: &mut C,
        kind: PacketType,
        payload_length: usize,
        request_length: u16,
        out: &mut Operation,
    );

    /// Writes the ULP headers of a packet to send, from `AT` on. Returns their length. `payload` is from
    /// [`Self::request_payload`] or [`Self::response_payload`]. The position is a constant, so that each field is one
    /// store.
    fn encode<const AT: usize, const N: usize>(payload: &Payload, header: &mut [u8; N]) -> u32;

    /// Decides about a push of the peer. If the push uses a receive, that receive counts as used. The caller then places
    /// the data and calls [`Responder::placed`] or [`Responder::failed`].
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

    /// Returns whether this end can send a work request of at most `max_segment` bytes at all. Whose memory its local buffer
    /// is, is checked for every ULP in the same way.
    fn is_valid(work: &WorkRequest, max_segment: u32) -> bool;

    /// Writes the ULP part of a request packet. Returns its Request Length (F-7.3-3, F-7.5-2).
    fn request_payload(work: &WorkRequest, dest_qp: u32, out: &mut Payload) -> u32;

    /// Writes the ULP part of a Pull Data packet. Data of an answer is found by its key.
    fn response_payload(answer: &Answer, dest_qp: u32, out: &mut Payload);

    /// Makes an answer with data one that reports an error and has none, because its data may no longer be read.
    fn refuse_answer(out: &mut Payload, code: UlpCode);
}
