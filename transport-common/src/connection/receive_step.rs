//! What a received packet does to its connection: the one pure step of the wire program (D-23).

use super::{Entry, Parameters, state};
use crate::congestion::algorithm::AlgorithmId;
use crate::congestion::queues::EVENT_QUEUES;
use crate::congestion::settings::Placement;
use crate::counters::Counter;
use crate::datapath::{Scratch, delivery};
use crate::ids::{Cid, Psn, Rsn};
use crate::limits;
use crate::packet_delivery::{AckVerdict, Arrival};
use crate::queues::Queues;
use crate::transaction::{CompletionCode, NO_REQUEST, request_state};
use crate::ulp::Answer;
use crate::units::{FalconTime, Picoseconds, Ticks};
use crate::wire::PacketType;
use crate::wire::nack::NackCode;

/// Both ends send with this TTL or hop limit (D-14).
pub const INITIAL_HOP_LIMIT: u8 = 255;

const PULL_REQUEST: u8 = PacketType::PullRequest as u8;
const PULL_DATA: u8 = PacketType::PullData as u8;
const RESYNC: u8 = PacketType::Resync as u8;
const NACK: u8 = PacketType::Nack as u8;
const BACK: u8 = PacketType::Back as u8;
const EACK: u8 = PacketType::Eack as u8;

impl Entry {
    /// The packet in `s.packet` arrived for this connection. Results stand in `s.delivery`, `s.transmission`,
    /// `s.report`.
    ///
    /// If something has to be delivered, the reply is left to the step that follows the delivery; whoever lets that wait calls
    /// [`reply`](Self::reply) meanwhile.
    #[inline(always)]
    pub fn on_packet<Q: Queues>(&mut self, s: &mut Scratch, queues: &Q, now: Picoseconds) {
        if Q::in_place(|| self.process_packet(s, queues, now)) {
            self.decide(s, queues, now);
            if s.delivery.kind == delivery::NONE {
                self.reply(s, queues, now); // else it is left to the step that follows
            }
        }
    }

    /// All but the decision on windows and the reply; false if the packet was refused.
    #[inline(always)]
    fn process_packet(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) -> bool {
        s.begin();
        if let Some(reason) = self.refuse_packet(s) {
            s.count(reason);
            return false;
        }
        if matches!(s.packet.kind, BACK | EACK | NACK) {
            self.on_acknowledgement(s, queues, now.ticks());
        } else {
            self.on_reliable(s, queues, now);
        }
        true
    }

    /// Steps 2 to 4 of D-23: alive, function, SPI, replay. A refused packet changes nothing but counters.
    #[inline(always)]
    fn refuse_packet(&mut self, s: &Scratch) -> Option<Counter> {
        let p = &s.packet;
        let c = &mut self.connection;
        if c.state == state::CLOSED || c.config.local_cid != Cid(p.dest_cid) {
            return Some(Counter::DropUnknownCid); // D-50
        }
        if c.state != state::OPEN {
            return Some(Counter::DropNotAlive); // F-11-18
        }
        if p.psp_version != c.security.version {
            return Some(Counter::DropPspHeader);
        }
        let acknowledgement = matches!(p.kind, BACK | EACK | NACK);
        if !acknowledgement && p.dest_function != c.config.local_function {
            return Some(Counter::DropFunction); // D-15
        }
        if c.security.rx_spi.0 == 0 || c.security.rx_spi.0 != p.spi {
            self.tables.statistics.security_drops += 1;
            return Some(Counter::DropSpi); // F-9.2.2.3-8
        }
        let security = &mut c.security;
        if security.remote_time_known != 0 {
            let edge = security.remote_time.wrapping_sub(c.config.replay_margin);
            if p.iv.wrapping_sub(edge) as i64 <= 0 {
                self.tables.statistics.security_drops += 1;
                return Some(Counter::DropReplay); // D-56
            }
        }
        if security.remote_time_known == 0 || p.iv.wrapping_sub(security.remote_time) as i64 > 0 {
            security.remote_time = p.iv; // D-57, D-87
            security.remote_time_known = 1;
        }
        c.config.path.vlan = p.vlan; // D-86: answered with the same tag
        c.config.path.vlan_tci = p.vlan_tci;
        None
    }

    /// BACK, EACK, NACK.
    #[inline(always)]
    fn on_acknowledgement(&mut self, s: &mut Scratch, queues: &impl Queues, now: FalconTime) {
        match self.process_acknowledgement(&s.packet.acknowledgement, queues) {
            AckVerdict::Applied => {}
            AckVerdict::Stale => return s.count(Counter::AckStale),
            AckVerdict::Invalid => return s.count(Counter::AckInvalid),
        }
        self.tables.statistics.acks_received += 1;
        let t1 = FalconTime(s.packet.t1);
        let rtt = Picoseconds(s.packet.arrival).ticks().since(t1);
        // A target that offers a held request to its ULP again says RNR again, with the times of the packet that came
        // last: from then on it is the ULP that is measured, not the network.
        let repeated = s.packet.kind == NACK
            && s.packet.nack_code == NackCode::RNR
            && t1 == self.connection.congestion.last_t1;
        self.connection.congestion.last_t1 = t1;
        if !repeated {
            self.sample_rtt(rtt);
        }
        let mut eack_drop = false;
        match s.packet.kind {
            EACK => eack_drop = self.retransmit_early(&s.packet.acknowledgement, now, rtt),
            NACK => {
                self.tables.statistics.nacks_received += 1;
                if !self.process_nack(&s.nack(), now) {
                    s.count(Counter::NackIgnored);
                }
            }
            _ => {}
        }
        if !repeated {
            self.acknowledgement_event(s, eack_drop as u32, now);
        }
    }

    /// F-9.2.3-4; a sample of more than half the wrap is no round trip time.
    #[inline(always)]
    fn sample_rtt(&mut self, rtt: Ticks) {
        let congestion = &mut self.connection.congestion;
        if rtt.0 < u32::MAX / 2 {
            congestion.rtt = rtt;
            if congestion.min_rtt.0 == 0 || rtt < congestion.min_rtt {
                congestion.min_rtt = rtt;
            }
        }
    }

    /// Packets with a base header: measurements, piggyback, window, transaction sublayer.
    #[inline(always)]
    fn on_reliable(&mut self, s: &mut Scratch, queues: &impl Queues, now: Picoseconds) {
        self.tables.statistics.packets_received += 1;
        let report = &mut self.connection.report;
        report.t1 = Picoseconds(s.packet.iv).ticks().0; // D-13
        report.t2 = Picoseconds(s.packet.arrival).ticks().0;
        let hops = INITIAL_HOP_LIMIT.wrapping_sub(s.packet.hop_limit);
        report.forward_hops = if hops > 15 { 15 } else { hops };
        report.ecn_count = (report.ecn_count + s.packet.congestion_experienced as u16) & 0x3fff;
        match self.process_acknowledgement(&s.packet.acknowledgement, queues) {
            AckVerdict::Applied => {}
            AckVerdict::Stale => s.count(Counter::AckStale), // D-35: only the piggyback is ignored
            AckVerdict::Invalid => s.count(Counter::AckInvalid),
        }
        let original = if s.packet.kind == RESYNC { s.packet.resync_type } else { s.packet.kind };
        let request_window = original == PULL_REQUEST; // D-24
        let psn = Psn(s.packet.psn);
        let key = match self.receive_window(request_window).classify(psn) {
            Arrival::Old => {
                s.count(Counter::DropOldDuplicate);
                self.tables.statistics.duplicates += 1;
                if s.packet.kind == RESYNC && request_window {
                    // A Pull Request is acknowledged on receipt; it may still be held, and is over now (D-25).
                    self.resync_held_pull(s);
                }
                self.acknowledge_again(s, now);
                NO_REQUEST
            }
            Arrival::Beyond => {
                s.count(Counter::DropOutOfWindow);
                self.receive_window(request_window).own = 1;
                self.tables.statistics.out_of_window += 1;
                self.connection.coalesce_ack(now.ticks());
                NO_REQUEST
            }
            Arrival::Duplicate if s.packet.kind != RESYNC => self.duplicate_request(s, now),
            _ if s.packet.kind == RESYNC => {
                self.on_resync(s, queues, request_window, now);
                NO_REQUEST
            }
            _ if s.packet.kind == PULL_DATA => {
                self.connection.data_rx.acknowledge(psn);
                self.connection.coalesce_ack(now.ticks());
                if s.packet.ack_request != 0 {
                    self.connection.request_ack(); // F-9.1.6-2
                }
                let (code, ulp_code) = match self.accept_response(s, queues) {
                    Answer::Accepted => return,
                    Answer::Error => (CompletionCode::Ack, s.packet.operation.code),
                    Answer::Misfit => (CompletionCode::OperationError, 0),
                };
                self.complete(queues, Rsn(s.packet.rsn), code, ulp_code);
                self.flush_completions(queues);
                NO_REQUEST
            }
            _ => self.accept_request(s, now),
        };
        if key != NO_REQUEST {
            self.deliver(s, queues, key, now);
        }
    }

    /// An old duplicate: its acknowledgement was lost. Coalesced (D-22), at once for a Resync, whose sender waits
    /// for it (D-25).
    #[inline(always)]
    fn acknowledge_again(&mut self, s: &Scratch, now: Picoseconds) {
        self.connection.coalesce_ack(now.ticks());
        if s.packet.kind == RESYNC {
            self.connection.request_ack();
        }
    }

    /// Ends the held Pull Request that an old Resync stands for.
    #[inline(always)]
    fn resync_held_pull(&mut self, s: &mut Scratch) {
        let rsn = Rsn(s.packet.rsn);
        let key = self.request_key(rsn, Psn(s.packet.psn), true);
        let request = self.request(key);
        if request.state == request_state::HELD && request.rsn == rsn.0 && request.psn == s.packet.psn {
            self.resync_request(s, true);
        }
    }

    /// A Resync in the window: the PSN is received and acknowledged whatever it was before, and its transaction
    /// is over (F-9.2.5-1, D-25).
    #[inline(always)]
    fn on_resync(&mut self, s: &mut Scratch, queues: &impl Queues, request_window: bool, now: Picoseconds) {
        let psn = Psn(s.packet.psn);
        if s.packet.resync_type == PULL_DATA {
            if s.packet.resync_code == 2 {
                self.complete(queues, Rsn(s.packet.rsn), CompletionCode::RemoteError, 0);
                self.flush_completions(queues);
            }
        } else {
            self.resync_request(s, request_window);
        }
        self.receive_window(request_window).acknowledge(psn);
        self.connection.coalesce_ack(now.ticks());
        self.connection.request_ack();
    }
}

impl Parameters {
    /// Whether the numbers are in range; the error names the first that is not.
    ///
    /// # Errors
    /// The name of the field and its range.
    pub fn check(&self) -> Result<(), &'static str> {
        let c = &self.config;
        let checks = [
            (limits::REQUEST_WINDOW.contains(self.request_window.into()), "request_window: 1 to 64 packets"),
            (limits::DATA_WINDOW.contains(self.data_window.into()), "data_window: 1 to 128 packets"),
            (self.config.local_cid.0 <= Cid::MAX, "local_cid: 24 bits"),
            (self.config.peer_cid.0 <= Cid::MAX, "peer_cid: 24 bits"),
            (limits::NCWND.contains(self.ncwnd.into()), "ncwnd: 1 to 2047 packets"),
            (limits::FCWND.contains(self.fcwnd.0.into()), "fcwnd: 1/1024 to 2047.999 packets"),
            (limits::RTO.contains_ticks(self.rto), "rto: 1 us to 2.199 s"),
            (limits::RNR_TIMEOUT_CODE.contains(c.rnr_timeout_code.into()), "rnr_timeout_code: 0 to 31"),
            (
                limits::ACK_REQUEST_PERCENT.contains(c.ack_request_percent.into()),
                "ack_request_percent: 0 to 100",
            ),
            (limits::ACK_COALESCING.contains_ticks(c.ack_coalescing), "ack_coalescing: 0 to 1 s"),
            (
                limits::TRANSACTION_TIMEOUT.contains_ticks(c.transaction_timeout),
                "transaction_timeout: 1 us to 281 s",
            ),
            (self.config.max_segment >= 8, "max_segment: at least 8 bytes"),
            (
                limits::RETRANSMIT_ATTEMPTS.contains(c.max_retransmit_attempts.into()),
                "max_retransmit_attempts: 0 to 65535",
            ),
            (self.rx_spi.0 != 0, "rx_spi: not 0"),
            (self.settings.placement < Placement::ALL.len() as u32, "settings.placement: 0 to 2"),
            (self.settings.algorithm < AlgorithmId::ALL.len() as u32, "settings.algorithm: 0 to 3"),
            (self.settings.event_queue < EVENT_QUEUES as u32, "settings.event_queue: 0 to 3"),
        ];
        for (holds, message) in checks {
            if !holds {
                return Err(message);
            }
        }
        Ok(())
    }
}
