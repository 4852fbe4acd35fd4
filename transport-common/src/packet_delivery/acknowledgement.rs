//! Processing of received acknowledgements: piggybacked bases, BACK, EACK, NACK (F-9.2.3, F-9.2.4).

use super::WindowBits;
use super::tables::packet;
use super::transmit_window::packet_index;
use super::{
    Delivery, DeliveryTables, PacketDelivery, PacketFlags, PacketTables, PathClock, Round, TxPacket, Window,
};
use crate::ids::Psn;
use crate::units::{FalconTime, Ticks};
use crate::wire::nack::NackCode;
use crate::wire::packet::Packet;
use crate::wire::resync::ResyncCode;

pub use crate::wire::packet::Acknowledgement;

/// What a NACK says beyond its acknowledgement part (F-7.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NackReport {
    /// PSN of the packet that the NACK refuses.
    pub psn: Psn,
    /// Window of that packet (W bit).
    pub window: Window,
    /// NACK code, see [`NackCode`].
    pub code: NackCode,
    /// RNR timeout code.
    pub rnr_timeout_code: u8,
}

impl NackReport {
    /// Returns what the NACK in `packet` says.
    #[inline(always)]
    pub(super) const fn of(packet: &Packet) -> Self {
        Self {
            psn: Psn(packet.psn),
            window: if packet.nack_window != 0 { Window::Request } else { Window::Data },
            code: packet.nack_code,
            rnr_timeout_code: packet.rnr_timeout_code,
        }
    }
}

/// Result of processing an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AckVerdict {
    /// It contains nothing new.
    Known,
    /// It was applied to the windows.
    Applied,
    /// It is older than the known state: ignored as a whole (D-35).
    Stale,
    /// It acknowledges a packet that was never sent: ignored as a whole (D-19).
    Invalid,
}

/// Result of processing a NACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NackVerdict {
    /// It names no outstanding packet, or has a reserved code (D-38).
    Ignored,
    /// The packet's timer sends it again.
    Waits,
    /// As [`Self::Waits`], but not the first RNR NACK for this packet. Its delays measure the peer's ULP, not the
    /// network.
    WaitsStill,
    /// The peer's ULP refused the content of the packet: a Resync takes its place.
    Refused,
}

impl PacketDelivery {
    /// Returns whether an acknowledgement contains nothing new.
    #[inline(always)]
    pub fn knows(&self, ack: &Acknowledgement) -> bool {
        let (data, request) = (&self.data().tx, &self.request().tx);
        ack.data_base == data.base && ack.request_base == request.base && ack.selective == 0
    }

    /// Classifies an acknowledgement against both transmit windows, without changing anything (D-35, D-19). If the
    /// result is [`AckVerdict::Applied`], [`acknowledge`](super::acknowledge) applies it to both windows.
    #[inline(never)]
    pub fn judge(&self, ack: &Acknowledgement) -> AckVerdict {
        let (data, request) = (&self.data().tx, &self.request().tx);
        if ack.data_base.is_before(data.base) || ack.request_base.is_before(request.base) {
            return AckVerdict::Stale;
        }
        let data_advance = ack.data_base.distance_from(data.base);
        let request_advance = ack.request_base.distance_from(request.base);
        let (data_flight, request_flight) = (data.in_flight(), request.in_flight());
        if data_advance > data_flight || request_advance > request_flight {
            return AckVerdict::Invalid;
        }
        if ack.selective != 0 {
            let data_unsent = WindowBits::low_mask(data_flight - data_advance).not();
            let request_unsent = WindowBits::low_mask(request_flight - request_advance).not();
            let data = ack.data_acknowledged.or(ack.data_received).and(data_unsent);
            if !data.is_zero() || !ack.request.and(request_unsent).is_zero() {
                return AckVerdict::Invalid;
            }
        }
        AckVerdict::Applied
    }

    /// Applies `ack`, which was judged before, to one window. It acknowledges the packets below its base and, from
    /// the base on, the packets whose bits are set in its bitmap (F-9.2.3-2, F-9.2.3-5..7). Returns the newly
    /// acknowledged packets. The caller has to take them one by one with [`Delivery::next_acknowledged`] until that
    /// returns `None`.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, window: Window, ack: &Acknowledgement) -> WindowBits {
        let (base, selective) =
            window.of((ack.data_base, &ack.data_acknowledged), (ack.request_base, &ack.request));
        let w = &mut self.lane(window).tx;
        let advance = base.distance_from(w.base);
        let new = WindowBits::low_mask(advance).or(selective.shift_left(advance)).and_not(w.acknowledged);
        w.acknowledged = w.acknowledged.or(new);
        w.retransmit = w.retransmit.and_not(new);
        if !w.not_ready.is_zero() {
            w.not_ready = w.not_ready.and_not(new);
        }
        new
    }

    /// Applies the NACK itself, after its bases were applied (F-9.2.4-3..8, D-38).
    #[inline(never)]
    fn on_nack(
        &mut self,
        packets: &mut PacketTables,
        nack: &NackReport,
        now: FalconTime,
        rto: Ticks,
    ) -> NackVerdict {
        let packet = packet(packets, nack.window, nack.psn);
        let w = &mut self.lane(nack.window).tx;
        let offset = nack.psn.distance_from(w.base);
        if offset >= w.in_flight() || w.acknowledged.get(offset) {
            return NackVerdict::Ignored;
        }
        let resync = match nack.code {
            NackCode::INSUFFICIENT_RESOURCES => return NackVerdict::Waits, // the timer resends it (F-9.2.4-3)
            NackCode::RNR => {
                let again = packet.rnr_code & TxPacket::WAS_NOT_READY != 0;
                // D-40, D-41: the timer starts again now with max(RTO, RNR). The peer is alive.
                if !packet.flags.contains(PacketFlags::RESYNC) {
                    w.retransmit.clear(offset);
                    packet.last_sent = now;
                    packet.rnr_code = nack.rnr_timeout_code | TxPacket::WAS_NOT_READY;
                    packet.attempts = 0;
                    packet.flags |= PacketFlags::RNR;
                    w.not_ready.set(offset);
                    w.forget_retransmitted(packet);
                    // The packet may have been in the retransmission queue, where no timer runs.
                    let deadline = now.after(packet.timeout(rto));
                    self.arm_retransmit(deadline);
                }
                return if again { NackVerdict::WaitsStill } else { NackVerdict::Waits };
            }
            NackCode::XLR_DROP => ResyncCode::REMOTE_XLR,
            NackCode::COMPLETE_IN_ERROR => ResyncCode::TARGET_ULP_COMPLETE_IN_ERROR,
            NackCode::NON_RECOVERABLE => ResyncCode::TARGET_ULP_NON_RECOVERABLE,
            NackCode::INVALID_CID => ResyncCode::TARGET_ULP_INVALID_CID,
            _ => return NackVerdict::Ignored,
        };
        if packet.flags.contains(PacketFlags::RESYNC) {
            return NackVerdict::Waits;
        }
        // F-11-7: the attempt counter starts again, so the Resync gets the full number of attempts.
        packet.flags =
            (packet.flags & (PacketFlags::RETRANSMITTED | PacketFlags::RESENT)) | PacketFlags::RESYNC;
        packet.resync_code = resync;
        packet.attempts = 0;
        w.queue_retransmission(offset, packet);
        NackVerdict::Refused
    }
}

impl Delivery<'_> {
    /// Applies the NACK itself.
    #[inline(always)]
    pub(super) fn on_nack(
        &mut self,
        nack: &NackReport,
        clock: &impl PathClock,
        now: FalconTime,
    ) -> NackVerdict {
        self.state.on_nack(&mut self.tables.packets, nack, now, clock.rto())
    }

    /// Lets RACK-TLP note what an acknowledgement shows to be delivered of one window, before it is applied.
    #[inline(always)]
    pub fn note_lane(
        &mut self,
        clock: &impl PathClock,
        ack: &Acknowledgement,
        round: &Round,
        window: Window,
    ) {
        let mut times = clock.times(round.now);
        // What this one measures counts already (RFC 8985, 6.2, step 1). It may be the first that crossed an empty path.
        times.min_rtt = times.min_rtt.min(round.rtt);
        let DeliveryTables { packets, rack, .. } = &mut *self.tables;
        rack.note_lane(self.state, packets, ack, window, &times);
    }

    /// Takes the next of the packets that [`PacketDelivery::acknowledge`] found. The packet is no longer
    /// outstanding (D-30). After the last packet, advances the base.
    #[inline(always)]
    pub(super) fn next_acknowledged(&mut self, window: Window, new: &mut WindowBits) -> Option<TxPacket> {
        let w = &mut self.state.lane(window).tx;
        let Some(offset) = new.take_lowest() else {
            w.advance();
            return None;
        };
        let packet = &mut self.tables.packets[window.index()][packet_index(w.base.add(offset))];
        w.forget_retransmitted(packet);
        if !packet.is_response() {
            w.outstanding_requests = w.outstanding_requests.saturating_sub(1);
        }
        Some(*packet)
    }
}
