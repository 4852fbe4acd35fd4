//! RDMA at the target. It places a WRITE, answers a READ or an atomic, and uses a posted receive for a SEND.

use crate::ids::Rsn;
use crate::ulp::{
    AccessFlags, AnswerKind, Atomic, Operation, OperationKind, Place, PlaceFlags, PullVerdict, PushVerdict,
    Receives, Region, Responder, UlpCode,
};

/// Decides about a push. If the push uses a receive, that receive counts as used. The caller then places the
/// data and calls [`Responder::placed`] or [`Responder::failed`].
#[inline(always)]
pub(super) fn admit_push(
    responder: &mut Responder,
    op: &Operation,
    region: &Region,
    rsn: Rsn,
    receives: impl Receives,
    place: &mut Place,
) -> PushVerdict {
    match op.kind {
        OperationKind::Write => admit_write(responder, op, region, receives, place),
        OperationKind::Send => admit_send(responder, op, rsn, receives, place),
        _ => PushVerdict::Invalid,
    }
}

#[inline(always)]
fn admit_write(
    responder: &mut Responder,
    op: &Operation,
    region: &Region,
    receives: impl Receives,
    place: &mut Place,
) -> PushVerdict {
    let Some(memory_offset) = region.resolve(op.rkey, AccessFlags::REMOTE_WRITE, op.address, op.length)
    else {
        return PushVerdict::Access;
    };
    place.memory_offset = memory_offset;
    place.message_length = op.length;
    place.flags = PlaceFlags::empty();
    if op.has_immediate != 0 {
        if !responder.is_ready(receives) {
            return PushVerdict::NotReady;
        }
        place.receive = responder.receive_next;
        place.flags = PlaceFlags::RECEIVES | PlaceFlags::IMMEDIATE | PlaceFlags::LAST;
        responder.receive_next = responder.receive_next.wrapping_add(1);
    }
    PushVerdict::Take
}

#[inline(always)]
fn admit_send(
    responder: &mut Responder,
    op: &Operation,
    rsn: Rsn,
    receives: impl Receives,
    place: &mut Place,
) -> PushVerdict {
    // Side by side, not one within the other: the stack is nearly full here.
    place_send(responder, op, receives, place).unwrap_or_else(|| {
        responder.failed(rsn, place, receives);
        PushVerdict::Invalid
    })
}

/// Assigns a receive to a SEND. Returns `None` if the message does not fit into it.
#[inline(never)]
fn place_send(
    responder: &mut Responder,
    op: &Operation,
    receives: impl Receives,
    place: &mut Place,
) -> Option<PushVerdict> {
    let whole = op.first != 0 && op.last != 0;
    // D-84: messages of several segments need ordered delivery.
    let out_of_place = (op.first == 0) != (responder.in_message != 0);
    if out_of_place || (responder.ordered == 0 && !whole) {
        responder.abandon_message();
        return Some(PushVerdict::Invalid);
    }
    if !responder.is_ready(receives) {
        return Some(PushVerdict::NotReady);
    }
    let receive = receives.receive(responder.receive_next);
    let offset = responder.receive_offset as u64;
    let end = offset + op.length as u64;
    let memory = responder.memory();
    let fits = end <= receive.length as u64
        && receive.local_offset <= memory
        && end <= memory - receive.local_offset;
    place.memory_offset = receive.local_offset.wrapping_add(offset);
    place.receive = responder.receive_next;
    place.message_length = end as u32;
    if op.last != 0 || !fits {
        responder.receive_next = responder.receive_next.wrapping_add(1);
        responder.abandon_message();
    } else {
        responder.receive_offset = end as u32;
        responder.in_message = 1;
    }
    if !fits {
        return None;
    }
    place.flags = PlaceFlags::RECEIVES;
    if op.last != 0 {
        place.flags |= PlaceFlags::LAST;
        if op.has_immediate != 0 {
            place.flags |= PlaceFlags::IMMEDIATE;
        }
    }
    Some(PushVerdict::Take)
}

/// Decides about a pull. A READ is answered when its packet is built. An atomic is executed first.
#[inline(always)]
pub(super) fn admit_pull(responder: &Responder, op: &Operation, region: &Region) -> PullVerdict {
    let read = matches!(op.kind, OperationKind::Read);
    let rights = if read { AccessFlags::REMOTE_READ } else { AccessFlags::REMOTE_ATOMIC };
    let known = read || matches!(op.kind, OperationKind::CompareSwap | OperationKind::FetchAdd);
    if !known || op.length > responder.max_answer {
        return PullVerdict::Answer(AnswerKind::Error, UlpCode::INVALID_REQUEST);
    }
    match region.resolve(op.rkey, rights, op.address, op.length) {
        None => PullVerdict::Answer(AnswerKind::Error, UlpCode::ACCESS),
        Some(_) if read => PullVerdict::Answer(AnswerKind::Read, UlpCode::NONE),
        Some(offset) => {
            let swap = matches!(op.kind, OperationKind::CompareSwap);
            PullVerdict::Execute(if swap { Atomic::CompareSwap } else { Atomic::FetchAdd }, offset)
        }
    }
}
