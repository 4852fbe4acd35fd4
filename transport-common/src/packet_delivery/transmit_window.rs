//! Transmit side of one sliding window (F-9.1.1): bases, bitmaps, outstanding counts, the gate.

use super::PACKETS;
use crate::bitmap::Bitmap128;
use crate::ids::{Psn, Rsn};
use crate::units::{FalconTime, Ticks};
use crate::verifier::opaque;
use crate::wire::PacketType;
use crate::wire::nack::rnr_timeout;
use crate::wire::resync::ResyncCode;
use bitflags::bitflags;
use bytemuck::{Pod, Zeroable};

/// Which of the two windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Window {
    /// Push Data and Pull Data.
    Data = 0,
    /// Pull Requests.
    Request = 1,
}

impl Window {
    /// Index of what exists once for each window, so that the verifier sees that it is one.
    #[inline(always)]
    pub fn index(self) -> usize {
        (opaque(self as u64) & 1) as usize
    }
}

bitflags! {
    /// What is the matter with an outstanding packet.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub struct PacketFlags: u8 {
        /// A Resync stands in for the original (F-9.1.8-2).
        const RESYNC = 1;
        /// The last copy sent was a retransmission that counts in ORRC (F-9.1.2-7).
        const RETRANSMITTED = 2;
        /// Waiting out an RNR timeout (D-40).
        const RNR = 4;
        /// Queued by early retransmission, not by the timer.
        const EARLY = 8;
        /// The Resync has been sent at least once.
        const RESYNC_SENT = 16;
        /// The copy that was booked last never left: sending it again is no retransmission.
        const UNSENT = 32;
        /// The copy queued is one that an RNR NACK asked for: no sign of a loss.
        const ASKED_FOR = 64;
    }
}

/// State of one outstanding packet; what it carries is found through its transaction or response.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct TxPacket {
    /// RSN of its transaction.
    pub rsn: Rsn,
    /// Time of the last copy.
    pub last_sent: FalconTime,
    /// Timeout retransmissions so far (F-9.1.1-11).
    pub attempts: u16,
    /// Pull Data: index in the response ring.
    pub response: u16,
    /// See [`PacketFlags`].
    pub flags: PacketFlags,
    /// Resync code, once it is one (F-7.6-2).
    pub resync_code: ResyncCode,
    /// RNR timeout code, with [`PacketFlags::RNR`].
    pub rnr_code: u8,
    /// Packet type of the original.
    pub kind: u8,
}

impl TxPacket {
    /// The window it belongs to.
    #[inline(always)]
    pub const fn window(&self) -> Window {
        if self.kind == PacketType::PullRequest as u8 { Window::Request } else { Window::Data }
    }

    /// Whether it carries the answer to a request of the peer's: Pull Data.
    #[inline(always)]
    pub const fn is_response(&self) -> bool {
        self.kind == PacketType::PullData as u8
    }

    /// The code of the Resync in its place, if there is one.
    #[inline(always)]
    pub const fn resync(&self) -> Option<ResyncCode> {
        if self.flags.contains(PacketFlags::RESYNC) { Some(self.resync_code) } else { None }
    }

    /// Time from the last copy to the next: the RTO, or longer after an RNR NACK (D-40).
    #[inline(always)]
    pub(super) fn timeout(&self, rto: Ticks) -> Ticks {
        if !self.flags.contains(PacketFlags::RNR) {
            return rto;
        }
        let rnr = rnr_timeout(self.rnr_code);
        if rnr > rto { rnr } else { rto }
    }
}

/// What congestion control lets pass, packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Integer fabric window (D-28).
    pub fabric: u32,
    /// NIC window; applies to ULP requests only.
    pub ncwnd: u32,
}

/// Transmit window; the request window uses the low 64 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct TransmitWindow {
    /// Oldest unacknowledged PSN.
    pub base: Psn,
    /// Next PSN to assign.
    pub next: Psn,
    /// Packets the window may hold (D-27).
    pub size: u32,
    /// Packets of ULP requests outstanding: RORC or DORC (F-9.1.1-6, F-9.1.1-7).
    pub outstanding_requests: u16,
    /// Retransmitted ones outstanding: RORRC or DORRC (F-9.1.2-7).
    pub outstanding_retransmitted: u16,
    /// Bit n: base + n is acknowledged.
    pub acknowledged: Bitmap128,
    /// Bit n: base + n waits for retransmission.
    pub retransmit: Bitmap128,
    /// Bit n: base + n is Pull Data, which ncwnd does not count.
    pub pull_data: Bitmap128,
    /// Bit n: the peer's ULP was not ready for base + n at least once.
    pub not_ready: Bitmap128,
}

impl TransmitWindow {
    /// An empty window that starts at `base` (F-9.1.1-2).
    pub const fn new(base: Psn, size: u32) -> Self {
        Self {
            base,
            next: base,
            size,
            outstanding_requests: 0,
            outstanding_retransmitted: 0,
            acknowledged: Bitmap128::ZERO,
            retransmit: Bitmap128::ZERO,
            pull_data: Bitmap128::ZERO,
            not_ready: Bitmap128::ZERO,
        }
    }

    /// PSNs between base and next.
    #[inline(always)]
    pub const fn in_flight(&self) -> u32 {
        self.next.distance_from(self.base)
    }

    /// PSNs sent and neither acknowledged nor queued for retransmission: those whose timer runs.
    #[inline(always)]
    pub fn timed(&self) -> Bitmap128 {
        Bitmap128::low_mask(self.in_flight()).and_not(self.acknowledged).and_not(self.retransmit)
    }

    /// What `received`, seen from the base, shows to be lost: packets more than `ooo_threshold` below the highest one
    /// received, or with `own` all that were not received (F-9.1.4-1, D-36). Also whether the out-of-order distance
    /// shows any. Whether the last copy is old enough is for the caller to see (F-9.1.4-2).
    #[inline(always)]
    pub fn shown_lost(&self, received: Bitmap128, ooo_threshold: u32, own: u8) -> (Bitmap128, bool) {
        let top = received.top();
        // PSN < psn_high - threshold, with psn_high at offset top - 1 (D-36).
        let distance = if top > ooo_threshold { top - 1 - ooo_threshold.min(top - 1) } else { 0 };
        let reach = if own != 0 { self.in_flight() } else { distance };
        let missing = self.timed().and_not(received);
        let shown = !missing.and(Bitmap128::low_mask(distance)).is_zero();
        (missing.and(Bitmap128::low_mask(reach)), shown)
    }

    /// Gate for the first transmission of a request (F-9.1.2-1, F-9.1.2-3, D-26). In the data window pushes leave some
    /// room: one that waits for a receive must not keep back the answers without which its receiver may never post one.
    #[inline(always)]
    pub const fn may_send_request(&self, gate: Gate, reserve: bool) -> bool {
        let edge = self.edge(gate);
        let edge = if reserve { edge - reserved(edge) } else { edge };
        self.in_flight() < edge && (self.outstanding_requests as u32) < gate.ncwnd
    }

    /// Gate for the first transmission of Pull Data (F-9.1.2-2).
    #[inline(always)]
    pub const fn may_send_response(&self, gate: Gate) -> bool {
        self.in_flight() < self.edge(gate)
    }

    #[inline(always)]
    const fn edge(&self, gate: Gate) -> u32 {
        if gate.fabric < self.size { gate.fabric } else { self.size }
    }

    /// Gate for retransmitting base + `offset` (F-9.1.2-4..6, D-29).
    #[inline(always)]
    pub const fn may_retransmit(&self, offset: u32, pull_data: bool, gate: Gate) -> bool {
        offset < gate.fabric && (pull_data || (self.outstanding_retransmitted as u32) < gate.ncwnd)
    }

    /// Assigns the next PSN (F-9.1.3-1). The gate must have said yes.
    #[inline(always)]
    pub fn assign(&mut self, response: bool) -> Psn {
        let psn = self.next;
        if response {
            self.pull_data.set(self.in_flight());
        } else {
            self.outstanding_requests = self.outstanding_requests.wrapping_add(1);
        }
        self.next = psn.add(1);
        psn
    }

    /// Queues base + `offset` for retransmission; it stops counting as a retransmitted one in flight
    /// (F-9.1.2-7, D-31).
    #[inline(always)]
    pub fn queue_retransmission(&mut self, offset: u32, packet: &mut TxPacket) {
        self.retransmit.set(offset);
        self.forget_retransmitted(packet);
    }

    /// ORRC minus 1 if the packet counts in it.
    #[inline(always)]
    pub fn forget_retransmitted(&mut self, packet: &mut TxPacket) {
        if packet.flags.contains(PacketFlags::RETRANSMITTED) {
            packet.flags.remove(PacketFlags::RETRANSMITTED);
            self.outstanding_retransmitted = self.outstanding_retransmitted.saturating_sub(1);
        }
    }

    /// Advances the base past everything acknowledged, shifting the bitmaps (F-9.1.1-1).
    #[inline(always)]
    pub fn advance(&mut self) -> u32 {
        let run = self.acknowledged.trailing_ones();
        if run != 0 {
            self.base = self.base.add(run);
            self.acknowledged = self.acknowledged.shift_right(run);
            self.retransmit = self.retransmit.shift_right(run);
            self.pull_data = self.pull_data.shift_right(run);
            if !self.not_ready.is_zero() {
                self.not_ready = self.not_ready.shift_right(run);
            }
        }
        run
    }
}

/// Packets of a data window of `edge` packets that only Pull Data may use: an eighth, and one at least where there is room
/// for four. A smaller window has none to give away: there a push that waits for a receive may keep answers back.
#[inline(always)]
const fn reserved(edge: u32) -> u32 {
    if edge >= 16 {
        edge / 8
    } else if edge >= 4 {
        1
    } else {
        0
    }
}

/// Index of a PSN in its packet table.
#[inline(always)]
pub(super) const fn packet_index(psn: Psn) -> usize {
    psn.0 as usize & (PACKETS - 1)
}
