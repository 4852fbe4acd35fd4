//! A host: its cards, the wire that they share, and the buffer in front of a slow ULP.

use std::collections::VecDeque;

use fabric_model::{Span, Time};
use host_nic::{HostConfig, HostNic};
use serde::Serialize;
use transport_common::datapath::Verdict;
use transport_common::ids::{Cid, Slot};
use transport_common::queues::{AccessFlags, CONNECTIONS, NodeConfig, Region};
use transport_common::units::Picoseconds;

use super::address::Address;
use super::plan::{BUFFER_BYTES, HostModel, SlowUlp};
use super::tap;

/// Key of the memory region, which has all [`BUFFER_BYTES`].
pub(super) const RKEY: u32 = 1;
/// Number of levels that a connection can report for the receive buffer (F-10.2-3).
const LEVELS: u64 = 32;

/// The counters of a host's cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostStats {
    /// Frames sent.
    pub sent: u64,
    /// Bytes of the frames sent.
    pub sent_bytes: u64,
    /// Frames that arrived from the fabric. Frames that overflowed the receive buffer are included.
    pub received: u64,
    /// Frames dropped because the receive buffer was full.
    pub overflowed: u64,
    /// The largest number of bytes in the receive buffer at one time.
    pub buffer_peak: u64,
}

/// One card, and the flows that start from its connections.
pub(super) struct Card {
    pub(super) nic: HostNic,
    /// The end of the engine's last service.
    engine_free: Time,
    /// The time of the next check of the engine.
    engine_due: Option<Time>,
    /// The flow of each used connection slot. `None` if no flow starts from the slot.
    flows: Vec<Option<usize>>,
}

/// A frame in the receive buffer.
struct Waiting {
    card: usize,
    frame: Vec<u8>,
    arrival: Time,
}

/// A frame that the ULP has taken.
pub(super) struct Taken {
    pub(super) card: usize,
    pub(super) frame: Vec<u8>,
    /// When the frame came from the fabric.
    pub(super) arrival: Time,
    /// The time that the ULP needs for the next frame, if one waits.
    pub(super) next: Option<Span>,
}

/// A host at a port of the fabric.
pub(super) struct Host {
    number: u16,
    model: HostModel,
    pub(super) cards: Vec<Card>,
    /// When the last bit of all frames sent so far has left.
    wire_free: Time,
    /// Frames that wait for a slow ULP. The first is the one that the ULP is taking.
    buffer: VecDeque<Waiting>,
    buffer_bytes: u64,
    pub(super) stats: HostStats,
}

/// A frame that a card sent, and the time when its last bit reaches the switch.
pub(super) struct Departure {
    pub(super) arrival: Time,
    pub(super) frame: Vec<u8>,
}

/// A received acknowledgement: its flow, and the fabric delay that it reports.
pub(super) struct Acknowledged {
    pub(super) flow: usize,
    pub(super) delay: Span,
}

impl Host {
    pub(super) fn new(number: u16, model: HostModel) -> Self {
        Self {
            number,
            model,
            cards: vec![],
            wire_free: Time::ZERO,
            buffer: VecDeque::new(),
            buffer_bytes: 0,
            stats: HostStats::default(),
        }
    }

    /// Takes a free connection slot and returns its card and its number. `flow` is the flow that starts from the
    /// slot, if one does.
    pub(super) fn take_slot(&mut self, flow: Option<usize>) -> (usize, usize) {
        if self.cards.last().is_none_or(|card| card.flows.len() == CONNECTIONS) {
            let address = self.address(self.cards.len());
            self.cards.push(Card::new(address));
        }
        let card = self.cards.len() - 1;
        let flows = &mut self.cards[card].flows;
        flows.push(flow);
        (card, flows.len() - 1)
    }

    pub(super) fn address(&self, card: usize) -> Address {
        Address {
            host: self.number,
            card: u8::try_from(card).expect("a host has at most 65,536 connections"),
        }
    }

    /// Sets the time of a card and returns the card.
    pub(super) fn card_at(&mut self, card: usize, now: Time) -> &mut HostNic {
        let nic = &mut self.cards[card].nic;
        nic.set_time(Picoseconds(now.0));
        nic
    }

    /// Plans the next check of the engine of `card`. Returns its time if that is earlier than the planned check.
    pub(super) fn plan_engine(&mut self, card: usize, now: Time) -> Option<Time> {
        let turn = self.next_turn(card)?.max(now);
        let card = &mut self.cards[card];
        if card.engine_due.is_some_and(|due| due <= turn) {
            return None;
        }
        card.engine_due = Some(turn);
        card.engine_due
    }

    /// Returns the time when the engine of `card` can have its next service, or `None` if it has no work.
    fn next_turn(&self, card: usize) -> Option<Time> {
        let card = &self.cards[card];
        let work = Time(card.nic.next_event()?.0);
        // The service starts so that the frame is ready when the wire is free.
        let wire = Time(self.wire_free.0.saturating_sub(self.model.engine_turn.0));
        Some(work.max(card.engine_free).max(wire))
    }

    /// Checks the engine of `card`, and runs one service if it is due.
    pub(super) fn turn_engine(&mut self, card: usize, now: Time) -> Option<Departure> {
        if self.cards[card].engine_due != Some(now) {
            return None; // the check was moved to another time
        }
        self.cards[card].engine_due = None;
        if self.next_turn(card)? > now {
            return None;
        }
        let end = now + self.model.engine_turn;
        let turned = &mut self.cards[card];
        turned.engine_free = end;
        turned.nic.set_time(Picoseconds(now.0));
        if turned.nic.page().ready.is_empty() {
            // An idle engine checks the timing wheel in every eighth frame. This skips the idle frames between.
            turned.nic.set_frames(turned.nic.frames() | 7);
        }
        match turned.nic.engine_frame() {
            Some((Verdict::Transmit, frame)) => Some(self.send(end, frame)),
            _ => None,
        }
    }

    /// Sends a frame that is ready at `ready`.
    fn send(&mut self, ready: Time, frame: Vec<u8>) -> Departure {
        let bytes = frame.len() as u64;
        self.stats.sent += 1;
        self.stats.sent_bytes += bytes;
        self.wire_free = self.wire_free.max(ready) + self.model.line_rate.time_of(bytes);
        Departure { arrival: self.wire_free + self.model.cable, frame }
    }

    /// Accepts a frame from the fabric. Acknowledgements never wait for the ULP.
    pub(super) fn arrive(&mut self, card: usize, now: Time, frame: Vec<u8>) -> Arrival {
        self.stats.received += 1;
        let Some(ulp) = self.model.slow_ulp else { return Arrival::Ready(frame) };
        if tap::read(&frame).is_none_or(|packet| packet.acknowledgement.is_some()) {
            return Arrival::Ready(frame);
        }
        let bytes = frame.len() as u64;
        if self.buffer_bytes + bytes > ulp.buffer.0 {
            self.stats.overflowed += 1;
            return Arrival::Dropped;
        }
        self.buffer_bytes += bytes;
        self.stats.buffer_peak = self.stats.buffer_peak.max(self.buffer_bytes);
        self.buffer.push_back(Waiting { card, frame, arrival: now });
        self.report_level(ulp);
        if self.buffer.len() > 1 {
            return Arrival::Waits;
        }
        Arrival::Begins(ulp.rate.time_of(bytes))
    }

    /// Removes the first frame of the buffer, which the ULP has taken.
    pub(super) fn take_buffered(&mut self) -> Option<Taken> {
        let ulp = self.model.slow_ulp?;
        let Waiting { card, frame, arrival } = self.buffer.pop_front()?;
        self.buffer_bytes -= frame.len() as u64;
        self.report_level(ulp);
        let next = self.buffer.front().map(|waiting| ulp.rate.time_of(waiting.frame.len() as u64));
        Some(Taken { card, frame, arrival, next })
    }

    /// Reports the fill level of the buffer to the cards. The thresholds are at equal distances (D-76), without
    /// smoothing.
    fn report_level(&mut self, ulp: SlowUlp) {
        let level = (self.buffer_bytes * LEVELS / ulp.buffer.0).min(LEVELS - 1) as u8;
        self.cards.iter_mut().for_each(|card| card.nic.set_rx_buffer_level(level));
    }

    /// Returns the bytes in the receive buffer.
    pub(super) fn buffered_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    /// Passes a frame that came at `arrival` to its card. Returns the immediate reply, and the acknowledgement in
    /// the frame.
    pub(super) fn receive(
        &mut self,
        card: usize,
        now: Time,
        frame: Vec<u8>,
        arrival: Time,
    ) -> (Option<Departure>, Option<Acknowledged>) {
        // Longer frames carry data and are no acknowledgements.
        const LONGEST_ACKNOWLEDGEMENT: usize = 14 + 40 + 8 + 16 + 72;
        let short = frame.len() <= LONGEST_ACKNOWLEDGEMENT;
        let packet = if short { tap::read(&frame) } else { None };
        let acknowledged = packet.and_then(|packet| {
            let flow = (*self.cards[card].flows.get(slot_of(packet.cid))?)?;
            Some(Acknowledged { flow, delay: packet.acknowledgement?.fabric_delay(Picoseconds(now.0)) })
        });
        let (verdict, reply) = self.card_at(card, now).receive_waited(frame, Picoseconds(arrival.0));
        let departure = (verdict == Verdict::Transmit).then(|| self.send(now, reply));
        (departure, acknowledged)
    }
}

/// The result of the arrival of a frame at a host.
pub(super) enum Arrival {
    /// The card processes the frame now.
    Ready(Vec<u8>),
    /// The frame is the first in the receive buffer. The ULP has taken it after this time.
    Begins(Span),
    /// The frame waits behind others in the receive buffer.
    Waits,
    /// The receive buffer is full, and the frame is dropped.
    Dropped,
}

/// Returns the slot of a CID: its value modulo the number of connections.
pub(super) fn slot_of(cid: Cid) -> usize {
    Slot::of(cid).index()
}

impl Card {
    fn new(address: Address) -> Self {
        // The memory of receive cells is not touched until they are used, so it costs nothing here.
        let node = NodeConfig { memory: BUFFER_BYTES, ..address.node() };
        let mut nic = HostNic::new(HostConfig::new(node));
        nic.register(Region {
            offset: 0,
            length: BUFFER_BYTES,
            key: RKEY,
            access: AccessFlags::REMOTE_WRITE,
            ..Region::default()
        });
        Self { nic, engine_free: Time::ZERO, engine_due: None, flows: vec![] }
    }
}
