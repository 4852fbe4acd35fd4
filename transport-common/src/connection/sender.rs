//! What a connection sends, and when: timers, the order of F-8.3 and D-29, the reply in the frame that asked for
//! it.

use super::application::Application;
use super::outgoing::{Refusal, address, earliest_deadline, report_deadline};
use super::requests::cell_freed;
use super::{
    Connection, Flow, Outgoing, PACKETS, Parts, Report, Service, Serviced, Snapshot, State, Statistics, Step,
    Whole,
};
use crate::counters::Counter;
use crate::ids::{Psn, Rsn};
use crate::packet_delivery::{
    Cause, Delivery, DeliveryTables, PacketFlags, TxPacket, Window, WindowBits, packet_index,
};
use crate::queues::Queues;
use crate::resources::Occupancy;
use crate::ring;
use crate::transaction::{CompletionCode, Initiator, Kind, TRANSACTIONS, Transaction};
use crate::ulp::Responder;
use crate::units::{Deadline, FalconTime, Picoseconds};
use crate::verifier::{bounded, walked_once};
use crate::wire::PacketType;
use crate::wire::resync::ResyncCode;

#[inline(always)]
pub(super) fn service_open<Q: Queues>(
    mut whole: Whole<'_>,
    s: &mut Step,
    queues: &Q,
    now: Picoseconds,
) -> Serviced {
    let Parts { hot: c, settings, .. } = whole.by_ref().parts();
    if !c.initiator.is_consistent() {
        return give_up(&mut c.state, &mut c.initiator, &mut s.output.report);
    }
    if settings.is_pending() {
        settings.take();
        c.flow.congestion.apply_settings(&settings.in_force);
    }
    if s.input.has_outcome != 0 {
        let Parts { hot: c, statistics, settings, .. } = whole.by_ref().parts();
        c.flow.on_result(statistics, s, &settings.in_force, now);
    }
    if whole.by_ref().parts().hot.service.is_behind(now) {
        catch_up(whole, s, queues, now);
        return Serviced::Done;
    }
    run_timers(whole.by_ref(), queues, now.ticks());
    let c = whole.by_ref().parts().hot;
    c.service.since = 0; // until the step reports a timer that runs on
    if c.initiator.completions_blocked != 0 {
        s.output.report.raised.raise(Counter::CompletionQueueFull);
        let Parts { hot: c, transactions, .. } = whole.by_ref().parts();
        c.initiator.retry(transactions, Application(queues));
        s.output.report.wake = c.initiator.completions_blocked;
    }
    let c = whole.by_ref().parts().hot;
    // Own transactions that have ended take places in the completion queue first.
    if c.target.waits_for_ulp()
        && c.flow.endpoint.protocol.receives()
        && c.responder.is_ready(Application(queues))
    {
        c.target.ulp_ready();
    }
    let serviced = choose(whole.by_ref(), s, queues, now);
    let raised = s.output.report.raised;
    let ended = raised.contains(Counter::BadWorkRequest) || raised.contains(Counter::LocalProtection);
    if ended || raised.contains(Counter::DropXlr) {
        let Parts { hot: c, transactions, .. } = whole.by_ref().parts();
        c.initiator.flush(transactions, Application(queues));
    }
    let useful = serviced != Serviced::Nothing;
    whole.by_ref().parts().hot.service.fruitless = !useful as u8;
    if useful
        && (whole.by_ref().parts().hot.flow.delivery.ack.pending != 0
            || wants_service(whole.by_ref(), queues, false))
    {
        s.output.report.wake = 1;
    }
    if whole.by_ref().parts().hot.state != State::Open {
        s.output.report.wake = 1; // a timer ended the connection
    }
    serviced
}

/// Runs the timers that are due at `now`.
#[inline(always)]
fn run_timers(mut whole: Whole<'_>, queues: &impl Queues, now: FalconTime) {
    if whole.by_ref().parts().hot.flow.delivery.retransmit.is_due(now) {
        on_retransmission_timer(whole.by_ref().0, now.0);
    }
    // The parts are taken where they are used: a pointer that lives longer takes a place on the stack.
    if whole.by_ref().parts().hot.target.rnr_timer.is_due(now) {
        let Parts { hot, requests, .. } = whole.by_ref().parts();
        hot.target.on_rnr_timer(requests, now);
    }
    if whole.by_ref().parts().hot.initiator.timer.is_due(now) {
        let Parts { hot, transactions, .. } = whole.by_ref().parts();
        hot.initiator.on_timer(transactions, Application(queues), now);
    }
    let c = whole.parts().hot;
    if c.flow.congestion.pacing.is_due(now) {
        c.flow.congestion.pacing = Deadline::NONE;
    }
}

/// Lets every timer that runs be due a quarter of a wrap after they last ran, and runs them. A deadline that passed
/// half a wrap ago looks like one far ahead. Each timer finds out again what is due, and runs on for the rest. Nothing is
/// sent before the timers have caught up; they end one transaction at a time.
#[inline(never)]
fn catch_up(mut whole: Whole<'_>, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
    let c = whole.by_ref().parts().hot;
    let at = c.service.timers_run_at(now);
    let time = at.ticks();
    let flow = &mut c.flow;
    flow.delivery.retransmit = flow.delivery.retransmit.moved_to(time);
    flow.delivery.ack.coalescing = flow.delivery.ack.coalescing.moved_to(time);
    flow.congestion.pacing = flow.congestion.pacing.moved_to(time);
    c.target.rnr_timer = c.target.rnr_timer.moved_to(time);
    c.initiator.timer = c.initiator.timer.moved_to(time);
    run_timers(whole.by_ref(), queues, time);
    let c = whole.by_ref().parts().hot;
    if !c.initiator.timer.is_due(time) {
        c.service.since = Service::coarse(at);
    }
    s.output.report.wake = 1;
}

/// Ends a connection whose table of transactions is broken, which no step can do: rather a dead connection than one that
/// sends what nobody posted.
#[inline(never)]
fn give_up(state: &mut State, initiator: &mut Initiator, report: &mut Report) -> Serviced {
    report.raised.raise(Counter::TransactionTableBroken);
    report.wake = 1;
    initiator.set_back();
    *state = State::Fatal;
    Serviced::Done
}

/// Ends a connection: completes all outstanding work and gives its resources back, a part at each service.
#[inline(never)]
pub(super) fn wind_up(whole: Whole<'_>, s: &mut Step, queues: &impl Queues) {
    let Parts { hot, transactions, requests, .. } = whole.parts();
    let Connection { state, initiator, target, .. } = hot;
    if *state == State::Closed {
        return;
    }
    queues.set_state(*state as u32);
    let closing = *state == State::Closing;
    initiator.drain(transactions, Application(queues), closing);
    let mut more = initiator.drained(transactions, Application(queues));
    if more && initiator.completions_blocked != 0 {
        // The application rings the doorbell when it takes completions. It may have taken some just before.
        queues.set_receive_wanted(1);
        more = initiator.drained(transactions, Application(queues));
    }
    let cell = if target.held != 0 { target.give_up_one(requests) } else { None };
    if let Some(cell) = cell {
        s.output.report.free_cell = cell;
    }
    if more || cell.is_some() {
        let goes_on = cell.is_some() || initiator.completions_blocked == 0;
        s.output.report.wake = goes_on as u8;
    } else if closing {
        *state = State::Closed;
        queues.set_state(State::Closed as u32);
    }
}

walked_once! {
    /// Lets packet delivery find the packets that timed out. If one is exhausted, the connection fails (F-11-6), and
    /// the initiator learns which transactions were in exhausted packets.
    fn on_retransmission_timer(connection: &mut Snapshot; now: u32) -> () {
        let Parts { hot: c, packets: tables, transactions, .. } = connection.whole().parts();
        let mut delivery = Delivery::new(&mut c.flow.delivery, tables);
        let [mut data, mut request] = delivery.on_timer(&c.flow.congestion, FalconTime(now));
        if !data.or(request).is_zero() {
            c.state = State::Fatal;
            let (delivery, packets) = (&c.flow.delivery, &tables.packets);
            let (data_base, request_base) = (delivery.data().tx.base, delivery.request().tx.base);
            note_exhausted(&packets[0], data_base, &mut data, &mut c.initiator, transactions);
            note_exhausted(&packets[1], request_base, &mut request, &mut c.initiator, transactions);
        }
    }
}

/// Tells the initiator of the exhausted packets of one window, which begins at `base`.
#[inline(never)]
fn note_exhausted(
    packets: &[TxPacket; PACKETS],
    base: Psn,
    exhausted: &mut WindowBits,
    initiator: &mut Initiator,
    transactions: &mut [Transaction; TRANSACTIONS],
) {
    while let Some(offset) = exhausted.take_lowest() {
        bounded!();
        let packet = &packets[packet_index(base.add(offset))];
        // Pull Data carries the peer's RSN, not one of ours.
        if !packet.is_response() {
            initiator.exhausted(transactions, packet.rsn, packet.resync_code);
        }
    }
}

/// Chooses what to send, in the order of F-8.3 and D-29: an acknowledgement, a retransmission, a held request to
/// deliver, then new packets of initiator and target alternately.
#[inline(always)]
fn choose<Q: Queues>(mut whole: Whole<'_>, s: &mut Step, queues: &Q, now: Picoseconds) -> Serviced {
    let c = whole.by_ref().parts().hot;
    if c.flow.delivery.ack_is_due(now.ticks()) {
        let Parts { hot: c, cold, statistics, .. } = whole.parts();
        let level = cold.occupancy.level_with(s.input.rx_buffer_level);
        c.flow.send_ack(statistics, s, level, now);
        return Serviced::Done;
    }
    let paced = !c.flow.congestion.may_depart(now);
    if !paced && c.flow.delivery.has_retransmissions() && resend(whole.by_ref(), s, queues, now) {
        return Serviced::Done;
    }
    if whole.by_ref().next_held().is_some() {
        return Serviced::Held;
    }
    if paced {
        let waits = wants_service(whole.by_ref(), queues, true);
        let Parts { hot: c, transactions, statistics, .. } = whole.parts();
        if waits && c.flow.congestion.wait_for_departure() {
            statistics.paced += 1;
        }
        c.initiator.wait(transactions, Application(queues), now.ticks());
        return Serviced::Nothing;
    }
    let c = whole.by_ref().parts().hot;
    let target_first = c.service.target_next != 0;
    c.service.target_next = !target_first as u16;
    let sent = (target_first && c.target.has_response() && send_response(whole.by_ref(), s, now))
        || {
            let whole = whole.by_ref(); // moved: the function gets no pointer to a pointer
            Q::in_place(|| send_request(whole, s, queues, now))
        }
        || (!target_first
            && whole.by_ref().parts().hot.target.has_response()
            && send_response(whole.by_ref(), s, now));
    if sent { Serviced::Done } else { Serviced::Nothing }
}

/// Sends the next work request (F-8.4.3.1-2, F-8.4.3.3-1).
#[inline(always)]
fn send_request(whole: Whole<'_>, s: &mut Step, queues: &impl Queues, now: Picoseconds) -> bool {
    let Parts { hot: c, packets, transactions, statistics, .. } = whole.parts();
    let sends = Application(queues);
    let gate = c.flow.congestion.gate();
    let (data, request) = (&c.flow.delivery.lanes[0].tx, &c.flow.delivery.lanes[1].tx);
    let passes = |kind| match kind {
        Kind::Push => data.may_send_request(gate, true),
        Kind::Pull => request.may_send_request(gate, false),
    };
    let Some(next) = c.initiator.next_request(transactions, sends, passes) else {
        c.initiator.wait(transactions, sends, now.ticks());
        return false;
    };
    let (rsn, ticks) = (next.rsn, now.ticks());
    let kind = if matches!(next.kind, Kind::Pull) { PacketType::PullRequest } else { PacketType::PushData };
    if next.skipped {
        c.initiator.skipped_sent(transactions, sends, rsn);
        let skip = Skip { rsn, kind, code: ResyncCode::TRANSACTION_TIMED_OUT };
        statistics.resync_sent();
        send_skip(&mut c.flow, packets, s, skip, now);
        return true;
    }
    queues.load_work_request(next.work, &mut s.work_request);
    let mut label = s.work_request.label();
    label.kind = next.kind;
    c.initiator.sent(transactions, (rsn, next.work), label, ticks);
    let dropped = c.service.dropping != 0; // F-11-20
    let protocol = c.flow.endpoint.protocol;
    let is_valid = protocol.is_valid(&s.work_request, c.flow.endpoint.max_segment);
    if dropped || !is_valid || !s.work_request.is_in(&c.responder.domain) {
        let (counter, code, resync) = if dropped {
            (Counter::DropXlr, CompletionCode::LocalXlr, ResyncCode::LOCAL_XLR)
        } else if is_valid {
            (Counter::LocalProtection, CompletionCode::LocalProtection, ResyncCode::TRANSACTION_TIMED_OUT)
        } else {
            (Counter::BadWorkRequest, CompletionCode::OperationError, ResyncCode::TRANSACTION_TIMED_OUT)
        };
        s.output.report.raised.raise(counter);
        s.output.report.wake = 1;
        c.initiator.complete(transactions, sends, rsn, (code, 0, false));
        if c.initiator.ordered != 0 {
            statistics.resync_sent();
            send_skip(&mut c.flow, packets, s, Skip { rsn, kind, code: resync }, now);
            return true;
        }
        return false;
    }
    let packet = TxPacket { rsn, last_sent: ticks, kind, ..TxPacket::default() };
    let last_of_burst = matches!(next.kind, Kind::Push) && c.initiator.is_last_submitted(sends, rsn);
    let peer = c.flow.endpoint.peer_cid.0;
    statistics.packets_sent += 1;
    send_new(&mut c.flow, packets, &mut s.output.packet, packet, (kind, last_of_burst), now);
    let out = &mut s.output.packet;
    out.request_length = protocol.request_payload(&s.work_request, peer, &mut out.ulp);
    true
}

/// Records and starts a reliable packet that is sent for the first time: PSN, timer, AR (F-9.1.3).
#[inline(always)]
fn send_new(
    flow: &mut Flow,
    packets: &mut DeliveryTables,
    out: &mut Outgoing,
    packet: TxPacket,
    (kind, last_of_burst): (PacketType, bool),
    now: Picoseconds,
) {
    flow.congestion.departed(now);
    let mut delivery = Delivery::new(&mut flow.delivery, packets);
    let (window, psn) = delivery.send(packet, &flow.congestion, now.ticks());
    flow.start_reliable(out, kind, (window, psn, packet.rsn), now);
    out.ack_request = flow.delivery.choose_ack_request(flow.congestion.fcwnd, last_of_burst) as u8;
}

/// A request that ended before it was sent.
#[derive(Clone, Copy)]
struct Skip {
    rsn: Rsn,
    kind: PacketType,
    code: ResyncCode,
}

/// Sends a Resync with a new PSN in place of a request that ended before it was sent. The target of an ordered
/// connection has to pass its RSN (D-47).
#[inline(never)]
fn send_skip(flow: &mut Flow, packets: &mut DeliveryTables, s: &mut Step, skip: Skip, now: Picoseconds) {
    let packet = TxPacket {
        rsn: skip.rsn,
        last_sent: now.ticks(),
        kind: skip.kind,
        flags: PacketFlags::RESYNC | PacketFlags::RESYNC_SENT,
        resync_code: skip.code,
        ..TxPacket::default()
    };
    send_new(flow, packets, &mut s.output.packet, packet, (PacketType::Resync, false), now);
    let out = &mut s.output.packet;
    out.ack_request = 0;
    out.resync_code = skip.code;
    out.resync_type = skip.kind;
}

/// Sends the oldest response, which is ready, if no retransmission of Pull Data comes first and the gate is open
/// (F-9.1.2-2).
#[inline(never)]
fn send_response(whole: Whole<'_>, s: &mut Step, now: Picoseconds) -> bool {
    let Parts { hot, packets, responses, statistics, .. } = whole.parts();
    let flow = &mut hot.flow;
    let data = &flow.delivery.data().tx;
    if !data.retransmit.and(data.pull_data).is_zero()
        || !data.may_send_response(flow.congestion.gate())
        || !flow.congestion.may_depart(now)
    {
        return false;
    }
    let (response, rsn) = hot.target.send_response(responses);
    let kind = PacketType::PullData;
    let packet = TxPacket { rsn, last_sent: now.ticks(), response, kind, ..TxPacket::default() };
    let (peer, protocol) = (flow.endpoint.peer_cid.0, flow.endpoint.protocol);
    statistics.packets_sent += 1;
    send_new(flow, packets, &mut s.output.packet, packet, (kind, false), now);
    let answer = &ring::at(responses, response.into()).answer;
    protocol.response_payload(answer, peer, &mut s.output.packet.ulp);
    true
}

/// Sends the next retransmission, with its original PSN (F-9.1.5-2) or as a Resync (F-9.1.8-2).
#[inline(never)]
fn resend(whole: Whole<'_>, s: &mut Step, queues: &impl Queues, now: Picoseconds) -> bool {
    let Parts { hot: c, packets, transactions, responses, statistics, .. } = whole.parts();
    let delivery = Delivery::new(&mut c.flow.delivery, packets);
    let Some(resend) = delivery.next_retransmission(c.flow.congestion.gate()) else {
        return false;
    };
    let packet = delivery.tables.packet(resend.window, resend.psn);
    if !packet.is_response() && packet.resync().is_none() {
        let rsn = packet.rsn;
        let parts = (&c.flow, &c.responder, &c.initiator);
        if let Some(code) = read_again(parts, transactions, s, queues, rsn) {
            c.initiator.complete(transactions, Application(queues), rsn, (code, 0, false));
        }
    }
    let (initiator, flow) = (&c.initiator, &mut c.flow);
    let mut delivery = Delivery::new(&mut flow.delivery, packets);
    let again = delivery.book_retransmission(resend, &flow.congestion, now.ticks(), |rsn| {
        initiator.is_retained(transactions, rsn)
    });
    let probe = matches!(again.cause, Cause::Probe);
    flow.congestion.departed(now);
    count_retransmission(statistics, again.cause);
    if again.is_loss {
        flow.congestion.on_retransmission(&mut s.output.event, &again);
        s.output.report.decide = 1;
    }
    let (packet, out) = (&again.packet, &mut s.output.packet);
    let at = (resend.window, resend.psn, packet.rsn);
    if let Some(code) = packet.resync() {
        flow.start_reliable(out, PacketType::Resync, at, now);
        out.resync_code = code;
        out.resync_type = packet.kind;
        return true;
    }
    let (peer, protocol) = (flow.endpoint.peer_cid.0, flow.endpoint.protocol);
    if packet.is_response() {
        flow.start_reliable(out, PacketType::PullData, at, now);
        let answer = &ring::at(responses, packet.response.into()).answer;
        protocol.response_payload(answer, peer, &mut out.ulp);
    } else {
        let pull = resend.window == Window::Request;
        let kind = if pull { PacketType::PullRequest } else { PacketType::PushData };
        flow.start_reliable(out, kind, at, now);
        out.request_length = protocol.request_payload(&s.work_request, peer, &mut out.ulp);
    }
    let last = !packet.is_response() && !flow.delivery.has_retransmissions();
    out.ack_request = flow.delivery.choose_ack_request(flow.congestion.fcwnd, last) as u8;
    out.ack_request |= probe as u8;
    true
}

/// Reads the work request of `rsn` again, from which a packet is built again. The application may have written over it since.
/// Returns how its transaction ends then; a Resync takes the place of the packet.
#[inline(always)]
fn read_again(
    (flow, responder, initiator): (&Flow, &Responder, &Initiator),
    transactions: &[Transaction; TRANSACTIONS],
    s: &mut Step,
    queues: &impl Queues,
    rsn: Rsn,
) -> Option<CompletionCode> {
    if !initiator.is_retained(transactions, rsn) {
        return None; // the application may use the place again
    }
    queues.load_work_request(initiator.work(transactions, rsn), &mut s.work_request);
    let work = &s.work_request;
    if !initiator.is_as_sent(transactions, rsn, work.opcode.0, work.length)
        || !flow.endpoint.protocol.is_valid(work, flow.endpoint.max_segment)
    {
        s.output.report.raised.raise(Counter::BadWorkRequest);
        Some(CompletionCode::OperationError)
    } else if !work.is_in(&responder.domain) {
        s.output.report.raised.raise(Counter::LocalProtection);
        Some(CompletionCode::LocalProtection)
    } else {
        None
    }
}

/// Fills the received frame with a reply, if the frame is free: with a response, otherwise with an ACK that is
/// due. Then asks for a service by the engine if something is left.
///
/// A response may take the frame that a requested ACK could have used. Then the response asks for an ACK in turn.
/// The frame of that ACK is free for ours. It arrives one round trip later, which is earlier than a sleeping
/// engine wakes up. If it is lost, the response's timer brings the engine. An engine that is awake sends the ACK
/// at once. Responses that follow meanwhile do not ask again.
#[inline(always)]
pub(super) fn reply(mut whole: Whole<'_>, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
    let busy = s.output.packet.present != 0;
    // The parts are taken where they are used: a pointer that lives longer takes a place on the stack.
    if !s.output.report.free_cell.is_none() {
        let Parts { hot, cold, .. } = whole.by_ref().parts();
        cell_freed(&mut cold.occupancy, &hot.target, s);
    }
    let responds =
        !busy && whole.by_ref().parts().hot.target.has_response() && send_response(whole.by_ref(), s, now);
    if !busy && !responds && whole.by_ref().parts().hot.flow.delivery.ack_is_due(now.ticks()) {
        let Parts { hot, cold, statistics, .. } = whole.by_ref().parts();
        let level = cold.occupancy.level_with(s.input.rx_buffer_level);
        hot.flow.send_ack(statistics, s, level, now);
    }
    let mut file = false;
    let hot = whole.by_ref().parts().hot;
    if hot.flow.delivery.ack.pending != 0 {
        let out = &mut s.output.packet;
        if out.present == 0 || out.kind != PacketType::PullData {
            s.output.report.wake = 1;
        } else if hot.flow.delivery.ask_for_frame() {
            out.ack_request = 1;
            file = true;
        }
    }
    let Parts { hot, cold, .. } = whole.by_ref().parts();
    address(&mut s.output.packet, hot.generation, &cold.tunnel);
    s.output.report.wake |= wants_service(whole.by_ref(), queues, false) as u8;
    let c = whole.by_ref().parts().hot;
    let deadline = (earliest_deadline(&c.flow, &c.target, &c.initiator), file);
    report_deadline(&mut s.output.report, &mut c.service, deadline, now);
}

/// Builds the NACK of a request that is refused.
#[inline(always)]
pub(super) fn refuse(
    flow: &mut Flow,
    occupancy: &Occupancy,
    statistics: &mut Statistics,
    s: &mut Step,
    refusal: Option<Refusal>,
    now: Picoseconds,
) {
    if let Some(refusal) = refusal {
        let level = occupancy.level_with(s.input.rx_buffer_level);
        flow.nack(statistics, s, (refusal, level), now);
    }
}

/// Returns whether the engine could have work for a connection other than an ACK, independent of the time. With
/// `only_packets`, returns whether a reliable packet waits to be sent, if the gate lets it pass.
#[inline(always)]
fn wants_service(whole: Whole<'_>, queues: &impl Queues, only_packets: bool) -> bool {
    let Parts { hot: c, requests, .. } = whole.parts();
    (!only_packets && c.initiator.completions_blocked != 0)
        || c.flow.delivery.has_retransmissions()
        || c.target.has_response()
        || c.initiator.has_new_work(Application(queues))
        || (!only_packets
            && (c.target.has_due() || c.target.may_have_next() || c.target.is_next_consumed(requests)))
}

#[inline(always)]
fn count_retransmission(statistics: &mut Statistics, cause: Cause) {
    match cause {
        Cause::NotSent => {}
        Cause::Early => statistics.retransmitted_early += 1,
        Cause::Timeout => statistics.retransmitted_timeout += 1,
        Cause::NotReady => statistics.retransmitted_rnr += 1,
        Cause::Resync => statistics.resyncs_sent += 1,
        Cause::Probe => statistics.tail_probes += 1,
    }
}
