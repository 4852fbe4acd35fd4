//! Transmit side of one sliding window (F-9.1.1): bases, bitmaps, outstanding counts, the gate.

use super::{PACKETS, WindowBits};
use crate::ids::{Psn, Rsn};
use crate::ring::place;
use crate::units::{FalconTime, Ticks};
use crate::verifier::opaque;
use crate::wire::PacketType;
use crate::wire::nack::rnr_timeout;
use crate::wire::resync::ResyncCode;
use bitflags::bitflags;
use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

/// One of the two windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Window {
    /// Push Data and Pull Data.
    Data = 0,
    /// Pull Requests.
    Request = 1,
}

impl Window {
    /// Returns the value for this window, if there is one for each.
    #[inline(always)]
    pub fn of<T>(self, data: T, request: T) -> T {
        match self {
            Self::Data => data,
            Self::Request => request,
        }
    }

    /// Returns the index of the window in an array of both. Written so that the verifier sees the bounds of the
    /// index.
    #[inline(always)]
    pub fn index(self) -> usize {
        (opaque(self as u64) & 1) as usize
    }

    /// Returns the window with this index.
    #[inline(always)]
    pub const fn from_index(index: u32) -> Self {
        if index == 0 { Self::Data } else { Self::Request }
    }
}

bitflags! {
    /// State flags of an outstanding packet.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub struct PacketFlags: u8 {
        /// A Resync stands in for the original (F-9.1.8-2).
        const RESYNC = 1;
        /// The last copy sent was a retransmission that counts in ORRC (F-9.1.2-7).
        const RETRANSMITTED = 2;
        /// The packet waits until its RNR timeout is over (D-40).
        const RNR = 4;
        /// Queued by early retransmission, not by the timer.
        const EARLY = 8;
        /// The Resync has been sent at least once.
        const RESYNC_SENT = 16;
        /// The last booked copy was never sent: sending it again is not a retransmission.
        const UNSENT = 32;
        /// An RNR NACK asked for the queued copy: it is not a sign of loss.
        const ASKED_FOR = 64;
        /// More than one copy may have been sent. Kept with RACK-TLP only.
        const RESENT = 128;
    }
}

/// State of one outstanding packet. Its content is found through its transaction or response.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
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
    /// Resync code, once a Resync replaces the packet (F-7.6-2).
    pub resync_code: ResyncCode,
    /// RNR timeout code in the low 5 bits, valid with [`PacketFlags::RNR`], and [`Self::WAS_NOT_READY`].
    pub rnr_code: u8,
    /// Packet type of the original packet.
    pub kind: PacketType,
}

impl TxPacket {
    /// Bit of [`Self::rnr_code`]: the peer's ULP was not ready for this packet at least once.
    pub const WAS_NOT_READY: u8 = 1 << 7;

    /// Returns the window that it belongs to.
    #[inline(always)]
    pub const fn window(&self) -> Window {
        if matches!(self.kind, PacketType::PullRequest) { Window::Request } else { Window::Data }
    }

    /// Returns whether it carries the response to a request of the peer: Pull Data.
    #[inline(always)]
    pub const fn is_response(&self) -> bool {
        matches!(self.kind, PacketType::PullData)
    }

    /// Returns the code of the Resync in its place, if there is one.
    #[inline(always)]
    pub const fn resync(&self) -> Option<ResyncCode> {
        if self.flags.contains(PacketFlags::RESYNC) { Some(self.resync_code) } else { None }
    }

    /// Returns the time from the last copy to the next: the RTO, or longer after an RNR NACK (D-40).
    #[inline(always)]
    pub(super) fn timeout(&self, rto: Ticks) -> Ticks {
        if !self.flags.contains(PacketFlags::RNR) {
            return rto;
        }
        let rnr = rnr_timeout(self.rnr_code);
        if rnr > rto { rnr } else { rto }
    }
}

/// The windows of congestion control, packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Integer fabric window (D-28).
    pub fabric: u32,
    /// NIC window. It applies only to ULP requests.
    pub ncwnd: u32,
}

/// Transmit window. The request window uses the low 64 bits.
///
/// ```
/// use transport_common::ids::Psn;
/// use transport_common::packet_delivery::{Gate, TransmitWindow, WindowBits};
///
/// let gate = Gate { fabric: 5, ncwnd: 8 };
/// let mut window = TransmitWindow::new(Psn(300), 128);
/// while window.may_send_request(gate, true) {
///     window.assign(false);
/// }
/// assert_eq!(window.in_flight(), 5, "the gate closes at the fabric window");
/// assert!(!window.may_send_response(gate));
///
/// // With a distance of 3, an EACK with bit 4 shows that the first packet is lost, and not yet the second.
/// assert_eq!(window.shown_lost(WindowBits::bit(4), 3, 0), (WindowBits::bit(0), true));
///
/// window.acknowledged.set(1);
/// assert_eq!(window.advance(), 0, "the base waits for the oldest packet");
/// window.acknowledged.set(0);
/// assert_eq!((window.advance(), window.base), (2, Psn(302)));
/// assert!(window.may_send_request(gate, true));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct TransmitWindow {
    /// Oldest unacknowledged PSN.
    pub base: Psn,
    /// Next PSN to assign.
    pub next: Psn,
    /// Largest number of packets in the window (D-27).
    pub size: u32,
    /// Outstanding packets of ULP requests: RORC or DORC (F-9.1.1-6, F-9.1.1-7).
    pub outstanding_requests: u16,
    /// Outstanding packets of ULP requests that were retransmitted: RORRC or DORRC (F-9.1.2-7).
    pub outstanding_retransmitted: u16,
    /// Bit n: base + n is acknowledged.
    pub acknowledged: WindowBits,
    /// Bit n: base + n waits for retransmission.
    pub retransmit: WindowBits,
    /// Bit n: base + n is Pull Data, which does not count against ncwnd.
    pub pull_data: WindowBits,
    /// Bit n: an RNR NACK took base + n out of flight. It is sent again later (D-43), and until then it counts neither
    /// towards fcwnd nor towards ncwnd (D-92).
    pub not_ready: WindowBits,
}

impl TransmitWindow {
    /// Creates an empty window that starts at `base` (F-9.1.1-2).
    pub const fn new(base: Psn, size: u32) -> Self {
        Self {
            base,
            next: base,
            size,
            outstanding_requests: 0,
            outstanding_retransmitted: 0,
            acknowledged: WindowBits::ZERO,
            retransmit: WindowBits::ZERO,
            pull_data: WindowBits::ZERO,
            not_ready: WindowBits::ZERO,
        }
    }

    /// Returns the number of PSNs between base and next.
    #[inline(always)]
    pub const fn in_flight(&self) -> u32 {
        self.next.distance_from(self.base)
    }

    /// Returns the PSNs that were sent and are neither acknowledged nor queued for retransmission: those whose
    /// timer runs.
    #[inline(always)]
    pub fn timed(&self) -> WindowBits {
        WindowBits::low_mask(self.in_flight()).and_not(self.acknowledged).and_not(self.retransmit)
    }

    /// Returns the packets that `received`, as a bitmap from the base, shows to be lost: packets more than
    /// `ooo_threshold` below the highest one received, or with `own` all that were not received (F-9.1.4-1, D-36).
    /// Also returns whether the out-of-order distance shows any loss. The caller has to check whether the last
    /// copy is old enough (F-9.1.4-2).
    #[inline(always)]
    pub fn shown_lost(&self, received: WindowBits, ooo_threshold: u32, own: u8) -> (WindowBits, bool) {
        let top = received.top();
        // PSN < psn_high - threshold, with psn_high at offset top - 1 (D-36).
        let distance = if top > ooo_threshold { top - 1 - ooo_threshold.min(top - 1) } else { 0 };
        let reach = if own != 0 { self.in_flight() } else { distance };
        let missing = self.timed().and_not(received);
        let shown = !missing.and(WindowBits::low_mask(distance)).is_zero();
        (missing.and(WindowBits::low_mask(reach)), shown)
    }

    /// Returns whether the gate is open for the first transmission of a request (F-9.1.2-1, F-9.1.2-3, D-26). With
    /// `reserve`, as for pushes, some sequence numbers of the data window stay free for Pull Data (D-92). A push may wait
    /// for a receive. It must not block the responses that its receiver may need before it posts one.
    #[inline(always)]
    pub const fn may_send_request(&self, gate: Gate, reserve: bool) -> bool {
        let waiting = self.waiting_before(self.size);
        let room = if reserve { self.size - reserved(self.size) } else { self.size };
        self.in_flight() < room
            && self.in_flight() - waiting < gate.fabric
            && self.outstanding_requests as u32 - waiting < gate.ncwnd
    }

    /// Returns whether the gate is open for the first transmission of Pull Data (F-9.1.2-2).
    #[inline(always)]
    pub const fn may_send_response(&self, gate: Gate) -> bool {
        self.in_flight() < self.size && self.in_flight() - self.waiting_before(self.size) < gate.fabric
    }

    /// Returns the number of packets before base + `offset` that an RNR NACK took out of flight (D-92).
    #[inline(always)]
    const fn waiting_before(&self, offset: u32) -> u32 {
        if self.not_ready.is_zero() {
            0
        } else {
            self.not_ready.and(WindowBits::low_mask(offset)).count_ones()
        }
    }

    /// Returns whether the gate is open for the retransmission of base + `offset` (F-9.1.2-4..6, D-29).
    #[inline(always)]
    pub const fn may_retransmit(&self, offset: u32, pull_data: bool, gate: Gate) -> bool {
        offset - self.waiting_before(offset) < gate.fabric
            && (pull_data || (self.outstanding_retransmitted as u32) < gate.ncwnd)
    }

    /// Assigns the next PSN (F-9.1.3-1). The gate must be open.
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

    /// Queues base + `offset` for retransmission. It no longer counts as a retransmitted packet in flight
    /// (F-9.1.2-7, D-31).
    #[inline(always)]
    pub fn queue_retransmission(&mut self, offset: u32, packet: &mut TxPacket) {
        self.retransmit.set(offset);
        self.forget_retransmitted(packet);
    }

    /// Decrements ORRC if the packet counts in it.
    #[inline(always)]
    pub fn forget_retransmitted(&mut self, packet: &mut TxPacket) {
        if packet.flags.contains(PacketFlags::RETRANSMITTED) {
            packet.flags.remove(PacketFlags::RETRANSMITTED);
            self.outstanding_retransmitted = self.outstanding_retransmitted.saturating_sub(1);
        }
    }

    /// Advances the base past everything acknowledged and shifts the bitmaps (F-9.1.1-1). Returns the number of
    /// packets passed.
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

/// Returns the number of sequence numbers of a data window of `size` packets that only Pull Data may use (D-92): a
/// sixteenth, and at least one if the window has space for four. A smaller window reserves none: there, pushes that wait
/// for receives may block responses.
#[inline(always)]
const fn reserved(size: u32) -> u32 {
    if size >= 32 {
        size / 16
    } else if size >= 4 {
        1
    } else {
        0
    }
}

/// Returns the index of a PSN in its packet table.
#[inline(always)]
pub(crate) const fn packet_index(psn: Psn) -> usize {
    place::<PACKETS>(psn.0)
}
