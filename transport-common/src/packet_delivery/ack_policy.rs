//! Decides when to acknowledge and with which packet (F-9.1.6), and when to ask the peer for an ACK (F-9.1.3.1).

use super::{PacketDelivery, Tuning};
use crate::units::{Deadline, FalconTime, Fcwnd, Ticks};

impl Tuning {
    /// Returns the time after an ACK until one may be sent that says nothing new (D-93), and between two resource NACKs
    /// (D-94): the coalescing time, and at least 128 us. That is an eighth of the standard smallest timeout of a sender,
    /// and rare enough in a storm.
    #[inline(always)]
    pub const fn repeat_interval(&self) -> Ticks {
        const LEAST: Ticks = Ticks::from_nanos(128_000);
        if self.ack_coalescing.0 > LEAST.0 { self.ack_coalescing } else { LEAST }
    }
}

impl PacketDelivery {
    /// Records what a packet of the peer says about the path (D-13, D-14). The packet passed all checks up to the
    /// window.
    #[inline(always)]
    pub fn observe(&mut self, t1: FalconTime, t2: FalconTime, hops: u8, congestion_experienced: u8) {
        let report = &mut self.ack.report;
        report.t1 = t1;
        report.t2 = t2;
        report.forward_hops = if hops > 15 { 15 } else { hops };
        report.ecn_count = (report.ecn_count + congestion_experienced as u16) & 0x3fff;
    }

    /// Starts the coalescing timer, if it does not run or runs longer. Called when a packet is in the receive window,
    /// or when the ULP has acknowledged one (F-9.1.6-1, F-9.1.1-9).
    #[inline(always)]
    pub fn coalesce_ack(&mut self, now: FalconTime) {
        let deadline = Deadline::at(now.after(self.tuning.ack_coalescing));
        self.ack.coalescing = self.ack.coalescing.or_earlier(deadline);
    }

    /// Plans the ACK of a packet that was received before: it says nothing new (D-22, D-93). It follows the last ACK by
    /// [`Tuning::repeat_interval`], and is due at once if that is over. A packet that asks for an ACK waits for the
    /// coalescing time at most, once after a silence of that interval or a new packet: the next ones share its ACKs. An ACK
    /// that is planned already answers the copy too. Otherwise a storm of copies would cost an ACK for each coalescing time,
    /// or for each copy if these are rarer.
    #[inline(never)]
    pub fn acknowledge_copy(&mut self, ack_request: bool, now: FalconTime) {
        let (interval, silence) = (self.tuning.repeat_interval(), now.since(self.ack.sent));
        let over = silence >= interval;
        self.ack.hastened &= !over as u8;
        let sooner = ack_request && self.ack.hastened == 0;
        if self.ack.coalescing.is_armed() {
            if sooner {
                self.ack.hastened = 1;
                self.coalesce_ack(now);
            }
            return;
        }
        if over {
            self.ack.pending = 1;
            return;
        }
        let rest = Ticks(interval.0 - silence.0);
        let sooner = sooner && self.tuning.ack_coalescing < rest;
        self.ack.hastened |= sooner as u8;
        let wait = if sooner { self.tuning.ack_coalescing } else { rest };
        self.ack.coalescing = Deadline::at(now.after(wait));
    }

    /// Plans the ACK of a Resync whose PSN was acknowledged before. Its sender waits for it (D-25), so it does not wait for
    /// an ACK that is planned, but for the time between two that say nothing new (D-93).
    #[inline(always)]
    pub fn acknowledge_resync_again(&mut self, ack_request: bool, now: FalconTime) {
        if now.since(self.ack.sent) >= self.tuning.repeat_interval() {
            self.request_ack();
        } else {
            self.acknowledge_copy(ack_request, now);
        }
    }

    /// Makes an ACK due now: the peer asked for it (F-9.1.6-2), or the coalescing timer ran out (F-9.1.6-5).
    #[inline(always)]
    pub fn request_ack(&mut self) {
        self.ack.pending = 1;
    }

    /// Returns whether an ACK is due now.
    #[inline(always)]
    pub fn ack_is_due(&self, now: FalconTime) -> bool {
        self.ack.pending != 0 || self.ack.coalescing.is_due(now)
    }

    /// Returns whether a response that takes the frame of a pending ACK asks the peer for another frame. One response does,
    /// not each until the ACK leaves: every one that asks costs an ACK of the peer.
    #[inline(always)]
    pub fn ask_for_frame(&mut self) -> bool {
        core::mem::replace(&mut self.ack.frame_asked, 1) == 0
    }

    /// Returns whether the ACK has to be an EACK: a bitmap or an OWN bit says more than the bases (F-9.1.6-7,
    /// D-33). With RACK-TLP, the sender wants to know of every data packet that was received, in order or not
    /// (F-9.1.6-9).
    #[inline(always)]
    pub fn needs_eack(&self) -> bool {
        let (data, request) = (&self.data().rx, &self.request().rx);
        !request.received.is_zero()
            || !data.acknowledged.is_zero()
            || if self.tuning.rack_tlp != 0 { !data.received.is_zero() } else { data.received.has_hole() }
            || request.own != 0
            || data.own != 0
    }

    /// Records that an ACK was sent: the timer stops, and an EACK has carried the OWN bits (F-9.1.1-10, F-9.2.1-3).
    #[inline(always)]
    pub fn ack_sent(&mut self, eack: bool, now: FalconTime) {
        self.ack.sent = now;
        self.ack.pending = 0;
        self.ack.frame_asked = 0;
        self.ack.coalescing = Deadline::NONE;
        if eack {
            self.lanes[0].rx.own = 0;
            self.lanes[1].rx.own = 0;
        }
    }

    /// Records that a packet with our bases is sent. It replaces a coalesced ACK if the bases carry all the
    /// information (F-9.1.6-4). An ACK that the peer asked for is still sent (D-88).
    #[inline(always)]
    pub fn bases_piggybacked(&mut self) {
        if self.nothing_beyond_bases() {
            self.ack.coalescing = Deadline::NONE;
        }
    }

    #[inline(always)]
    fn nothing_beyond_bases(&self) -> bool {
        let (data, request) = (&self.data().rx, &self.request().rx);
        request.received.is_zero()
            && data.received.is_zero()
            && data.acknowledged.is_zero()
            && request.own == 0
            && data.own == 0
    }

    /// Returns whether a reliable packet asks for an ACK (F-9.1.3.1-2, D-81): every packet while the fabric window
    /// is small, otherwise a constant fraction. The last request of a burst asks as well (F-9.1.3.1-1), so that
    /// nothing waits for the peer's coalescing timer.
    #[inline(always)]
    pub fn choose_ack_request(&mut self, fcwnd: Fcwnd, last_of_burst: bool) -> bool {
        if fcwnd.packets() <= self.tuning.ack_request_threshold {
            return true;
        }
        let credit = u32::from(self.ack.request_credit) + self.tuning.ack_request_percent;
        if credit >= 100 {
            self.ack.request_credit = (credit - 100) as u16;
            return true;
        }
        self.ack.request_credit = credit as u16;
        last_of_burst
    }
}
