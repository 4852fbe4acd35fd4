//! What a connection does when the engine turns to it: the one pure step of the transmit pipeline.

use super::{Entry, state, timer};
use crate::counters::Counter;
use crate::datapath::Scratch;
use crate::ids::Rsn;
use crate::packet_delivery::{ResyncCode, TxPacket, Window, packet_flag};
use crate::queues::{Queues, command};
use crate::transaction::request_state;
use crate::ulp;
use crate::units::{FalconTime, Picoseconds};
use crate::verifier::bounded;
use crate::wire::PacketType;

impl Entry {
    /// The engine turns to this connection; `fired` when the timing wheel sent it. At most one packet or one
    /// delivery comes of it; `s.report.wake` asks for another turn, `s.report.file` for a place in the wheel.
    #[inline(always)]
    pub fn on_turn(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds, fired: bool) {
        self.take_turn(s, queues, now, fired);
        self.decide(s, queues, now);
        if self.connection.state == state::OPEN {
            self.connection.file_deadline(s, now.ticks());
        }
    }

    /// All but the decision on windows and the deadline.
    #[inline(always)]
    fn take_turn(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds, fired: bool) {
        s.begin();
        if fired {
            self.connection.timers.armed &= !timer::FILED;
        }
        // A connection that failed is closed like any other, or its slot would stay taken.
        if self.connection.state != state::CLOSED && queues.command() == command::CLOSE {
            self.connection.state = state::CLOSING;
        }
        if self.connection.state != state::OPEN {
            self.wind_up(s, queues);
            self.connection.initiator.fruitless = (s.report.wake == 0) as u8;
            return;
        }
        if queues.has_new_settings() {
            self.apply_settings(queues);
        }
        if s.result != 0 {
            self.on_result(s, queues, now);
        }
        let ticks = now.ticks();
        self.run_timers(queues, ticks);
        if self.connection.initiator.completions_blocked != 0 {
            s.count(Counter::CompletionQueueFull);
            self.retry_completions(queues);
            s.report.wake = self.connection.initiator.completions_blocked as u32;
        }
        let useful = self.choose(s, queues, now);
        self.connection.initiator.fruitless = !useful as u8;
        if useful && self.wants_turn(queues) {
            s.report.wake = 1;
        }
        if self.connection.state != state::OPEN {
            s.report.wake = 1; // a timer ended it
        }
    }

    /// A connection that ended: everything outstanding is completed and given back, some at each turn.
    #[inline(always)]
    fn wind_up(&mut self, s: &mut Scratch, queues: &impl Queues) {
        if self.connection.state == state::CLOSED {
            return;
        }
        queues.set_state(self.connection.state);
        let more = self.drain_dead(queues);
        let held = self.connection.target.held != 0 && self.release_one_cell(s);
        if more || held {
            s.report.wake = (self.connection.initiator.completions_blocked == 0) as u32 | held as u32;
        } else if self.connection.state == state::CLOSING {
            self.connection.state = state::CLOSED;
            queues.set_state(state::CLOSED);
        }
    }

    /// Gives back the cell of one held request.
    #[inline(never)]
    fn release_one_cell(&mut self, s: &mut Scratch) -> bool {
        let mut key = 0;
        while key < super::TRANSACTIONS as u32 {
            bounded!();
            if matches!(self.request(key).state, request_state::HELD | request_state::RNR) {
                self.release_cell(s, key);
                return true;
            }
            key += 1;
        }
        self.connection.target.held = 0;
        false
    }

    #[inline(always)]
    fn run_timers(&mut self, queues: &impl Queues, now: FalconTime) {
        let timers = self.connection.timers;
        let due = |bit: u32, at: u32| timers.armed & bit != 0 && now.reached(FalconTime(at));
        if due(timer::RETRANSMIT, timers.retransmit) {
            self.on_retransmission_timer(now);
        }
        if due(timer::RNR, timers.rnr) {
            self.on_rnr_timer();
        }
        if due(timer::TRANSACTION, timers.transaction) {
            self.on_transaction_timer(queues, now);
        }
        if due(timer::PACING, timers.pacing) {
            self.connection.timers.armed &= !timer::PACING;
        }
    }

    /// The order of F-8.3 and D-29: acknowledgement, retransmission, what waits for delivery, then new packets of
    /// initiator and target in turn.
    #[inline(always)]
    fn choose(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) -> bool {
        if self.connection.ack_is_due(now.ticks()) {
            self.send_ack(s, now);
            return true;
        }
        if !self.connection.may_depart(now) {
            if self.next_redelivery(s) {
                return true;
            }
            if self.has_packet_to_send(queues) && self.connection.wait_for_departure() {
                self.tables.statistics.paced += 1;
            }
            return false;
        }
        if self.resend(s, queues, now) || self.next_redelivery(s) {
            return true;
        }
        let target_first = self.connection.initiator.targets_turn != 0;
        self.connection.initiator.targets_turn = !target_first as u8;
        if target_first && self.send_response(s, now) {
            return true;
        }
        self.send_request(s, queues, now) || (!target_first && self.send_response(s, now))
    }

    /// Whether a reliable packet waits, should the gate let it pass.
    #[inline(always)]
    fn has_packet_to_send(&self, queues: &impl Queues) -> bool {
        let c = &self.connection;
        !c.data_tx.retransmit.or(c.request_tx.retransmit).is_zero()
            || c.target.response_next != c.target.response_tail
            || self.has_new_work(queues)
    }

    /// Sends the next work request (F-8.4.3.1-2, F-8.4.3.3-1).
    #[inline(always)]
    fn send_request(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) -> bool {
        let Some((rsn, kind)) = self.next_work_request(queues) else { return false };
        let ticks = now.ticks();
        queues.load_work_request(rsn, &mut s.work);
        self.transaction_sent(rsn, &s.work, ticks);
        if !ulp::is_valid(&s.work, self.connection.config.max_segment) {
            s.count(Counter::BadWorkRequest);
            self.refuse(queues, rsn);
            s.report.wake = 1;
            return self.connection.config.ordered != 0 && self.skip_request(s, rsn, kind, now);
        }
        let push = matches!(kind, PacketType::PushData);
        let last_of_burst = push && self.is_last_submitted(queues, rsn);
        let packet = TxPacket { rsn: rsn.0, last_sent: ticks.0, kind: kind as u8, ..TxPacket::default() };
        self.send_new(s, packet, kind, last_of_burst, now);
        let peer = self.connection.config.peer_cid.0;
        s.transmission.request_length = ulp::request_payload(&s.work, peer, &mut s.transmission.ulp);
        true
    }

    /// Sends a Resync with a fresh PSN in place of a refused request: the target of an ordered connection has to pass
    /// its RSN (D-47).
    #[inline(never)]
    fn skip_request(&mut self, s: &mut Scratch, rsn: Rsn, kind: PacketType, now: Picoseconds) -> bool {
        let packet = TxPacket {
            rsn: rsn.0,
            last_sent: now.ticks().0,
            kind: kind as u8,
            flags: packet_flag::RESYNC | packet_flag::RESYNC_SENT,
            resync_code: ResyncCode::TIMED_OUT,
            ..TxPacket::default()
        };
        self.send_new(s, packet, kind, false, now);
        s.transmission.kind = PacketType::Resync as u8;
        s.transmission.ack_request = 0;
        s.transmission.resync_code = packet.resync_code;
        s.transmission.resync_type = packet.kind;
        self.tables.statistics.resyncs_sent += 1;
        true
    }

    /// Sends the retransmission that is next, with its original PSN (F-9.1.5-2) or as a Resync (F-9.1.8-2).
    #[inline(always)]
    fn resend(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) -> bool {
        let c = &self.connection;
        !c.data_tx.retransmit.or(c.request_tx.retransmit).is_zero() && self.resend_next(s, queues, now)
    }

    #[inline(never)]
    fn resend_next(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) -> bool {
        let Some(resend) = self.next_retransmission() else { return false };
        let ticks = now.ticks();
        let before = *self.packet(resend.window, resend.psn);
        self.book_retransmission(resend, ticks);
        self.connection.departed(now);
        // A copy that an RNR NACK asked for says nothing about the network: its timer is the target's wish.
        if before.flags & (packet_flag::UNSENT | packet_flag::ASKED_FOR) == 0 {
            self.retransmission_event(s, &before);
        }
        let packet = *self.packet(resend.window, resend.psn);
        let rsn = Rsn(packet.rsn);
        if packet.flags & packet_flag::RESYNC != 0 {
            self.fill_reliable(s, PacketType::Resync, resend.window, resend.psn, rsn, now);
            s.transmission.resync_code = packet.resync_code;
            s.transmission.resync_type = packet.kind;
            return true;
        }
        let peer = self.connection.config.peer_cid.0;
        if packet.kind == PacketType::PullData as u8 {
            self.fill_reliable(s, PacketType::PullData, resend.window, resend.psn, rsn, now);
            let response = self.response(packet.response as u32);
            ulp::response_payload(response, peer, &mut s.transmission.ulp);
        } else {
            let kind = match resend.window {
                Window::Data => PacketType::PushData,
                Window::Request => PacketType::PullRequest,
            };
            self.fill_reliable(s, kind, resend.window, resend.psn, rsn, now);
            queues.load_work_request(rsn, &mut s.work);
            s.transmission.request_length = ulp::request_payload(&s.work, peer, &mut s.transmission.ulp);
        }
        let c = &mut self.connection;
        let last = packet.kind != PacketType::PullData as u8
            && c.data_tx.retransmit.or(c.request_tx.retransmit).is_zero();
        s.transmission.ack_request = c.choose_ack_request(last) as u8;
        true
    }
}
