//! The wire program: one frame in, at most one frame out.

use super::parse::{FALCON, PASS, parse};
use super::{Atomic, Locked, Platform, Scratch, Verdict, emit, place};
use crate::connection::{Step, WorkDone, WorkKind};
use crate::counters::Counter;
use crate::ids::{CellId, Cid, Slot};
use crate::memory::{ProtectionDomain, Region};
use crate::units::Picoseconds;

/// Handles a frame from the network.
#[inline(always)]
pub fn receive<P: Platform>(p: &mut P, s: &mut Scratch) -> Verdict {
    let parsed = parse(p, s);
    if parsed != FALCON {
        p.count(parsed & 0xffff);
        return if parsed & PASS != 0 { Verdict::Pass } else { Verdict::Drop };
    }
    accept(p, s)
}

/// Reads the headers of the frame into `s.step.input`, as [`receive`] does. Returns whether it is a valid Falcon packet
/// for this node.
pub fn read<P: Platform>(p: &mut P, s: &mut Scratch) -> bool {
    parse(p, s) == FALCON
}

/// Handles a frame whose headers are in `s.step.input`: the rest of [`receive`]. A test changes them before.
#[inline(always)]
pub fn accept<P: Platform>(p: &mut P, s: &mut Scratch) -> Verdict {
    p.raise(Counter::Received);
    let slot = Slot::of(Cid(s.step.input.packet.dest_cid)).number();
    let now = p.now();
    let input = &mut s.step.input;
    input.packet.arrival = p.arrival(now);
    let kind = input.packet.kind;
    p.observe(s, slot, kind.is_acknowledgement());
    // The lock covers everything from here on: the region, which a step relies on until the data is placed, the
    // work and its result, and the place of the data of an answer.
    let Some(mut connection) = p.lock(slot) else { return Verdict::Drop };
    s.step.input.region = region_of(p, &s.step);
    let (whole, queues) = connection.parts();
    whole.on_packet(&mut s.step, queues, now);
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
    p.unlock(connection);
    p.notify(slot);
    if s.step.output.report.delays != 0 {
        p.record_delays(s);
    }
    settle(p, s);
    ring(p, &s.step, slot, now);
    if s.step.output.packet.present == 0 {
        return Verdict::Drop;
    }
    if p.build(s) {
        p.raise(Counter::SentInReceivedFrame);
        return Verdict::Transmit;
    }
    p.raise(Counter::ReplyByEngine);
    give_up(p, s, slot);
    Verdict::Drop
}

/// Returns the region that a request names.
#[inline(always)]
pub(super) fn region_of<P: Platform>(p: &mut P, s: &Step) -> Region {
    let rkey = s.input.operation.rkey;
    if rkey == 0 { Region::default() } else { p.region(rkey) }
}

/// Carries out a step's report: counters, freed cell and event. Most steps report nothing.
#[inline(always)]
pub(super) fn settle<P: Platform>(p: &mut P, s: &mut Scratch) {
    if !s.step.output.report.is_silent() {
        settle_report(p, s);
    }
}

#[inline(never)]
fn settle_report<P: Platform>(p: &mut P, s: &mut Scratch) {
    let report = &mut s.step.output.report;
    while let Some(counter) = report.raised.take() {
        crate::verifier::bounded!();
        p.count(counter);
    }
    if !report.free_cell.is_none() {
        p.free_cell(report.free_cell);
    }
    if report.event != 0 {
        p.publish_event(s);
    }
}

/// Schedules the service by the engine that a step asked for: now, or by a deadline.
#[inline(always)]
pub(super) fn ring<P: Platform>(p: &mut P, s: &Step, slot: u32, now: Picoseconds) {
    let report = &s.output.report;
    if report.wake != 0 {
        p.wake(slot, None);
    } else if report.file != 0 {
        p.wake(slot, Some(now.after(report.deadline_in.as_picos())));
    }
}

/// Does the work that a step of a connection with this domain requested, while the lock is held.
#[inline(always)]
pub(super) fn carry_out<P: Platform>(p: &mut P, s: &Step, domain: ProtectionDomain) -> WorkDone {
    let (input, work) = (&s.input, &s.output.work);
    let data = input.packet.payload_offset + input.operation.header as u32;
    let (offset, length) = (work.place.memory_offset, work.length);
    let mut done = WorkDone { done: true, denied: false, value: 0, cell: CellId::NONE };
    match work.kind {
        WorkKind::PlaceRequest | WorkKind::PlaceResponse | WorkKind::StoreValue => {
            let to = place::of_work(p, work, domain);
            done.denied = to == place::NOWHERE;
            done.done = if done.denied {
                false
            } else if work.kind == WorkKind::StoreValue {
                p.store_value(to, work.value)
            } else {
                length == 0 || p.frame_to_memory(data, to, length)
            };
        }
        WorkKind::CompareSwap => done.value = p.atomic(Atomic::CompareSwap, offset, work.value, work.compare),
        WorkKind::FetchAdd => done.value = p.atomic(Atomic::FetchAdd, offset, work.value, 0),
        _ => {
            let (payload, length) = (input.packet.payload_offset, input.packet.payload_length);
            // What does not fit a frame of the engine could not be delivered from a cell. It is refused like a request for
            // which there is no cell, and its sender sends it again, until it is next in order (F-11-16).
            let fits = length <= emit::MAX_FRAME_BYTES;
            done.cell = if fits { p.frame_to_cell(payload, length) } else { CellId::NONE };
        }
    }
    if !done.done && !done.denied {
        emit::fault(p);
    }
    done
}

/// Records that a packet, recorded as sent, could not be built into this frame. The engine sends it again.
#[inline(never)]
pub(super) fn give_up<P: Platform>(p: &mut P, s: &mut Scratch, slot: u32) {
    if let Some(mut connection) = p.lock(slot) {
        let (whole, _) = connection.parts();
        whole.not_sent(&s.step.output.packet);
        p.unlock(connection);
    }
    p.wake(slot, None);
}
