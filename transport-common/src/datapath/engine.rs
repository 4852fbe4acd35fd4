//! The transmit pipeline: what one frame of the engine becomes.

use super::receive::{carry_out, give_up, region_of, ring, settle};
use super::{Platform, Scratch, delivery, emit};
use crate::counters::Counter;
use crate::ids::Cid;
use crate::queues::slot_of;
use crate::ulp::rdma;
use crate::units::Picoseconds;
use crate::verifier;
use crate::wire::PacketType;

/// What a frame of the engine came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Turn {
    /// There was nobody to turn to, or nothing to do for them.
    Idle,
    /// A connection had its turn, and the frame is not needed.
    Drop,
    /// The frame holds a packet for the wire.
    Transmit,
    /// A held request has to be delivered: [`redeliver`] goes on with this frame.
    Redeliver,
}

/// No connection slot.
const NOBODY: u32 = u32::MAX;

/// Gives one connection a turn and fills the frame with what comes of it: one whose congestion result has come, else
/// one whose deadline has come, else those that asked, round robin.
///
/// `look_at_wheel` is true for some frames only, because reading the clock is a good part of an idle frame: one in
/// eight is often enough for deadlines of microseconds.
#[inline(always)]
pub fn engine<P: Platform>(p: &mut P, s: &mut Scratch, look_at_wheel: bool) -> Turn {
    if !choose(p, s, look_at_wheel) {
        return Turn::Idle;
    }
    // Whichever way it was chosen: read back, it is the same to the kernel's verifier, which else walks all that follows
    // once for each.
    let slot = verifier::forget(&s.turn.slot);
    let fired = verifier::forget(&s.turn.fired) != 0;
    let now = Picoseconds(verifier::forget(&s.turn.now));
    s.cells_in_use = p.cells_in_use();
    s.rx_buffer_level = p.rx_buffer_level().into();
    p.event_queues(s, slot);
    if p.locked(slot, |entry, queues| entry.on_turn(s, queues, now, fired)).is_none() {
        // Once more, by the way it came.
        if fired {
            p.file(slot, now, 1)
        } else {
            p.wake(slot)
        }
        return Turn::Idle;
    }
    settle(p, s);
    plan(p, s);
    if s.delivery.kind == delivery::REDELIVER {
        return Turn::Redeliver;
    }
    if s.transmission.present == 0 && s.report.wake == 0 {
        return Turn::Idle;
    }
    transmit(p, s, slot)
}

/// The next turn that a step of the engine asked for: now, or by a deadline.
#[inline(always)]
fn plan<P: Platform>(p: &mut P, s: &Scratch) {
    let slot = s.turn.slot;
    if s.report.wake != 0 {
        p.wake(slot);
    }
    if s.report.file != 0 {
        p.file(slot, Picoseconds(s.turn.now), s.report.file_ticks);
    }
}

/// Chooses whose turn it is, into `s.turn`; false if there is nobody.
#[inline(always)]
fn choose<P: Platform>(p: &mut P, s: &mut Scratch, look_at_wheel: bool) -> bool {
    // Plain numbers and no options: on the BPF target the payload of an absent one may be spilled before it is written,
    // which the verifier refuses.
    let mut now = Picoseconds(0);
    let mut slot = NOBODY;
    let mut fired = false;
    s.result = p.next_result(s) as u32;
    if s.result != 0 {
        slot = slot_of(Cid(s.outcome.connection_id));
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
        // While there is a backlog the request stands: its cache line is the application's as well.
        if !p.is_backlogged(slot) {
            p.answer(slot);
        }
    }
    if now.0 == 0 {
        now = p.now();
    }
    s.turn.slot = slot;
    s.turn.fired = fired as u32;
    s.turn.now = now.0;
    true
}

/// The second half of a turn that found a held request: takes it out of its cell into the frame, as if it had just
/// arrived, and hands it to the ULP. A program of its own on the BPF target, where the two together would be more than
/// the verifier walks.
#[inline(always)]
pub fn redeliver<P: Platform>(p: &mut P, s: &mut Scratch) -> Turn {
    let slot = s.turn.slot;
    let now = p.now();
    let (cell, length) = (s.delivery.cell, s.delivery.length);
    let kind = if s.delivery.pull != 0 { PacketType::PullRequest } else { PacketType::PushData };
    s.packet.payload_offset = 0;
    s.packet.operation.kind = rdma::operation::INVALID;
    s.packet.operation.rkey = 0;
    if p.cell_to_frame(cell, length) {
        let mut cursor = p.cursor();
        let request_length = s.packet.request_length as u16;
        rdma::parse_operation(&mut cursor, kind, length as usize, request_length, &mut s.packet.operation);
    } else {
        emit::fault(p);
    }
    s.region = region_of(p, s);
    if p.locked(slot, |entry, queues| entry.redeliver(s, queues, now)).is_none() {
        return Turn::Drop;
    }
    settle(p, s);
    ring(p, s, slot, now);
    carry_out::<P, true>(p, s, slot, now);
    transmit(p, s, slot)
}

/// Builds the frame of the transmission, if there is one.
#[inline(always)]
fn transmit<P: Platform>(p: &mut P, s: &mut Scratch, slot: u32) -> Turn {
    if s.transmission.present == 0 {
        return Turn::Drop;
    }
    if emit::build(p, s) {
        p.raise(Counter::SentByEngine);
        return Turn::Transmit;
    }
    emit::fault(p);
    give_up(p, s, slot);
    Turn::Drop
}
