//! Why packets are sent again, and what congestion control is told of it: an account that is kept beside the card.
//!
//! The account remembers each outstanding packet as it was after the last step of its connection. When a packet is queued
//! for another copy, it works out from the times what can have been the reason: the timer, an acknowledgement, a probe of
//! RACK-TLP, the end of an RNR delay. When the copy leaves, the connection must have booked it under that reason, and have
//! told congestion control about it if it is a sign of loss, and not otherwise (F-9.1.4, F-9.1.5, F-9.1.6-9, F-10.6.2.1-3).
//! When an acknowledgement arrives that measures something new, congestion control must be told as well (F-10.6.2.1-1).

mod arrived;
mod news;
#[cfg(test)]
mod tests;
mod told;

use bitflags::bitflags;
use transport_common::bitmap::Bitmap128;
use transport_common::congestion::settings::Placement;
use transport_common::connection::{Service, Snapshot, State, Statistics};
use transport_common::packet_delivery::{
    PACKETS, PacketFlags, PacketTables, Rack, TransmitWindow, TxPacket, Window,
};
use transport_common::security::SecurityDrops;
use transport_common::units::{FalconTime, Picoseconds, Ticks};
use transport_common::wire::nack::rnr_timeout;

pub(super) use arrived::Arrived;
pub(super) use news::{Expected, News};

/// Returns the data packets that the peer is known to have received, from the base of the window.
fn received(rack: &Rack, tx: &TransmitWindow) -> Bitmap128 {
    rack.received.shift_right(tx.base.distance_from(rack.received_base))
}

bitflags! {
    /// What can have been the reason for a copy.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Why: u8 {
        /// Its timer ran out.
        const TIMER = 1;
        /// What has arrived shows that it is lost.
        const EARLY = 2;
        /// Nothing arrived for the probe timeout.
        const PROBE = 4;
        /// An RNR NACK asked for it, and the delay is over.
        const ASKED = 8;
        /// The last copy was booked and not sent.
        const UNSENT = 16;
        /// The peer's ULP refused it: a Resync takes its place.
        const REFUSED = 32;
    }
}

/// Counts of copies by their cause, and of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    early: u64,
    timeout: u64,
    not_ready: u64,
    probes: u64,
    resyncs: u64,
    events: u64,
    acks: u64,
}

impl Counts {
    const fn of(s: &Statistics) -> Self {
        Self {
            early: s.retransmitted_early,
            timeout: s.retransmitted_timeout,
            not_ready: s.retransmitted_rnr,
            probes: s.tail_probes,
            resyncs: s.resyncs_sent,
            events: s.congestion_events,
            acks: s.acks_received,
        }
    }

    const fn since(self, before: Self) -> Self {
        Self {
            early: self.early - before.early,
            timeout: self.timeout - before.timeout,
            not_ready: self.not_ready - before.not_ready,
            probes: self.probes - before.probes,
            resyncs: self.resyncs - before.resyncs,
            events: self.events - before.events,
            acks: self.acks - before.acks,
        }
    }

    const fn copies(&self) -> u64 {
        self.early + self.timeout + self.not_ready + self.probes + self.resyncs
    }
}

/// The account of one end of a connection.
pub(super) struct Causes {
    generation: u32,
    /// The state after the last step.
    transmit: [TransmitWindow; 2],
    packets: Box<PacketTables>,
    rack: Rack,
    rto: Ticks,
    service: Service,
    counts: Counts,
    drops: SecurityDrops,
    /// T1 of the last acknowledgement that was taken. 0 before the first.
    last_t1: FalconTime,
    /// Packets, by place in the table, that an RNR NACK has come for.
    refused: [Bitmap128; 2],
    /// Why each packet waits for another copy.
    why: [[Why; PACKETS]; 2],
    /// When the most recently sent of the delivered packets was sent. Only with RACK-TLP.
    delivered: Option<FalconTime>,
    /// A probe was booked since something new was delivered.
    probed: bool,
}

/// A step, as the account sees it.
struct Look<'a> {
    entry: &'a Snapshot,
    /// The timers of no step that was made since the last check went by a later time.
    now: FalconTime,
    counts: Counts,
    /// The security check refused a packet.
    refused: bool,
    /// The retransmission timeout with which the timers were compared.
    rto: Ticks,
    with_rack: bool,
}

impl Causes {
    /// Begins an account of a connection that is open.
    pub(super) fn of(entry: &Snapshot) -> Self {
        let c = &entry.connection;
        Self {
            generation: c.generation,
            transmit: c.flow.delivery.lanes.map(|lane| lane.tx),
            packets: Box::new(entry.tables.delivery.packets),
            rack: entry.tables.delivery.rack,
            rto: c.flow.congestion.rto,
            service: c.service,
            counts: Counts::of(&entry.tables.statistics),
            drops: entry.tables.statistics.refused,
            last_t1: FalconTime(0),
            refused: [Bitmap128::ZERO; 2],
            why: [[Why::empty(); PACKETS]; 2],
            delivered: None,
            probed: false,
        }
    }

    /// Whether it is the account of this connection, and the connection can still send.
    pub(super) fn is_of(&self, entry: &Snapshot) -> bool {
        self.generation == entry.connection.generation && entry.connection.state == State::Open
    }

    /// Notes what the security check has refused so far.
    pub(super) const fn note_refusals(&mut self, entry: &Snapshot) {
        self.drops = entry.tables.statistics.refused;
    }

    /// Looks at a connection after a step. `arrived`: the acknowledgement that the step has processed, if it has one.
    /// Returns what congestion control in user space may be told.
    ///
    /// # Panics
    /// If a packet was sent again without a reason, or booked under another, or if congestion control was not told what it
    /// must be; the message names the clause.
    pub(super) fn look(
        &mut self,
        entry: &Snapshot,
        arrived: Option<&Arrived>,
        placement: u32,
        now: Picoseconds,
    ) -> News {
        let c = &entry.connection;
        let now = self.service.timers_run_at(now).ticks();
        let counts = Counts::of(&entry.tables.statistics);
        // A result that comes from the queues is applied before the timers, one of the datapath after them.
        let from_queues = placement == Placement::User as u32;
        let rto = if from_queues { c.flow.congestion.rto } else { self.rto };
        let with_rack = c.flow.delivery.tuning.rack_tlp != 0;
        let refused = entry.tables.statistics.refused != self.drops;
        let look = Look { entry, now, counts: counts.since(self.counts), refused, rto, with_rack };
        let due = self.must_be_told(&look, arrived);
        if with_rack {
            self.note_news(&look);
        }
        let mut sent = None;
        for window in [Window::Data, Window::Request] {
            let one = self.look_at(&look, window);
            assert!(sent.is_none() || one.is_none(), "one frame carries two copies: {sent:?} and {one:?}");
            sent = sent.or(one);
        }
        let news = self.check_events(&look, placement, sent, due);
        self.transmit = c.flow.delivery.lanes.map(|lane| lane.tx);
        (self.rack, self.rto, self.counts) = (entry.tables.delivery.rack, c.flow.congestion.rto, counts);
        self.service = c.service;
        self.note_refusals(entry);
        news
    }

    /// Looks at the packets of a window. Returns why the one was sent that was sent again.
    fn look_at(&mut self, look: &Look<'_>, window: Window) -> Option<Why> {
        let w = window as usize;
        let (old, new) = (self.transmit[w], look.entry.connection.flow.delivery.lanes[w].tx);
        let table = &look.entry.tables.delivery.packets[w];
        let calm = |w: &TransmitWindow| w.retransmit.is_zero() && w.not_ready.is_zero();
        let mut sent = None;
        if !calm(&old) || !calm(&new) || look.counts.copies() != 0 {
            for offset in 0..old.in_flight() {
                let psn = old.base.add(offset);
                let place = psn.distance_from(new.base);
                if place >= new.in_flight() || new.acknowledged.get(place) {
                    continue; // it has been acknowledged
                }
                let index = psn.0 as usize % PACKETS;
                let queued = (old.retransmit.get(offset), new.retransmit.get(place));
                if let Some(why) = self.look_at_packet(look, (window, index), queued) {
                    assert!(sent.is_none(), "one step sent two copies");
                    sent = Some(why);
                }
            }
        }
        for offset in old.next.distance_from(new.base).min(PACKETS as u32)..new.in_flight() {
            let index = new.base.add(offset).0 as usize % PACKETS;
            let queued = new.retransmit.get(offset);
            assert!(
                !queued || table[index].flags.contains(PacketFlags::UNSENT),
                "a new packet is to be sent again, and its copy was sent"
            );
            self.packets[w][index] = table[index];
            self.refused[w].clear(index as u32);
            self.why[w][index] = if queued { Why::UNSENT } else { Why::empty() };
        }
        sent
    }

    /// Looks at a packet that is still outstanding. `queued`: whether it waited for another copy, and whether it does.
    /// Returns why it was sent, if it was.
    fn look_at_packet(&mut self, look: &Look<'_>, at: (Window, usize), queued: (bool, bool)) -> Option<Why> {
        let (w, index) = (at.0 as usize, at.1);
        let (old, new) = (self.packets[w][index], look.entry.tables.delivery.packets[w][index]);
        if old == new && queued.0 == queued.1 {
            return None;
        }
        self.packets[w][index] = new;
        let waits = new.flags.contains(PacketFlags::RNR);
        let sent = !waits && (old.last_sent != new.last_sent || queued.0 && !queued.1);
        let mut reason = None;
        if sent {
            let why = if queued.0 { self.why[w][index] } else { self.reasons(look, at, &old, new.last_sent) };
            self.check_copy(look, &old, &new, why);
            reason = Some(why);
        }
        self.why[w][index] = match queued.1 {
            false => Why::empty(),
            true if new.flags.contains(PacketFlags::UNSENT) => Why::UNSENT,
            true if queued.0 && !sent => {
                let refused =
                    !old.flags.contains(PacketFlags::RESYNC) && new.flags.contains(PacketFlags::RESYNC);
                self.why[w][index] | if refused { Why::REFUSED } else { Why::empty() }
            }
            true => {
                let last = if sent { &new } else { &old };
                let why = self.reasons(look, at, last, look.now) | Self::told(look, &old, &new);
                assert!(!why.is_empty(), "a packet is to be sent again without a reason (F-9.1.5): {new:?}");
                why
            }
        };
        reason
    }

    /// Returns what an acknowledgement says about a packet.
    fn told(look: &Look<'_>, old: &TxPacket, new: &TxPacket) -> Why {
        let mut why = Why::empty();
        why.set(Why::EARLY, look.counts.acks != 0 && new.flags.contains(PacketFlags::EARLY));
        let resync = |packet: &TxPacket| packet.flags.contains(PacketFlags::RESYNC);
        why.set(Why::REFUSED, look.counts.acks != 0 && resync(new) && !resync(old));
        why
    }

    /// Returns what the times give as reasons to send a packet again, at `now` at the latest.
    fn reasons(&self, look: &Look<'_>, at: (Window, usize), packet: &TxPacket, now: FalconTime) -> Why {
        if packet.flags.contains(PacketFlags::RNR) {
            let over = now.reached(packet.last_sent.after(rnr_timeout(packet.rnr_code)));
            return if over { Why::ASKED } else { Why::empty() };
        }
        let mut why = Why::empty();
        why.set(Why::TIMER, now.reached(packet.last_sent.after(look.rto)));
        if look.with_rack {
            let after = |sent: FalconTime| sent.reached(packet.last_sent);
            why.set(Why::EARLY, self.delivered.is_some_and(after));
            let due = self.rack.probe_at.time().is_some_and(|time| now.reached(time));
            why.set(Why::PROBE, due && !self.probed && self.is_last(at));
        }
        why
    }

    /// Whether no packet of its window that its peer may still miss is after this one (RFC 8985, 7.3).
    fn is_last(&self, (window, index): (Window, usize)) -> bool {
        let tx = &self.transmit[window as usize];
        let missing = match window {
            Window::Data => tx.timed().and_not(received(&self.rack, tx)),
            Window::Request => tx.timed(),
        };
        let last = missing.top().checked_sub(1).map(|offset| tx.base.add(offset));
        last.is_some_and(|psn| psn.0 as usize % PACKETS == index)
    }

    /// Checks that a copy was booked under its reason.
    fn check_copy(&mut self, look: &Look<'_>, old: &TxPacket, new: &TxPacket, why: Why) {
        let booked = &look.counts;
        let now = new.last_sent;
        if old.flags.contains(PacketFlags::RNR) && !new.flags.contains(PacketFlags::RESYNC) {
            assert!(
                now.reached(old.last_sent.after(rnr_timeout(old.rnr_code))),
                "a packet that its target was not ready for is sent again before its time (D-40)"
            );
        }
        let causes = [booked.probes, booked.early, booked.timeout, booked.not_ready, booked.resyncs];
        let (reason, what) = match causes {
            [1, 0, 0, 0, 0] => (Why::PROBE, "a probe of RACK-TLP (F-9.1.6-9)"),
            [0, 1, 0, 0, 0] => (Why::EARLY, "early (F-9.1.4-1)"),
            [0, 0, 1, 0, 0] => (Why::TIMER, "a timeout (F-9.1.5-1)"),
            [0, 0, 0, 1, 0] => (Why::ASKED, "asked for by an RNR NACK (D-40)"),
            [0, 0, 0, 0, 1] => (Why::all(), "a Resync (F-9.1.8-2)"),
            [0, 0, 0, 0, 0] => (Why::UNSENT, "not sent before"),
            _ => panic!("one copy is booked more than once: {booked:?}"),
        };
        assert!(
            why.intersects(reason),
            "a copy is booked as {what}, and the reason is {why:?}: {old:?}, {new:?}"
        );
        if booked.probes != 0 {
            assert!(!self.probed, "a second probe, and nothing new was delivered (RFC 8985, 7.3)");
            self.probed = true;
        }
    }

    /// Notes what is newly delivered.
    fn note_news(&mut self, look: &Look<'_>) {
        let rack = &look.entry.tables.delivery.rack;
        for w in 0..2 {
            let (old, new) = (self.transmit[w], look.entry.connection.flow.delivery.lanes[w].tx);
            let moved = new.base.distance_from(old.base);
            let known = |rack: &Rack, tx: &TransmitWindow| match w {
                0 => received(rack, tx).or(tx.acknowledged),
                _ => tx.acknowledged,
            };
            let (before, after) = (known(&self.rack, &old), known(rack, &new));
            if moved == 0 && before == after {
                continue;
            }
            for offset in 0..old.in_flight() {
                let psn = old.base.add(offset);
                let delivered = offset < moved || after.get(offset - moved);
                if delivered && !before.get(offset) {
                    let sent = self.packets[w][psn.0 as usize % PACKETS].last_sent;
                    let later = self.delivered.is_none_or(|newest| sent.reached(newest));
                    self.delivered = if later { Some(sent) } else { self.delivered };
                }
            }
            self.probed = false;
        }
    }
}
