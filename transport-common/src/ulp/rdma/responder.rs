//! RDMA at the target. It places a WRITE, answers a READ or an atomic, and uses a posted receive for a SEND.

use crate::ids::Rsn;
use crate::memory::{LKey, RKey, Region, RemoteRight};
use crate::ulp::{
    AnswerKind, Atomic, Operation, OperationKind, Place, PlaceFlags, PullVerdict, PushVerdict, Receives,
    Responder, UlpCode,
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
    let right = RemoteRight::Write;
    let Ok(found) = responder.domain.resolve(RKey(op.rkey), region, op.address, op.length, right) else {
        return PushVerdict::Access;
    };
    place.memory_offset = found.offset();
    place.lkey = LKey::OWN;
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

/// Assigns a receive to a SEND. Returns `None` if the message does not fit into it, or if it is not in the memory of the
/// application. A receive in a region is judged when the region is known.
#[inline(never)]
fn place_send(
    responder: &mut Responder,
    op: &Operation,
    receives: impl Receives,
    place: &mut Place,
) -> Option<PushVerdict> {
    place.flags = PlaceFlags::empty();
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
    let held = receive.lkey != LKey::OWN || responder.domain.holds(receive.local_offset, end);
    let fits = held && end <= receive.length as u64;
    place.memory_offset = receive.local_offset.wrapping_add(offset);
    place.lkey = receive.lkey;
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
        if !held {
            place.flags = PlaceFlags::DENIED;
        }
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
    let right = if read { RemoteRight::Read } else { RemoteRight::Atomic };
    let known = read || matches!(op.kind, OperationKind::CompareSwap | OperationKind::FetchAdd);
    if !known || op.length > responder.max_answer as u32 {
        return PullVerdict::Answer(AnswerKind::Error, UlpCode::INVALID_REQUEST);
    }
    match responder.domain.resolve(RKey(op.rkey), region, op.address, op.length, right) {
        Err(_) => PullVerdict::Answer(AnswerKind::Error, UlpCode::ACCESS),
        Ok(_) if read => PullVerdict::Answer(AnswerKind::Read, UlpCode::NONE),
        Ok(found) => {
            let swap = matches!(op.kind, OperationKind::CompareSwap);
            PullVerdict::Execute(if swap { Atomic::CompareSwap } else { Atomic::FetchAdd }, found)
        }
    }
}
