//! Early retransmission (F-9.1.4), retransmission by timeout (F-9.1.5), and the choice of what to resend.

use super::acknowledgement::{Acknowledgement, ResyncCode};
use super::transmit_window::{TransmitWindow, TxPacket, packet_index};
use super::{Window, packet_flag};
use crate::bitmap::Bitmap128;
use crate::connection::{Entry, PACKETS, state, timer};
use crate::ids::{Psn, Rsn};
use crate::units::{FalconTime, Ticks};
use crate::verifier::bounded;
use crate::wire::PacketType;
use crate::wire::nack::rnr_timeout;

/// A packet to resend: its window and PSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resend {
    pub(crate) window: Window,
    pub(crate) psn: Psn,
}

impl Entry {
    /// The transmit side of `window`.
    #[inline(always)]
    pub(crate) fn transmit_window(&mut self, window: Window) -> &mut TransmitWindow {
        match window {
            Window::Data => &mut self.connection.data_tx,
            Window::Request => &mut self.connection.request_tx,
        }
    }

    /// The packet at `psn` of `window`.
    #[inline(always)]
    pub(crate) fn packet(&mut self, window: Window, psn: Psn) -> &mut TxPacket {
        let index = packet_index(psn);
        match window {
            Window::Data => &mut self.tables.data_packets[index],
            Window::Request => &mut self.tables.request_packets[index],
        }
    }

    /// Queues what an EACK shows to be lost; the bases in it were applied before (F-9.2.3-8). True if it shows loss by
    /// the out-of-order distance (F-10.6.2.1-10).
    #[inline(always)]
    pub(crate) fn retransmit_early(&mut self, ack: &Acknowledgement, now: FalconTime, rtt: Ticks) -> bool {
        let own = ack.own_data;
        let data =
            self.retransmit_early_window(Window::Data, &ack.data_received, ack.data_base, now, rtt, own);
        let own = ack.own_request;
        let request =
            self.retransmit_early_window(Window::Request, &ack.request, ack.request_base, now, rtt, own);
        data || request
    }

    /// One window: holes more than the out-of-order distance below the highest received PSN, or with OWN
    /// everything not received; each only if its last copy is at least one RTT old (D-36, D-37).
    #[inline(always)]
    fn retransmit_early_window(
        &mut self,
        window: Window,
        received: &Bitmap128,
        bitmap_base: Psn,
        now: FalconTime,
        rtt: Ticks,
        own: u8,
    ) -> bool {
        let threshold = self.connection.config.ooo_threshold;
        let w = self.transmit_window(window);
        // The base may have run past the bitmap's own base by acknowledged bits.
        let received = received.shift_right(w.base.distance_from(bitmap_base));
        let (mut lost, shown) = w.shown_lost(received, threshold, own);
        if !lost.is_zero() {
            self.queue_lost(window, &mut lost, FalconTime(now.0.wrapping_sub(rtt.0)));
        }
        shown
    }

    /// Queues those of `lost` whose last copy left at `since` or before (F-9.1.4-2); RNR delays stand (D-36).
    #[inline(never)]
    fn queue_lost(&mut self, window: Window, lost: &mut Bitmap128, since: FalconTime) {
        let base = self.transmit_window(window).base;
        while let Some(offset) = lost.take_lowest() {
            bounded!();
            let index = packet_index(base.add(offset));
            let (w, packet) = match window {
                Window::Data => (&mut self.connection.data_tx, &mut self.tables.data_packets[index]),
                Window::Request => (&mut self.connection.request_tx, &mut self.tables.request_packets[index]),
            };
            if packet.flags & packet_flag::RNR == 0 && since.reached(FalconTime(packet.last_sent)) {
                packet.flags |= packet_flag::EARLY;
                w.queue_retransmission(offset, packet);
            }
        }
    }

    /// The retransmission timer fired: queues every packet whose timeout has passed and arms the timer for the
    /// next one (F-9.1.5). Exhaustion turns a packet into a Resync, a Resync into the end (D-46).
    pub(crate) fn on_retransmission_timer(&mut self, now: FalconTime) {
        self.connection.timers.armed &= !timer::RETRANSMIT;
        self.expire_window(Window::Data, now);
        self.expire_window(Window::Request, now);
    }

    #[inline(never)]
    fn expire_window(&mut self, window: Window, now: FalconTime) {
        let w = self.transmit_window(window);
        let mut waiting = w.timed();
        let base = w.base;
        while let Some(offset) = waiting.take_lowest() {
            bounded!();
            self.expire_packet(window, base.add(offset), now);
        }
    }

    #[inline(never)]
    fn expire_packet(&mut self, window: Window, psn: Psn, now: FalconTime) {
        let rto = self.connection.congestion.rto;
        let limit = self.connection.config.max_retransmit_attempts;
        let index = packet_index(psn);
        let (w, packet) = match window {
            Window::Data => (&mut self.connection.data_tx, &mut self.tables.data_packets[index]),
            Window::Request => (&mut self.connection.request_tx, &mut self.tables.request_packets[index]),
        };
        let deadline = FalconTime(packet.last_sent).after(packet.timeout(rto));
        if !now.reached(deadline) {
            self.connection.timers.arm_retransmit(deadline);
            return;
        }
        // The copy that an RNR NACK asked for leaves whatever M is: the peer is alive and wants it (D-41, F-6.4-1).
        let asked_for = packet.flags & packet_flag::RNR != 0;
        packet.flags &= !(packet_flag::RNR | packet_flag::EARLY | packet_flag::ASKED_FOR);
        if asked_for {
            packet.flags |= packet_flag::ASKED_FOR;
        }
        if packet.attempts as u32 >= limit && !asked_for {
            if packet.flags & packet_flag::RESYNC != 0 {
                // F-11-6: the Resync is exhausted as well. Pull Data carries the peer's RSN, not one of ours.
                let (rsn, code) = (Rsn(packet.rsn), packet.resync_code);
                let ours = packet.kind != PacketType::PullData as u8;
                self.connection.state = state::FATAL;
                if ours {
                    self.exhausted(rsn, code);
                }
                return;
            }
            packet.flags |= packet_flag::RESYNC;
            packet.resync_code = ResyncCode::EXHAUSTED;
            packet.attempts = 0;
        } else {
            packet.attempts = packet.attempts.saturating_add(1);
        }
        w.queue_retransmission(psn.distance_from(w.base), packet);
    }

    /// The retransmission to send next, if one is queued and the gate lets it pass (F-9.1.2-4..6): on an ordered
    /// connection in RSN order across the windows (F-9.1.5-3), Pull Data apart (D-53).
    #[inline(always)]
    pub(crate) fn next_retransmission(&mut self) -> Option<Resend> {
        let fabric = self.connection.fabric_window();
        let ncwnd = self.connection.congestion.ncwnd;
        let ordered = self.connection.config.ordered != 0;
        let data = &self.connection.data_tx;
        let request = &self.connection.request_tx;
        if data.retransmit.or(request.retransmit).is_zero() {
            return None;
        }
        let response = data.retransmit.and(data.pull_data).trailing_zeros();
        if response < PACKETS as u32 && data.may_retransmit(response, true, fabric, ncwnd) {
            return Some(Resend { window: Window::Data, psn: data.base.add(response) });
        }
        let push = data.retransmit.and_not(data.pull_data).trailing_zeros();
        let pull = request.retransmit.trailing_zeros();
        let (has_push, has_pull) = (push < PACKETS as u32, pull < PACKETS as u32);
        let (push_psn, pull_psn) = (data.base.add(push), request.base.add(pull));
        let push_passes = has_push && data.may_retransmit(push, false, fabric, ncwnd);
        let pull_passes = has_pull && request.may_retransmit(pull, false, fabric, ncwnd);
        let push_first = if has_push && has_pull {
            let push_rsn = Rsn(self.tables.data_packets[packet_index(push_psn)].rsn);
            let pull_rsn = Rsn(self.tables.request_packets[packet_index(pull_psn)].rsn);
            push_rsn.is_before(pull_rsn)
        } else {
            has_push
        };
        let (first, second) = if push_first {
            ((push_passes, Window::Data, push_psn), (pull_passes, Window::Request, pull_psn))
        } else {
            ((pull_passes, Window::Request, pull_psn), (push_passes, Window::Data, push_psn))
        };
        if first.0 {
            return Some(Resend { window: first.1, psn: first.2 });
        }
        // The other kind may not overtake on an ordered connection.
        if second.0 && !ordered {
            return Some(Resend { window: second.1, psn: second.2 });
        }
        None
    }

    /// Books the resending of `resend`: timer, counters, ORRC. A request whose transaction is over is not rebuilt
    /// (F-9-6), since its send queue entry may hold another one by now: a Resync stands in for it.
    #[inline(always)]
    pub(crate) fn book_retransmission(&mut self, resend: Resend, now: FalconTime) {
        let rto = self.connection.congestion.rto;
        let brsn = self.connection.initiator.brsn;
        let index = packet_index(resend.psn);
        let (w, packet) = match resend.window {
            Window::Data => (&mut self.connection.data_tx, &mut self.tables.data_packets[index]),
            Window::Request => (&mut self.connection.request_tx, &mut self.tables.request_packets[index]),
        };
        w.retransmit.clear(resend.psn.distance_from(w.base));
        packet.last_sent = now.0;
        if packet.kind != PacketType::PullData as u8 {
            packet.flags |= packet_flag::RETRANSMITTED;
            w.outstanding_retransmitted = w.outstanding_retransmitted.wrapping_add(1);
            if packet.flags & packet_flag::RESYNC == 0 && Rsn(packet.rsn).is_before(brsn) {
                packet.flags |= packet_flag::RESYNC;
                packet.resync_code = ResyncCode::TIMED_OUT;
                packet.attempts = 0;
            }
        }
        let statistics = &mut self.tables.statistics;
        if packet.flags & (packet_flag::RESYNC | packet_flag::RESYNC_SENT) == packet_flag::RESYNC {
            packet.flags |= packet_flag::RESYNC_SENT;
            statistics.resyncs_sent += 1;
        } else if packet.flags & packet_flag::UNSENT != 0 {
            // Counted when it was booked first.
        } else if packet.flags & packet_flag::EARLY != 0 {
            statistics.retransmitted_early += 1;
        } else {
            statistics.retransmitted_timeout += 1;
        }
        packet.flags &= !(packet_flag::EARLY | packet_flag::UNSENT | packet_flag::ASKED_FOR);
        let deadline = now.after(packet.timeout(rto));
        self.connection.timers.arm_retransmit(deadline);
    }

    /// A packet that was booked as sent could not leave: it is sent again as soon as possible, without counting
    /// as a timeout.
    pub fn transmission_failed(&mut self, window: Window, psn: Psn) {
        let index = packet_index(psn);
        let (w, packet) = match window {
            Window::Data => (&mut self.connection.data_tx, &mut self.tables.data_packets[index]),
            Window::Request => (&mut self.connection.request_tx, &mut self.tables.request_packets[index]),
        };
        let offset = psn.distance_from(w.base);
        if offset < w.in_flight() && !w.acknowledged.get(offset) {
            packet.flags |= packet_flag::UNSENT;
            w.queue_retransmission(offset, packet);
        }
    }
}

impl TxPacket {
    /// Time from the last copy to the next: the RTO, or longer after an RNR NACK (D-40).
    #[inline(always)]
    pub(crate) fn timeout(&self, rto: Ticks) -> Ticks {
        if self.flags & packet_flag::RNR == 0 {
            return rto;
        }
        let rnr = rnr_timeout(self.rnr_code);
        if rnr > rto { rnr } else { rto }
    }
}

impl crate::connection::Timers {
    /// Arms the retransmission timer, or brings it forward.
    #[inline(always)]
    pub(crate) fn arm_retransmit(&mut self, deadline: FalconTime) {
        if self.armed & timer::RETRANSMIT == 0 || !deadline.reached(FalconTime(self.retransmit)) {
            self.retransmit = deadline.0;
            self.armed |= timer::RETRANSMIT;
        }
    }
}
