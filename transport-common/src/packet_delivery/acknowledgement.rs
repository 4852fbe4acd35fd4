//! Processing of received acknowledgements: piggybacked bases, BACK, EACK, NACK (F-9.2.3, F-9.2.4).

use super::transmit_window::packet_index;
use super::{Lane, PacketDelivery, PacketFlags, PacketTable, PacketTables, TxPacket, Window};
use crate::bitmap::Bitmap128;
use crate::ids::Psn;
use crate::units::{FalconTime, Ticks};
use crate::wire::nack::NackCode;
pub use crate::wire::packet::Acknowledgement;
use crate::wire::resync::ResyncCode;

/// What a NACK says beyond its acknowledgement part (F-7.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NackReport {
    /// The offending packet.
    pub psn: Psn,
    /// Its window (W bit).
    pub window: Window,
    /// See [`NackCode`].
    pub code: NackCode,
    /// Code of the RNR timeout.
    pub rnr_timeout_code: u8,
}

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AckVerdict {
    /// It says what is known already.
    Known,
    /// The windows are up to date.
    Applied,
    /// Older than what is known: ignored as a whole (D-35).
    Stale,
    /// Acknowledges something never sent: ignored as a whole (D-19).
    Invalid,
}

/// What became of a NACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NackVerdict {
    /// It names nothing outstanding, or has a reserved code (D-38).
    Ignored,
    /// The packet is sent again by its timer.
    Waits,
    /// Likewise, and the peer said so of this packet before: its ULP is measured, not the network.
    WaitsStill,
    /// The peer's ULP refused what the packet carries: a Resync takes its place.
    Refused,
}

impl PacketDelivery {
    /// Whether an acknowledgement says nothing new.
    #[inline(always)]
    pub fn knows(&self, ack: &Acknowledgement) -> bool {
        let (data, request) = (&self.data().tx, &self.request().tx);
        ack.data_base == data.base && ack.request_base == request.base && ack.selective == 0
    }

    /// What an acknowledgement is, seen from both transmit windows; nothing is changed (D-35, D-19). One that is
    /// [`AckVerdict::Applied`] has to be [taken over](Self::acknowledge) for both windows.
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
            let data_unsent = Bitmap128::low_mask(data_flight - data_advance).not();
            let request_unsent = Bitmap128::low_mask(request_flight - request_advance).not();
            let data = ack.data_acknowledged.or(ack.data_received).and(data_unsent);
            if !data.is_zero() || !ack.request.and(request_unsent).is_zero() {
                return AckVerdict::Invalid;
            }
        }
        AckVerdict::Applied
    }

    /// Acknowledges what `ack`, which was judged, says of one window: up to its base and, counted from there, the bits of
    /// its bitmap (F-9.2.3-2, F-9.2.3-5..7). The packets that are new among them, which are to be taken one by one with
    /// [`Lane::next_acknowledged`] until there is none.
    #[inline(always)]
    pub fn acknowledge(&mut self, window: Window, ack: &Acknowledgement) -> Bitmap128 {
        let (base, selective) = match window {
            Window::Data => (ack.data_base, &ack.data_acknowledged),
            Window::Request => (ack.request_base, &ack.request),
        };
        let w = &mut self.lane(window).tx;
        let advance = base.distance_from(w.base);
        let new = Bitmap128::low_mask(advance).or(selective.shift_left(advance)).and_not(w.acknowledged);
        w.acknowledged = w.acknowledged.or(new);
        w.retransmit = w.retransmit.and_not(new);
        if !w.not_ready.is_zero() {
            w.not_ready = w.not_ready.and_not(new);
        }
        new
    }

    /// Acts on the NACK proper, after its bases were applied (F-9.2.4-3..8, D-38).
    #[inline(never)]
    pub fn on_nack(
        &mut self,
        packets: &mut PacketTables,
        nack: &NackReport,
        now: FalconTime,
        rto: Ticks,
    ) -> NackVerdict {
        let packet = super::packet(packets, nack.window, nack.psn);
        let w = &mut self.lane(nack.window).tx;
        let offset = nack.psn.distance_from(w.base);
        if offset >= w.in_flight() || w.acknowledged.get(offset) {
            return NackVerdict::Ignored;
        }
        let resync = match nack.code {
            NackCode::INSUFFICIENT_RESOURCES => return NackVerdict::Waits, // the timer retransmits (F-9.2.4-3)
            NackCode::RNR => {
                let again = w.not_ready.get(offset);
                // D-40, D-41: the timer starts anew from here with max(RTO, RNR), the peer is alive.
                if !packet.flags.contains(PacketFlags::RESYNC) {
                    w.retransmit.clear(offset);
                    packet.last_sent = now;
                    packet.rnr_code = nack.rnr_timeout_code;
                    packet.attempts = 0;
                    packet.flags |= PacketFlags::RNR;
                    w.not_ready.set(offset);
                    w.forget_retransmitted(packet);
                    // The packet may come out of the queue, where no timer runs.
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
        // F-11-7: the counter starts anew, the Resync gets the full number of attempts.
        packet.flags = (packet.flags & PacketFlags::RETRANSMITTED) | PacketFlags::RESYNC;
        packet.resync_code = resync;
        packet.attempts = 0;
        w.queue_retransmission(offset, packet);
        NackVerdict::Refused
    }
}

impl Lane {
    /// Takes the next packet of those that [`PacketDelivery::acknowledge`] found: it is outstanding no more (D-30). After the
    /// last one the base moves on.
    #[inline(always)]
    pub fn next_acknowledged<'p>(
        &mut self,
        packets: &'p mut PacketTable,
        new: &mut Bitmap128,
    ) -> Option<&'p TxPacket> {
        let w = &mut self.tx;
        let Some(offset) = new.take_lowest() else {
            w.advance();
            return None;
        };
        let packet = &mut packets[packet_index(w.base.add(offset))];
        w.forget_retransmitted(packet);
        if !packet.is_response() {
            w.outstanding_requests = w.outstanding_requests.saturating_sub(1);
        }
        Some(packet)
    }
}
