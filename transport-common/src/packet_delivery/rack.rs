//! The RACK-TLP extension, sender half (F-9.1.6-9): the algorithm of RFC 8985 on both windows. Off by default.
//!
//! RACK orders packets by the time when they were sent, not by their PSNs. A packet is lost if one that was sent later
//! has arrived, and the packet has been on its way longer than that one took, by more than the reordering window. So
//! it also finds lost copies, and loss in one window by what arrives of the other.
//!
//! TLP sends the last packet again if nothing arrives for two round trips. The acknowledgement of that probe shows RACK
//! what else is missing. Without it, only the retransmission timeout finds the loss of the last packets.

use super::WindowBits;
use super::transmit_window::packet_index;
use super::{
    Acknowledgement, Latest, PacketDelivery, PacketFlags, PacketTable, PacketTables, PathClock, PathTimes,
    Probe, Rack, Resend, Tuning, Window, tables,
};
use crate::ids::Psn;
use crate::units::{Deadline, FalconTime, Ticks};
use crate::verifier::{bounded, fresh, walked_once};

/// A longer round trip is none. Times are compared modulo 2^32 ticks.
const LONGEST: Ticks = Ticks(1 << 30);

/// One search of a window for deliveries.
struct Search<'a> {
    window: Window,
    /// Base of the window before it advances.
    base: Psn,
    /// One past the highest packet that was known to be delivered before, as an offset from the base.
    highest: u32,
    times: &'a PathTimes,
}

impl Rack {
    /// Notes what an acknowledgement, which was judged before and is not applied yet, shows to be delivered of one window:
    /// the packets that it acknowledges and, in the data window, what the peer has received.
    #[inline(always)]
    pub(super) fn note_lane(
        &mut self,
        delivery: &PacketDelivery,
        packets: &PacketTables,
        ack: &Acknowledgement,
        window: Window,
        times: &PathTimes,
    ) {
        let w = &delivery.lanes[window.index()].tx;
        let (base, selected) = match window {
            Window::Data => (ack.data_base, ack.data_acknowledged.or(ack.data_received)),
            Window::Request => (ack.request_base, ack.request),
        };
        let advance = base.distance_from(w.base);
        let delivered = WindowBits::low_mask(advance).or(selected.shift_left(advance));
        let mut known = w.acknowledged;
        if matches!(window, Window::Data) {
            let received = self.received_from(w.base);
            known = known.or(received);
            self.received = received.or(delivered);
            self.received_base = w.base;
        }
        let new = delivered.and_not(known);
        if advance != 0 || !new.is_zero() {
            self.news = 1;
        }
        let search = Search { window, base: w.base, highest: known.top(), times };
        self.note_all(&packets[window.index()], new, &search);
    }

    #[inline(always)]
    fn note_all(&mut self, packets: &PacketTable, mut delivered: WindowBits, search: &Search<'_>) {
        while let Some(offset) = delivered.take_lowest() {
            bounded!();
            let offset = fresh(offset);
            let psn = search.base.add(offset);
            let packet = &packets[packet_index(psn)];
            self.note((packet.flags, packet.last_sent), psn, offset < search.highest, search);
        }
    }

    /// Processes the news of an acknowledgement, after it was applied: queues what is lost and starts the probe timeout
    /// again. Returns whether something is lost.
    #[inline(always)]
    pub(super) fn on_delivery(
        &mut self,
        delivery: &mut PacketDelivery,
        packets: &mut PacketTables,
        times: &PathTimes,
    ) -> bool {
        if self.news == 0 {
            return false;
        }
        self.news = 0;
        let in_flight = in_flight(delivery);
        // A new packet is sent later than all that arrived. The times would wrap while nothing is sent.
        if in_flight == 0 || times.now.since(self.sent) > LONGEST {
            self.latest = Latest::None;
        }
        if !self.probe_is_queued(delivery) {
            self.probe = Probe::None;
        }
        self.probe_at = Deadline::NONE;
        if in_flight != 0 {
            self.arm_probe(delivery, times);
        }
        self.detect(delivery, packets, times)
    }

    /// Starts the probe timeout: two smoothed round trip times, and the coalescing time if the peer may wait with the
    /// acknowledgement of a single packet (RFC 8985, 7.2). A timeout that is not below the RTO is of no use.
    #[inline(always)]
    fn arm_probe(&mut self, delivery: &mut PacketDelivery, times: &PathTimes) {
        let coalescing = if in_flight(delivery) == 1 { delivery.tuning.ack_coalescing.0 } else { 0 };
        let timeout = times.smoothed_rtt.0.saturating_mul(2).saturating_add(coalescing);
        let useful = times.smoothed_rtt.0 != 0 && timeout < times.rto.0;
        self.probe_at = Deadline::NONE;
        if useful && matches!(self.probe, Probe::None) {
            let at = times.now.after(Ticks(timeout));
            self.probe_at = Deadline::at(at);
            delivery.arm_retransmit(at);
        }
    }

    /// Does the part of RACK-TLP when the retransmission timer has run out, after the timeouts of the packets: packets
    /// whose reordering window is over, and the probe.
    #[inline(always)]
    pub(super) fn on_timer(
        &mut self,
        delivery: &mut PacketDelivery,
        packets: &mut PacketTables,
        times: &PathTimes,
    ) {
        // A node may have been stopped since. What is sent now would look as if it was sent before that packet, and be lost
        // again and again.
        if times.now.since(self.sent) > LONGEST {
            self.latest = Latest::None;
        }
        self.detect(delivery, packets, times);
        let Some(at) = self.probe_at.time() else { return };
        if !times.now.reached(at) {
            return delivery.arm_retransmit(at);
        }
        self.probe_at = Deadline::NONE;
        // What waits for retransmission tells as much as a probe.
        if !delivery.has_retransmissions() {
            self.queue_probe(delivery, packets);
        }
    }

    /// Queues the packet that was sent last as a probe, if the peer did not ask to wait with it.
    #[inline(never)]
    fn queue_probe(&mut self, delivery: &mut PacketDelivery, packets: &mut PacketTables) {
        let (data, request) = (&delivery.data().tx, &delivery.request().tx);
        let data_top = data.timed().and_not(self.received_from(data.base)).top();
        let request_top = request.timed().top();
        let (data_psn, request_psn) = (last(data.base, data_top), last(request.base, request_top));
        let [data_packets, request_packets] = packets;
        let data_packet = &mut data_packets[packet_index(data_psn)];
        let request_packet = &mut request_packets[packet_index(request_psn)];
        let has_data = data_top != 0 && !data_packet.flags.contains(PacketFlags::RNR);
        let has_request = request_top != 0 && !request_packet.flags.contains(PacketFlags::RNR);
        let data_is_later = data_packet.last_sent.reached(request_packet.last_sent);
        if has_data && (data_is_later || !has_request) {
            (self.probe, self.probe_psn) = (Probe::QueuedData, data_psn);
            delivery.data_mut().tx.queue_retransmission(fresh(data_top - 1), data_packet);
        } else if has_request {
            (self.probe, self.probe_psn) = (Probe::QueuedRequest, request_psn);
            delivery.request_mut().tx.queue_retransmission(fresh(request_top - 1), request_packet);
        }
    }

    #[inline(always)]
    fn probe_is_queued(&self, delivery: &PacketDelivery) -> bool {
        let Some(window) = self.probe.queued() else { return false };
        let w = &delivery.lanes[window.index()].tx;
        let offset = self.probe_psn.distance_from(w.base);
        offset < w.in_flight() && w.retransmit.get(offset)
    }

    /// Returns the data packets known to be received, from the base of the window.
    #[inline(always)]
    fn received_from(&self, base: Psn) -> WindowBits {
        self.received.shift_right(base.distance_from(self.received_base))
    }

    /// Queues the packets that are lost: sent before one that was delivered, and on their way for longer than that one
    /// and the reordering window (RFC 8985, 6.2). Arms the timer for those that are not old enough.
    #[inline(always)]
    fn detect(
        &mut self,
        delivery: &mut PacketDelivery,
        packets: &mut PacketTables,
        times: &PathTimes,
    ) -> bool {
        if matches!(self.latest, Latest::None) {
            return false;
        }
        let data = detect_in(self, delivery, packets, times, Window::Data.index() as u32);
        let request = detect_in(self, delivery, packets, times, Window::Request.index() as u32);
        data || request
    }

    #[inline(always)]
    fn detect_in(
        &mut self,
        delivery: &mut PacketDelivery,
        packets: &mut PacketTables,
        window: Window,
        times: &PathTimes,
    ) -> bool {
        let w = &delivery.lanes[window.index()].tx;
        let received =
            if matches!(window, Window::Data) { self.received_from(w.base) } else { WindowBits::ZERO };
        let (base, mut missing) = (w.base, w.timed().and_not(received));
        let late = self.reordering_window(w.acknowledged.or(received), &delivery.tuning, times);
        let wait = Ticks(self.rtt.0.saturating_add(late.0));
        let mut lost = false;
        while let Some(offset) = missing.take_lowest() {
            bounded!();
            let offset = fresh(offset);
            let psn = base.add(offset);
            let packet = &mut packets[window.index()][packet_index(psn)];
            // An RNR delay continues (D-36).
            if packet.flags.contains(PacketFlags::RNR) || self.is_before(window, psn, packet.last_sent) {
                continue;
            }
            let deadline = packet.last_sent.after(wait);
            if times.now.reached(deadline) {
                packet.flags |= PacketFlags::EARLY;
                delivery.lane(window).tx.queue_retransmission(offset, packet);
                lost = true;
            } else {
                delivery.arm_retransmit(deadline);
            }
        }
        lost
    }

    /// Returns how long a packet may be late: a quarter of the smallest round trip time, and the coalescing time. TCP
    /// acknowledges at once what fills a hole (RFC 5681, 4.2), Falcon only when that time is over (F-9.1.6-1). While no
    /// packet was seen out of order, more packets above the first hole than the out-of-order distance mean loss at once
    /// (RFC 8985, 6.2, step 4).
    #[inline(always)]
    fn reordering_window(&self, delivered: WindowBits, tuning: &Tuning, times: &PathTimes) -> Ticks {
        let above = delivered.count_ones() - delivered.trailing_ones();
        if self.reordered == 0 && above > tuning.ooo_threshold {
            return Ticks(0);
        }
        let least = if times.min_rtt.0 == 0 { self.rtt.0 } else { times.min_rtt.0 };
        Ticks((least / 4).saturating_add(tuning.ack_coalescing.0))
    }

    /// Records that `resend` is sent again. `timed_out`: it is recorded as a sign of loss by a timeout, and nothing else
    /// has claimed the packet. Returns whether it is the probe: then it is neither.
    #[inline(never)]
    pub(super) fn book(&mut self, packets: &mut PacketTables, resend: Resend, timed_out: bool) -> bool {
        tables::packet(packets, resend.window, resend.psn).flags |= PacketFlags::RESENT;
        if self.probe_psn != resend.psn || self.probe.queued() != Some(resend.window) {
            return false;
        }
        self.probe = Probe::Sent;
        timed_out
    }

    /// Notes that a packet is delivered. `overtaken`: a later one of its window was known to be delivered before.
    #[inline(always)]
    fn note(
        &mut self,
        (flags, sent): (PacketFlags, FalconTime),
        psn: Psn,
        overtaken: bool,
        search: &Search<'_>,
    ) {
        let (window, times) = (search.window, search.times);
        // The time of these is not that of a copy that was sent.
        if flags.intersects(PacketFlags::RNR | PacketFlags::ASKED_FOR | PacketFlags::UNSENT) {
            return;
        }
        let rtt = times.now.since(sent);
        // Nothing crosses the path so fast: an earlier copy has arrived (RFC 8985, 6.2, step 2).
        let earlier_copy = flags.contains(PacketFlags::RESENT) && rtt < times.min_rtt;
        if overtaken && (earlier_copy || !flags.contains(PacketFlags::RESENT)) {
            self.reordered = 1;
        }
        if earlier_copy || rtt > LONGEST {
            return;
        }
        if matches!(self.latest, Latest::None) || self.is_before(window, psn, sent) {
            self.latest = if matches!(window, Window::Request) { Latest::Request } else { Latest::Data };
            (self.sent, self.psn, self.rtt) = (sent, psn, rtt);
        }
    }

    /// Returns whether the delivered packet was sent before this one, or possibly was: the order of packets of the
    /// two windows that were sent in the same tick is not known.
    #[inline(always)]
    fn is_before(&self, window: Window, psn: Psn, sent: FalconTime) -> bool {
        if self.sent != sent {
            return sent.reached(self.sent);
        }
        self.window() != window || self.psn.is_before(psn)
    }

    /// Returns the window of the delivered packet.
    #[inline(always)]
    const fn window(&self) -> Window {
        if matches!(self.latest, Latest::Request) { Window::Request } else { Window::Data }
    }
}

/// Starts the probe timeout again, because a packet is sent. Never inlined: it is rare, and packets are sent in several
/// places.
#[inline(never)]
pub(super) fn arm_probe<C: PathClock>(
    delivery: &mut PacketDelivery,
    rack: &mut Rack,
    clock: &C,
    now: FalconTime,
) {
    rack.arm_probe(delivery, &clock.times(now));
}

walked_once! {
    /// Does the part of [`Rack::detect`] in one window.
    fn detect_in(
        rack: &mut Rack,
        delivery: &mut PacketDelivery,
        packets: &mut PacketTables,
        times: &PathTimes;
        window: u32
    ) -> bool {
        rack.detect_in(delivery, packets, Window::from_index(window), times)
    }
}

/// Returns the PSN of the last packet below offset `top`.
#[inline(always)]
const fn last(base: Psn, top: u32) -> Psn {
    Psn(base.0.wrapping_add(top).wrapping_sub(1))
}

#[inline(always)]
fn in_flight(delivery: &PacketDelivery) -> u32 {
    delivery.data().tx.in_flight() + delivery.request().tx.in_flight()
}
