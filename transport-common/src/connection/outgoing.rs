//! Outgoing packets: the fields that the context writes, acknowledgements, NACKs. Also deadlines.

use super::{Flow, Outgoing, Report, Service, Statistics, Step};
use crate::ids::{Psn, Rsn};
use crate::packet_delivery::{PacketDelivery, Window};
use crate::security::Tunnel;
use crate::transaction::{Initiator, Target};
use crate::units::{Deadline, FalconTime, Picoseconds, Ticks};
use crate::wire::PacketType;
use crate::wire::nack::NackCode;

/// The reason for a NACK, as the NACK carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    code: NackCode,
    ulp_code: u8,
    rnr_timeout_code: u8,
}

impl Refusal {
    /// There are not enough resources for the request.
    pub(super) const NO_ROOM: Self =
        Self { code: NackCode::INSUFFICIENT_RESOURCES, ulp_code: 0, rnr_timeout_code: 0 };

    /// The host function is being reset (F-11-17).
    pub(super) const XLR: Self = Self { code: NackCode::XLR_DROP, ulp_code: 0, rnr_timeout_code: 0 };

    /// The ULP does not know the connection (F-7.8-5).
    pub(super) const INVALID_CID: Self =
        Self { code: NackCode::INVALID_CID, ulp_code: 0, rnr_timeout_code: 0 };

    /// Returns the refusal of a ULP that is not ready. `rnr_timeout_code` is the code of the delay to wait.
    pub(super) const fn not_ready(rnr_timeout_code: u8) -> Self {
        Self { code: NackCode::RNR, ulp_code: 0, rnr_timeout_code }
    }

    /// Returns the refusal of a ULP that completed the request in error, with its code.
    pub(super) const fn error(ulp_code: u8) -> Self {
        Self { code: NackCode::COMPLETE_IN_ERROR, ulp_code, rnr_timeout_code: 0 }
    }
}

impl Flow {
    /// Fills in the fields that every packet has. Assigns IV and SPI here, under the lock (D-90). [`address`] does the rest.
    #[inline(always)]
    fn start(&mut self, out: &mut Outgoing, kind: PacketType, now: Picoseconds) {
        let endpoint = &self.endpoint;
        out.present = 1;
        out.kind = kind;
        out.ack_request = 0;
        out.psp_version = self.security.version;
        out.dest_cid = endpoint.peer_cid.0;
        out.dest_function = endpoint.peer_function;
        out.checksum = endpoint.checksum as u8;
        out.protocol = endpoint.protocol;
        out.path = endpoint.path;
        out.spi = self.security.tx_spi.0;
        out.iv = self.security.next_iv(now);
        out.data_base = self.delivery.data().rx.base.0;
        out.request_base = self.delivery.request().rx.base.0;
        out.ulp.clear();
    }

    /// Fills in the base header of a reliable packet (section 7.2).
    #[inline(always)]
    pub(super) fn start_reliable(
        &mut self,
        out: &mut Outgoing,
        kind: PacketType,
        (window, psn, rsn): (Window, Psn, Rsn),
        now: Picoseconds,
    ) {
        self.start(out, kind, now);
        out.psn = psn.0;
        out.rsn = rsn.0;
        out.window = window as u8;
        self.delivery.bases_piggybacked();
    }

    /// Fills in what ACK and NACK have in common: also what they report about the path (F-9.1.6-6, F-9.1.7-1). `level`
    /// is how full our receive pools and the card's buffer are (D-76).
    #[inline(always)]
    fn start_report(&mut self, out: &mut Outgoing, kind: PacketType, level: u8, now: Picoseconds) {
        self.start(out, kind, now);
        let report = &self.delivery.ack.report;
        out.t1 = report.t1;
        out.t2 = report.t2;
        out.ecn_count = report.ecn_count as u32;
        out.forward_hops = report.forward_hops;
        out.rx_buffer_level = level;
        out.cc_metadata = self.congestion.cc_metadata;
    }

    /// Sends BACK or EACK with the current state (F-9.1.6-6, F-7.7.2-5). `level` is how full our receive pools and the
    /// card's buffer are (D-76).
    #[inline(never)]
    pub(super) fn send_ack(
        &mut self,
        statistics: &mut Statistics,
        s: &mut Step,
        level: u8,
        now: Picoseconds,
    ) {
        let eack = self.delivery.needs_eack();
        let out = &mut s.output.packet;
        let kind = if eack { PacketType::Eack } else { PacketType::Back };
        self.start_report(out, kind, level, now);
        out.own_request = 0;
        out.own_data = 0;
        if eack {
            let (data, request) = (&self.delivery.data().rx, &self.delivery.request().rx);
            out.own_request = request.own as u8;
            out.own_data = data.own as u8;
            out.data_acknowledged = data.acknowledged.words();
            out.data_received = data.received.words();
            out.request = request.received.words()[0];
            statistics.eacks_sent += 1;
        } else {
            statistics.backs_sent += 1;
        }
        self.delivery.ack_sent(eack, now.ticks());
    }

    /// Builds a NACK for the packet in the step's input, immediately (D-39, F-9.1.7). `level` is as in an ACK.
    #[inline(never)]
    pub(super) fn nack(
        &mut self,
        statistics: &mut Statistics,
        s: &mut Step,
        (refusal, level): (Refusal, u8),
        now: Picoseconds,
    ) {
        statistics.nacks_sent += 1;
        let out = &mut s.output.packet;
        self.start_report(out, PacketType::Nack, level, now);
        out.psn = s.input.packet.psn;
        out.nack_window = (s.input.packet.kind == PacketType::PullRequest) as u8;
        out.nack_code = refusal.code;
        out.ulp_code = refusal.ulp_code;
        out.rnr_timeout_code = refusal.rnr_timeout_code;
        self.delivery.bases_piggybacked();
    }
}

/// Marks a packet of the peer as received. This also acknowledges a Pull Request: only a push waits for the ULP (F-9-2,
/// F-9.2.2.4-5).
#[inline(always)]
pub(super) fn mark_received(
    delivery: &mut PacketDelivery,
    window: Window,
    psn: Psn,
    ack_request: bool,
    now: FalconTime,
) {
    if window == Window::Data {
        delivery.data_mut().rx.receive(psn);
        return delivery.coalesce_ack(now);
    }
    delivery.request_mut().rx.acknowledge(psn); // F-9.1.6-2; no Pull Request is an answer
    delivery.coalesce_ack(now);
    if ack_request {
        delivery.request_ack();
    }
}

/// The parts that know which packets of the peer are acknowledged.
pub(super) struct Receiver<'a> {
    pub(super) delivery: &'a mut PacketDelivery,
    pub(super) initiator: &'a mut Initiator,
}

impl Receiver<'_> {
    /// Acknowledges a packet that needs no ULP, in its window.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, window: Window, psn: Psn, ack_request: bool, now: FalconTime) {
        let answers = self.delivery.lane(window).rx.acknowledge(psn);
        self.acknowledged(answers, ack_request, now);
    }

    /// Acknowledges a packet of the data window: a push that the ULP has taken, or a packet that needs no ULP.
    #[inline(always)]
    pub(super) fn acknowledge_data(&mut self, psn: Psn, ack_request: bool, now: FalconTime) {
        let answers = self.delivery.data_mut().rx.acknowledge(psn);
        self.acknowledged(answers, ack_request, now); // D-32
    }

    /// Records an acknowledgement that moved the base of its window past `answers` answers.
    #[inline(always)]
    fn acknowledged(&mut self, answers: u32, ack_request: bool, now: FalconTime) {
        self.initiator.answers_known(answers);
        self.delivery.coalesce_ack(now);
        if ack_request {
            self.delivery.request_ack();
        }
    }
}

/// Returns the earliest deadline of a connection, if any.
#[inline(always)]
pub(super) fn earliest_deadline(flow: &Flow, target: &Target, initiator: &Initiator) -> Deadline {
    flow.delivery
        .retransmit
        .or_earlier(flow.delivery.ack.coalescing)
        .or_earlier(target.rnr_timer)
        .or_earlier(initiator.timer)
        .or_earlier(flow.congestion.pacing)
}

/// Fills in what a packet to send has of the connection as a whole: its generation, and the inner addresses in tunnel mode.
#[inline(always)]
pub(super) fn address(out: &mut Outgoing, generation: u32, tunnel: &Tunnel) {
    if out.present != 0 {
        out.generation = generation;
        if out.path.inner_version != 0 {
            enter_tunnel(out, tunnel);
        }
    }
}

/// A function of its own, because packets in transport mode do not need it.
#[inline(never)]
fn enter_tunnel(out: &mut Outgoing, tunnel: &Tunnel) {
    out.tunnel = *tunnel;
}

/// Reports `deadline`, the earliest of a connection, if none as early is filed with the wheel, or if it is `wanted` in any
/// case. Only the engine can write to the wheel.
#[inline(always)]
pub(super) fn report_deadline(
    report: &mut Report,
    service: &mut Service,
    (deadline, wanted): (Deadline, bool),
    now: Picoseconds,
) -> Deadline {
    let Some(at) = deadline.time() else {
        service.since = 0;
        return Deadline::NONE;
    };
    if service.since == 0 {
        service.since = Service::coarse(now);
    }
    let now = now.ticks();
    if let Some(filed) = service.filed.time()
        && at.reached(filed)
        && !wanted
    {
        return Deadline::NONE;
    }
    report.file = 1;
    report.deadline_in = if now.reached(at) { Ticks(0) } else { at.since(now) };
    deadline
}
