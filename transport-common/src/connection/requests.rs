//! Processing of the peer's requests: order, the ULP, receive cells.

use super::application::Application;
use super::outgoing::{Receiver, Refusal, mark_received};
use super::{Flow, Parts, Report, Service, Statistics, Step, TRANSACTIONS, Work, WorkKind};
use crate::counters::Counter;
use crate::ids::{CellId, Psn, Rsn};
use crate::packet_delivery::{NackState, PacketDelivery, Window};
use crate::queues::Queues;
use crate::resources::Occupancy;
use crate::ring;
use crate::transaction::{
    Arrived, CompletionCode, Duplicate, Initiator, RequestFlags, RequestState, Responses, Target,
    TargetRequest, Transaction,
};
use crate::ulp::{
    Answer, AnswerKind, Atomic, OperationKind, PlaceFlags, PullVerdict, PushVerdict, Responder, UlpCode,
};
use crate::units::{FalconTime, Picoseconds, Ticks};
use crate::wire::PacketType;
use crate::wire::packet::Packet;
use crate::wire::resync::ResyncCode;

type Table = [TargetRequest; TRANSACTIONS];

/// The parts that serve the peer's requests. None of its functions sends: they return what to answer at once.
pub(super) struct Requests<'a> {
    flow: &'a mut Flow,
    initiator: &'a mut Initiator,
    transactions: &'a mut [Transaction; TRANSACTIONS],
    target: &'a mut Target,
    requests: &'a mut Table,
    responder: &'a mut Responder,
    responses: &'a mut Responses<Answer>,
    nacks: &'a mut NackState,
    occupancy: &'a mut Occupancy,
    statistics: &'a mut Statistics,
    service: &'a Service,
}

/// What becomes of a packet with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing more.
    Done,
    /// The ULP gets it now ([`Requests::deliver`]).
    Deliver,
    /// It is refused by a NACK, or answered with RNR.
    Refuse(Refusal),
}

impl<'a> Requests<'a> {
    /// Takes the parts that serve the peer's requests.
    #[inline(always)]
    pub(super) fn of(parts: Parts<'a>) -> Self {
        let Parts { hot, cold, packets, transactions, requests, responses, statistics, .. } = parts;
        Self {
            flow: &mut hot.flow,
            initiator: &mut hot.initiator,
            transactions,
            target: &mut hot.target,
            requests,
            responder: &mut hot.responder,
            responses,
            nacks: &mut packets.nack,
            occupancy: &mut cold.occupancy,
            statistics,
            service: &hot.service,
        }
    }

    #[inline(always)]
    fn receiver(&mut self) -> Receiver<'_> {
        Receiver { delivery: &mut self.flow.delivery, initiator: self.initiator }
    }

    /// Processes a Push Data or Pull Request that is new in its window. Its place in the order decides when the ULP
    /// gets it.
    #[inline(always)]
    pub(super) fn on_request(&mut self, s: &mut Step, window: Window, now: Picoseconds) -> Verdict {
        if self.service.dropping != 0 {
            s.output.report.raised.raise(Counter::DropXlr); // F-11-17, F-11-28: nothing is marked or kept
            return Verdict::Refuse(Refusal::XLR);
        }
        let pull = window == Window::Request;
        let (rsn, psn) = (Rsn(s.input.packet.rsn), Psn(s.input.packet.psn));
        let key = self.target.key(rsn, psn, pull);
        s.output.work.key = key;
        s.output.work.held = 0;
        match self.target.arrived(self.requests, key, rsn, pull) {
            Arrived::Deliver => Verdict::Deliver,
            arrived @ (Arrived::Hold | Arrived::HoldRnr) => {
                s.output.work.kind = WorkKind::Hold;
                s.output.work.rnr = 0;
                if arrived == Arrived::Hold {
                    return Verdict::Done;
                }
                Verdict::Refuse(Refusal::not_ready(self.target.rnr_code(self.requests, key))) // D-42
            }
            Arrived::NoRoom => self.no_room(s, now).map_or(Verdict::Done, Verdict::Refuse),
            Arrived::Past => {
                // D-53: a protocol error. The packet is acknowledged, because its sender would otherwise repeat it
                // forever.
                s.output.report.raised.raise(Counter::DropRsn);
                self.receiver().acknowledge(window, psn, false, now.ticks());
                Verdict::Done
            }
        }
    }

    /// Processes a packet whose PSN was received before (D-21), according to the state of its request.
    #[inline(always)]
    pub(super) fn on_duplicate(&mut self, s: &mut Step) -> Verdict {
        duplicate(self.target, self.requests, s)
    }

    /// Processes a Resync in the window: its PSN is received and acknowledged in every state, and its transaction is
    /// over (F-9.2.5-1, D-25).
    #[inline(always)]
    pub(super) fn on_resync(&mut self, s: &mut Step, queues: &impl Queues, window: Window, now: Picoseconds) {
        let p = &s.input.packet;
        let (rsn, psn) = (Rsn(p.rsn), Psn(p.psn));
        if p.resync_type == PacketType::PullData {
            // With any other code the pull stays open until its timeout (D-25).
            let reset = p.resync_code == ResyncCode::LOCAL_XLR;
            if reset && self.initiator.waiting_pull(self.transactions, rsn).is_some() {
                self.flow.delivery.data_mut().rx.mark_answer(psn);
                let end = (CompletionCode::RemoteError, 0, true);
                self.initiator.complete(self.transactions, Application(queues), rsn, end);
                self.initiator.flush(self.transactions, Application(queues));
            }
        } else {
            let pull = window == Window::Request;
            let Some(cell) = self.target.resync(self.requests, rsn, psn, pull) else {
                s.output.report.raised.raise(Counter::DropResources);
                return; // the peer sends it again
            };
            s.output.report.free_cell = cell;
            s.output.report.wake = 1; // the next request in order may wait in a cell
        }
        if self.flow.delivery.lane(window).rx.is_acknowledged(psn) {
            self.flow.delivery.acknowledge_resync_again(p.ack_request != 0, now.ticks());
        } else {
            self.receiver().acknowledge(window, psn, true, now.ticks()); // at once: its sender waits for it (D-25)
        }
    }

    /// Ends the held Pull Request that an old Resync stands for. A Pull Request is acknowledged on receipt, so it may still
    /// be held.
    #[inline(always)]
    pub(super) fn end_held_pull(&mut self, s: &mut Step) {
        end_held_pull(self.target, self.requests, s);
    }

    /// Delivers the request in `s.input` to the ULP: a new packet, or a request that was held (`work.held`). If the
    /// ULP wants something done first, that becomes the step's work.
    #[inline(always)]
    pub(super) fn deliver(
        &mut self,
        s: &mut Step,
        queues: &impl Queues,
        now: Picoseconds,
    ) -> Option<Refusal> {
        if self.target.take_gap() {
            self.responder.abandon_message();
        }
        let rsn = Rsn(s.input.packet.rsn);
        let protocol = self.flow.endpoint.protocol;
        if s.input.packet.protocol != protocol.number() {
            return self.unknown(s, now);
        }
        let Step { input, output, .. } = s;
        let work = &mut output.work;
        let op = &input.operation;
        if input.packet.kind == PacketType::PullRequest {
            match protocol.admit_pull(self.responder, op, &input.region) {
                PullVerdict::Answer(kind, code) => self.answered(s, kind, code, now),
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
                    waits_for_ulp(self.target, self.requests, work, now.ticks());
                }
            }
            return None;
        }
        let receives = Application(queues);
        match protocol.admit_push(self.responder, op, &input.region, rsn, receives, &mut work.place) {
            PushVerdict::Take => {
                work.kind = WorkKind::PlaceRequest;
                work.length = op.length;
                None
            }
            PushVerdict::NotReady => Some(self.not_ready(s, queues, now)),
            refusal => Some(self.refused(s, refusal as u8, now)),
        }
    }

    /// Completes a push after its data is in memory: the ULP acknowledges it, and so does packet delivery
    /// (F-6.1.1.1-2).
    #[inline(always)]
    pub(super) fn placed(&mut self, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
        let (p, work) = (&s.input.packet, &s.output.work);
        let (rsn, psn) = (Rsn(p.rsn), Psn(p.psn));
        self.responder.placed(&s.input.operation, rsn, &work.place, Application(queues));
        self.statistics.bytes_received += s.input.operation.length as u64;
        self.receiver().acknowledge_data(psn, p.ack_request != 0, now.ticks());
        self.target.delivered(work.key, rsn, false);
        if work.held != 0 {
            queues.set_receive_wanted(self.target.waits_for_ulp() as u32);
        }
        request_over(self.target, self.requests, s);
    }

    /// Queues the response to a pull. The Pull Data is sent in the order of the requests (8.5.3.2).
    #[inline(always)]
    fn answered(&mut self, s: &mut Step, kind: AnswerKind, code: UlpCode, now: Picoseconds) {
        let end = PullEnd { at: now.ticks(), kind, code };
        answer(&mut self.flow.delivery, self.target, self.responses, s, end);
        request_over(self.target, self.requests, s);
    }

    /// Queues the response to an atomic that found `value`.
    #[inline(always)]
    pub(super) fn executed(&mut self, s: &mut Step, value: u64, now: Picoseconds) {
        if s.output.work.held == 0 {
            mark_pull(&mut self.flow.delivery, &s.input.packet, now.ticks());
        }
        answer_atomic(self.target, self.responses, s, value);
        request_over(self.target, self.requests, s);
    }

    /// Completes a push in error because its data could not be placed.
    #[inline(always)]
    pub(super) fn failed(&mut self, s: &mut Step, queues: &impl Queues, now: Picoseconds) -> Refusal {
        let place = &s.output.work.place;
        if !place.flags.is_empty() {
            self.responder.failed(Rsn(s.input.packet.rsn), place, Application(queues));
        }
        self.refused(s, UlpCode::OPERATIONAL.0, now)
    }

    /// Completes a push in error for the ULP (F-8.5.3.5-1). Its table entry waits for the peer's Resync.
    #[inline(always)]
    fn refused(&mut self, s: &mut Step, code: u8, now: Picoseconds) -> Refusal {
        // Only a SEND has flags in any case.
        let sends = matches!(s.input.operation.kind, OperationKind::Send);
        if sends && s.output.work.place.flags.contains(PlaceFlags::DENIED) {
            s.output.report.raised.raise(Counter::LocalProtection);
        }
        let end = PushEnd { at: now.ticks(), code, flags: RequestFlags::empty() };
        push_over(&mut self.flow.delivery, self.target, self.requests, s, end);
        Refusal::error(code)
    }

    /// Refuses a request for a ULP that does not know the connection. A push is refused with an invalid CID, and its
    /// entry waits for the peer's Resync. A pull is reclaimed, and nothing is sent (F-11-31): its initiator's timeout ends
    /// it.
    #[inline(always)]
    fn unknown(&mut self, s: &mut Step, now: Picoseconds) -> Option<Refusal> {
        s.output.report.raised.raise(Counter::DropProtocol);
        if s.input.packet.kind == PacketType::PullRequest {
            reclaim_pull(&mut self.flow.delivery, self.target, self.requests, s, now.ticks());
            return None;
        }
        let end = PushEnd { at: now.ticks(), code: 0, flags: RequestFlags::FOREIGN };
        push_over(&mut self.flow.delivery, self.target, self.requests, s, end);
        Some(Refusal::INVALID_CID)
    }

    /// Processes an RNR of the ULP for a push: the push is kept in a receive cell and NACKed (D-42, D-43).
    #[inline(always)]
    fn not_ready(&mut self, s: &mut Step, queues: &impl Queues, now: Picoseconds) -> Refusal {
        let receives = self.flow.endpoint.protocol.receives();
        if receives && self.responder.lacks_place(Application(queues)) {
            s.output.report.raised.raise(Counter::CompletionQueueFull);
        }
        let Step { output, .. } = s;
        let code = waits_for_ulp(self.target, self.requests, &mut output.work, now.ticks());
        if output.work.held != 0 && receives {
            ask_for_receive(self.responder, self.target, &mut output.report, queues);
        }
        Refusal::not_ready(code)
    }

    /// Records a request as held after its payload was copied into `cell`. Refuses it if no cell was free.
    #[inline(always)]
    pub(super) fn held(
        &mut self,
        s: &mut Step,
        queues: &impl Queues,
        cell: CellId,
        now: Picoseconds,
    ) -> Option<Refusal> {
        if cell.is_none() {
            // An RNR NACK already makes the peer send the packet again (D-43).
            return if s.output.packet.present == 0 { self.no_room(s, now) } else { None };
        }
        let protocol = self.flow.endpoint.protocol;
        keep(self.flow, self.target, self.requests, s, Kept::new(now.ticks(), cell));
        self.statistics.held += 1;
        let pull = s.input.packet.kind == PacketType::PullRequest;
        self.occupancy.changed(self.target.held, s.input.cells_in_use + 1);
        let Step { output, .. } = s;
        output.report.wake = 1;
        if output.work.rnr != 0 {
            self.target.not_ready(self.requests, output.work.key, now.ticks());
            if !pull && protocol.receives() {
                ask_for_receive(self.responder, self.target, &mut output.report, queues);
            }
        }
        None
    }

    /// Refuses the packet in the step's input because it needs a table entry or a cell that is not free (F-11-16).
    #[inline(always)]
    fn no_room(&mut self, s: &mut Step, now: Picoseconds) -> Option<Refusal> {
        s.output.report.raised.raise(Counter::DropResources);
        let apart = self.flow.delivery.tuning.repeat_interval();
        let rsn = Rsn(s.input.packet.rsn);
        tells_of_no_room(self.nacks, self.target, rsn, now.ticks(), apart).then_some(Refusal::NO_ROOM)
    }
}

/// Returns whether a request for which there is no room gets a NACK. It is left out if the last one of this kind was sent
/// shortly before, except for the request that all others wait for (D-94, F-8.2.1.2-5).
#[inline(never)]
fn tells_of_no_room(nacks: &mut NackState, target: &Target, rsn: Rsn, now: FalconTime, apart: Ticks) -> bool {
    let head_of_line = target.is_next_in_order(rsn);
    nacks.send_resource_nack(now, apart) || head_of_line
}

/// Decides about a packet whose PSN was received before. A function of its own, because it is rare.
#[inline(never)]
fn duplicate(target: &Target, requests: &Table, s: &mut Step) -> Verdict {
    let (rsn, psn) = (Rsn(s.input.packet.rsn), Psn(s.input.packet.psn));
    let key = target.key(rsn, psn, false);
    let duplicate = if s.input.packet.kind == PacketType::PushData {
        target.duplicate(requests, key, rsn, psn)
    } else {
        Duplicate::Drop
    };
    let verdict = match duplicate {
        Duplicate::Deliver => {
            // D-43: this copy is as good as the one in the receive cell.
            s.output.work.key = key;
            s.output.work.held = 1;
            return Verdict::Deliver;
        }
        Duplicate::Drop => Verdict::Done,
        Duplicate::Rnr(code) => Verdict::Refuse(Refusal::not_ready(code)),
        Duplicate::Error(code) => Verdict::Refuse(Refusal::error(code)),
        Duplicate::InvalidCid => Verdict::Refuse(Refusal::INVALID_CID),
    };
    s.output.report.raised.raise(Counter::DropDuplicate);
    verdict
}

#[inline(never)]
fn end_held_pull(target: &mut Target, requests: &mut Table, s: &mut Step) {
    let (rsn, psn) = (Rsn(s.input.packet.rsn), Psn(s.input.packet.psn));
    let key = target.key(rsn, psn, true);
    let request = ring::at(requests, key);
    let kept = matches!(request.state, RequestState::Held | RequestState::Rnr);
    if !kept || request.rsn != rsn || request.psn != psn {
        return;
    }
    if let Some(cell) = target.resync(requests, rsn, psn, true) {
        s.output.report.free_cell = cell;
        s.output.report.wake = 1;
    }
}

/// How a pull is answered at once. A BPF function takes it in one register.
#[derive(Clone, Copy)]
struct PullEnd {
    /// Now.
    at: FalconTime,
    /// Kind of the response.
    kind: AnswerKind,
    /// The ULP's code, if it is an error.
    code: UlpCode,
}

/// Records the response to the pull in the step's input.
#[inline(never)]
fn answer(
    delivery: &mut PacketDelivery,
    target: &mut Target,
    responses: &mut Responses<Answer>,
    s: &Step,
    PullEnd { at, kind, code }: PullEnd,
) {
    let (p, op) = (&s.input.packet, &s.input.operation);
    if s.output.work.held == 0 {
        mark_received(delivery, Window::Request, Psn(p.psn), p.ack_request != 0, at);
    }
    let answer = match kind {
        AnswerKind::Read => {
            Answer { operand: op.address, rkey: op.rkey, length: op.length, kind, ..Answer::default() }
        }
        // If the payload is not a valid operation, no fields of it were parsed.
        AnswerKind::Error | AnswerKind::Atomic => Answer { kind, code, ..Answer::default() },
    };
    target.answer(responses, Rsn(p.rsn), answer);
    target.delivered(s.output.work.key, Rsn(p.rsn), true);
}

/// Records the response to the atomic in the step's input.
#[inline(never)]
fn answer_atomic(target: &mut Target, responses: &mut Responses<Answer>, s: &Step, value: u64) {
    let rsn = Rsn(s.input.packet.rsn);
    let answer = Answer { operand: value, kind: AnswerKind::Atomic, ..Answer::default() };
    target.answer(responses, rsn, answer);
    target.delivered(s.output.work.key, rsn, true);
}

/// Marks a Pull Request as received. A function of its own, because its callers are rare.
#[inline(never)]
fn mark_pull(delivery: &mut PacketDelivery, p: &Packet, now: FalconTime) {
    mark_received(delivery, Window::Request, Psn(p.psn), p.ack_request != 0, now);
}

/// How a push ends that is not delivered. A BPF function takes it in one register.
#[derive(Clone, Copy)]
struct PushEnd {
    /// Now.
    at: FalconTime,
    /// The ULP's code, 0 if it does not know the request.
    code: u8,
    /// Flags of its table entry.
    flags: RequestFlags,
}

/// Ends the push in the step's input without delivery. Its table entry waits for the peer's Resync.
#[inline(never)]
fn push_over(
    delivery: &mut PacketDelivery,
    target: &mut Target,
    requests: &mut Table,
    s: &mut Step,
    end: PushEnd,
) {
    let (p, work) = (&s.input.packet, &s.output.work);
    let (rsn, psn) = (Rsn(p.rsn), Psn(p.psn));
    if work.held == 0 {
        mark_received(delivery, Window::Data, psn, false, end.at);
    }
    target.delivered(work.key, rsn, false);
    s.output.report.free_cell = target.errored(requests, work.key, (rsn, psn), (end.code, end.flags));
    s.output.work.held = 0;
}

/// Ends the pull in the step's input without an answer.
#[inline(never)]
fn reclaim_pull(
    delivery: &mut PacketDelivery,
    target: &mut Target,
    requests: &mut Table,
    s: &mut Step,
    now: FalconTime,
) {
    let (p, work) = (&s.input.packet, &s.output.work);
    if work.held == 0 {
        mark_pull(delivery, p, now);
    }
    target.delivered(work.key, Rsn(p.rsn), true);
    request_over(target, requests, s);
}

/// Lets a request wait for the ULP, which is not ready, in a receive cell. Returns the RNR timeout code for a push. The
/// initiator of a pull learns nothing of that (F-6.4-2, F-8.5.3.4-2, F-11-32).
#[inline(never)]
fn waits_for_ulp(target: &mut Target, requests: &mut Table, work: &mut Work, now: FalconTime) -> u8 {
    if work.held != 0 {
        return target.not_ready(requests, work.key, now);
    }
    work.kind = WorkKind::Hold;
    work.rnr = 1;
    target.rnr_code_without_cell(requests)
}

/// When a request is kept, and in which cell. A BPF function takes it in one register, and a struct of two words in two.
#[derive(Clone, Copy)]
struct Kept(u64);

impl Kept {
    #[inline(always)]
    const fn new(now: FalconTime, cell: CellId) -> Self {
        Self((now.0 as u64) << 32 | cell.0 as u64)
    }

    #[inline(always)]
    const fn at(self) -> FalconTime {
        FalconTime((self.0 >> 32) as u32)
    }

    #[inline(always)]
    const fn cell(self) -> CellId {
        CellId(self.0 as u32)
    }
}

/// Records the request in the step's input as held, and as received.
#[inline(never)]
fn keep(flow: &mut Flow, target: &mut Target, requests: &mut Table, s: &Step, kept: Kept) {
    let p = &s.input.packet;
    let pull = p.kind == PacketType::PullRequest;
    let mut flags = RequestFlags::empty();
    flags.set(RequestFlags::ACK_REQUEST, p.ack_request != 0);
    flags.set(RequestFlags::PULL, pull);
    flags.set(RequestFlags::FOREIGN, p.protocol != flow.endpoint.protocol.number());
    let request = TargetRequest {
        rsn: Rsn(p.rsn),
        psn: Psn(p.psn),
        cell: kept.cell(),
        length: p.payload_length as u16,
        request_length: p.request_length as u16,
        state: RequestState::Held,
        flags,
        ..TargetRequest::default()
    };
    target.held(requests, s.output.work.key, request);
    let window = if pull { Window::Request } else { Window::Data };
    mark_received(&mut flow.delivery, window, Psn(p.psn), p.ack_request != 0, kept.at());
}

/// Ends the current request: frees its table entry and its receive cell, if it was held.
#[inline(always)]
fn request_over(target: &mut Target, requests: &mut Table, s: &mut Step) {
    if s.output.work.held != 0 {
        end_held(target, requests, s);
    }
    if target.held != 0 {
        s.output.report.wake = 1; // the next request in order may wait in a cell
    }
}

#[inline(never)]
fn end_held(target: &mut Target, requests: &mut Table, s: &mut Step) {
    s.output.report.free_cell = target.free(requests, s.output.work.key);
    s.output.work.held = 0;
}

/// Updates the occupancy after the step gave a cell back.
#[inline(always)]
pub(super) fn cell_freed(occupancy: &mut Occupancy, target: &Target, s: &Step) {
    occupancy.changed(target.held, s.input.cells_in_use.saturating_sub(1));
}

/// Asks the application to ring the doorbell when it posts a receive or takes completions, because the ULP waits for a
/// receive whose completion has a place. Then checks again: the application may have done so just before.
#[inline(always)]
fn ask_for_receive(responder: &Responder, target: &mut Target, report: &mut Report, queues: &impl Queues) {
    queues.set_receive_wanted(1);
    if responder.is_ready(Application(queues)) {
        target.ulp_ready();
        report.wake = 1;
    }
}
