//! When two states of an end are one: its canonical form, without what no later step depends on.
//!
//! Left out are, and why no step can tell the difference:
//!
//! - Statistics and the number of completions so far: counters for people.
//! - What the congestion control has measured, and the measurements in ACKs: the windows are constant, so no event is
//!   decided. T1 of an EACK is kept, and with it the T1 of the last packet at its receiver: the age at which a packet counts
//!   as lost follows from it.
//! - The occupancy of the pools, and its level in ACKs: only the peer's congestion control reads it.
//! - What is known of the peer's clock: the margin of replay protection is longer than a walk. Of an IV, the time is kept to
//!   a tick, because more is never read. The number of packets so far, which IVs count too, is left out.
//! - Entries of tables that are not in use: packets outside of the transmit window, transactions that were given back,
//!   free responses. Whoever takes an entry writes all of it.
//!
//! While a world is walked, some states that are reached again are compared with the first one step by step
//! ([`super::local`]).

use core::sync::atomic::Ordering::Relaxed;

use transport_common::congestion::control::Congestion;
use transport_common::connection::{RESPONSES, Snapshot, Statistics, TRANSACTIONS};
use transport_common::ids::{CellId, Psn, Rsn};
use transport_common::packet_delivery::{PACKETS, PathReport, TxPacket};
use transport_common::resources::Occupancy;
use transport_common::security::PeerClock;
use transport_common::transaction::{ResponseState, Transaction, TransactionState};
use transport_common::units::{Picoseconds, Ticks};
use transport_common::wire::PacketType;

use super::card::{Card, Difference, USED};
use super::operations::SLOT;

/// Offsets in a frame without a VLAN tag over IPv4.
const IV: usize = 14 + 20 + 8 + 8;
const FALCON: usize = IV + 8;
/// Offsets in the header of an acknowledgement: T1, T2, then a word of measurements.
const T1: usize = FALCON + 16;
const T2: usize = FALCON + 20;
const MEASURED_END: usize = FALCON + 28;

/// Returns what the canonical form of a card has of its connection and memory.
pub(super) fn canonical_bytes(card: &Card) -> Vec<u8> {
    let entry = canonical(card.nic.entry(SLOT));
    let mut bytes = bytemuck::bytes_of(&*entry).to_vec();
    bytes.extend_from_slice(&card.nic.memory()[..USED]);
    bytes
}

/// Returns the canonical form of a card, as a hash. `base` has the bytes of the state at the beginning: most are the same.
pub(super) fn canonical_key(card: &mut Card, base: &[u8]) -> u128 {
    let mut difference = Difference::default();
    difference.add(0, base, &canonical_bytes(card));
    let mut mix = Mix::default();
    difference.bytes().iter().for_each(|bytes| mix.bytes(bytes));
    mix.bytes(bytemuck::cast_slice(&card.completions));
    let wheel = card.nic.wheel();
    let (clock, next, deadline) = (wheel.clock(), wheel.next_event(), wheel.deadline_of(SLOT as u32));
    mix.word(card.nic.now().0);
    for tick in [Some(clock), next, deadline] {
        mix.word(tick.map_or(u64::MAX, |tick| tick.start().0));
    }
    let queues = card.nic.queue_pair(SLOT);
    mix.word(queues.control.command.load(Relaxed).into());
    mix.word(queues.control.receive_wanted.load(Relaxed).into());
    mix.word(card.nic.asking() as u64);
    mix.word(card.nic.free_cells().len() as u64);
    mix.word(u64::from(card.readied) << 1 | u64::from(card.is_busy()));
    mix.finish()
}

/// Returns the canonical form of a frame.
pub(super) fn canonical_frame(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    forget_measurements(&mut frame);
    frame
}

/// A hash of 128 bits: two of 64 bits beside each other, each with the product of the MUM family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix([u64; 2]);

impl Default for Mix {
    fn default() -> Self {
        Self([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344])
    }
}

impl Mix {
    pub(super) const fn word(&mut self, word: u64) {
        const fn product(a: u64, b: u64) -> u64 {
            let wide = a as u128 * b as u128;
            wide as u64 ^ (wide >> 64) as u64
        }
        let Self([a, b]) = self;
        *a = product(*a ^ word, 0xa076_1d64_78bd_642f).wrapping_add(0xe703_7ed1_a0b4_28db);
        *b = product(*b ^ word, 0x8ebc_6af0_9c88_c6e3).wrapping_add(0x5899_65cc_7537_4cc3);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }

    pub(super) const fn finish(mut self) -> u128 {
        self.word(0);
        let Self([a, b]) = self;
        (a as u128) << 64 | b as u128
    }
}

/// Returns a connection without what no later step depends on.
fn canonical(entry: &Snapshot) -> Box<Snapshot> {
    let mut entry = Box::new(*entry);
    let Snapshot { connection: c, tables, cold, .. } = &mut *entry;
    tables.statistics = Statistics::default();
    tables.steps = 0;
    let security = &mut c.flow.security;
    security.last_iv = Picoseconds(0);
    security.remote_time = Picoseconds(0);
    cold.clock = PeerClock::default();
    let Congestion { fcwnd, ncwnd, rto, inter_packet_gap, pacing, .. } = c.flow.congestion;
    c.flow.congestion = Congestion { fcwnd, ncwnd, rto, inter_packet_gap, pacing, ..Congestion::default() };
    cold.occupancy = Occupancy::default();
    c.flow.delivery.ack.report = PathReport { t1: c.flow.delivery.ack.report.t1, ..PathReport::default() };
    c.initiator.completed = 0;
    for (lane, packets) in c.flow.delivery.lanes.iter().zip(&mut tables.delivery.packets) {
        let (base, in_flight) = (lane.tx.base, lane.tx.in_flight());
        for (place, packet) in (0u32..).zip(packets.iter_mut()) {
            let offset = Psn(place).distance_from(base) % PACKETS as u32;
            if offset >= in_flight {
                *packet = TxPacket::default();
            }
        }
    }
    let (released, known) = (c.initiator.released, c.initiator.known);
    for (place, transaction) in (0u32..).zip(&mut tables.transactions) {
        let ahead = Rsn(place).distance_from(released) % TRANSACTIONS as u32;
        let free = transaction.state == TransactionState::Submitted && transaction.skipped == 0;
        if free && ahead >= known.distance_from(released) {
            *transaction = Transaction::default();
        }
    }
    for request in tables.requests.iter_mut().filter(|request| !request.cell.is_none()) {
        request.cell = CellId::at(0);
    }
    for response in &mut tables.responses[..RESPONSES] {
        if response.state == ResponseState::Free {
            *response = bytemuck::Zeroable::zeroed();
        }
    }
    entry
}

/// Removes from a frame what its receiver only measures.
fn forget_measurements(frame: &mut [u8]) {
    // The lowest bits are less than a tick.
    let iv = u64::from_be_bytes(frame[IV..IV + 8].try_into().expect("8 bytes"));
    let iv = iv >> Ticks::PICOS_SHIFT << Ticks::PICOS_SHIFT;
    frame[IV..IV + 8].copy_from_slice(&iv.to_be_bytes());
    let kind = PacketType::from_wire(frame[FALCON + 7] >> 1 & 0xf).expect("a card sent it");
    if kind.is_acknowledgement() {
        let from = if kind == PacketType::Eack { T2 } else { T1 };
        frame[from..MEASURED_END].fill(0);
    }
}
