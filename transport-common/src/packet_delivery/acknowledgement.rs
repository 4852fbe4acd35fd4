//! Processing of received acknowledgements: piggybacked bases, BACK, EACK, NACK (F-9.2.3, F-9.2.4).

use super::transmit_window::packet_index;
use super::{Window, packet_flag};
use crate::bitmap::Bitmap128;
use crate::connection::Entry;
use crate::ids::{Psn, Rsn};
use crate::queues::Queues;
use crate::transaction::CompletionCode;
use crate::units::FalconTime;
use crate::verifier::bounded;
use crate::wire::PacketType;
use crate::wire::nack::NackCode;

/// The count of packets acknowledged between two congestion events saturates here (F-10.6.2.1-9, D-75).
const MOST_ACKED: u16 = 1023;

/// The acknowledgement part of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Base PSN of the peer's data receive window.
    pub data_base: Psn,
    /// Base PSN of the peer's request receive window.
    pub request_base: Psn,
    /// 1 when the bitmaps are valid (EACK).
    pub selective: u8,
    /// 1: the peer dropped a data packet beyond its window (F-7.7.1-6).
    pub own_data: u8,
    /// 1: the peer dropped a Pull Request beyond its window.
    pub own_request: u8,
    /// 0.
    pub reserved: [u8; 5],
    /// Data acknowledged.
    pub data_acknowledged: Bitmap128,
    /// Data received.
    pub data_received: Bitmap128,
    /// Requests received (= acknowledged).
    pub request: Bitmap128,
}

/// What a NACK says beyond its acknowledgement part (F-7.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NackReport {
    /// The offending packet.
    pub psn: Psn,
    /// Its window (W bit).
    pub window: Window,
    /// See [`NackCode`].
    pub code: u8,
    /// Code of the RNR timeout.
    pub rnr_timeout_code: u8,
    /// Code of the target ULP.
    pub ulp_code: u8,
}

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AckVerdict {
    /// The windows are up to date.
    Applied,
    /// Older than what is known: ignored as a whole (D-35).
    Stale,
    /// Acknowledges something never sent: ignored as a whole (D-19).
    Invalid,
}

impl Entry {
    /// Applies bases and bitmaps to both transmit windows and completes what they acknowledge. Both windows are
    /// checked before either is touched (D-35, D-19).
    #[inline(always)]
    pub fn process_acknowledgement(&mut self, ack: &Acknowledgement, queues: &impl Queues) -> AckVerdict {
        let c = &self.connection;
        let news = ack.data_base != c.data_tx.base || ack.request_base != c.request_tx.base;
        if news || ack.selective != 0 { self.apply_acknowledgement(ack, queues) } else { AckVerdict::Applied }
    }

    #[inline(never)]
    fn apply_acknowledgement(&mut self, ack: &Acknowledgement, queues: &impl Queues) -> AckVerdict {
        let c = &self.connection;
        if ack.data_base.is_before(c.data_tx.base) || ack.request_base.is_before(c.request_tx.base) {
            return AckVerdict::Stale;
        }
        let data_advance = ack.data_base.distance_from(c.data_tx.base);
        let request_advance = ack.request_base.distance_from(c.request_tx.base);
        let (data_flight, request_flight) = (c.data_tx.in_flight(), c.request_tx.in_flight());
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
        if data_advance != 0 || ack.selective != 0 {
            self.acknowledge_window(queues, Window::Data, data_advance, &ack.data_acknowledged);
        }
        if request_advance != 0 || ack.selective != 0 {
            self.acknowledge_window(queues, Window::Request, request_advance, &ack.request);
        }
        self.flush_completions(queues);
        AckVerdict::Applied
    }

    /// Acknowledges base .. base + `advance` and, counted from there, the bits of `selective` (F-9.2.3-2,
    /// F-9.2.3-5..7); frees and completes every PSN that is new among them.
    #[inline(never)]
    fn acknowledge_window(
        &mut self,
        queues: &impl Queues,
        window: Window,
        advance: u32,
        selective: &Bitmap128,
    ) {
        let w = self.transmit_window(window);
        let mut new = Bitmap128::low_mask(advance).or(selective.shift_left(advance)).and_not(w.acknowledged);
        let base = w.base;
        w.acknowledged = w.acknowledged.or(new);
        w.retransmit = w.retransmit.and_not(new);
        while let Some(offset) = new.take_lowest() {
            bounded!();
            self.packet_acknowledged(queues, window, base.add(offset));
        }
        self.transmit_window(window).advance();
    }

    /// One PSN is acknowledged for the first time: counts, resources, transaction (D-30, F-9.2.3-3).
    #[inline(always)]
    fn packet_acknowledged(&mut self, queues: &impl Queues, window: Window, psn: Psn) {
        let index = packet_index(psn);
        let (w, packet) = match window {
            Window::Data => (&mut self.connection.data_tx, &mut self.tables.data_packets[index]),
            Window::Request => (&mut self.connection.request_tx, &mut self.tables.request_packets[index]),
        };
        w.forget_retransmitted(packet);
        let acked = &mut self.connection.congestion.packets_acked;
        *acked = if *acked < MOST_ACKED { *acked + 1 } else { MOST_ACKED };
        let (kind, rsn, response) = (packet.kind, Rsn(packet.rsn), packet.response);
        let resync = if packet.flags & packet_flag::RESYNC != 0 { packet.resync_code } else { 0 };
        if kind == PacketType::PullData as u8 {
            self.release_response(response);
            return;
        }
        w.outstanding_requests = w.outstanding_requests.saturating_sub(1);
        if resync != 0 {
            self.complete(queues, rsn, CompletionCode::of_resync(resync), 0);
        } else if kind == PacketType::PushData as u8 {
            self.complete(queues, rsn, CompletionCode::Ack, 0);
        } else {
            self.pull_acknowledged(rsn);
        }
    }

    /// Acts on the NACK proper, after its bases were applied; false when it names nothing outstanding or has
    /// a reserved code (F-9.2.4-3..8, D-38).
    #[inline(never)]
    pub fn process_nack(&mut self, nack: &NackReport, now: FalconTime) -> bool {
        let rto = self.connection.congestion.rto;
        let index = packet_index(nack.psn);
        let (w, packet) = match nack.window {
            Window::Data => (&mut self.connection.data_tx, &mut self.tables.data_packets[index]),
            Window::Request => (&mut self.connection.request_tx, &mut self.tables.request_packets[index]),
        };
        let offset = nack.psn.distance_from(w.base);
        if offset >= w.in_flight() || w.acknowledged.get(offset) {
            return false;
        }
        let resync = match nack.code {
            NackCode::INSUFFICIENT_RESOURCES => return true, // the timer retransmits (F-9.2.4-3)
            NackCode::RNR => {
                // D-40, D-41: the timer starts anew from here with max(RTO, RNR), the peer is alive.
                if packet.flags & packet_flag::RESYNC == 0 {
                    w.retransmit.clear(offset);
                    packet.last_sent = now.0;
                    packet.rnr_code = nack.rnr_timeout_code;
                    packet.attempts = 0;
                    packet.flags |= packet_flag::RNR;
                    w.forget_retransmitted(packet);
                    // The packet may come out of the queue, where no timer runs.
                    let deadline = now.after(packet.timeout(rto));
                    self.connection.timers.arm_retransmit(deadline);
                }
                return true;
            }
            NackCode::XLR_DROP => ResyncCode::REMOTE_XLR,
            NackCode::COMPLETE_IN_ERROR => ResyncCode::COMPLETE_IN_ERROR,
            NackCode::NON_RECOVERABLE => ResyncCode::NON_RECOVERABLE,
            NackCode::INVALID_CID => ResyncCode::INVALID_CID,
            _ => return false,
        };
        if packet.flags & packet_flag::RESYNC == 0 {
            // F-11-7: the counter starts anew, the Resync gets the full number of attempts.
            packet.flags = (packet.flags & packet_flag::RETRANSMITTED) | packet_flag::RESYNC;
            packet.resync_code = resync;
            packet.attempts = 0;
            w.queue_retransmission(offset, packet);
            let rsn = Rsn(packet.rsn);
            if packet.kind != PacketType::PullData as u8 {
                self.remember_ulp_code(rsn, nack.ulp_code);
            }
        }
        true
    }
}

/// Resync codes (F-7.6-2, F-7.6-3).
pub(crate) struct ResyncCode;

impl ResyncCode {
    /// The target ULP completed the push in error.
    pub(crate) const COMPLETE_IN_ERROR: u8 = 1;
    /// Retransmission attempts exhausted.
    pub(crate) const EXHAUSTED: u8 = 3;
    /// The transaction ended before its packet was acknowledged, or was never fit to be sent.
    pub(crate) const TIMED_OUT: u8 = 4;
    /// The peer's function is being reset.
    pub(crate) const REMOTE_XLR: u8 = 5;
    /// Non-recoverable error of the target ULP.
    pub(crate) const NON_RECOVERABLE: u8 = 6;
    /// The target ULP does not know the connection.
    pub(crate) const INVALID_CID: u8 = 7;
}
