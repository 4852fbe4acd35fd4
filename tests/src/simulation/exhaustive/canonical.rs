//! When two states are one: the hash of a state, without what no later step depends on.
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
//! - The order of frames on their way: the network may deliver any of them next.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use transport_common::congestion::control::Congestion;
use transport_common::connection::{Entry, RESPONSES, Statistics, TRANSACTIONS};
use transport_common::ids::{Psn, Rsn};
use transport_common::packet_delivery::{PACKETS, PathReport, TxPacket};
use transport_common::resources::Occupancy;
use transport_common::transaction::{ResponseState, Transaction, TransactionState};
use transport_common::units::{PicosecondSpan, Picoseconds, Ticks};
use transport_common::wire::PacketType;

use super::state::{SLOT, Small, USED};

/// Offsets in a frame without a VLAN tag over IPv4.
const IV: usize = 14 + 20 + 8 + 8;
const FALCON: usize = IV + 8;
/// Offsets in the header of an acknowledgement: T1, T2, then a word of measurements.
const T1: usize = FALCON + 16;
const T2: usize = FALCON + 20;
const MEASURED_END: usize = FALCON + 28;

impl Small<'_> {
    /// Returns the hash of the state.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        for nic in &self.hosts {
            let entry = canonical(nic.entry(SLOT));
            hasher.write(bytemuck::bytes_of(&*entry));
            let queues = nic.queue_pair(SLOT);
            let relaxed = core::sync::atomic::Ordering::Relaxed;
            (queues.command.load(relaxed), queues.receive_wanted.load(relaxed)).hash(&mut hasher);
            hasher.write(&nic.memory()[..USED]);
            nic.asking().hash(&mut hasher);
            nic.next_event().map(|at| at.0).hash(&mut hasher);
            nic.free_cells().len().hash(&mut hasher);
        }
        let mut frames: Vec<(usize, Vec<u8>)> = self.frames.clone();
        frames.iter_mut().for_each(|(_, frame)| forget_measurements(frame));
        frames.sort_unstable();
        frames.hash(&mut hasher);
        for completion in self.completions.iter().flatten() {
            hasher.write(bytemuck::bytes_of(completion));
        }
        self.completions.each_ref().map(Vec::len).hash(&mut hasher);
        (self.now.0, self.receives, self.losses, self.duplicates, self.timeouts, self.closed)
            .hash(&mut hasher);
        hasher.finish()
    }
}

/// Returns a connection without what no later step depends on.
fn canonical(entry: &Entry) -> Box<Entry> {
    let mut entry = Box::new(*entry);
    let Entry { connection: c, tables } = &mut *entry;
    tables.statistics = Statistics::default();
    tables.steps = 0;
    let security = &mut c.security;
    security.last_iv = Picoseconds(0);
    security.remote_time = Picoseconds(0);
    security.clock_lead = PicosecondSpan(0);
    security.clock_step = 0;
    security.clock_seen = Picoseconds(0);
    security.clock_round = Picoseconds(0);
    let Congestion { fcwnd, ncwnd, rto, inter_packet_gap, pacing, .. } = c.congestion;
    c.congestion = Congestion { fcwnd, ncwnd, rto, inter_packet_gap, pacing, ..Congestion::default() };
    c.occupancy = Occupancy::default();
    c.delivery.ack.report = PathReport { t1: c.delivery.ack.report.t1, ..PathReport::default() };
    c.initiator.completed = 0;
    for (lane, packets) in c.delivery.lanes.iter().zip(&mut tables.packets) {
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
