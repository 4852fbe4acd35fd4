//! Transmit side of one sliding window (F-9.1.1): bases, bitmaps, outstanding counts, the gate.

use crate::bitmap::Bitmap128;
use crate::connection::PACKETS;
use crate::ids::Psn;
use crate::wire::PacketType;

/// Which of the two windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Window {
    /// Push Data and Pull Data.
    Data = 0,
    /// Pull Requests.
    Request = 1,
}

/// Bits of [`TxPacket::flags`].
pub mod packet_flag {
    /// A Resync stands in for the original (F-9.1.8-2).
    pub const RESYNC: u8 = 1;
    /// The last copy sent was a retransmission that counts in ORRC (F-9.1.2-7).
    pub const RETRANSMITTED: u8 = 2;
    /// Waiting out an RNR timeout (D-40).
    pub const RNR: u8 = 4;
    /// Queued by early retransmission, not by the timer.
    pub const EARLY: u8 = 8;
    /// The Resync has been sent at least once.
    pub const RESYNC_SENT: u8 = 16;
    /// The copy that was booked last never left: sending it again is no retransmission.
    pub const UNSENT: u8 = 32;
    /// The copy queued is one that an RNR NACK asked for: no sign of a loss.
    pub const ASKED_FOR: u8 = 64;
}

/// State of one outstanding packet; what it carries is found through its transaction or response.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxPacket {
    /// RSN of its transaction.
    pub rsn: u32,
    /// Time of the last copy, in ticks.
    pub last_sent: u32,
    /// Timeout retransmissions so far (F-9.1.1-11).
    pub attempts: u16,
    /// Pull Data: index in the response ring.
    pub response: u16,
    /// Packet type of the original.
    pub kind: u8,
    /// See [`packet_flag`].
    pub flags: u8,
    /// Resync code, once it is one (F-7.6-2).
    pub resync_code: u8,
    /// RNR timeout code, with [`packet_flag::RNR`].
    pub rnr_code: u8,
}

/// Transmit window; the request window uses the low 64 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        }
    }

    /// PSNs between base and next.
    #[inline(always)]
    pub fn in_flight(&self) -> u32 {
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

    /// Gate for a first transmission (F-9.1.2-1..3, D-26): `fabric` is the integer fabric window, `ncwnd`
    /// applies to ULP requests only.
    #[inline(always)]
    pub fn may_send_new(&self, kind: PacketType, fabric: u32, ncwnd: u32) -> bool {
        let edge = if fabric < self.size { fabric } else { self.size };
        self.in_flight() < edge
            && (matches!(kind, PacketType::PullData) || (self.outstanding_requests as u32) < ncwnd)
    }

    /// Gate for retransmitting base + `offset` (F-9.1.2-4..6, D-29).
    #[inline(always)]
    pub fn may_retransmit(&self, offset: u32, pull_data: bool, fabric: u32, ncwnd: u32) -> bool {
        offset < fabric && (pull_data || (self.outstanding_retransmitted as u32) < ncwnd)
    }

    /// Assigns the next PSN to a packet of `kind` (F-9.1.3-1). The gate must have said yes.
    #[inline(always)]
    pub fn assign(&mut self, kind: PacketType) -> Psn {
        let psn = self.next;
        let offset = self.in_flight();
        if matches!(kind, PacketType::PullData) {
            self.pull_data.set(offset);
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
        if packet.flags & packet_flag::RETRANSMITTED != 0 {
            packet.flags &= !packet_flag::RETRANSMITTED;
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
        }
        run
    }
}

/// Index of a PSN in its packet table.
#[inline(always)]
pub(crate) const fn packet_index(psn: Psn) -> usize {
    psn.0 as usize & (PACKETS - 1)
}
