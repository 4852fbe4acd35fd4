//! Effects of a received packet on its connection: the steps of the wire program (D-23).

use super::acknowledgement::{Owner, Reporter};
use super::application::Application;
use super::outgoing::Receiver;
use super::requests::{Requests, Verdict};
use super::{
    Cold, Flow, INITIAL_HOP_LIMIT, Parts, State, Step, TRANSACTIONS, Whole, WorkDone, WorkKind, sender,
};
use crate::counters::Counter;
use crate::ids::{Psn, Rsn};
use crate::memory::Domain;
use crate::packet_delivery::{self, AckVerdict, Arrival, Round, Window};
use crate::queues::Queues;
use crate::security::SecurityDrops;
use crate::transaction::{CompletionCode, Held, Initiator, Transaction};
use crate::ulp::{AnswerVerdict, PlaceFlags, Verb};
use crate::units::{FalconTime, Picoseconds, Ticks};
use crate::wire::PacketType;
use crate::wire::packet::Packet;

impl Whole<'_> {
    /// Processes the packet in `s.input`. If this requests work, [`on_work_done`](Self::on_work_done) follows in
    /// the same lock hold. Otherwise the step is complete.
    #[inline(always)]
    pub fn on_packet<Q: Queues>(mut self, s: &mut Step, queues: &Q, now: Picoseconds) {
        s.begin();
        let Parts { hot, cold, statistics, .. } = self.by_ref().parts();
        if let Some(reason) =
            refuse(hot.state, &mut hot.flow, cold, &mut statistics.refused, &s.input.packet, now)
        {
            return s.output.report.raised.raise(reason);
        }
        let whole = self.by_ref();
        Q::in_place(|| {
            if s.input.packet.kind.is_acknowledgement() {
                whole.on_acknowledgement(s, queues, now.ticks());
            } else {
                whole.on_reliable(s, queues, now);
            }
        });
        let Parts { hot, statistics, settings, .. } = self.by_ref().parts();
        hot.flow.decide(statistics, s, &settings.in_force, now);
        if s.output.work.kind == WorkKind::None {
            sender::reply(self, s, queues, now);
        }
    }

    /// Processes BACK, EACK and NACK.
    #[inline(always)]
    fn on_acknowledgement(self, s: &mut Step, queues: &impl Queues, now: FalconTime) {
        let Step { input, output, .. } = s;
        let packet = &input.packet;
        let mut owner = Owner { whole: self, queues };
        let mut reporter = Reporter { packet, output, now, is_new: false };
        match packet_delivery::acknowledge_explicit(&mut owner, &mut reporter, packet, now) {
            Ok(late) => output.event.eack_drop |= (late && packet.kind == PacketType::Eack) as u8,
            Err(AckVerdict::Stale) => output.report.raised.raise(Counter::AckStale),
            Err(_) => output.report.raised.raise(Counter::AckInvalid),
        }
    }

    /// Processes a packet with a base header: measurements, piggyback, window, transaction sublayer.
    #[inline(always)]
    fn on_reliable(mut self, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
        let Parts { hot, statistics, .. } = self.by_ref().parts();
        statistics.packets_received += 1;
        let ticks = now.ticks();
        let p = &s.input.packet;
        let (t1, t2) = (p.iv.ticks(), p.arrival.ticks()); // D-13
        let hops = INITIAL_HOP_LIMIT.wrapping_sub(p.hop_limit);
        hot.flow.delivery.observe(t1, t2, hops, p.congestion_experienced);
        let round = Round { now: ticks, rtt: Ticks(u32::MAX) };
        let mut owner = Owner { whole: self.by_ref(), queues };
        match packet_delivery::acknowledge(&mut owner, &p.acknowledgement, round) {
            AckVerdict::Stale => s.output.report.raised.raise(Counter::AckStale), // D-35: only the piggyback is stale
            AckVerdict::Invalid => s.output.report.raised.raise(Counter::AckInvalid),
            _ => {}
        }
        let p = &s.input.packet;
        let original = if p.kind == PacketType::Resync { p.resync_type } else { p.kind };
        let window = if original == PacketType::PullRequest { Window::Request } else { Window::Data }; // D-24
        let Parts { hot, statistics, settings, transactions, .. } = self.by_ref().parts();
        let flow = &mut hot.flow;
        let verdict = match flow.delivery.lane(window).rx.classify(Psn(p.psn)) {
            Arrival::Old => {
                s.output.report.raised.raise(Counter::DropOldDuplicate);
                flow.copy_received(statistics, &settings.in_force, now);
                let asks = s.input.packet.ack_request != 0;
                if s.input.packet.kind != PacketType::Resync {
                    return flow.delivery.acknowledge_copy(asks, ticks);
                }
                flow.delivery.acknowledge_resync_again(asks, ticks);
                if window == Window::Request {
                    Requests::of(self.by_ref().parts()).end_held_pull(s);
                }
                return;
            }
            Arrival::Beyond => {
                s.output.report.raised.raise(Counter::DropOutOfWindow);
                flow.delivery.lane(window).rx.own = 1;
                statistics.out_of_window += 1;
                return flow.delivery.coalesce_ack(ticks);
            }
            _ if s.input.packet.kind == PacketType::Resync => {
                return Requests::of(self.by_ref().parts()).on_resync(s, queues, window, now);
            }
            Arrival::Duplicate => {
                flow.copy_received(statistics, &settings.in_force, now);
                flow.delivery.acknowledge_copy(s.input.packet.ack_request != 0, ticks);
                Requests::of(self.by_ref().parts()).on_duplicate(s)
            }
            Arrival::New => {
                flow.delivery.ack.new_received();
                if s.input.packet.kind == PacketType::PullData {
                    let domain = &hot.responder.domain;
                    return on_answer(flow, &mut hot.initiator, transactions, domain, s, queues, ticks);
                }
                Requests::of(self.by_ref().parts()).on_request(s, window, now)
            }
        };
        let refusal = match verdict {
            Verdict::Deliver => Requests::of(self.by_ref().parts()).deliver(s, queues, now),
            Verdict::Refuse(refusal) => Some(refusal),
            Verdict::Done => None,
        };
        let Parts { hot, cold, statistics, .. } = self.parts();
        sender::refuse(&mut hot.flow, &cold.occupancy, statistics, s, refusal, now);
    }

    /// Continues the step after the requested work succeeded or failed: acknowledges the request, or refuses it
    /// with a reason.
    #[inline(always)]
    pub fn on_work_done(mut self, s: &mut Step, queues: &impl Queues, work: WorkDone, now: Picoseconds) {
        // The parts are taken where they are used: a pointer that lives longer takes a place on the stack.
        let refusal = match s.output.work.kind {
            WorkKind::PlaceRequest if work.done => {
                Requests::of(self.by_ref().parts()).placed(s, queues, now);
                None
            }
            WorkKind::PlaceRequest => {
                if work.denied {
                    s.output.work.place.flags |= PlaceFlags::DENIED;
                }
                Some(Requests::of(self.by_ref().parts()).failed(s, queues, now))
            }
            WorkKind::CompareSwap | WorkKind::FetchAdd => {
                Requests::of(self.by_ref().parts()).executed(s, work.value, now);
                None
            }
            WorkKind::PlaceResponse | WorkKind::StoreValue => {
                let code = if work.done {
                    CompletionCode::Ack
                } else if work.denied {
                    s.output.report.raised.raise(Counter::LocalProtection);
                    CompletionCode::LocalProtection
                } else {
                    CompletionCode::OperationError
                };
                let Parts { hot, transactions, .. } = self.by_ref().parts();
                let rsn = Rsn(s.input.packet.rsn);
                hot.initiator.complete(transactions, Application(queues), rsn, (code, 0, true));
                hot.initiator.flush(transactions, Application(queues));
                None
            }
            WorkKind::Hold => Requests::of(self.by_ref().parts()).held(s, queues, work.cell, now),
            WorkKind::None => None,
        };
        let Parts { hot, cold, statistics, .. } = self.by_ref().parts();
        sender::refuse(&mut hot.flow, &cold.occupancy, statistics, s, refusal, now);
        sender::reply(self, s, queues, now);
    }

    /// Returns the held request that is next, if there is one. Changes no state of that request. The caller copies
    /// its payload into a frame and parses it. Then [`on_held`](Self::on_held) follows in the same lock hold.
    #[inline(always)]
    pub fn next_held(self) -> Option<Held> {
        let Parts { hot, requests, .. } = self.parts();
        // An unordered connection holds only requests that wait for the ULP. An ordered one may have to pass over
        // a Resync.
        if hot.state != State::Open || (hot.target.held == 0 && hot.target.ordered == 0) {
            return None;
        }
        hot.target.next_held(requests)
    }

    /// Delivers a held request to the ULP. Its payload is in the frame again, and parsed in `s.input`.
    #[inline(always)]
    pub fn on_held(mut self, s: &mut Step, queues: &impl Queues, key: u32, now: Picoseconds) {
        s.output.work.key = key;
        s.output.work.held = 1;
        let refusal = Requests::of(self.by_ref().parts()).deliver(s, queues, now);
        let Parts { hot, cold, statistics, .. } = self.by_ref().parts();
        sender::refuse(&mut hot.flow, &cold.occupancy, statistics, s, refusal, now);
        if s.output.work.kind == WorkKind::None {
            sender::reply(self, s, queues, now);
        }
    }
}

/// Processes Pull Data that is new in the data window: finds its transaction and decides where the data goes
/// (F-8.4.3.2-1..3). The PSN is acknowledged in every case (D-23).
#[inline(always)]
fn on_answer(
    flow: &mut Flow,
    initiator: &mut Initiator,
    transactions: &mut [Transaction; TRANSACTIONS],
    domain: &Domain,
    s: &mut Step,
    queues: &impl Queues,
    now: FalconTime,
) {
    let (rsn, psn) = (Rsn(s.input.packet.rsn), Psn(s.input.packet.psn));
    let ack_request = s.input.packet.ack_request != 0;
    let Some(t) = initiator.waiting_pull(transactions, rsn) else {
        s.output.report.raised.raise(Counter::DropPullDataUnknown);
        let mut receiver = Receiver { delivery: &mut flow.delivery, initiator };
        return receiver.acknowledge_data(psn, ack_request, now);
    };
    flow.delivery.data_mut().rx.mark_answer(psn);
    let op = &s.input.operation;
    queues.load_work_request(t.work, &mut s.work_request);
    let (own, number) = (flow.endpoint.protocol, s.input.packet.protocol);
    let verdict = own.check_answer(number, op, Verb(t.opcode), t.length, &s.work_request, domain);
    let work = &mut s.output.work;
    t.length = op.length;
    match verdict {
        AnswerVerdict::Data => work.kind = WorkKind::PlaceResponse,
        AnswerVerdict::Value => work.kind = WorkKind::StoreValue,
        AnswerVerdict::Error | AnswerVerdict::Misfit | AnswerVerdict::Denied => t.length = 0,
    }
    work.place.memory_offset = s.work_request.local_offset;
    work.place.lkey = s.work_request.lkey;
    work.length = op.length;
    work.value = op.swap_or_add;
    let mut receiver = Receiver { delivery: &mut flow.delivery, initiator: &mut *initiator };
    receiver.acknowledge_data(psn, ack_request, now);
    let end = match verdict {
        AnswerVerdict::Error => (CompletionCode::Ack, op.code.0, true), // D-45
        AnswerVerdict::Misfit => (CompletionCode::OperationError, 0, true),
        AnswerVerdict::Denied => {
            s.output.report.raised.raise(Counter::LocalProtection);
            (CompletionCode::LocalProtection, 0, true)
        }
        _ => return,
    };
    initiator.complete(transactions, Application(queues), rsn, end);
    initiator.flush(transactions, Application(queues));
}

/// Does steps 2 to 4 of D-23: state, function, SPI, replay. A refused packet changes only counters.
#[inline(always)]
fn refuse(
    state: State,
    flow: &mut Flow,
    cold: &mut Cold,
    refused: &mut SecurityDrops,
    p: &Packet,
    now: Picoseconds,
) -> Option<Counter> {
    let Flow { endpoint, security, .. } = flow;
    if state == State::Closed || endpoint.local_cid.0 != p.dest_cid {
        return Some(Counter::DropUnknownCid); // D-50
    }
    if state != State::Open {
        return Some(Counter::DropNotAlive); // F-11-18
    }
    if !p.kind.is_acknowledgement() && p.dest_function != endpoint.local_function {
        return Some(Counter::DropFunction); // D-15
    }
    if let Some(cause) = security.check(&mut cold.clock, &cold.tunnel, p, now) {
        refused.count(cause); // D-59
        return Some(cause);
    }
    endpoint.path.vlan = p.vlan; // D-86: the reply carries the same tag
    endpoint.path.vlan_tci = p.vlan_tci;
    None
}
