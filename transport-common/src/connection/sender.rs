//! What a connection sends, and when: timers, the order of F-8.3 and D-29, the reply in the frame that asked for
//! it.

use super::application::Application;
use super::outgoing::report_deadline;
use super::{Connection, Entry, Outgoing, PACKETS, Report, Service, Serviced, State, Statistics, Step};
use crate::bitmap::Bitmap128;
use crate::counters::Counter;
use crate::ids::{Psn, Rsn};
use crate::packet_delivery::{Cause, Delivery, PacketFlags, TxPacket, Window, packet_index};
use crate::queues::Queues;
use crate::transaction::{CompletionCode, Initiator, Kind, TRANSACTIONS, Transaction};
use crate::units::{Deadline, FalconTime, Picoseconds};
use crate::verifier::{bounded, walked_once};
use crate::wire::PacketType;
use crate::wire::resync::ResyncCode;

#[inline(always)]
pub(super) fn service_open<Q: Queues>(
    entry: &mut Entry,
    s: &mut Step,
    queues: &Q,
    now: Picoseconds,
) -> Serviced {
    let c = &mut entry.connection;
    if !c.initiator.is_consistent() {
        return give_up(&mut c.state, &mut c.initiator, &mut s.output.report);
    }
    if entry.settings.is_pending() {
        entry.settings.take();
        c.congestion.apply_settings(&entry.settings.in_force);
    }
    if s.input.has_outcome != 0 {
        c.on_result(&mut entry.tables.statistics, s, &entry.settings.in_force, now);
    }
    if c.service.is_behind(now) {
        catch_up(entry, s, queues, now);
        return Serviced::Done;
    }
    run_timers(entry, queues, now.ticks());
    let c = &mut entry.connection;
    c.service.since = 0; // until the step reports a timer that runs on
    if c.initiator.completions_blocked != 0 {
        s.output.report.raised.raise(Counter::CompletionQueueFull);
        c.initiator.retry(&mut entry.tables.transactions, Application(queues));
        s.output.report.wake = c.initiator.completions_blocked;
    }
    // Own transactions that have ended take places in the completion queue first.
    if c.target.waits_for_ulp() && c.endpoint.protocol.receives() && c.responder.is_ready(Application(queues))
    {
        c.target.ulp_ready();
    }
    let serviced = choose(entry, s, queues, now);
    let raised = s.output.report.raised;
    let ended = raised.contains(Counter::BadWorkRequest) || raised.contains(Counter::LocalProtection);
    if ended || raised.contains(Counter::DropXlr) {
        let Entry { connection: c, tables, .. } = &mut *entry;
        c.initiator.flush(&mut tables.transactions, Application(queues));
    }
    let useful = serviced != Serviced::Nothing;
    entry.connection.service.fruitless = !useful as u8;
    if useful && (entry.connection.delivery.ack.pending != 0 || wants_service(entry, queues)) {
        s.output.report.wake = 1;
    }
    if entry.connection.state != State::Open {
        s.output.report.wake = 1; // a timer ended the connection
    }
    serviced
}

/// Runs the timers that are due at `now`.
#[inline(always)]
fn run_timers(entry: &mut Entry, queues: &impl Queues, now: FalconTime) {
    if entry.connection.delivery.retransmit.is_due(now) {
        on_retransmission_timer(entry, now.0);
    }
    let Entry { connection: c, tables, .. } = entry;
    if c.target.rnr_timer.is_due(now) {
        c.target.on_rnr_timer(&tables.requests, now);
    }
    if c.initiator.timer.is_due(now) {
        c.initiator.on_timer(&mut tables.transactions, Application(queues), now);
    }
    if c.congestion.pacing.is_due(now) {
        c.congestion.pacing = Deadline::NONE;
    }
}

/// Lets every timer that runs be due a quarter of a wrap after they last ran, and runs them. A deadline that passed
/// half a wrap ago looks like one far ahead. Each timer finds out again what is due, and runs on for the rest. Nothing is
/// sent before the timers have caught up; they end one transaction at a time.
#[inline(never)]
fn catch_up(entry: &mut Entry, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
    let c = &mut entry.connection;
    let at = c.service.timers_run_at(now);
    let time = at.ticks();
    c.delivery.retransmit = c.delivery.retransmit.moved_to(time);
    c.delivery.ack.coalescing = c.delivery.ack.coalescing.moved_to(time);
    c.target.rnr_timer = c.target.rnr_timer.moved_to(time);
    c.initiator.timer = c.initiator.timer.moved_to(time);
    c.congestion.pacing = c.congestion.pacing.moved_to(time);
    run_timers(entry, queues, time);
    let c = &mut entry.connection;
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
#[inline(always)]
pub(super) fn wind_up(entry: &mut Entry, s: &mut Step, queues: &impl Queues) {
    let Entry { connection: c, tables, .. } = entry;
    if c.state == State::Closed {
        return;
    }
    queues.set_state(c.state as u32);
    let closing = c.state == State::Closing;
    c.initiator.drain(&mut tables.transactions, Application(queues), closing);
    let mut more = c.initiator.drained(&mut tables.transactions, Application(queues));
    if more && c.initiator.completions_blocked != 0 {
        // The application rings the doorbell when it takes completions. It may have taken some just before.
        queues.set_receive_wanted(1);
        more = c.initiator.drained(&mut tables.transactions, Application(queues));
    }
    let cell = if c.target.held != 0 { c.target.give_up_one(&mut tables.requests) } else { None };
    if let Some(cell) = cell {
        s.output.report.free_cell = cell;
    }
    if more || cell.is_some() {
        let goes_on = cell.is_some() || c.initiator.completions_blocked == 0;
        s.output.report.wake = goes_on as u8;
    } else if closing {
        c.state = State::Closed;
        queues.set_state(State::Closed as u32);
    }
}

walked_once! {
    /// Lets packet delivery find the packets that timed out. If one is exhausted, the connection fails (F-11-6), and
    /// the initiator learns which transactions were in exhausted packets.
    fn on_retransmission_timer(entry: &mut Entry; now: u32) -> () {
        let Entry { connection: c, tables, .. } = entry;
        let mut delivery = Delivery::new(&mut c.delivery, &mut tables.delivery);
        let [mut data, mut request] = delivery.on_timer(&c.congestion, FalconTime(now));
        if !data.or(request).is_zero() {
            c.state = State::Fatal;
            let packets = &tables.delivery.packets;
            let (data_base, request_base) = (c.delivery.data().tx.base, c.delivery.request().tx.base);
            note_exhausted(&packets[0], data_base, &mut data, &mut c.initiator, &mut tables.transactions);
            note_exhausted(&packets[1], request_base, &mut request, &mut c.initiator, &mut tables.transactions);
        }
    }
}

/// Tells the initiator of the exhausted packets of one window, which begins at `base`.
#[inline(never)]
fn note_exhausted(
    packets: &[TxPacket; PACKETS],
    base: Psn,
    exhausted: &mut Bitmap128,
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
fn choose<Q: Queues>(entry: &mut Entry, s: &mut Step, queues: &Q, now: Picoseconds) -> Serviced {
    let Entry { connection: c, tables, .. } = entry;
    if c.delivery.ack_is_due(now.ticks()) {
        c.send_ack(&mut tables.statistics, s, now);
        return Serviced::Done;
    }
    let paced = !c.congestion.may_depart(now);
    if !paced && c.delivery.has_retransmissions() && resend(entry, s, queues, now) {
        return Serviced::Done;
    }
    if entry.next_held().is_some() {
        return Serviced::Held;
    }
    if paced {
        if has_packet_to_send(entry, queues) && entry.connection.congestion.wait_for_departure() {
            entry.tables.statistics.paced += 1;
        }
        let Entry { connection: c, tables, .. } = entry;
        c.initiator.wait(&mut tables.transactions, Application(queues), now.ticks());
        return Serviced::Nothing;
    }
    let c = &mut entry.connection;
    let target_first = c.service.target_next != 0;
    c.service.target_next = !target_first as u16;
    let sent = (target_first && c.target.has_response() && send_response(entry, s, now))
        || Q::in_place(|| send_request(entry, s, queues, now))
        || (!target_first && entry.connection.target.has_response() && send_response(entry, s, now));
    if sent { Serviced::Done } else { Serviced::Nothing }
}

/// Returns whether a reliable packet waits to be sent, if the gate lets it pass.
#[inline(always)]
fn has_packet_to_send(entry: &Entry, queues: &impl Queues) -> bool {
    let c = &entry.connection;
    c.delivery.has_retransmissions()
        || c.target.has_response()
        || c.initiator.has_new_work(Application(queues))
}

/// Sends the next work request (F-8.4.3.1-2, F-8.4.3.3-1).
#[inline(always)]
fn send_request(entry: &mut Entry, s: &mut Step, queues: &impl Queues, now: Picoseconds) -> bool {
    let Entry { connection: c, tables, .. } = entry;
    let sends = Application(queues);
    let gate = c.congestion.gate();
    let (data, request) = (&c.delivery.lanes[0].tx, &c.delivery.lanes[1].tx);
    let passes = |kind| match kind {
        Kind::Push => data.may_send_request(gate, true),
        Kind::Pull => request.may_send_request(gate, false),
    };
    let Some(next) = c.initiator.next_request(&mut tables.transactions, sends, passes) else {
        c.initiator.wait(&mut tables.transactions, sends, now.ticks());
        return false;
    };
    let (rsn, ticks) = (next.rsn, now.ticks());
    let kind = if matches!(next.kind, Kind::Pull) { PacketType::PullRequest } else { PacketType::PushData };
    if next.skipped {
        c.initiator.skipped_sent(&mut tables.transactions, sends, rsn);
        send_skip(entry, s, Skip { rsn, kind, code: ResyncCode::TRANSACTION_TIMED_OUT }, now);
        return true;
    }
    queues.load_work_request(next.work, &mut s.work_request);
    let mut label = s.work_request.label();
    label.kind = next.kind;
    c.initiator.sent(&mut tables.transactions, (rsn, next.work), label, ticks);
    let dropped = c.service.dropping != 0; // F-11-20
    let is_valid = c.endpoint.protocol.is_valid(&s.work_request, c.endpoint.max_segment);
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
        c.initiator.complete(&mut tables.transactions, sends, rsn, (code, 0, false));
        if c.initiator.ordered != 0 {
            send_skip(entry, s, Skip { rsn, kind, code: resync }, now);
            return true;
        }
        return false;
    }
    let packet = TxPacket { rsn, last_sent: ticks, kind, ..TxPacket::default() };
    let last_of_burst = matches!(next.kind, Kind::Push) && c.initiator.is_last_submitted(sends, rsn);
    let (peer, protocol) = (c.endpoint.peer_cid.0, c.endpoint.protocol);
    send_new(entry, &mut s.output.packet, packet, (kind, last_of_burst), now);
    let out = &mut s.output.packet;
    out.request_length = protocol.request_payload(&s.work_request, peer, &mut out.ulp);
    true
}

/// Books and starts a reliable packet that is sent for the first time: PSN, timer, AR (F-9.1.3).
#[inline(always)]
fn send_new(
    entry: &mut Entry,
    out: &mut Outgoing,
    packet: TxPacket,
    (kind, last_of_burst): (PacketType, bool),
    now: Picoseconds,
) {
    let Entry { connection: c, tables, .. } = entry;
    c.congestion.departed(now);
    let mut delivery = Delivery::new(&mut c.delivery, &mut tables.delivery);
    let (window, psn) = delivery.send(packet, &c.congestion, now.ticks());
    tables.statistics.packets_sent += 1;
    c.headers().start_reliable(out, kind, (window, psn, packet.rsn), now);
    out.ack_request = c.delivery.choose_ack_request(c.congestion.fcwnd, last_of_burst) as u8;
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
fn send_skip(entry: &mut Entry, s: &mut Step, skip: Skip, now: Picoseconds) {
    let packet = TxPacket {
        rsn: skip.rsn,
        last_sent: now.ticks(),
        kind: skip.kind,
        flags: PacketFlags::RESYNC | PacketFlags::RESYNC_SENT,
        resync_code: skip.code,
        ..TxPacket::default()
    };
    send_new(entry, &mut s.output.packet, packet, (PacketType::Resync, false), now);
    let out = &mut s.output.packet;
    out.ack_request = 0;
    out.resync_code = skip.code;
    out.resync_type = skip.kind;
    entry.tables.statistics.resyncs_sent += 1;
}

/// Sends the oldest response, which is ready, if no retransmission of Pull Data comes first and the gate is open
/// (F-9.1.2-2).
#[inline(never)]
fn send_response(entry: &mut Entry, s: &mut Step, now: Picoseconds) -> bool {
    let Entry { connection: c, tables, .. } = entry;
    let data = &c.delivery.data().tx;
    if !data.retransmit.and(data.pull_data).is_zero()
        || !data.may_send_response(c.congestion.gate())
        || !c.congestion.may_depart(now)
    {
        return false;
    }
    let (response, rsn) = c.target.send_response(&mut tables.responses);
    let kind = PacketType::PullData;
    let packet = TxPacket { rsn, last_sent: now.ticks(), response, kind, ..TxPacket::default() };
    let (peer, protocol) = (c.endpoint.peer_cid.0, c.endpoint.protocol);
    send_new(entry, &mut s.output.packet, packet, (kind, false), now);
    let answer = &entry.tables.responses[response as usize & (super::RESPONSES - 1)].answer;
    protocol.response_payload(answer, peer, &mut s.output.packet.ulp);
    true
}

/// Sends the next retransmission, with its original PSN (F-9.1.5-2) or as a Resync (F-9.1.8-2).
#[inline(never)]
fn resend(entry: &mut Entry, s: &mut Step, queues: &impl Queues, now: Picoseconds) -> bool {
    let Entry { connection: c, tables, .. } = entry;
    let delivery = Delivery::new(&mut c.delivery, &mut tables.delivery);
    let Some(resend) = delivery.next_retransmission(c.congestion.gate()) else {
        return false;
    };
    let packet = delivery.tables.packet(resend.window, resend.psn);
    if !packet.is_response() && packet.resync().is_none() {
        let rsn = packet.rsn;
        read_again(c, &mut tables.transactions, s, queues, rsn);
    }
    let (initiator, transactions) = (&c.initiator, &tables.transactions);
    let mut delivery = Delivery::new(&mut c.delivery, &mut tables.delivery);
    let again = delivery.book_retransmission(resend, &c.congestion, now.ticks(), |rsn| {
        initiator.is_retained(transactions, rsn)
    });
    let probe = matches!(again.cause, Cause::Probe);
    c.congestion.departed(now);
    count_retransmission(&mut tables.statistics, again.cause);
    if again.is_loss {
        c.congestion.on_retransmission(&mut s.output.event, &again);
        s.output.report.decide = 1;
    }
    let (packet, out) = (&again.packet, &mut s.output.packet);
    let at = (resend.window, resend.psn, packet.rsn);
    if let Some(code) = packet.resync() {
        c.headers().start_reliable(out, PacketType::Resync, at, now);
        out.resync_code = code;
        out.resync_type = packet.kind;
        return true;
    }
    let (peer, protocol) = (c.endpoint.peer_cid.0, c.endpoint.protocol);
    if packet.is_response() {
        c.headers().start_reliable(out, PacketType::PullData, at, now);
        let answer = &tables.responses[packet.response as usize & (super::RESPONSES - 1)].answer;
        protocol.response_payload(answer, peer, &mut out.ulp);
    } else {
        let pull = resend.window == Window::Request;
        let kind = if pull { PacketType::PullRequest } else { PacketType::PushData };
        c.headers().start_reliable(out, kind, at, now);
        out.request_length = protocol.request_payload(&s.work_request, peer, &mut out.ulp);
    }
    let last = !packet.is_response() && !c.delivery.has_retransmissions();
    out.ack_request = c.delivery.choose_ack_request(c.congestion.fcwnd, last) as u8;
    out.ack_request |= probe as u8;
    true
}

/// Reads a work request again, from which a packet is built again. The application may have written over it since: then
/// its transaction ends in error, and a Resync takes the place of the packet.
#[inline(never)]
fn read_again(
    c: &mut Connection,
    transactions: &mut [Transaction; TRANSACTIONS],
    s: &mut Step,
    queues: &impl Queues,
    rsn: Rsn,
) {
    if !c.initiator.is_retained(transactions, rsn) {
        return; // the application may use the place again
    }
    queues.load_work_request(c.initiator.work(transactions, rsn), &mut s.work_request);
    let work = &s.work_request;
    let is_valid = c.initiator.is_as_sent(transactions, rsn, work.opcode.0, work.length)
        && c.endpoint.protocol.is_valid(work, c.endpoint.max_segment);
    if is_valid && work.is_in(&c.responder.domain) {
        return;
    }
    let (counter, code) = if is_valid {
        (Counter::LocalProtection, CompletionCode::LocalProtection)
    } else {
        (Counter::BadWorkRequest, CompletionCode::OperationError)
    };
    s.output.report.raised.raise(counter);
    c.initiator.complete(transactions, Application(queues), rsn, (code, 0, false));
}

/// Fills the received frame with a reply, if the frame is free: with a response, otherwise with an ACK that is
/// due. Then asks for a service by the engine if something is left.
///
/// A response may take the frame that a requested ACK could have used. Then the response asks for an ACK in turn.
/// The frame of that ACK is free for ours. It arrives one round trip later, which is earlier than a sleeping
/// engine wakes up. If it is lost, the response's timer brings the engine. An engine that is awake sends the ACK
/// at once. Responses that follow meanwhile do not ask again.
#[inline(always)]
pub(super) fn reply(entry: &mut Entry, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
    let busy = s.output.packet.present != 0;
    let responds = !busy && entry.connection.target.has_response() && send_response(entry, s, now);
    if !busy && !responds && entry.connection.delivery.ack_is_due(now.ticks()) {
        entry.connection.send_ack(&mut entry.tables.statistics, s, now);
    }
    let mut file = false;
    if entry.connection.delivery.ack.pending != 0 {
        let out = &mut s.output.packet;
        if out.present == 0 || out.kind != PacketType::PullData {
            s.output.report.wake = 1;
        } else if entry.connection.delivery.ask_for_frame() {
            out.ack_request = 1;
            file = true;
        }
    }
    s.output.report.wake |= wants_service(entry, queues) as u8;
    let c = &mut entry.connection;
    let deadline = (c.earliest_deadline(), file);
    report_deadline(&mut s.output.report, &mut c.service, deadline, now);
}

/// Returns whether the engine could have work for a connection other than an ACK, independent of the time.
#[inline(always)]
fn wants_service(entry: &Entry, queues: &impl Queues) -> bool {
    let c = &entry.connection;
    c.initiator.completions_blocked != 0
        || has_packet_to_send(entry, queues)
        || c.target.has_due()
        || c.target.may_have_next()
        || c.target.is_next_consumed(&entry.tables.requests)
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
