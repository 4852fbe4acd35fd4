//! The wire program: one frame in, at most one frame out.

use super::parse::{FALCON, PASS, parse};
use super::{NO_CELL, Platform, Scratch, Verdict, delivery, emit};
use crate::connection::Entry;
use crate::counters::Counter;
use crate::ids::{Cid, Psn};
use crate::packet_delivery::Window;
use crate::queues::{Queues, Region, slot_of};
use crate::units::Picoseconds;
use crate::wire::PacketType;

/// Handles a frame from the network.
#[inline(always)]
pub fn receive<P: Platform>(p: &mut P, s: &mut Scratch) -> Verdict {
    let parsed = parse(p, s);
    if parsed != FALCON {
        p.count(parsed & 0xffff);
        return if parsed & PASS != 0 { Verdict::Pass } else { Verdict::Drop };
    }
    p.raise(Counter::Received);
    let slot = slot_of(Cid(s.packet.dest_cid));
    let now = p.now();
    s.region = region_of(p, s);
    s.packet.arrival = p.arrival(now).0;
    s.cells_in_use = p.cells_in_use();
    s.rx_buffer_level = p.rx_buffer_level().into();
    if s.packet.kind == PacketType::Back as u8
        || s.packet.kind == PacketType::Eack as u8
        || s.packet.kind == PacketType::Nack as u8
    {
        p.event_queues(s, slot);
    }
    if p.locked(slot, |entry, queues| entry.on_packet(s, queues, now)).is_none() {
        return Verdict::Drop;
    }
    settle(p, s);
    ring(p, s, slot, now);
    carry_out::<P, false>(p, s, slot, now);
    if s.transmission.present == 0 {
        return Verdict::Drop;
    }
    if emit::build(p, s) {
        p.raise(Counter::SentInReceivedFrame);
        return Verdict::Transmit;
    }
    p.raise(Counter::ReplyByEngine);
    give_up(p, s, slot);
    Verdict::Drop
}

/// The region a request names.
#[inline(always)]
pub(super) fn region_of<P: Platform>(p: &mut P, s: &Scratch) -> Region {
    if s.packet.operation.rkey == 0 { Region::default() } else { p.region(s.packet.operation.rkey) }
}

/// Counters and cell that a step asked for. Most ask for nothing.
#[inline(always)]
pub(super) fn settle<P: Platform>(p: &mut P, s: &mut Scratch) {
    if s.report.is_silent() && s.delivery.free_cell == NO_CELL {
        return;
    }
    settle_report(p, s);
}

#[inline(never)]
fn settle_report<P: Platform>(p: &mut P, s: &mut Scratch) {
    let mut n = 0;
    while n < s.report.counts.len() {
        if s.report.counts[n] != 0 {
            p.count(s.report.counts[n] - 1);
        }
        n += 1;
    }
    if s.report.congestion_count != 0 {
        p.count(s.report.congestion_count - 1);
    }
    if s.delivery.free_cell != NO_CELL {
        p.free_cell(s.delivery.free_cell);
    }
    if s.report.delays != 0 {
        s.report.delays = 0; // a second step of the same frame does not tell it again
        p.record_delays(s);
    }
    if s.report.event != 0 {
        s.report.event = 0;
        p.publish_event(s);
    }
}

/// The turn of the engine that a step asked for: now, or by a deadline.
#[inline(always)]
pub(super) fn ring<P: Platform>(p: &mut P, s: &Scratch, slot: u32, now: Picoseconds) {
    if s.report.wake != 0 {
        p.wake(slot);
    } else if s.report.file != 0 {
        p.wake_by(slot, now, s.report.file_ticks);
    }
}

/// What the step could not do under the lock, and the report back. A transmission the first step asked for is
/// still there afterwards unless the second has one of its own.
///
/// A request that was `HELD` is not held a second time.
#[inline(always)]
pub(super) fn carry_out<P: Platform, const HELD: bool>(
    p: &mut P,
    s: &mut Scratch,
    slot: u32,
    now: Picoseconds,
) {
    let kind = s.delivery.kind;
    if kind == delivery::NONE {
        return;
    }
    let data = s.packet.payload_offset + s.packet.operation.header as u32;
    let (offset, length) = (s.delivery.memory_offset, s.delivery.length);
    let mut done = true;
    let mut value = 0;
    let mut cell = NO_CELL;
    match kind {
        delivery::PLACE_REQUEST | delivery::PLACE_RESPONSE => {
            done = length == 0 || p.frame_to_memory(data, offset, length);
        }
        delivery::STORE_VALUE => done = p.store_value(offset, s.delivery.value),
        delivery::COMPARE_SWAP => value = p.compare_swap(offset, s.delivery.compare, s.delivery.value),
        delivery::FETCH_ADD => value = p.fetch_add(offset, s.delivery.value),
        _ if HELD => return,
        _ => {
            cell = p.allocate_cell();
            if cell != NO_CELL && !p.frame_to_cell(s.packet.payload_offset, cell, s.packet.payload_length) {
                p.free_cell(cell);
                cell = NO_CELL;
            }
        }
    }
    if !done {
        emit::fault(p);
    }
    if p.locked(slot, |entry, queues| finish_delivery(entry, s, queues, (kind, done, value, cell, now)))
        .is_none()
    {
        return;
    }
    settle(p, s);
    ring(p, s, slot, now);
}

/// The second step: the ULP has done its part.
#[inline(always)]
fn finish_delivery(
    entry: &mut Entry,
    s: &mut Scratch,
    queues: &impl Queues,
    (kind, done, value, cell, now): (u32, bool, u64, u32, Picoseconds),
) {
    match kind {
        delivery::PLACE_REQUEST if done => entry.request_placed(s, queues, now),
        delivery::PLACE_REQUEST => entry.request_failed(s, queues, now),
        delivery::PLACE_RESPONSE | delivery::STORE_VALUE => entry.response_placed(s, queues, now, done),
        delivery::COMPARE_SWAP | delivery::FETCH_ADD => entry.atomic_executed(s, queues, value, now),
        _ => entry.request_held(s, queues, cell, now),
    }
}

/// A packet that was booked as sent could not be built into this frame: the engine sends it.
#[inline(never)]
pub(super) fn give_up<P: Platform>(p: &mut P, s: &mut Scratch, slot: u32) {
    let kind = s.transmission.kind;
    let reliable =
        kind != PacketType::Back as u8 && kind != PacketType::Eack as u8 && kind != PacketType::Nack as u8;
    let window = if s.transmission.window == Window::Request as u8 { Window::Request } else { Window::Data };
    let psn = Psn(s.transmission.psn);
    p.locked(slot, |entry, _| {
        if reliable {
            entry.transmission_failed(window, psn);
        } else {
            entry.acknowledgement_not_sent(kind);
        }
    });
    p.wake(slot);
}
