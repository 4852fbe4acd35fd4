//! Processing of the peer's requests: order, the ULP, receive cells.

use super::application::Application;
use super::outgoing::{Refusal, nack};
use super::{Entry, Report, Step, TRANSACTIONS, Work, WorkKind};
use crate::counters::Counter;
use crate::ids::{Psn, Rsn};
use crate::packet_delivery::Window;
use crate::queues::Queues;
use crate::resources::Occupancy;
use crate::transaction::{
    Arrived, CompletionCode, Duplicate, NO_CELL, RequestFlags, RequestState, Target, TargetRequest,
};
use crate::ulp::{
    Answer, AnswerKind, Atomic, OperationKind, PlaceFlags, Protocol, PullVerdict, PushVerdict, Responder,
    UlpCode,
};
use crate::units::{FalconTime, Picoseconds};
use crate::wire::PacketType;
use crate::wire::resync::ResyncCode;

/// Processes a Push Data or Pull Request that is new in its window. Its place in the order decides when the ULP
/// gets it.
#[inline(always)]
pub(super) fn on_request(
    entry: &mut Entry,
    s: &mut Step,
    queues: &impl Queues,
    window: Window,
    now: Picoseconds,
) {
    let Entry { connection: c, tables, .. } = entry;
    if c.service.dropping != 0 {
        s.output.report.raised.raise(Counter::DropXlr); // F-11-17, F-11-28: nothing is marked or kept
        return nack(entry, s, Refusal::XLR, now);
    }
    let pull = window == Window::Request;
    let (rsn, psn) = (Rsn(s.input.packet.rsn), Psn(s.input.packet.psn));
    let key = c.target.key(rsn, psn, pull);
    s.output.work.key = key;
    s.output.work.held = 0;
    let arrived = c.target.arrived(&tables.requests, key, rsn, pull);
    match arrived {
        Arrived::Deliver => deliver(entry, s, queues, now),
        Arrived::Hold | Arrived::HoldRnr => {
            s.output.work.kind = WorkKind::Hold;
            s.output.work.rnr = 0;
            if arrived == Arrived::HoldRnr {
                let refusal = Refusal::not_ready(c.target.rnr_code(&tables.requests, key));
                nack(entry, s, refusal, now); // D-42
            }
        }
        Arrived::NoRoom => {
            no_room(entry, s, now);
        }
        Arrived::Past => {
            // D-53: a protocol error. The packet is acknowledged, because its sender would otherwise repeat it for
            // ever.
            s.output.report.raised.raise(Counter::DropRsn);
            c.receiver().acknowledge(window, psn, false, now.ticks());
        }
    }
}

/// Processes a packet whose PSN was received before (D-21), according to the state of its request.
#[inline(never)]
pub(super) fn on_duplicate(entry: &mut Entry, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
    let Entry { connection: c, tables, settings } = entry;
    c.copy_received(&mut tables.statistics, &settings.in_force, now);
    c.delivery.acknowledge_copy(s.input.packet.ack_request != 0, now.ticks());
    let (rsn, psn) = (Rsn(s.input.packet.rsn), Psn(s.input.packet.psn));
    let key = c.target.key(rsn, psn, false);
    let duplicate = if s.input.packet.kind == PacketType::PushData {
        c.target.duplicate(&tables.requests, key, rsn, psn)
    } else {
        Duplicate::Drop
    };
    let refusal = match duplicate {
        Duplicate::Deliver => {
            // D-43: this copy is as good as the one in the receive cell.
            s.output.work.key = key;
            s.output.work.held = 1;
            return deliver(entry, s, queues, now);
        }
        Duplicate::Drop => return s.output.report.raised.raise(Counter::DropDuplicate),
        Duplicate::Rnr(code) => Refusal::not_ready(code),
        Duplicate::Error(code) => Refusal::error(code),
        Duplicate::InvalidCid => Refusal::INVALID_CID,
    };
    s.output.report.raised.raise(Counter::DropDuplicate);
    nack(entry, s, refusal, now);
}

/// Processes a Resync in the window: its PSN is received and acknowledged in every state, and its transaction is
/// over (F-9.2.5-1, D-25).
#[inline(always)]
pub(super) fn on_resync(
    entry: &mut Entry,
    s: &mut Step,
    queues: &impl Queues,
    window: Window,
    now: Picoseconds,
) {
    let Entry { connection: c, tables, .. } = entry;
    let p = &s.input.packet;
    let (rsn, psn) = (Rsn(p.rsn), Psn(p.psn));
    if p.resync_type == PacketType::PullData {
        // With any other code the pull stays open until its timeout (D-25).
        let reset = p.resync_code == ResyncCode::LOCAL_XLR;
        if reset && c.initiator.waiting_pull(&mut tables.transactions, rsn).is_some() {
            c.delivery.data_mut().rx.mark_answer(psn);
            let end = (CompletionCode::RemoteError, 0, true);
            c.initiator.complete(&mut tables.transactions, Application(queues), rsn, end);
            c.initiator.flush(&mut tables.transactions, Application(queues));
        }
    } else {
        let pull = window == Window::Request;
        let Some(cell) = c.target.resync(&mut tables.requests, rsn, psn, pull) else {
            s.output.report.raised.raise(Counter::DropResources);
            return; // the peer sends it again
        };
        s.output.report.free_cell = cell;
        s.output.report.wake = 1; // the next request in order may wait in a cell
    }
    if c.delivery.lane(window).rx.is_acknowledged(psn) {
        c.delivery.acknowledge_resync_again(p.ack_request != 0, now.ticks());
    } else {
        c.receiver().acknowledge(window, psn, true, now.ticks()); // at once: its sender waits for it (D-25)
    }
    cells_changed(&mut c.occupancy, &c.target, s);
}

/// Ends the held Pull Request that an old Resync stands for.
#[inline(never)]
pub(super) fn end_held_pull(
    target: &mut Target,
    requests: &mut [TargetRequest; TRANSACTIONS],
    occupancy: &mut Occupancy,
    s: &mut Step,
) {
    let (rsn, psn) = (Rsn(s.input.packet.rsn), Psn(s.input.packet.psn));
    let key = target.key(rsn, psn, true);
    let request = &requests[key as usize & (TRANSACTIONS - 1)];
    let kept = matches!(request.state, RequestState::Held | RequestState::Rnr);
    if !kept || request.rsn != rsn || request.psn != psn {
        return;
    }
    if let Some(cell) = target.resync(requests, rsn, psn, true) {
        s.output.report.free_cell = cell;
        s.output.report.wake = 1;
        cells_changed(occupancy, target, s);
    }
}

/// Delivers the request in `s.input` to the ULP: a new packet, or a request that was held (`work.held`). If the
/// ULP wants something done first, that becomes the step's work.
#[inline(always)]
pub(super) fn deliver(entry: &mut Entry, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
    let c = &mut entry.connection;
    if c.target.take_gap() {
        c.responder.abandon_message();
    }
    let rsn = Rsn(s.input.packet.rsn);
    let protocol = c.endpoint.protocol;
    if s.input.packet.protocol != protocol.number() {
        return unknown(entry, s, now);
    }
    let Step { input, output, .. } = s;
    let work = &mut output.work;
    let op = &input.operation;
    if input.packet.kind == PacketType::PullRequest {
        match protocol.admit_pull(&c.responder, op, &input.region) {
            PullVerdict::Answer(kind, code) => answered(entry, s, (kind, code, 0), now),
            PullVerdict::Execute(atomic, found) => {
                work.kind = match atomic {
                    Atomic::CompareSwap => WorkKind::CompareSwap,
                    Atomic::FetchAdd => WorkKind::FetchAdd,
                };
                work.place.memory_offset = found.offset();
                work.value = op.swap_or_add;
                work.compare = op.compare;
            }
            PullVerdict::NotReady => {
                pull_not_ready(&mut c.target, &mut entry.tables.requests, work, now.ticks());
            }
        }
        return;
    }
    let receives = Application(queues);
    match protocol.admit_push(&mut c.responder, op, &input.region, rsn, receives, &mut work.place) {
        PushVerdict::Take => {
            work.kind = WorkKind::PlaceRequest;
            work.length = op.length;
        }
        PushVerdict::NotReady => not_ready(entry, s, queues, now),
        refusal => refused(entry, s, refusal as u8, now),
    }
}

/// Completes a push after its data is in memory: the ULP acknowledges it, and so does packet delivery
/// (F-6.1.1.1-2).
#[inline(always)]
pub(super) fn placed(entry: &mut Entry, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
    let c = &mut entry.connection;
    let (p, work) = (&s.input.packet, &s.output.work);
    let (rsn, psn) = (Rsn(p.rsn), Psn(p.psn));
    c.responder.placed(&s.input.operation, rsn, &work.place, Application(queues));
    entry.tables.statistics.bytes_received += s.input.operation.length as u64;
    c.receiver().acknowledge_data(psn, p.ack_request != 0, now.ticks());
    c.target.delivered(work.key, rsn, false);
    if work.held != 0 {
        queues.set_receive_wanted(c.target.waits_for_ulp() as u32);
    }
    request_over(&mut c.target, &mut entry.tables.requests, &mut c.occupancy, s);
}

/// Queues the response to a pull. The Pull Data is sent in the order of the requests (8.5.3.2).
#[inline(never)]
pub(super) fn answered(
    entry: &mut Entry,
    s: &mut Step,
    (kind, code, value): (AnswerKind, UlpCode, u64),
    now: Picoseconds,
) {
    let c = &mut entry.connection;
    let (p, op, work) = (&s.input.packet, &s.input.operation, &s.output.work);
    let rsn = Rsn(p.rsn);
    if work.held == 0 {
        c.receiver().mark_received(Window::Request, Psn(p.psn), p.ack_request != 0, now.ticks());
    }
    let answer = match kind {
        // If the payload is not a valid operation, no fields of it were parsed.
        AnswerKind::Error => Answer { kind, code, ..Answer::default() },
        AnswerKind::Atomic => Answer { operand: value, kind, ..Answer::default() },
        AnswerKind::Read => {
            Answer { operand: op.address, rkey: op.rkey, length: op.length, kind, ..Answer::default() }
        }
    };
    c.target.answer(&mut entry.tables.responses, rsn, answer);
    c.target.delivered(work.key, rsn, true);
    request_over(&mut c.target, &mut entry.tables.requests, &mut c.occupancy, s);
}

/// Completes a push in error for the ULP (F-8.5.3.5-1). Its table entry waits for the peer's Resync.
#[inline(never)]
pub(super) fn refused(entry: &mut Entry, s: &mut Step, code: u8, now: Picoseconds) {
    let c = &mut entry.connection;
    let (p, work) = (&s.input.packet, &s.output.work);
    let (rsn, psn) = (Rsn(p.rsn), Psn(p.psn));
    // Only a SEND has flags in any case.
    let sends = matches!(s.input.operation.kind, OperationKind::Send);
    if sends && work.place.flags.contains(PlaceFlags::DENIED) {
        s.output.report.raised.raise(Counter::LocalProtection);
    }
    if work.held == 0 {
        c.receiver().mark_received(Window::Data, psn, false, now.ticks());
    }
    c.target.delivered(work.key, rsn, false);
    let end = (code, RequestFlags::empty());
    let cell = c.target.errored(&mut entry.tables.requests, work.key, (rsn, psn), end);
    s.output.report.free_cell = cell;
    s.output.work.held = 0;
    nack(entry, s, Refusal::error(code), now);
    let c = &mut entry.connection;
    cells_changed(&mut c.occupancy, &c.target, s);
}

/// Refuses a request for a ULP that does not know the connection. A push is refused with an invalid CID, and its
/// entry waits for the peer's Resync. A pull is reclaimed, and nothing is sent (F-11-31): its initiator's timeout ends
/// it.
#[inline(never)]
fn unknown(entry: &mut Entry, s: &mut Step, now: Picoseconds) {
    let c = &mut entry.connection;
    let (p, work) = (&s.input.packet, &s.output.work);
    let (rsn, psn) = (Rsn(p.rsn), Psn(p.psn));
    let pull = p.kind == PacketType::PullRequest;
    s.output.report.raised.raise(Counter::DropProtocol);
    if work.held == 0 {
        let window = if pull { Window::Request } else { Window::Data };
        c.receiver().mark_received(window, psn, pull && p.ack_request != 0, now.ticks());
    }
    c.target.delivered(work.key, rsn, pull);
    if pull {
        return request_over(&mut c.target, &mut entry.tables.requests, &mut c.occupancy, s);
    }
    let end = (0, RequestFlags::FOREIGN);
    s.output.report.free_cell = c.target.errored(&mut entry.tables.requests, work.key, (rsn, psn), end);
    s.output.work.held = 0;
    nack(entry, s, Refusal::INVALID_CID, now);
    let c = &mut entry.connection;
    cells_changed(&mut c.occupancy, &c.target, s);
}

/// Processes an RNR of the ULP for a push: the push is kept in a receive cell and NACKed (D-42, D-43).
#[inline(never)]
pub(super) fn not_ready(entry: &mut Entry, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
    let c = &mut entry.connection;
    if c.endpoint.protocol.receives() && c.responder.lacks_place(Application(queues)) {
        s.output.report.raised.raise(Counter::CompletionQueueFull);
    }
    let work = &mut s.output.work;
    let code = if work.held != 0 {
        let code = c.target.not_ready(&mut entry.tables.requests, work.key, now.ticks());
        ask_for_receive(c.endpoint.protocol, &c.responder, &mut c.target, &mut s.output.report, queues);
        code
    } else {
        work.kind = WorkKind::Hold;
        work.rnr = 1;
        c.target.rnr_code_without_cell(&entry.tables.requests)
    };
    nack(entry, s, Refusal::not_ready(code), now);
}

/// Processes an RNR of the ULP for a pull: the pull is kept in a receive cell, and the ULP gets it again when the time
/// is over. Its initiator learns nothing of that (F-6.4-2, F-8.5.3.4-2, F-11-32).
#[inline(never)]
fn pull_not_ready(
    target: &mut Target,
    requests: &mut [TargetRequest; TRANSACTIONS],
    work: &mut Work,
    now: FalconTime,
) {
    if work.held != 0 {
        target.not_ready(requests, work.key, now);
    } else {
        work.kind = WorkKind::Hold;
        work.rnr = 1;
    }
}

/// Records a request as held after its payload was copied into `cell`. Refuses it if no cell was free ([`NO_CELL`]).
#[inline(never)]
pub(super) fn held(entry: &mut Entry, s: &mut Step, queues: &impl Queues, cell: u32, now: Picoseconds) {
    let c = &mut entry.connection;
    let (p, work) = (&s.input.packet, &s.output.work);
    if cell == NO_CELL {
        // An RNR NACK already makes the peer send the packet again (D-43).
        if s.output.packet.present == 0 {
            no_room(entry, s, now);
        }
        return;
    }
    let pull = p.kind == PacketType::PullRequest;
    let psn = Psn(p.psn);
    let ack_request = p.ack_request != 0;
    let foreign = p.protocol != c.endpoint.protocol.number();
    let request = TargetRequest {
        rsn: Rsn(p.rsn),
        psn,
        cell: cell as u16,
        length: p.payload_length as u16,
        request_length: p.request_length as u16,
        state: RequestState::Held,
        flags: if ack_request { RequestFlags::ACK_REQUEST } else { RequestFlags::empty() }
            | if pull { RequestFlags::PULL } else { RequestFlags::empty() }
            | if foreign { RequestFlags::FOREIGN } else { RequestFlags::empty() },
        ..TargetRequest::default()
    };
    c.target.held(&mut entry.tables.requests, work.key, request);
    entry.tables.statistics.held += 1;
    let window = if pull { Window::Request } else { Window::Data };
    c.receiver().mark_received(window, psn, ack_request, now.ticks());
    c.occupancy.changed(c.target.held, s.input.cells_in_use + 1);
    s.output.report.wake = 1;
    if work.rnr != 0 {
        c.target.not_ready(&mut entry.tables.requests, work.key, now.ticks());
        if !pull {
            ask_for_receive(c.endpoint.protocol, &c.responder, &mut c.target, &mut s.output.report, queues);
        }
    }
}

/// Ends the current request: frees its table entry and its receive cell, if it was held.
#[inline(always)]
fn request_over(
    target: &mut Target,
    requests: &mut [TargetRequest; TRANSACTIONS],
    occupancy: &mut Occupancy,
    s: &mut Step,
) {
    if s.output.work.held != 0 {
        s.output.report.free_cell = target.free(requests, s.output.work.key);
        s.output.work.held = 0;
        cells_changed(occupancy, target, s);
    }
    if target.held != 0 {
        s.output.report.wake = 1; // the next request in order may wait in a cell
    }
}

/// Updates the occupancy if the step gives a cell back.
#[inline(always)]
fn cells_changed(occupancy: &mut Occupancy, target: &Target, s: &Step) {
    if s.output.report.free_cell != NO_CELL {
        occupancy.changed(target.held, s.input.cells_in_use.saturating_sub(1));
    }
}

/// Asks the application to ring the doorbell when it posts a receive or takes completions, because the ULP waits for a
/// receive whose completion has a place. Then checks again: the application may have done so just before.
#[inline(always)]
fn ask_for_receive(
    protocol: Protocol,
    responder: &Responder,
    target: &mut Target,
    report: &mut Report,
    queues: &impl Queues,
) {
    if !protocol.receives() {
        return;
    }
    queues.set_receive_wanted(1);
    if responder.is_ready(Application(queues)) {
        target.ulp_ready();
        report.wake = 1;
    }
}

/// Refuses the packet in the step's input because it needs a table entry or a cell that is not free (F-11-16). The
/// NACK is left out if the last one of this kind was sent shortly before, except for the request that all others wait
/// for (D-94, F-8.2.1.2-5).
#[inline(always)]
fn no_room(entry: &mut Entry, s: &mut Step, now: Picoseconds) {
    s.output.report.raised.raise(Counter::DropResources);
    let c = &entry.connection;
    let apart = c.delivery.tuning.repeat_interval();
    let head_of_line = c.target.is_next_in_order(Rsn(s.input.packet.rsn));
    if entry.tables.delivery.nack.send_resource_nack(now.ticks(), apart) || head_of_line {
        nack(entry, s, Refusal::NO_ROOM, now);
    }
}
