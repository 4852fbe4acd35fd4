//! One connection of the tester: its sequence numbers, the packets that it sends, and those that it waits
//! for.

mod pull;
mod requests;
mod waits;

use std::collections::VecDeque;
use std::net::IpAddr;

use transport_common::ids::{Psn, Rsn};
use transport_common::units::{PicosecondSpan, Picoseconds};
use transport_common::wire::ack::{AckHeader, CongestionInfo, Eack};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use transport_common::wire::nack::{Nack, NackCode};
use transport_common::wire::psp::Psp;
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};
use transport_common::wire::{PacketType, ProtocolType};

use crate::draft::Draft;
use crate::flow::{encoded, link_length};
use crate::log::Logged;
use crate::received::Received;
use crate::subject::{Patience, Start, Subject};
use crate::trigger::{Ticket, Trigger};
use crate::verdict::{Outcome, Stop};
use crate::wire::Wire;

use pull::Pull;

pub use requests::OPERATION_BYTES;

/// Protocol numbers of ICMP for IPv4 and IPv6.
const ICMP: u8 = 1;
const ICMP_6: u8 = 58;

/// The tester's end of a connection. It sends only what its caller asks for.
pub struct Session<'w> {
    wire: Box<dyn Wire + 'w>,
    trigger: Option<&'w mut dyn Trigger>,
    /// The connection.
    pub subject: Subject,
    /// How long it waits.
    pub patience: Patience,
    /// The numbers of the next packets.
    next: Start,
    /// One past the highest data PSN that the peer has sent.
    seen_data: Psn,
    /// One past the highest request PSN that the peer has sent.
    seen_requests: Psn,
    /// One past the highest RSN of the peer's requests.
    seen_rsn: Rsn,
    /// The peer's Pull Requests that have no answer.
    pulls: Vec<Pull>,
    /// The peer's operations that are not known to have ended.
    tickets: Vec<Ticket>,
    /// Whether the peer has sent a request of its own.
    has_requested: bool,
    /// The peer's retransmission timeout for its requests, once it was measured.
    pub timeout: Option<PicosecondSpan>,
    /// The bases in the tester's packets: data and request.
    bases: (Psn, Psn),
    /// The bases in the peer's newest packet: data and request.
    peer_bases: (Psn, Psn),
    /// IV and arrival of the peer's newest packet.
    newest: (Picoseconds, Picoseconds),
    last_iv: Picoseconds,
    /// Packets with a PSN that the tester has prepared since the last time at which nothing was open.
    open: Vec<Draft>,
    inbox: VecDeque<Received>,
    log: Vec<Logged>,
    heard: Heard,
}

/// What the tester heard that is not a Falcon packet of the peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// One of its own packets, as it sent it.
    pub(crate) echo: bool,
    /// An ICMP message about one of its packets.
    pub(crate) unreachable: bool,
}

impl<'w> Session<'w> {
    /// Begins a connection with its first sequence numbers. `trigger` makes the peer submit operations.
    pub fn new(
        wire: impl Wire + 'w,
        trigger: Option<&'w mut dyn Trigger>,
        subject: Subject,
        patience: Patience,
    ) -> Self {
        let (tx, rx) = (subject.tx, subject.rx);
        Self {
            wire: Box::new(wire),
            trigger,
            patience,
            next: tx,
            seen_data: rx.data_psn,
            seen_requests: rx.request_psn,
            seen_rsn: rx.rsn,
            pulls: Vec::new(),
            tickets: Vec::new(),
            has_requested: false,
            timeout: None,
            bases: (rx.data_psn, rx.request_psn),
            peer_bases: (tx.data_psn, tx.request_psn),
            newest: (Picoseconds(0), Picoseconds(0)),
            last_iv: Picoseconds(0),
            open: Vec::new(),
            inbox: VecDeque::new(),
            log: Vec::new(),
            heard: Heard::default(),
            subject,
        }
    }

    /// Returns the tester's clock.
    pub fn now(&mut self) -> Picoseconds {
        self.wire.now()
    }

    /// Takes the packets that were sent and received since the last call, in the order of their times.
    pub fn take_log(&mut self) -> Vec<Logged> {
        let mut log = std::mem::take(&mut self.log);
        log.sort_by_key(|logged| logged.at.0);
        log
    }

    /// Returns the numbers of the next packets.
    pub const fn next(&self) -> Start {
        self.next
    }

    /// Returns one past the highest data PSN that the peer has sent.
    pub const fn seen_data(&self) -> Psn {
        self.seen_data
    }

    /// Returns IV and arrival of the peer's newest packet.
    pub const fn newest(&self) -> (Picoseconds, Picoseconds) {
        self.newest
    }

    // Packets with the next PSN and RSN.

    /// Gives a draft the next PSN of its window and the next RSN. A Pull Data has the RSN of its Pull Request.
    pub fn number(&mut self, mut draft: Draft) -> Draft {
        let psn =
            if draft.in_request_window() { &mut self.next.request_psn } else { &mut self.next.data_psn };
        draft.psn = *psn;
        *psn = psn.add(1);
        if draft.kind != PacketType::PullData {
            draft.rsn = self.next.rsn;
            self.next.rsn = draft.rsn.add(1);
        }
        self.open.push(draft.clone());
        draft
    }

    /// Prepares a WRITE into the region.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Draft {
        let draft = Draft::write(self.subject.rkey, address, data, self.subject.peer_cid.0);
        self.number(draft)
    }

    /// Prepares a READ from the region.
    pub fn read(&mut self, address: u64, length: u32) -> Draft {
        let draft = Draft::read(self.subject.rkey, address, length, self.subject.peer_cid.0);
        self.number(draft)
    }

    /// Prepares a fetch and add.
    pub fn fetch_add(&mut self, address: u64, add: u64) -> Draft {
        let draft = Draft::fetch_add(self.subject.rkey, address, add, self.subject.peer_cid.0);
        self.number(draft)
    }

    /// Prepares a SEND.
    pub fn message(&mut self, data: &[u8]) -> Draft {
        let draft = Draft::message(data, self.subject.peer_cid.0);
        self.number(draft)
    }

    /// Prepares a WRITE with an R_Key that the peer does not have.
    pub fn forbidden_write(&mut self) -> Draft {
        let rkey = transport_common::ids::RKey(self.subject.rkey.0 ^ 0x5a00_0000);
        let draft = Draft::write(rkey, 0, &[0xee; 8], self.subject.peer_cid.0);
        self.number(draft)
    }

    // Sending.

    /// Returns the base header of the tester's packets.
    pub fn base(&self) -> BaseHeader {
        BaseHeader {
            dest_cid: self.subject.peer_cid,
            dest_function: self.subject.peer_function,
            protocol: ProtocolType::Rdma as u8,
            packet_type: PacketType::PushData,
            ack_request: false,
            data_base_psn: self.bases.0,
            request_base_psn: self.bases.1,
            psn: Psn(0),
            rsn: Rsn(0),
        }
    }

    /// Returns the PSP header of the next packet: its IV is the tester's clock and larger than any before.
    pub fn psp(&mut self) -> Psp {
        let now = self.wire.now();
        self.last_iv = Picoseconds(now.0.max(self.last_iv.0 + 1));
        self.subject.flow.psp(self.subject.tx_spi, self.last_iv)
    }

    /// Returns a frame with the bytes of a Falcon packet and the next PSP header, as it is sent.
    pub fn frame(&mut self, falcon: &[u8]) -> Vec<u8> {
        let psp = self.psp();
        self.subject.flow.frame(&psp, falcon)
    }

    /// Sends a packet. Returns its IV.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn send(&mut self, draft: &Draft) -> Outcome<Picoseconds> {
        let bytes = draft.bytes(self.base());
        self.send_falcon(&bytes, None)
    }

    /// Sends the bytes of a Falcon packet with a valid PSP header. `note` says what is special about them.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn send_falcon(&mut self, falcon: &[u8], note: Option<&'static str>) -> Outcome<Picoseconds> {
        let psp = self.psp();
        self.send_psp(&psp, falcon, note)
    }

    /// Sends the bytes of a Falcon packet with this PSP header.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn send_psp(&mut self, psp: &Psp, falcon: &[u8], note: Option<&'static str>) -> Outcome<Picoseconds> {
        let frame = self.subject.flow.frame(psp, falcon);
        self.send_frame(frame, note)?;
        Ok(psp.iv)
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn send_frame(&mut self, frame: Vec<u8>, note: Option<&'static str>) -> Outcome {
        self.poll()?;
        let at = self.wire.now();
        self.wire.send(&frame).map_err(Stop::Io)?;
        self.log.push(Logged { at, sent: true, note, frame });
        Ok(())
    }

    /// Returns a BACK of everything that the peer has sent.
    pub fn back(&mut self) -> AckHeader {
        self.bases = (self.seen_data, self.seen_requests);
        self.ack_of(self.seen_data)
    }

    /// Returns a BACK with this base of the data window.
    pub fn ack_of(&self, data_base_psn: Psn) -> AckHeader {
        AckHeader {
            dest_cid: self.subject.peer_cid,
            data_base_psn,
            request_base_psn: self.bases.1,
            t1: self.newest.0.ticks(),
            t2: self.newest.1.ticks(),
            cc: CongestionInfo::default(),
            own_request: false,
            own_data: false,
        }
    }

    /// Returns an EACK with this base and these bitmaps of the data window.
    pub fn eack_of(&self, base: Psn, acknowledged: u64, received: u64) -> Eack {
        Eack {
            header: self.ack_of(base),
            data_ack: [acknowledged, 0],
            data_received: [received, 0],
            request: 0,
        }
    }

    /// Returns a NACK of a packet of the data window. Its bases are those of the tester's other packets.
    pub fn nack_of(&self, psn: Psn, code: NackCode) -> Nack {
        let back = self.ack_of(self.bases.0);
        Nack {
            dest_cid: back.dest_cid,
            data_base_psn: back.data_base_psn,
            request_base_psn: back.request_base_psn,
            t1: back.t1,
            t2: back.t2,
            cc: back.cc,
            psn,
            code,
            rnr_timeout_code: 0,
            request_window: false,
            ulp_code: 0,
        }
    }

    /// Sends a BACK.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn send_back(&mut self, back: &AckHeader, note: Option<&'static str>) -> Outcome {
        let bytes = encoded::<{ AckHeader::LEN }>(|out| back.encode(out));
        self.send_falcon(&bytes, note).map(drop)
    }

    /// Sends an EACK.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn send_eack(&mut self, eack: &Eack, note: Option<&'static str>) -> Outcome {
        let bytes = encoded::<{ Eack::LEN }>(|out| eack.encode(out));
        self.send_falcon(&bytes, note).map(drop)
    }

    /// Sends a NACK.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn send_nack(&mut self, nack: &Nack, note: Option<&'static str>) -> Outcome {
        let bytes = encoded::<{ Nack::LEN }>(|out| nack.encode(out));
        self.send_falcon(&bytes, note).map(drop)
    }

    /// Acknowledges everything that the peer has sent.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn acknowledge(&mut self) -> Outcome {
        self.poll()?;
        let back = self.back();
        self.send_back(&back, None)
    }

    // Receiving.

    /// Returns whether a frame is one of the peer to Falcon's port, and not of another connection of the
    /// tester.
    fn is_of_peer(&self, frame: &[u8]) -> bool {
        let flow = &self.subject.flow;
        let link = link_length(frame);
        let (ethertype, offset, octets) = match flow.destination {
            IpAddr::V4(peer) => (ETHERTYPE_IPV4, 12, peer.octets().to_vec()),
            IpAddr::V6(peer) => (ETHERTYPE_IPV6, 8, peer.octets().to_vec()),
        };
        let has = |at: usize, bytes: &[u8]| frame.get(at..at + bytes.len()) == Some(bytes);
        has(link - 2, &ethertype.to_be_bytes())
            && has(link + offset, &octets)
            && has(link + flow.ip_length() + 2, &FALCON_UDP_PORT.to_be_bytes())
    }

    /// Takes the next packet. Returns whether one arrived until `deadline`. A later one is kept as well.
    fn take(&mut self, deadline: Picoseconds) -> Outcome<bool> {
        while let Some((at, frame)) = self.wire.receive(deadline).map_err(Stop::Io)? {
            // A tester that got no CPU takes it later than it should have.
            let in_time = at.0 <= deadline.0;
            self.hear(&frame);
            if self.is_of_peer(&frame) {
                self.log.push(Logged { at, sent: false, note: None, frame: frame.clone() });
                let received = Received::new(at, frame, &self.subject.flow);
                self.note(&received);
                self.inbox.push_back(received);
                return Ok(in_time);
            }
            if !in_time {
                break;
            }
        }
        Ok(false)
    }

    /// Notes whether a frame has one of the tester's own packets in it. A peer never sends a packet of the tester.
    fn hear(&mut self, frame: &[u8]) {
        let own = self.subject.flow.udp_offset() + Udp::LEN;
        // The protocol of the IP header. The UDP header may have the ports exchanged, and ICMP quotes the packet.
        let offset = if self.subject.flow.source.is_ipv4() { 9 } else { 6 };
        let protocol = frame.get(link_length(frame) + offset);
        let quotes = |sent: &Logged| sent.sent && sent.frame.get(own..).is_some_and(|it| frame.ends_with(it));
        match protocol {
            Some(&IP_PROTOCOL_UDP) if !self.heard.echo => self.heard.echo = self.log.iter().any(quotes),
            Some(&(ICMP | ICMP_6)) => self.heard.unreachable |= self.log.iter().any(quotes),
            _ => {}
        }
    }

    /// Returns what the tester heard that is not a Falcon packet of the peer.
    pub(crate) const fn heard(&self) -> Heard {
        self.heard
    }

    /// Takes the packets that have arrived.
    fn poll(&mut self) -> Outcome {
        let now = self.wire.now();
        while self.take(now)? {}
        Ok(())
    }

    /// Updates what the tester knows about the peer. Packets with a wrong CID are not of this connection.
    fn note(&mut self, received: &Received) {
        let Some(header) = received.header() else { return };
        if header.dest_cid() != self.subject.local_cid {
            return;
        }
        if let Some(psp) = received.psp() {
            self.newest = (psp.iv, received.at);
        }
        let advance = |seen: &mut Psn, psn: Option<Psn>| match psn {
            Some(psn) if !psn.is_before(*seen) && psn.distance_from(*seen) < 1024 => {
                *seen = psn.add(1);
                true
            }
            _ => false,
        };
        let is_new_data = advance(&mut self.seen_data, received.data_psn());
        let is_new_request = advance(&mut self.seen_requests, received.request_psn());
        self.note_request(received, is_new_data || is_new_request);
        if let Some(bases) = received.bases() {
            self.peer_bases = bases;
        }
    }

    /// Forgets the packets that have arrived, so that only later ones are looked at.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn forget(&mut self) -> Outcome {
        self.poll()?;
        self.inbox.clear();
        Ok(())
    }

    /// Waits until the peer acknowledges the packet by a base. Returns the packet with that base.
    ///
    /// # Errors
    /// [`Stop::Fail`] if it does not in time.
    pub fn acknowledged(&mut self, draft: &Draft) -> Outcome<Received> {
        let (psn, request) = (draft.psn, draft.in_request_window());
        let name = if request { "RBPSN" } else { "DBPSN" };
        self.expect(&format!("an ACK with {name} after {}", psn.0), |received| {
            let base = received.ack().map(|a| if request { a.request_base_psn } else { a.data_base_psn });
            base.is_some_and(|base| psn.is_before(base))
        })
    }

    /// Sends a packet and waits until the peer acknowledges it.
    ///
    /// # Errors
    /// [`Stop::Fail`] if it does not in time.
    pub fn deliver(&mut self, draft: &Draft) -> Outcome<Received> {
        self.send(draft)?;
        self.acknowledged(draft)
    }

    /// Waits for the Pull Data with this RSN.
    ///
    /// # Errors
    /// [`Stop::Fail`] if it does not arrive in time.
    pub fn answer(&mut self, request: &Draft) -> Outcome<Received> {
        let rsn = request.rsn;
        self.expect(&format!("the Pull Data with RSN {}", rsn.0), |received| {
            received.pull_data().is_some_and(|data| data.base.rsn == rsn)
        })
    }

    /// Waits for the answers to these requests, one after the other, and acknowledges each. The peer's window
    /// may be one packet.
    ///
    /// # Errors
    /// [`Stop::Fail`] if one does not arrive in time.
    pub fn answers(&mut self, requests: &[Draft]) -> Outcome<Vec<Received>> {
        let mut answers = Vec::new();
        for request in requests {
            answers.push(self.answer(request)?);
            self.acknowledge()?;
        }
        Ok(answers)
    }

    /// Sends a Pull Request, waits for the answer and acknowledges it.
    ///
    /// # Errors
    /// [`Stop::Fail`] if the peer does not answer.
    pub fn ask(&mut self, request: &Draft) -> Outcome<Received> {
        self.send(request)?;
        let answer = self.answer(request)?;
        self.acknowledge()?;
        Ok(answer)
    }

    /// Reads bytes of the region and acknowledges the answer.
    ///
    /// # Errors
    /// [`Stop::Fail`] if the peer does not answer.
    pub fn fetch(&mut self, address: u64, length: u32) -> Outcome<Vec<u8>> {
        let request = self.read(address, length);
        Ok(self.ask(&request)?.data().to_vec())
    }

    /// Writes bytes into the region and waits for the acknowledgement.
    ///
    /// # Errors
    /// [`Stop::Fail`] if the peer does not acknowledge.
    pub fn store(&mut self, address: u64, data: &[u8]) -> Outcome<Received> {
        let draft = self.write(address, data);
        self.deliver(&draft)
    }

    /// Acknowledges and answers what the peer sends until it sends nothing new and its operations have ended.
    /// Called between checks.
    ///
    /// # Errors
    /// If the interface or the trigger fails.
    pub fn settle(&mut self) -> Outcome {
        const ROUNDS: usize = 20;
        let until = self.wire.now().after(self.patience.answer);
        let mut round = 0;
        loop {
            self.poll()?;
            self.inbox.clear();
            if self.bases != (self.seen_data, self.seen_requests) {
                self.acknowledge()?;
            }
            self.answer_requests()?;
            let patience = PicosecondSpan(self.patience.silence.0 / 10);
            let is_quiet = self
                .find(patience, |received| received.data_psn().or(received.request_psn()).is_some())?
                .is_none();
            round += 1;
            let waits = self.has_open_operations()? && self.wire.now().0 < until.0;
            if !waits && (is_quiet || round >= ROUNDS) {
                break;
            }
            if !is_quiet {
                self.acknowledge()?;
            }
        }
        self.abandon_operations();
        self.inbox.clear();
        Ok(())
    }

    /// Restores the connection after a check that failed: replaces every packet that the peer has not
    /// acknowledged by a Resync (F-9.1.8-1). Returns whether the peer has acknowledged everything.
    ///
    /// # Errors
    /// If the interface fails.
    pub fn restore(&mut self) -> Outcome<bool> {
        self.settle()?;
        let open = std::mem::take(&mut self.open);
        for draft in open {
            let (data, request) = self.peer_bases;
            let base = if draft.in_request_window() { request } else { data };
            if !draft.psn.is_before(base) {
                self.send_falcon(&draft.replaced().bytes(self.base()), Some("restores the connection"))?;
            }
        }
        let goal = (self.next.data_psn, self.next.request_psn);
        let patience = self.patience.answer;
        let whole = self.peer_bases == goal || self.find(patience, |r| r.bases() == Some(goal))?.is_some();
        self.settle()?;
        Ok(whole)
    }

    /// Forgets the packets that the tester has prepared: the check passed, so none is open.
    pub(crate) fn passed(&mut self) {
        self.open.clear();
    }
}
