//! Early retransmission (F-9.1.4), retransmission by timeout (F-9.1.5), and the choice of the packet to resend.

use super::WindowBits;
use super::tables::packet;
use super::transmit_window::packet_index;
use super::{
    Acknowledgement, Delivery, Gate, Lane, PacketDelivery, PacketFlags, PacketTable, PacketTables, PathClock,
    Resend, TxPacket, Window,
};
use crate::ids::{Psn, Rsn};
use crate::units::{Deadline, FalconTime, Ticks};
use crate::verifier::{bounded, fresh, walked_once};
use crate::wire::resync::ResyncCode;

/// Reason why a packet is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Cause {
    /// It was booked before but never sent.
    NotSent,
    /// The acknowledgements show that it is lost.
    Early,
    /// Its timer expired.
    Timeout,
    /// An RNR NACK asked for it, and its delay is over (D-40).
    NotReady,
    /// A Resync takes its place for the first time.
    Resync,
    /// Nothing arrived for the probe timeout (RACK-TLP).
    Probe,
}

/// Result of booking a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    /// The packet.
    pub packet: TxPacket,
    /// Timeouts of the packet so far, including this one. 0 if a Resync replaces an exhausted or refused packet.
    pub attempts: u16,
    /// Reason.
    pub cause: Cause,
    /// Whether it is a sign of loss in the network. False if the last copy was never sent, if the peer's ULP asked
    /// for it, or if it is a probe.
    pub is_loss: bool,
}

/// State of one search for expired packets in a window.
struct Expiry {
    now: FalconTime,
    rto: Ticks,
    limit: u32,
    /// On an ordered connection, the first packet that the peer's ULP was not ready for, as an offset from the
    /// base.
    first_not_ready: u32,
    /// The RNR timeout code of that packet.
    first_code: u8,
    /// Exhausted packets, as offsets from the base.
    exhausted: WindowBits,
}

impl Delivery<'_> {
    /// Processes the retransmission timer: queues every packet whose timeout has passed, and arms the timer for
    /// the next one (F-9.1.5). An exhausted packet becomes a Resync. An exhausted Resync fails the connection
    /// (D-46). Returns the exhausted Resyncs by window, as offsets from its base.
    #[inline(always)]
    pub fn on_timer(&mut self, clock: &impl PathClock, now: FalconTime) -> [WindowBits; 2] {
        let exhausted = self.state.on_timer(&mut self.tables.packets, now, clock.rto());
        if self.state.has_rack() {
            self.tables.rack.on_timer(self.state, &mut self.tables.packets, &clock.times(now));
        }
        exhausted
    }

    /// Returns the next retransmission to send, if one is queued and the gate lets it pass (F-9.1.2-4..6). On an
    /// ordered connection, requests are resent in RSN order across the windows (F-9.1.5-3). Pull Data is
    /// independent of that (D-53).
    #[inline(always)]
    pub fn next_retransmission(&self, gate: Gate) -> Option<Resend> {
        self.state.next_retransmission(&self.tables.packets, gate)
    }

    /// Records the retransmission of `resend`: timer, counters. `retained` returns whether a request can still be
    /// built from what the application submitted. If not, a Resync replaces it (F-9-6).
    #[inline(always)]
    pub fn book_retransmission(
        &mut self,
        resend: Resend,
        clock: &impl PathClock,
        now: FalconTime,
        retained: impl FnOnce(Rsn) -> bool,
    ) -> Retransmission {
        let packets = &mut self.tables.packets;
        let mut again = self.state.book_retransmission(packets, resend, (now, clock.rto()), retained);
        if self.state.has_rack() {
            let timed_out = again.is_loss && matches!(again.cause, Cause::Timeout);
            if self.tables.rack.book(packets, resend, timed_out) {
                again.cause = Cause::Probe;
                again.is_loss = false;
            }
        }
        again
    }

    /// Processes a packet that was booked as sent but could not be sent. It is sent again as soon as possible, and
    /// this does not count as a timeout.
    #[inline(always)]
    pub fn not_sent(&mut self, window: Window, psn: Psn) {
        let packet = packet(&mut self.tables.packets, window, psn);
        let w = &mut self.state.lane(window).tx;
        let offset = psn.distance_from(w.base);
        if offset < w.in_flight() && !w.acknowledged.get(offset) {
            packet.flags |= PacketFlags::UNSENT;
            w.queue_retransmission(offset, packet);
        }
    }

    /// Queues the packets that an EACK shows to be lost. The bases in the EACK were applied before (F-9.2.3-8).
    /// Returns true if the out-of-order distance shows loss (F-10.6.2.1-10).
    #[inline(always)]
    pub(super) fn detect_loss(&mut self, ack: &Acknowledgement, now: FalconTime, age: Ticks) -> bool {
        self.state.detect_loss(&mut self.tables.packets, ack, now, age)
    }
}

impl PacketDelivery {
    #[inline(never)] // It needs space on the stack.
    fn detect_loss(
        &mut self,
        packets: &mut PacketTables,
        ack: &Acknowledgement,
        now: FalconTime,
        age: Ticks,
    ) -> bool {
        // RACK-TLP goes by time in place of the distance.
        let threshold = if self.has_rack() { WindowBits::WIDTH } else { self.tuning.ooo_threshold };
        // The last copy has to be at least one round trip old (F-9.1.4-2).
        let since = FalconTime(now.0.wrapping_sub(age.0));
        let [data_packets, request_packets] = packets;
        let [data, request] = &mut self.lanes;
        let received = &ack.data_received;
        let data = data.detect_loss(data_packets, received, ack.data_base, (since, threshold, ack.own_data));
        let received = &ack.request;
        let request = request.detect_loss(
            request_packets,
            received,
            ack.request_base,
            (since, threshold, ack.own_request),
        );
        data || request
    }

    #[inline(always)]
    fn on_timer(&mut self, packets: &mut PacketTables, now: FalconTime, rto: Ticks) -> [WindowBits; 2] {
        self.retransmit = Deadline::NONE;
        [self.expire(packets, Window::Data, now, rto), self.expire(packets, Window::Request, now, rto)]
    }

    #[inline(always)]
    fn expire(
        &mut self,
        packets: &mut PacketTables,
        window: Window,
        now: FalconTime,
        rto: Ticks,
    ) -> WindowBits {
        let limit = self.tuning.max_retransmit_attempts;
        let w = &self.lanes[window as usize].tx;
        let first_not_ready =
            if self.tuning.ordered != 0 { w.not_ready.trailing_zeros() } else { WindowBits::WIDTH };
        let first_code = packets[window as usize][packet_index(w.base.add(first_not_ready))].rnr_code;
        let mut expiry = Expiry { now, rto, limit, first_not_ready, first_code, exhausted: WindowBits::ZERO };
        expire_all(self, &mut packets[window as usize], &mut expiry, window.index() as u32);
        expiry.exhausted
    }

    /// Queues a packet if its timeout has passed. Otherwise arms the timer for it.
    #[inline(always)]
    fn expire_packet(&mut self, packets: &mut PacketTable, expiry: &mut Expiry, window: Window, offset: u32) {
        let w = &mut self.lane(window).tx;
        let packet = &mut packets[packet_index(w.base.add(offset))];
        // On an ordered connection, the target takes no packet after the first one that it was not ready for. Only
        // copies of that first packet are sent, so the timer of this one starts again. Only the first packet gets
        // new NACKs, with longer and longer delays, and this one waits for it.
        if packet.flags.contains(PacketFlags::RNR) && expiry.first_not_ready < offset {
            packet.last_sent = expiry.now;
            packet.rnr_code = expiry.first_code;
        }
        let deadline = packet.last_sent.after(packet.timeout(expiry.rto));
        if !expiry.now.reached(deadline) {
            self.arm_retransmit(deadline);
        } else if packet.expire(expiry.limit) {
            w.queue_retransmission(offset, packet);
        } else {
            expiry.exhausted.set(offset);
        }
    }

    #[inline(always)]
    fn next_retransmission(&self, packets: &PacketTables, gate: Gate) -> Option<Resend> {
        let data = &self.data().tx;
        let request = &self.request().tx;
        let response = data.retransmit.and(data.pull_data).trailing_zeros();
        if response < WindowBits::WIDTH && data.may_retransmit(response, true, gate) {
            return Some(Resend { window: Window::Data, psn: data.base.add(response) });
        }
        let push = data.retransmit.and_not(data.pull_data).trailing_zeros();
        let pull = request.retransmit.trailing_zeros();
        let (has_push, has_pull) = (push < WindowBits::WIDTH, pull < WindowBits::WIDTH);
        let (push_psn, pull_psn) = (data.base.add(push), request.base.add(pull));
        let push_passes = has_push && data.may_retransmit(push, false, gate);
        let pull_passes = has_pull && request.may_retransmit(pull, false, gate);
        let push_first = if has_push && has_pull {
            let push_rsn = packets[Window::Data as usize][packet_index(push_psn)].rsn;
            let pull_rsn = packets[Window::Request as usize][packet_index(pull_psn)].rsn;
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
        // On an ordered connection, the other kind must not overtake.
        if second.0 && self.tuning.ordered == 0 {
            return Some(Resend { window: second.1, psn: second.2 });
        }
        None
    }

    #[inline(always)]
    fn book_retransmission(
        &mut self,
        packets: &mut PacketTables,
        resend: Resend,
        (now, rto): (FalconTime, Ticks),
        retained: impl FnOnce(Rsn) -> bool,
    ) -> Retransmission {
        let packet = packet(packets, resend.window, resend.psn);
        let w = &mut self.lane(resend.window).tx;
        let offset = resend.psn.distance_from(w.base);
        w.retransmit.clear(offset);
        if !w.not_ready.is_zero() {
            w.not_ready.clear(offset); // it is in flight again
        }
        packet.last_sent = now;
        let (flags, attempts) = (packet.flags, packet.attempts);
        if !packet.is_response() {
            packet.flags |= PacketFlags::RETRANSMITTED;
            w.outstanding_retransmitted = w.outstanding_retransmitted.wrapping_add(1);
            if !flags.contains(PacketFlags::RESYNC) && !retained(packet.rsn) {
                packet.flags |= PacketFlags::RESYNC;
                packet.resync_code = ResyncCode::TRANSACTION_TIMED_OUT;
                packet.attempts = 0;
            }
        }
        let cause = if packet.flags & (PacketFlags::RESYNC | PacketFlags::RESYNC_SENT) == PacketFlags::RESYNC
        {
            packet.flags |= PacketFlags::RESYNC_SENT;
            Cause::Resync
        } else if flags.contains(PacketFlags::UNSENT) {
            Cause::NotSent // it was counted when it was booked first
        } else if flags.contains(PacketFlags::EARLY) {
            Cause::Early
        } else if flags.contains(PacketFlags::ASKED_FOR) {
            Cause::NotReady
        } else {
            Cause::Timeout
        };
        packet.flags.remove(PacketFlags::EARLY | PacketFlags::UNSENT | PacketFlags::ASKED_FOR);
        let packet = *packet;
        self.arm_retransmit(now.after(packet.timeout(rto)));
        let is_loss = !flags.intersects(PacketFlags::UNSENT | PacketFlags::ASKED_FOR);
        Retransmission { packet, attempts, cause, is_loss }
    }
}

impl Lane {
    /// Queues the packets that are lost: the holes more than the out-of-order distance below the highest received
    /// PSN, or with OWN every packet not received. The last copy must be at least one RTT old in both cases (D-36,
    /// D-37). Returns true if the out-of-order distance shows loss.
    #[inline(always)]
    fn detect_loss(
        &mut self,
        packets: &mut PacketTable,
        received: &WindowBits,
        bitmap_base: Psn,
        (since, threshold, own): (FalconTime, u32, u8),
    ) -> bool {
        // The base may be past the bitmap's own base, by packets that the bitmap acknowledges.
        let received = received.shift_right(self.tx.base.distance_from(bitmap_base));
        let (mut lost, shown) = self.tx.shown_lost(received, threshold, own);
        if !lost.is_zero() {
            self.queue_lost(packets, &mut lost, since);
        }
        shown
    }

    /// Queues those of `lost` whose last copy was sent at `since` or before (F-9.1.4-2). An RNR delay continues
    /// (D-36).
    #[inline(never)]
    fn queue_lost(&mut self, packets: &mut PacketTable, lost: &mut WindowBits, since: FalconTime) {
        let w = &mut self.tx;
        let base = w.base;
        while let Some(offset) = lost.take_lowest() {
            bounded!();
            let packet = &mut packets[packet_index(base.add(offset))];
            if !packet.flags.contains(PacketFlags::RNR) && since.reached(packet.last_sent) {
                packet.flags |= PacketFlags::EARLY;
                w.queue_retransmission(offset, packet);
            }
        }
    }
}

impl TxPacket {
    /// Processes a timeout of the packet: counts it. At the limit the packet becomes a Resync. Returns false if
    /// the packet is a Resync and at the limit (F-11-6).
    #[inline(always)]
    fn expire(&mut self, limit: u32) -> bool {
        // The peer asked for this copy with an RNR NACK. It is sent whatever M is: the peer is alive and wants it
        // (D-41, F-6.4-1).
        let asked_for = self.flags.contains(PacketFlags::RNR);
        self.flags.remove(PacketFlags::RNR | PacketFlags::EARLY | PacketFlags::ASKED_FOR);
        if asked_for {
            self.flags |= PacketFlags::ASKED_FOR;
        }
        if (self.attempts as u32) < limit || asked_for {
            self.attempts = self.attempts.saturating_add(1);
            return true;
        }
        if self.flags.contains(PacketFlags::RESYNC) {
            return false;
        }
        self.flags |= PacketFlags::RESYNC;
        self.resync_code = ResyncCode::RETRANSMISSION_EXHAUSTED;
        self.attempts = 0;
        true
    }
}

walked_once! {
    /// Queues the packets of a window whose timeout has passed.
    fn expire_all(delivery: &mut PacketDelivery, packets: &mut PacketTable, expiry: &mut Expiry; window: u32) -> () {
        let window = Window::from_index(window);
        let mut waiting = delivery.lane(window).tx.timed();
        while let Some(offset) = waiting.take_lowest() {
            bounded!();
            delivery.expire_packet(packets, expiry, window, fresh(offset));
        }
    }
}
