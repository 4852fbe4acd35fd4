//! A host: its cards, the wire they share, and the buffer in front of a slow ULP.

use std::collections::VecDeque;

use fabric_model::{Span, Time};
use host_nic::{HostConfig, HostNic};
use serde::Serialize;
use transport_common::datapath::Verdict;
use transport_common::ids::Cid;
use transport_common::queues::{self, AccessFlags, CONNECTIONS, MEMORY_GUARD, Region};
use transport_common::units::Picoseconds;

use super::address::Address;
use super::plan::{HostModel, SlowUlp};
use super::tap;

/// Bytes of the region that all peers write to, and of the buffer that all flows read from.
pub(super) const BUFFER_BYTES: u64 = 64 << 10;
/// Key of that region.
pub(super) const RKEY: u32 = 1;
/// Levels of the receive buffer that a connection can report (F-10.2-3).
const LEVELS: u64 = 32;

/// What a host's cards did, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostStats {
    /// Frames put on the wire.
    pub sent: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
    /// Frames that came.
    pub received: u64,
    /// Frames that found the receive buffer full.
    pub overflowed: u64,
    /// Most bytes that ever waited in the receive buffer.
    pub buffer_peak: u64,
}

/// One card, and which flows start from its connections.
pub(super) struct Card {
    pub(super) nic: HostNic,
    /// When the engine's last turn ends.
    engine_free: Time,
    /// When the engine is to be looked at next.
    engine_due: Option<Time>,
    /// By connection slot; as many as are taken.
    flows: Vec<Option<usize>>,
}

/// A frame on its way to the ULP.
struct Waiting {
    card: usize,
    frame: Vec<u8>,
    arrival: Time,
}

/// A frame that the ULP has taken.
pub(super) struct Taken {
    pub(super) card: usize,
    pub(super) frame: Vec<u8>,
    /// When it came from the fabric.
    pub(super) arrival: Time,
    /// How long the ULP takes for the next one, if one waits.
    pub(super) next: Option<Span>,
}

/// A host at a port of the fabric.
pub(super) struct Host {
    number: u16,
    model: HostModel,
    pub(super) cards: Vec<Card>,
    /// When the last bit of all that was put on the wire has left.
    wire_free: Time,
    /// What waits for a slow ULP, the frame it takes at present first.
    buffer: VecDeque<Waiting>,
    buffer_bytes: u64,
    pub(super) stats: HostStats,
}

/// A frame that left a card, and when its last bit reaches the switch.
pub(super) struct Departure {
    pub(super) arrival: Time,
    pub(super) frame: Vec<u8>,
}

/// An acknowledgement that a card received: the flow it is for, and the fabric delay it tells.
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

    /// Takes a connection slot, for the flow that starts from it if one does: the card and the slot.
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
        Address { host: self.number, card: u8::try_from(card).expect("at most 65,536 connections a host") }
    }

    /// Tells a card the time and gives it to the application.
    pub(super) fn card_at(&mut self, card: usize, now: Time) -> &mut HostNic {
        let nic = &mut self.cards[card].nic;
        nic.set_time(Picoseconds(now.0));
        nic
    }

    /// When the engine of `card` has to be looked at, if that is earlier than it would be looked at anyway.
    pub(super) fn plan_engine(&mut self, card: usize, now: Time) -> Option<Time> {
        let turn = self.next_turn(card)?.max(now);
        let card = &mut self.cards[card];
        if card.engine_due.is_some_and(|due| due <= turn) {
            return None;
        }
        card.engine_due = Some(turn);
        card.engine_due
    }

    /// When the engine of `card` can have its next turn; `None` if it has nothing to do.
    fn next_turn(&self, card: usize) -> Option<Time> {
        let card = &self.cards[card];
        let work = Time(card.nic.next_event()?.0);
        // Just in time: the frame is ready when the wire is.
        let wire = Time(self.wire_free.0.saturating_sub(self.model.engine_turn.0));
        Some(work.max(card.engine_free).max(wire))
    }

    /// Looks at the engine of `card`: one turn, if it is time for one.
    pub(super) fn turn_engine(&mut self, card: usize, now: Time) -> Option<Departure> {
        if self.cards[card].engine_due != Some(now) {
            return None; // it was planned anew since
        }
        self.cards[card].engine_due = None;
        if self.next_turn(card)? > now {
            return None;
        }
        let end = now + self.model.engine_turn;
        let turned = &mut self.cards[card];
        turned.engine_free = end;
        turned.nic.set_time(Picoseconds(now.0));
        if turned.nic.doorbells().is_silent() {
            // An engine without work looks at the wheel in every eighth frame: those between have passed idle.
            turned.nic.set_frames(turned.nic.frames() | 7);
        }
        match turned.nic.engine_frame() {
            Some((Verdict::Transmit, frame)) => Some(self.send(end, frame)),
            _ => None,
        }
    }

    /// Puts a frame on the wire that is ready at `ready`.
    fn send(&mut self, ready: Time, frame: Vec<u8>) -> Departure {
        let bytes = frame.len() as u64;
        self.stats.sent += 1;
        self.stats.sent_bytes += bytes;
        self.wire_free = self.wire_free.max(ready) + self.model.line_rate.time_of(bytes);
        Departure { arrival: self.wire_free + self.model.cable, frame }
    }

    /// A frame comes from the fabric. Acknowledgements never wait for the ULP.
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

    /// The ULP has taken the first frame of the buffer.
    pub(super) fn take_buffered(&mut self) -> Option<Taken> {
        let ulp = self.model.slow_ulp?;
        let Waiting { card, frame, arrival } = self.buffer.pop_front()?;
        self.buffer_bytes -= frame.len() as u64;
        self.report_level(ulp);
        let next = self.buffer.front().map(|waiting| ulp.rate.time_of(waiting.frame.len() as u64));
        Some(Taken { card, frame, arrival, next })
    }

    /// Tells the cards how full the buffer is: thresholds at equal distances (D-76), not smoothed.
    fn report_level(&mut self, ulp: SlowUlp) {
        let level = (self.buffer_bytes * LEVELS / ulp.buffer.0).min(LEVELS - 1) as u8;
        self.cards.iter_mut().for_each(|card| card.nic.set_rx_buffer_level(level));
    }

    /// Bytes that wait in the receive buffer.
    pub(super) fn buffered_bytes(&self) -> u64 {
        self.buffer_bytes
    }

    /// Hands a frame that came at `arrival` to its card: what it answers at once, and what the frame acknowledges.
    pub(super) fn receive(
        &mut self,
        card: usize,
        now: Time,
        frame: Vec<u8>,
        arrival: Time,
    ) -> (Option<Departure>, Option<Acknowledged>) {
        // Longer frames carry data.
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

/// What becomes of a frame that reached a host.
pub(super) enum Arrival {
    /// The card has it now.
    Ready(Vec<u8>),
    /// It stands first in the receive buffer; the ULP takes it after this time.
    Begins(Span),
    /// It stands behind others in the receive buffer.
    Waits,
    /// There was no room.
    Dropped,
}

/// A CID's slot is its value modulo the number of connections.
pub(super) fn slot_of(cid: Cid) -> usize {
    queues::slot_of(cid) as usize
}

impl Card {
    fn new(address: Address) -> Self {
        // Receive cells cost nothing until they are used.
        let memory = BUFFER_BYTES as usize + MEMORY_GUARD;
        let mut nic = HostNic::new(HostConfig { memory, ..HostConfig::new(address.node()) });
        nic.register(Region {
            offset: 0,
            length: BUFFER_BYTES,
            key: RKEY,
            access: AccessFlags::REMOTE_WRITE,
        });
        Self { nic, engine_free: Time::ZERO, engine_due: None, flows: vec![] }
    }
}
