//! The transmit pipeline: what the engine does with one of its frames.

use super::receive::{carry_out, give_up, region_of, ring, settle};
use super::{Locked, Platform, Scratch, emit, place};
use crate::connection::{Serviced, Step, WorkKind};
use crate::counters::Counter;
use crate::ids::{Cid, Slot};
use crate::transaction::{Held, RequestFlags};
use crate::ulp::{OperationKind, Protocol};
use crate::units::{Picoseconds, Ticks};
use crate::verifier;
use crate::wire::PacketType;

/// Result of one frame of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Turn {
    /// No connection needs a service, or the service found nothing to do.
    Idle,
    /// A connection was serviced. The frame is not needed.
    Drop,
    /// The frame holds a packet for the wire.
    Transmit,
    /// A held request has to be delivered: [`redeliver`] continues with this frame.
    Redeliver,
}

/// No connection slot.
const NOBODY: u32 = u32::MAX;

/// Services one connection and builds the resulting packet in the frame. First come connections with a congestion
/// result, then connections whose deadline has passed, then those that asked for a service, round robin.
///
/// `look_at_wheel` is true for some frames only, because reading the clock is a large part of the cost of an idle
/// frame. One in eight is often enough for deadlines of microseconds.
#[inline(always)]
pub fn engine<P: Platform>(p: &mut P, s: &mut Scratch, look_at_wheel: bool) -> Turn {
    if !choose(p, s, look_at_wheel) {
        return Turn::Idle;
    }
    service(p, s)
}

/// Services the connection in `s.serviced`: the rest of [`engine`]. `s.step.input` has the result of congestion control, or
/// that there is none.
#[inline(always)]
pub fn service<P: Platform>(p: &mut P, s: &mut Scratch) -> Turn {
    // The values are read back through `forget`, so the kernel's verifier cannot distinguish how the connection
    // was chosen. Otherwise it would walk all the code below once for each way.
    let slot = verifier::forget(&s.serviced.slot);
    let fired = verifier::forget(&s.serviced.fired) != 0;
    let now = verifier::forget(&s.serviced.now);
    p.observe(s, slot, true);
    let Some(mut connection) = p.lock(slot) else {
        // Try again later, in the way that it came.
        if fired {
            p.file(slot, now, Ticks(1))
        } else {
            p.wake(slot, None)
        }
        return Turn::Idle;
    };
    let (whole, queues) = connection.parts();
    let serviced = whole.on_service(&mut s.step, queues, now, fired);
    if place::is_named(&s.step) {
        let domain = place::domain_of(&mut connection);
        if !place::of_any(p, &mut s.step, domain) {
            let (whole, queues) = connection.parts();
            whole.denied(&mut s.step, queues);
        }
    }
    p.unlock(connection);
    p.notify(slot);
    settle(p, s);
    plan(p, s);
    if serviced == Serviced::Held {
        return Turn::Redeliver;
    }
    let output = &s.step.output;
    if output.packet.present == 0 && output.report.wake == 0 {
        return Turn::Idle;
    }
    transmit(p, s, slot)
}

/// Schedules the next service that a step of the engine asked for: now, or at a deadline.
#[inline(always)]
fn plan<P: Platform>(p: &mut P, s: &Scratch) {
    let (slot, report) = (s.serviced.slot, &s.step.output.report);
    if report.wake != 0 {
        p.wake(slot, None);
    }
    if report.file != 0 {
        p.file(slot, s.serviced.now, report.deadline_in);
    }
}

/// Chooses the connection to service and writes it into `s.serviced`. Returns false if there is none.
#[inline(always)]
fn choose<P: Platform>(p: &mut P, s: &mut Scratch, look_at_wheel: bool) -> bool {
    // Plain numbers, not options: the BPF target may spill the payload of an absent option before it is written,
    // and the verifier rejects that.
    let mut now = Picoseconds(0);
    let mut slot = NOBODY;
    let mut fired = false;
    s.step.input.has_outcome = p.next_result(s) as u32;
    if s.step.input.has_outcome != 0 {
        slot = Slot::of(Cid(s.step.input.outcome.connection_id)).number();
    } else if look_at_wheel {
        now = p.now();
        if let Some(expired) = p.expired(now) {
            slot = expired;
            fired = true;
        }
    }
    if slot == NOBODY {
        slot = match p.ready() {
            Some(ready) => ready,
            None => return false,
        };
        // Before the service reads the queue, so that none of the requests after it is forgotten. While there is a backlog,
        // the request for service stays set: its cache line is shared with the application.
        p.answer(slot);
    }
    if now.0 == 0 {
        now = p.now();
    }
    s.serviced.slot = slot;
    s.serviced.fired = fired as u32;
    s.serviced.now = now;
    true
}

/// Continues a service that found a held request. Copies the request from its cell into the frame, as if it had
/// just arrived, and delivers it to the ULP, all in one lock hold. It looks up the request again, so that nothing
/// depends on the earlier lock hold. A separate program on the BPF target, because the verifier could not walk
/// both together.
#[inline(always)]
pub fn redeliver<P: Platform>(p: &mut P, s: &mut Scratch) -> Turn {
    let slot = s.serviced.slot;
    let now = p.now();
    s.step.begin();
    let Some(mut connection) = p.lock(slot) else {
        p.wake(slot, None);
        return Turn::Drop;
    };
    let (mut whole, _) = connection.parts();
    let protocol = whole.by_ref().parts().hot.flow.endpoint.protocol;
    if let Some(held) = whole.next_held() {
        take_out(p, &mut s.step, &held, protocol);
        let (whole, queues) = connection.parts();
        whole.on_held(&mut s.step, queues, held.key, now);
        if s.step.output.work.kind != WorkKind::None {
            let domain = place::domain_of(&mut connection);
            let done = carry_out(p, &s.step, domain);
            let (whole, queues) = connection.parts();
            whole.on_work_done(&mut s.step, queues, done, now);
        }
        if place::is_named(&s.step) {
            let domain = place::domain_of(&mut connection);
            place::of_answer(p, &mut s.step, domain);
        }
    }
    p.unlock(connection);
    settle(p, s);
    ring(p, &s.step, slot, now);
    p.notify(slot);
    transmit(p, s, slot)
}

/// Copies a held request into the frame and into the step's input.
#[inline(always)]
fn take_out<P: Platform>(p: &mut P, s: &mut Step, held: &Held, own: Protocol) {
    let request = &held.request;
    let protocol = if request.flags.contains(RequestFlags::FOREIGN) { own.other() } else { own };
    let kind = if request.is_pull() { PacketType::PullRequest } else { PacketType::PushData };
    let length = request.length as u32;
    let input = &mut s.input;
    input.packet.kind = kind;
    input.packet.protocol = protocol.number();
    input.packet.rsn = request.rsn.0;
    input.packet.psn = request.psn.0;
    input.packet.ack_request = request.flags.contains(RequestFlags::ACK_REQUEST) as u8;
    input.packet.payload_offset = 0;
    input.packet.payload_length = length;
    input.packet.request_length = request.request_length as u32;
    input.operation.kind = OperationKind::Invalid;
    input.operation.rkey = 0;
    if p.cell_to_frame(request.cell, length) {
        let mut cursor = p.cursor();
        let operation = &mut input.operation;
        protocol.parse(&mut cursor, kind, length as usize, request.request_length, operation);
    } else {
        emit::fault(p);
    }
    s.input.region = region_of(p, s);
}

/// Builds the frame of the packet to send, if there is one.
#[inline(always)]
fn transmit<P: Platform>(p: &mut P, s: &mut Scratch, slot: u32) -> Turn {
    if s.step.output.packet.present == 0 {
        return Turn::Drop;
    }
    if p.build(s) {
        p.raise(Counter::SentByEngine);
        return Turn::Transmit;
    }
    emit::fault(p);
    give_up(p, s, slot);
    Turn::Drop
}
