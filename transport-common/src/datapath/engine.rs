//! The transmit pipeline: what one frame of the engine becomes.

use super::receive::{carry_out, give_up, region_of, settle};
use super::{Platform, Scratch, Verdict, delivery, emit};
use crate::counters::Counter;
use crate::ulp;
use crate::units::Picoseconds;
use crate::wire::PacketType;

/// Gives one connection a turn and fills the frame with what comes of it: first those whose deadline has come,
/// then those that asked, round robin. `None` when there was nobody to turn to.
#[inline(always)]
pub fn engine<P: Platform>(p: &mut P, s: &mut Scratch) -> Option<Verdict> {
    let now = p.now();
    let (slot, fired) = match p.expired(now) {
        Some(slot) => (slot, true),
        None => (p.ready()?, false),
    };
    p.locked(slot, |entry, queues| entry.on_turn(s, queues, now, fired));
    settle(p, s, slot);
    if s.report.file != 0 {
        p.file(slot, now, s.report.file_ticks);
    }
    if s.delivery.kind == delivery::REDELIVER {
        redeliver(p, s, slot, now);
    }
    if s.transmission.present == 0 {
        return Some(Verdict::Drop);
    }
    if emit::build(p, s) {
        p.raise(Counter::SentByEngine);
        return Some(Verdict::Transmit);
    }
    emit::fault(p);
    give_up(p, s, slot);
    Some(Verdict::Drop)
}

/// Takes a held request out of its cell into the frame, as if it had just arrived, and hands it to the ULP.
#[inline(always)]
fn redeliver<P: Platform>(p: &mut P, s: &mut Scratch, slot: u32, now: Picoseconds) {
    let (cell, length) = (s.delivery.cell, s.delivery.length);
    let kind = if s.delivery.pull != 0 { PacketType::PullRequest } else { PacketType::PushData };
    s.packet.payload_offset = 0;
    s.packet.operation.kind = super::operation::INVALID;
    if p.cell_to_frame(cell, length) {
        let mut cursor = p.cursor();
        let request_length = s.packet.request_length as u16;
        ulp::parse_operation(&mut cursor, kind, length as usize, request_length, &mut s.packet.operation);
    } else {
        emit::fault(p);
    }
    s.region = region_of(p, s);
    p.locked(slot, |entry, queues| entry.redeliver(s, queues, now));
    settle(p, s, slot);
    carry_out(p, s, slot, now);
}
