//! Effects of a received packet on its connection: the steps of the wire program (D-23).

use super::acknowledgement::{Owner, Reporter};
use super::application::Application;
use super::{Endpoint, Entry, INITIAL_HOP_LIMIT, State, Step, WorkDone, WorkKind, requests, sender};
use crate::counters::Counter;
use crate::ids::{Psn, Rsn};
use crate::packet_delivery::{self, AckVerdict, Arrival, Round, Window};
use crate::queues::Queues;
use crate::security::{Security, SecurityDrops};
use crate::transaction::{CompletionCode, Held};
use crate::ulp::{AnswerKind, AnswerVerdict, PlaceFlags, UlpCode, Verb};
use crate::units::{FalconTime, Picoseconds, Ticks};
use crate::wire::PacketType;
use crate::wire::packet::Packet;

impl Entry {
    /// Processes the packet in `s.input`. If this requests work, [`on_work_done`](Self::on_work_done) follows in
    /// the same lock hold. Otherwise the step is complete.
    #[inline(always)]
    pub fn on_packet<Q: Queues>(&mut self, s: &mut Step, queues: &Q, now: Picoseconds) {
        s.begin();
        let Self { connection: c, tables, .. } = &mut *self;
        let ends = (c.state, &mut c.endpoint);
        let refused = &mut tables.statistics.refused;
        if let Some(reason) = refuse(ends, &mut c.security, refused, &s.input.packet, now) {
            return s.output.report.raised.raise(reason);
        }
        Q::in_place(|| {
            if s.input.packet.kind.is_acknowledgement() {
                self.on_acknowledgement(s, queues, now.ticks());
            } else {
                self.on_reliable(s, queues, now);
            }
        });
        self.connection.decide(&mut self.tables.statistics, s, &self.settings.in_force, now);
        if s.output.work.kind == WorkKind::None {
            sender::reply(self, s, queues, now);
        }
    }

    /// Processes BACK, EACK and NACK.
    #[inline(always)]
    fn on_acknowledgement(&mut self, s: &mut Step, queues: &impl Queues, now: FalconTime) {
        let Step { input, output, .. } = s;
        let packet = &input.packet;
        let mut owner = Owner { entry: self, queues };
        let mut reporter = Reporter { packet, output, now, is_new: false };
        match packet_delivery::acknowledge_explicit(&mut owner, &mut reporter, packet, now) {
            Ok(late) => output.event.eack_drop |= (late && packet.kind == PacketType::Eack) as u8,
            Err(AckVerdict::Stale) => output.report.raised.raise(Counter::AckStale),
            Err(_) => output.report.raised.raise(Counter::AckInvalid),
        }
    }

    /// Processes a packet with a base header: measurements, piggyback, window, transaction sublayer.
    #[inline(always)]
    fn on_reliable(&mut self, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
        self.tables.statistics.packets_received += 1;
        let ticks = now.ticks();
        let p = &s.input.packet;
        let (t1, t2) = (p.iv.ticks(), p.arrival.ticks()); // D-13
        let hops = INITIAL_HOP_LIMIT.wrapping_sub(p.hop_limit);
        self.connection.delivery.observe(t1, t2, hops, p.congestion_experienced);
        let round = Round { now: ticks, rtt: Ticks(u32::MAX) };
        let mut owner = Owner { entry: self, queues };
        match packet_delivery::acknowledge(&mut owner, &p.acknowledgement, round) {
            AckVerdict::Stale => s.output.report.raised.raise(Counter::AckStale), // D-35: only the piggyback is stale
            AckVerdict::Invalid => s.output.report.raised.raise(Counter::AckInvalid),
            _ => {}
        }
        let p = &s.input.packet;
        let original = if p.kind == PacketType::Resync { p.resync_type } else { p.kind };
        let window = if original == PacketType::PullRequest { Window::Request } else { Window::Data }; // D-24
        let psn = Psn(p.psn);
        match self.connection.delivery.lane(window).rx.classify(psn) {
            Arrival::Old => {
                s.output.report.raised.raise(Counter::DropOldDuplicate);
                self.connection.copy_received(&mut self.tables.statistics, &self.settings.in_force, now);
                let asks = s.input.packet.ack_request != 0;
                if s.input.packet.kind != PacketType::Resync {
                    return self.connection.delivery.acknowledge_copy(asks, ticks);
                }
                self.connection.delivery.acknowledge_resync_again(asks, ticks);
                if window == Window::Request {
                    // A Pull Request is acknowledged on receipt, so it may still be held.
                    let (c, requests) = (&mut self.connection, &mut self.tables.requests);
                    requests::end_held_pull(&mut c.target, requests, &mut c.occupancy, s);
                }
            }
            Arrival::Beyond => {
                s.output.report.raised.raise(Counter::DropOutOfWindow);
                self.connection.delivery.lane(window).rx.own = 1;
                self.tables.statistics.out_of_window += 1;
                self.connection.delivery.coalesce_ack(ticks);
            }
            _ if s.input.packet.kind == PacketType::Resync => {
                requests::on_resync(self, s, queues, window, now)
            }
            Arrival::Duplicate => requests::on_duplicate(self, s, queues, now),
            Arrival::New => {
                self.connection.delivery.ack.new_received();
                if s.input.packet.kind == PacketType::PullData {
                    return self.on_answer(s, queues, now);
                }
                requests::on_request(self, s, queues, window, now);
            }
        }
    }

    /// Processes Pull Data that is new in the data window: finds its transaction and decides where the data goes
    /// (F-8.4.3.2-1..3). The PSN is acknowledged in every case (D-23).
    #[inline(always)]
    fn on_answer(&mut self, s: &mut Step, queues: &impl Queues, now: Picoseconds) {
        let Self { connection: c, tables, .. } = self;
        let (rsn, psn) = (Rsn(s.input.packet.rsn), Psn(s.input.packet.psn));
        let ack_request = s.input.packet.ack_request != 0;
        let Some(t) = c.initiator.waiting_pull(&mut tables.transactions, rsn) else {
            s.output.report.raised.raise(Counter::DropPullDataUnknown);
            return c.receiver().acknowledge_data(psn, ack_request, now.ticks());
        };
        c.delivery.data_mut().rx.mark_answer(psn);
        let op = &s.input.operation;
        queues.load_work_request(t.work, &mut s.work_request);
        let (own, number, domain) = (c.endpoint.protocol, s.input.packet.protocol, &c.responder.domain);
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
        c.receiver().acknowledge_data(psn, ack_request, now.ticks());
        let end = match verdict {
            AnswerVerdict::Error => (CompletionCode::Ack, op.code.0, true), // D-45
            AnswerVerdict::Misfit => (CompletionCode::OperationError, 0, true),
            AnswerVerdict::Denied => {
                s.output.report.raised.raise(Counter::LocalProtection);
                (CompletionCode::LocalProtection, 0, true)
            }
            _ => return,
        };
        c.initiator.complete(&mut tables.transactions, Application(queues), rsn, end);
        c.initiator.flush(&mut tables.transactions, Application(queues));
    }

    /// Continues the step after the requested work succeeded or failed: acknowledges the request, or refuses it
    /// with a reason.
    #[inline(always)]
    pub fn on_work_done(&mut self, s: &mut Step, queues: &impl Queues, work: WorkDone, now: Picoseconds) {
        let rsn = Rsn(s.input.packet.rsn);
        match s.output.work.kind {
            WorkKind::PlaceRequest if work.done => requests::placed(self, s, queues, now),
            WorkKind::PlaceRequest => {
                let place = &mut s.output.work.place;
                if work.denied {
                    place.flags |= PlaceFlags::DENIED;
                }
                if !place.flags.is_empty() {
                    self.connection.responder.failed(rsn, place, Application(queues));
                }
                requests::refused(self, s, UlpCode::OPERATIONAL.0, now);
            }
            WorkKind::CompareSwap | WorkKind::FetchAdd => {
                requests::answered(self, s, (AnswerKind::Atomic, UlpCode::NONE, work.value), now);
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
                let (initiator, table) = (&mut self.connection.initiator, &mut self.tables.transactions);
                initiator.complete(table, Application(queues), rsn, (code, 0, true));
                initiator.flush(table, Application(queues));
            }
            WorkKind::Hold => requests::held(self, s, queues, work.cell, now),
            WorkKind::None => {}
        }
        sender::reply(self, s, queues, now);
    }

    /// Returns the held request that is next, if there is one. Changes no state of that request. The caller copies
    /// its payload into a frame and parses it. Then [`on_held`](Self::on_held) follows in the same lock hold.
    #[inline(always)]
    pub fn next_held(&mut self) -> Option<Held> {
        let target = &self.connection.target;
        // An unordered connection holds only requests that wait for the ULP. An ordered one may have to pass over
        // a Resync.
        if self.connection.state != State::Open || (target.held == 0 && target.ordered == 0) {
            return None;
        }
        self.connection.target.next_held(&mut self.tables.requests)
    }

    /// Delivers a held request to the ULP. Its payload is in the frame again, and parsed in `s.input`.
    #[inline(always)]
    pub fn on_held(&mut self, s: &mut Step, queues: &impl Queues, key: u32, now: Picoseconds) {
        s.output.work.key = key;
        s.output.work.held = 1;
        requests::deliver(self, s, queues, now);
        if s.output.work.kind == WorkKind::None {
            sender::reply(self, s, queues, now);
        }
    }
}

/// Does steps 2 to 4 of D-23: state, function, SPI, replay. A refused packet changes only counters.
#[inline(always)]
fn refuse(
    (state, endpoint): (State, &mut Endpoint),
    security: &mut Security,
    refused: &mut SecurityDrops,
    p: &Packet,
    now: Picoseconds,
) -> Option<Counter> {
    if state == State::Closed || endpoint.local_cid.0 != p.dest_cid {
        return Some(Counter::DropUnknownCid); // D-50
    }
    if state != State::Open {
        return Some(Counter::DropNotAlive); // F-11-18
    }
    if !p.kind.is_acknowledgement() && p.dest_function != endpoint.local_function {
        return Some(Counter::DropFunction); // D-15
    }
    if let Some(cause) = security.check(p, now) {
        refused.count(cause); // D-59
        return Some(cause);
    }
    endpoint.path.vlan = p.vlan; // D-86: the reply carries the same tag
    endpoint.path.vlan_tci = p.vlan_tci;
    None
}
