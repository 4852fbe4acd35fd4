//! The transmit pipeline: what one frame of the engine becomes.

use super::receive::{carry_out, give_up, region_of, ring, settle};
use super::{Platform, Scratch, delivery, emit};
use crate::counters::Counter;
use crate::ulp;
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

/// Gives one connection a turn and fills the frame with what comes of it: those that asked, round robin, and those
/// whose deadline has come.
///
/// `look_at_wheel` is true for some frames only, because reading the clock is a good part of an idle frame: one in
/// eight is often enough for deadlines of microseconds.
#[inline(always)]
pub fn engine<P: Platform>(p: &mut P, s: &mut Scratch, look_at_wheel: bool) -> Turn {
    let mut clock = None;
    let mut expired = None;
    if look_at_wheel {
        let now = p.now();
        clock = Some(now);
        expired = p.expired(now);
    }
    let (slot, fired) = match expired {
        Some(slot) => (slot, true),
        None => match p.ready() {
            Some(slot) => {
                // While there is a backlog the request stands: its cache line is the application's as well.
                if !p.is_backlogged(slot) {
                    p.answer(slot);
                }
                (slot, false)
            }
            None => return Turn::Idle,
        },
    };
    let now = match clock {
        Some(now) => now,
        None => p.now(),
    };
    s.slot = slot;
    p.locked(slot, |entry, queues| entry.on_turn(s, queues, now, fired));
    settle(p, s);
    if s.report.wake != 0 {
        p.wake(slot);
    }
    if s.report.file != 0 {
        p.file(slot, now, s.report.file_ticks);
    }
    if s.delivery.kind == delivery::REDELIVER {
        return Turn::Redeliver;
    }
    if s.transmission.present == 0 && s.report.wake == 0 {
        return Turn::Idle;
    }
    transmit(p, s, slot)
}

/// The second half of a turn that found a held request: takes it out of its cell into the frame, as if it had just
/// arrived, and hands it to the ULP. A program of its own on the BPF target, where the two together would be more than
/// the verifier walks.
#[inline(always)]
pub fn redeliver<P: Platform>(p: &mut P, s: &mut Scratch) -> Turn {
    let slot = s.slot;
    let now = p.now();
    let (cell, length) = (s.delivery.cell, s.delivery.length);
    let kind = if s.delivery.pull != 0 { PacketType::PullRequest } else { PacketType::PushData };
    s.packet.payload_offset = 0;
    s.packet.operation.kind = super::operation::INVALID;
    s.packet.operation.rkey = 0;
    if p.cell_to_frame(cell, length) {
        let mut cursor = p.cursor();
        let request_length = s.packet.request_length as u16;
        ulp::parse_operation(&mut cursor, kind, length as usize, request_length, &mut s.packet.operation);
    } else {
        emit::fault(p);
    }
    s.region = region_of(p, s);
    p.locked(slot, |entry, queues| entry.redeliver(s, queues, now));
    settle(p, s);
    ring(p, s, slot, now);
    carry_out(p, s, slot, now);
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
