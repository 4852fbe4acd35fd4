//! Packets that leave at once: acknowledgements, NACKs, the answer in the frame that asked. And when the engine
//! is needed for what cannot.

use super::{Connection, Entry, timer};
use crate::datapath::{Scratch, delivery};
use crate::ids::{Psn, Rsn};
use crate::packet_delivery::{TxPacket, Window};
use crate::queues::Queues;
use crate::transaction::response_state;
use crate::ulp;
use crate::units::{FalconTime, Picoseconds};
use crate::wire::PacketType;
use crate::wire::nack::NackCode;

impl Connection {
    /// Earliest armed deadline, if any.
    #[inline(always)]
    pub(crate) fn earliest_deadline(&self) -> Option<FalconTime> {
        let t = &self.timers;
        let mut earliest = None;
        let candidates = [
            (timer::RETRANSMIT, t.retransmit),
            (timer::COALESCING, t.coalescing),
            (timer::RNR, t.rnr),
            (timer::TRANSACTION, t.transaction),
            (timer::PACING, t.pacing),
        ];
        let mut n = 0;
        while n < candidates.len() {
            let (bit, at) = candidates[n];
            if t.armed & bit != 0 {
                earliest = match earliest {
                    Some(e) if FalconTime(at).reached(e) => Some(e),
                    _ => Some(FalconTime(at)),
                };
            }
            n += 1;
        }
        earliest
    }

    /// Whether the timing wheel has to be told of the deadline `at`.
    #[inline(always)]
    fn is_news(&self, at: FalconTime) -> bool {
        self.timers.armed & timer::FILED == 0 || !at.reached(FalconTime(self.timers.filed))
    }

    /// Files the earliest deadline with the wheel when it moved forward.
    #[inline(always)]
    pub(crate) fn file_deadline(&mut self, s: &mut Scratch, now: FalconTime) {
        if let Some(at) = self.report_deadline(s, now) {
            self.timers.filed = at.0;
            self.timers.armed |= timer::FILED;
        }
    }

    /// Reports the earliest deadline if the wheel does not know it; only the engine can tell the wheel.
    #[inline(always)]
    fn report_deadline(&self, s: &mut Scratch, now: FalconTime) -> Option<FalconTime> {
        let at = self.earliest_deadline()?;
        if !self.is_news(at) {
            return None;
        }
        s.report.file = 1;
        s.report.file_ticks = if now.reached(at) { 0 } else { at.since(now).0 };
        Some(at)
    }
}

impl Entry {
    /// The fields every packet has; IV and SPI are assigned here, under the lock (D-90).
    #[inline(always)]
    pub(crate) fn start_packet(&mut self, s: &mut Scratch, kind: PacketType, now: Picoseconds) {
        let c = &mut self.connection;
        let t = &mut s.transmission;
        t.present = 1;
        t.kind = kind as u8;
        t.ack_request = 0;
        t.psp_version = c.security.version;
        t.dest_cid = c.config.peer_cid.0;
        t.dest_function = c.config.peer_function;
        t.checksum = c.config.checksum;
        t.spi = c.security.tx_spi.0;
        t.iv = c.next_iv(now);
        t.data_base = c.data_rx.base.0;
        t.request_base = c.request_rx.base.0;
        t.ulp.extension = crate::datapath::ulp_header::NONE;
        t.ulp.data_length = 0;
        t.ulp.resolve = 0;
        s.path = c.config.path;
    }

    /// What ACK and NACK report about the path (F-9.1.6-6, F-9.1.7-1).
    #[inline(always)]
    fn report_path(&self, s: &mut Scratch) {
        let report = &self.connection.report;
        let t = &mut s.transmission;
        t.t1 = report.t1;
        t.t2 = report.t2;
        t.ecn_count = report.ecn_count as u32;
        t.forward_hops = report.forward_hops;
        let card = s.rx_buffer_level as u8;
        t.rx_buffer_level = if report.rx_buffer_level > card { report.rx_buffer_level } else { card }; // D-76
        t.cc_metadata = self.connection.congestion.cc_metadata;
    }

    /// Sends BACK or EACK with the state of this moment (F-9.1.6-6, F-7.7.2-5).
    #[inline(never)]
    pub(crate) fn send_ack(&mut self, s: &mut Scratch, now: Picoseconds) {
        let eack = self.connection.needs_eack();
        self.start_packet(s, if eack { PacketType::Eack } else { PacketType::Back }, now);
        self.report_path(s);
        let c = &mut self.connection;
        let t = &mut s.transmission;
        t.own_request = 0;
        t.own_data = 0;
        if eack {
            t.own_request = c.request_rx.own as u8;
            t.own_data = c.data_rx.own as u8;
            t.data_acknowledged = c.data_rx.acknowledged.words();
            t.data_received = c.data_rx.received.words();
            t.request = c.request_rx.received.words()[0];
            self.tables.statistics.eacks_sent += 1;
        } else {
            self.tables.statistics.backs_sent += 1;
        }
        c.ack_sent(eack);
    }

    /// The ACK or NACK that was booked could not be built: an ACK leaves instead. A NACK is not repeated, nothing was
    /// marked for its packet, so that the next copy is refused likewise (D-39).
    #[inline(always)]
    pub(crate) fn acknowledgement_not_sent(&mut self, kind: u8) {
        let statistics = &mut self.tables.statistics;
        if kind == PacketType::Nack as u8 {
            statistics.nacks_sent = statistics.nacks_sent.wrapping_sub(1);
        } else if kind == PacketType::Eack as u8 {
            statistics.eacks_sent = statistics.eacks_sent.wrapping_sub(1);
        } else {
            statistics.backs_sent = statistics.backs_sent.wrapping_sub(1);
        }
        self.connection.ack.pending = 1;
    }

    /// Sends a NACK for the packet at hand, at once (D-39, F-9.1.7).
    #[inline(never)]
    pub(crate) fn nack(&mut self, s: &mut Scratch, code: u8, ulp_code: u8, now: Picoseconds) {
        let request_window = s.packet.kind == PacketType::PullRequest as u8;
        let psn = s.packet.psn;
        self.start_packet(s, PacketType::Nack, now);
        self.report_path(s);
        let t = &mut s.transmission;
        t.psn = psn;
        t.nack_code = code;
        t.nack_window = request_window as u8;
        t.ulp_code = ulp_code;
        t.rnr_timeout_code = if code == NackCode::RNR { self.connection.config.rnr_timeout_code } else { 0 };
        self.connection.bases_piggybacked();
        self.tables.statistics.nacks_sent += 1;
    }

    /// Books and fills a reliable packet sent for the first time: PSN, timer, AR (F-9.1.3).
    #[inline(always)]
    pub(crate) fn send_new(
        &mut self,
        s: &mut Scratch,
        packet: TxPacket,
        kind: PacketType,
        last_of_burst: bool,
        now: Picoseconds,
    ) {
        let ticks = now.ticks();
        let rto = self.connection.congestion.rto;
        let window = if matches!(kind, PacketType::PullRequest) { Window::Request } else { Window::Data };
        self.connection.departed(now);
        let psn = self.transmit_window(window).assign(kind);
        *self.packet(window, psn) = packet;
        self.connection.timers.arm_retransmit(ticks.after(rto));
        self.tables.statistics.packets_sent += 1;
        self.fill_reliable(s, kind, window, psn, Rsn(packet.rsn), now);
        s.transmission.ack_request = self.connection.choose_ack_request(last_of_burst) as u8;
    }

    /// The base header of a reliable packet (section 7.2).
    #[inline(always)]
    pub(crate) fn fill_reliable(
        &mut self,
        s: &mut Scratch,
        kind: PacketType,
        window: Window,
        psn: Psn,
        rsn: Rsn,
        now: Picoseconds,
    ) {
        self.start_packet(s, kind, now);
        s.transmission.psn = psn.0;
        s.transmission.rsn = rsn.0;
        s.transmission.window = window as u8;
        self.connection.bases_piggybacked();
    }

    /// Sends the oldest response that is ready, if nothing stands before it and the gate is open (F-9.1.2-2).
    #[inline(always)]
    pub(crate) fn send_response(&mut self, s: &mut Scratch, now: Picoseconds) -> bool {
        let target = &self.connection.target;
        target.response_next != target.response_tail && self.send_next_response(s, now)
    }

    #[inline(never)]
    fn send_next_response(&mut self, s: &mut Scratch, now: Picoseconds) -> bool {
        let position = self.connection.target.response_next;
        let fabric = self.connection.fabric_window();
        let data = &self.connection.data_tx;
        if !data.retransmit.and(data.pull_data).is_zero()
            || !data.may_send_new(PacketType::PullData, fabric, 0)
            || !self.connection.may_depart(now)
            || self.response(position).state != response_state::READY
        {
            return false;
        }
        let response = self.response(position);
        response.state = response_state::SENT;
        let rsn = response.rsn;
        self.connection.target.response_next = position.wrapping_add(1);
        let packet = TxPacket {
            rsn,
            last_sent: now.ticks().0,
            response: position as u16,
            kind: PacketType::PullData as u8,
            ..TxPacket::default()
        };
        self.send_new(s, packet, PacketType::PullData, false, now);
        let peer = self.connection.config.peer_cid.0;
        ulp::response_payload(self.response(position), peer, &mut s.transmission.ulp);
        true
    }

    /// Fills the frame at hand, if it is free: with a response, else with an ACK that is due. Then asks for the
    /// engine if something is left.
    #[inline(always)]
    pub fn reply(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) {
        if s.transmission.present == 0
            && s.delivery.kind == delivery::NONE
            && !self.send_response(s, now)
            && self.connection.ack_is_due(now.ticks())
        {
            self.send_ack(s, now);
        }
        s.report.wake |= self.wants_turn(queues) as u32;
        self.connection.report_deadline(s, now.ticks());
    }

    /// Whether the engine could have something to do for this connection, whatever the time.
    #[inline(always)]
    pub(crate) fn wants_turn(&self, queues: &impl Queues) -> bool {
        let c = &self.connection;
        c.ack.pending != 0
            || c.initiator.completions_blocked != 0
            || !c.data_tx.retransmit.or(c.request_tx.retransmit).is_zero()
            || c.target.response_next != c.target.response_tail
            || self.has_new_work(queues)
            || (c.target.held != 0 && self.has_response_slot())
            || !c.target.rnr_retry.is_zero()
    }
}
