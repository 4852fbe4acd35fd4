//! One clock for both sides: the contexts are moved to the kernel's time, and the kernel's clock reading is
//! reconstructed from what it wrote.

use transport_common::congestion::nic_time::NicTime;
use transport_common::connection::{Service, Snapshot};
use transport_common::packet_delivery::{PacketFlags, PathClock};
use transport_common::transaction::RequestState;
use transport_common::units::{Deadline, FalconTime, InterPacketGap, PicosecondSpan, Picoseconds, Ticks};
use transport_common::wire::nack::rnr_timeout;

use super::frame::{Places, packet_type, put_word, word};
use super::{Case, Stimulus};

/// The least distance of a deadline in the future, in ticks (100 ms). The case ends before that.
const CLEAR_AHEAD: i32 = 800_000;
/// The least distance of a deadline in the past, in ticks.
const CLEAR_BEHIND: i32 = -200;

const BACK: u8 = 9;
const EACK: u8 = 10;
const NACK: u8 = 8;
/// The offset of T1 in BACK, EACK and NACK.
const T1: usize = 16;

impl Case {
    /// Moves all values of the card's own clock from `then` to `now`. Also moves deadlines that might pass
    /// while the case is played.
    pub fn rebase(&mut self, now: Picoseconds) {
        let then = core::mem::replace(&mut self.taken, now);
        let shift = now.ticks().0.wrapping_sub(then.ticks().0);
        let c = &mut self.entry.connection;
        c.flow.security.last_iv = c.flow.security.last_iv.after(now.since(then));
        // The peer's clock stays the same, while the card's clock moves.
        let moved = on_tick(now).since(on_tick(then));
        let clock = &mut self.entry.cold.clock;
        if clock.seen.0 != 0 {
            clock.seen = clock.seen.after(moved);
            clock.round = clock.round.after(moved);
            clock.lead = clock.lead.minus(moved);
        }
        let deadlines = [
            &mut c.flow.delivery.retransmit,
            &mut c.flow.delivery.ack.coalescing,
            &mut c.target.rnr_timer,
            &mut c.initiator.timer,
            &mut c.service.filed,
            &mut c.flow.congestion.pacing,
        ];
        for deadline in deadlines {
            if let Some(time) = deadline.time() {
                *deadline = Deadline::at(FalconTime(clear(time.0.wrapping_add(shift), now.ticks())));
            }
        }
        if c.service.since != 0 {
            let moved = Service::coarse(now).wrapping_sub(Service::coarse(then));
            c.service.since = c.service.since.wrapping_add(moved);
        }
        let ack = &mut c.flow.delivery.ack;
        // An ACK that says nothing new waits until `again`, unless that is less than a coalescing time away.
        let coalescing = c.flow.delivery.tuning.ack_coalescing.0;
        let with_rack = c.flow.delivery.tuning.rack_tlp != 0;
        let apart = c.flow.delivery.tuning.repeat_interval().0;
        let again = clear(ack.sent.0.wrapping_add(shift).wrapping_add(apart), now.ticks());
        let soon = clear(again.wrapping_sub(coalescing), now.ticks());
        let soon = if soon == again.wrapping_sub(coalescing) { soon } else { far_ahead(now.ticks()) };
        ack.sent.0 = soon.wrapping_add(coalescing).wrapping_sub(apart);
        let t2 = &mut ack.report.t2;
        t2.0 = t2.0.wrapping_add(shift);
        let congestion = &mut c.flow.congestion;
        congestion.last_departure = congestion.last_departure.after(now.since(then));
        // A paced packet is due at a time of its own, independent of the timer.
        let due = congestion.last_departure.after(congestion.inter_packet_gap.as_picos()).ticks().0;
        let moved = clear(due, now.ticks()).wrapping_sub(due) as i32;
        let moved = PicosecondSpan((i64::from(moved) << Ticks::PICOS_SHIFT) as u64);
        congestion.last_departure = congestion.last_departure.after(moved);
        for time in [&mut congestion.last_event, &mut congestion.delays_since] {
            time.0 = time.0.wrapping_add(shift);
        }
        let (rto, timeout) = (c.flow.congestion.rto.0, c.initiator.timeout.0);
        let min_rtt = c.flow.congestion.times(now.ticks()).min_rtt.0;
        let tables = &mut self.entry.tables;
        let rack = &mut tables.delivery.rack;
        rack.sent.0 = rack.sent.0.wrapping_add(shift);
        if let Some(time) = rack.probe_at.time() {
            rack.probe_at = Deadline::at(FalconTime(clear(time.0.wrapping_add(shift), now.ticks())));
        }
        // RACK compares the time since a packet was sent with these.
        let least = if min_rtt == 0 { rack.rtt.0 } else { min_rtt };
        let late = rack.rtt.0.saturating_add((least / 4).saturating_add(coalescing));
        let by_rack = [rack.rtt.0, late, min_rtt];
        // A resource NACK may be sent again from then on.
        let again = tables.delivery.nack.resource.0.wrapping_add(shift).wrapping_add(apart);
        tables.delivery.nack.resource.0 = clear(again, now.ticks()).wrapping_sub(apart);
        for packet in tables.delivery.packets.as_flattened_mut() {
            let rnr =
                if packet.flags.contains(PacketFlags::RNR) { rnr_timeout(packet.rnr_code).0 } else { 0 };
            let waits = [rto.max(rnr)].into_iter().chain(by_rack.into_iter().filter(|_| with_rack));
            packet.last_sent.0 = clear_of_all(packet.last_sent.0.wrapping_add(shift), waits, now.ticks());
        }
        for transaction in &mut tables.transactions {
            let deadline = transaction.since.0.wrapping_add(shift).wrapping_add(timeout);
            transaction.since.0 = clear(deadline, now.ticks()).wrapping_sub(timeout);
        }
        for request in tables.requests.iter_mut().filter(|request| request.state == RequestState::Rnr) {
            request.retry_at.0 = clear(request.retry_at.0.wrapping_add(shift), now.ticks());
        }
        if let Stimulus::Frame(frame) = &mut self.stimulus
            && let Some(at) = acknowledgement_t1(frame)
            && let Some(t1) = word(frame, at)
        {
            put_word(frame, at, t1.wrapping_add(shift));
            super::frame::fit_checksums(frame);
        }
    }
}

/// Returns the offset of T1 in an acknowledgement.
fn acknowledgement_t1(frame: &[u8]) -> Option<usize> {
    let places = Places::of(frame)?;
    let at = places.falcon + T1;
    (matches!(packet_type(frame, &places), BACK | EACK | NACK) && frame.len() >= at + 4).then_some(at)
}

/// Rounds an instant down to a whole tick.
fn on_tick(time: Picoseconds) -> Picoseconds {
    Picoseconds(time.0 >> Ticks::PICOS_SHIFT << Ticks::PICOS_SHIFT)
}

fn clear(deadline: u32, now: FalconTime) -> u32 {
    let ahead = deadline.wrapping_sub(now.0) as i32;
    if !(CLEAR_BEHIND..CLEAR_AHEAD).contains(&ahead) {
        return deadline;
    }
    if deadline & 1 == 0 { far_ahead(now) } else { far_behind(now) }
}

/// Moves a start if one of the deadlines, each a wait after it, might pass while the case is played.
fn clear_of_all(start: u32, waits: impl Iterator<Item = u32> + Clone, now: FalconTime) -> u32 {
    let ends = |wait: u32| clear(start.wrapping_add(wait), now).wrapping_sub(wait);
    let moved = waits.clone().map(ends).find(|moved| *moved != start);
    let (Some(moved), Some(least), Some(most)) = (moved, waits.clone().min(), waits.max()) else {
        return start;
    };
    // All of them together: one that is moved alone may carry another one into the time of the case.
    let is_ahead = moved.wrapping_sub(start) as i32 > 0;
    if is_ahead { far_ahead(now).wrapping_sub(least) } else { far_behind(now).wrapping_sub(most) }
}

/// Returns a deadline that the case does not reach.
fn far_ahead(now: FalconTime) -> u32 {
    now.0.wrapping_add((CLEAR_AHEAD + 1000) as u32)
}

/// Returns a deadline that has passed before the case.
fn far_behind(now: FalconTime) -> u32 {
    now.0.wrapping_add((CLEAR_BEHIND - 1000) as u32)
}

/// The clock readings between two instants, as far as a program left traces of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bracket {
    /// Not before this.
    pub(super) first: Picoseconds,
    /// Not after this.
    pub(super) last: Picoseconds,
}

impl Bracket {
    fn contains(self, time: Picoseconds) -> bool {
        (self.first.0..=self.last.0).contains(&time.0)
    }

    /// Returns the instant in the bracket at which the clock shows `ticks`.
    fn at_ticks(self, ticks: u32) -> Option<Picoseconds> {
        let first = self.first.ticks().0;
        let ahead = u64::from(ticks.wrapping_sub(first));
        let instant = ((self.first.0 >> Ticks::PICOS_SHIFT) + ahead) << Ticks::PICOS_SHIFT;
        (instant >> Ticks::PICOS_SHIFT <= self.last.0 >> Ticks::PICOS_SHIFT)
            .then_some(Picoseconds(instant.max(self.first.0)))
    }

    /// Returns the instant in the bracket from which on services record their time as `since`.
    fn at_start(self, since: u32) -> Option<Picoseconds> {
        // The lowest bit says only that there is a time.
        let start = Picoseconds(u64::from(since & !1) << 32);
        self.contains(start).then_some(start)
    }

    /// Returns the reading that turned `before` into `after`. It is exact if a packet was sent, and exact to
    /// the tick if something else shows it. Otherwise there is none, and then it does not matter.
    pub(super) fn reading(self, before: &Snapshot, after: &Snapshot, stimulus: &Stimulus) -> Option<Reading> {
        let (b, a) = (&before.connection, &after.connection);
        let iv = a.flow.security.last_iv;
        if iv != b.flow.security.last_iv && self.contains(iv) {
            return Some(Reading { time: iv, exact: true });
        }
        let departure = a.flow.congestion.last_departure;
        let since = departure.since(b.flow.congestion.last_departure).0;
        // A packet that waited may be booked for the time at which it was due, whole gaps after the last packet.
        let booked_as_due = b.flow.congestion.waited != 0 && since.is_multiple_of(InterPacketGap::UNIT.0);
        if since != 0 && !booked_as_due && self.contains(departure) {
            return Some(Reading { time: departure, exact: true });
        }
        let mut traces = Vec::new();
        let seen = after.cold.clock.seen;
        if seen != before.cold.clock.seen {
            // Stored as the tick after the reading.
            traces.push(seen.ticks().0.wrapping_sub(1));
        }
        if a.flow.congestion.last_event != b.flow.congestion.last_event {
            traces.push(a.flow.congestion.last_event.0);
        }
        let (t2, told) = (a.flow.delivery.ack.report.t2, b.flow.delivery.ack.report.t2);
        if t2 != told {
            traces.push(t2.0);
        }
        if let Stimulus::Frame(frame) = stimulus
            && let Some(t1) = acknowledgement_t1(frame).and_then(|at| word(frame, at))
        {
            if a.flow.congestion.delays != b.flow.congestion.delays {
                // The delay is known modulo 2^24, and the bracket is much shorter than that.
                let first = self.first.ticks().0;
                let shown = t1.wrapping_add(a.flow.congestion.delays[0].last.0);
                traces.push(first.wrapping_add(shown.wrapping_sub(first) & NicTime::MASK));
            }
            traces.push(t1.wrapping_add(a.flow.congestion.rtt.0));
        }
        traces.extend(last_sent(before, after));
        let timeout = a.initiator.timeout.0;
        // One that was stamped now, or one that has been overdue for longer.
        traces.extend(stamped(before, after).flat_map(|since| [since, since.wrapping_add(timeout)]));
        let requests = before.tables.requests.iter().zip(&after.tables.requests);
        let waits =
            requests.filter(|(old, new)| new.state == RequestState::Rnr && old.retry_at != new.retry_at);
        traces.extend(waits.map(|(_, new)| new.retry_at.0.wrapping_sub(rnr_timeout(new.code).0)));
        traces.extend(timer_traces(before, after));
        let changed = (a.service.since != b.service.since).then_some(a.service.since);
        let coarse = || changed.and_then(|since| self.at_start(since));
        let found = traces.into_iter().find_map(|ticks| self.at_ticks(ticks)).or_else(coarse)?;
        // By chance the packet looks as if it was booked for its due time, because it was sent in the same tick.
        if since != 0 && departure.ticks() == found.ticks() {
            return Some(Reading { time: departure, exact: true });
        }
        Some(Reading { time: found, exact: false })
    }

    /// Returns the reading of the first step of a redelivery, which shows in the initiator, in the transactions that began to
    /// wait and in the packets whose timers it restarted. The second step changes none of these, but for the packet that it
    /// sends.
    pub(super) fn first_step(
        self,
        before: &Snapshot,
        after: &Snapshot,
        second: Reading,
    ) -> Option<Picoseconds> {
        let timeout = after.connection.initiator.timeout.0;
        let (old, new) = (before.connection.initiator.timer, after.connection.initiator.timer);
        let armed = new.time().filter(|_| old != new).map(|time| [time.0.wrapping_sub(timeout), time.0]);
        let restarted = last_sent(before, after).filter(|sent| *sent != second.time.ticks().0);
        let traces = armed.into_iter().flatten().chain(stamped(before, after)).chain(restarted);
        traces.into_iter().find_map(|ticks| self.at_ticks(ticks))
    }
}

/// Returns since when each transaction waits for which that has changed.
fn stamped<'e>(before: &'e Snapshot, after: &'e Snapshot) -> impl Iterator<Item = u32> {
    let transactions = before.tables.transactions.iter().zip(&after.tables.transactions);
    transactions.filter(|(old, new)| old.since != new.since).map(|(_, new)| new.since.0)
}

/// Returns when each packet was sent last for which that has changed.
fn last_sent<'e>(before: &'e Snapshot, after: &'e Snapshot) -> impl Iterator<Item = u32> {
    let [old, new] = [before, after].map(|entry| entry.tables.delivery.packets.as_flattened());
    let changed = old.iter().zip(new).filter(|(old, new)| old.last_sent != new.last_sent);
    changed.map(|(_, new)| new.last_sent.0)
}

/// Returns the reading according to newly set timers.
fn timer_traces(before: &Snapshot, after: &Snapshot) -> impl Iterator<Item = u32> {
    let (b, a) = (&before.connection, &after.connection);
    // A probe waits for two round trips, and for the coalescing time if it is of the only packet in flight.
    let in_flight: u32 = a.flow.delivery.lanes.iter().map(|lane| lane.tx.in_flight()).sum();
    let coalescing = if in_flight == 1 { a.flow.delivery.tuning.ack_coalescing.0 } else { 0 };
    let smoothed = a.flow.congestion.times(FalconTime(0)).smoothed_rtt.0;
    let [old, new] = [before, after].map(|entry| entry.tables.delivery.rack.probe_at);
    let candidates = [
        (old, new, smoothed.saturating_mul(2).saturating_add(coalescing)),
        (
            b.flow.delivery.ack.coalescing,
            a.flow.delivery.ack.coalescing,
            a.flow.delivery.tuning.ack_coalescing.0,
        ),
        (Deadline::at(b.flow.delivery.ack.sent), Deadline::at(a.flow.delivery.ack.sent), 0),
        (b.target.rnr_timer, a.target.rnr_timer, rnr_timeout(a.target.first_rnr_code).0),
        (b.initiator.timer, a.initiator.timer, a.initiator.timeout.0),
        (b.initiator.timer, a.initiator.timer, 0),
        (b.flow.delivery.retransmit, a.flow.delivery.retransmit, a.flow.congestion.rto.0),
    ];
    candidates
        .into_iter()
        .filter(|(old, new, _)| old != new)
        .filter_map(|(_, new, wait)| Some(new.time()?.0.wrapping_sub(wait)))
}

/// A reconstructed reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) time: Picoseconds,
    /// Whether it is exact to the picosecond, not only to the tick.
    pub(super) exact: bool,
}

impl Reading {
    /// Returns the reading of an earlier step, of which only the tick is known. In the tick of this one it is this one: then
    /// what looks like a second step may be the only one, and the packet that it sent shows the picosecond.
    pub(super) fn or_earlier(self, earlier: Picoseconds) -> Picoseconds {
        if self.exact && earlier.ticks() == self.time.ticks() { self.time } else { earlier }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use transport_common::units::{PicosecondSpan, Picoseconds, Ticks};

    use super::{Bracket, CLEAR_AHEAD, CLEAR_BEHIND, FalconTime, Reading, Snapshot, clear_of_all};

    /// The timer of the initiator runs already, so it does not show when the request began to wait.
    #[test]
    fn a_request_that_begins_to_wait_shows_the_first_step() {
        let before: Box<Snapshot> = bytemuck::zeroed_box();
        let mut after = before.clone();
        let at = |tick: u64| Picoseconds(tick << Ticks::PICOS_SHIFT);
        let bracket = Bracket { first: at(1_000_000), last: at(1_000_100) };
        let second = Reading { time: at(1_000_050), exact: false };
        assert_eq!(bracket.first_step(&before, &after, second), None);
        after.tables.transactions[7].since = FalconTime(1_000_037);
        assert_eq!(bracket.first_step(&before, &after, second), Some(at(1_000_037)));
    }

    #[test]
    fn an_estimate_in_the_tick_of_a_reading_is_that_reading() {
        let tick = Picoseconds(1_000_000 << Ticks::PICOS_SHIFT);
        let reading = Reading { time: tick.after(PicosecondSpan(24_888)), exact: true };
        assert_eq!(reading.or_earlier(tick), reading.time);
        let before = Picoseconds(999_999 << Ticks::PICOS_SHIFT);
        assert_eq!(reading.or_earlier(before), before);
        assert_eq!(Reading { exact: false, ..reading }.or_earlier(tick), tick);
    }

    /// Whatever is compared with the time since a packet was sent: the comparison ends the same way during the whole case.
    #[test]
    fn no_wait_after_a_start_ends_during_the_case() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..100_000 {
            let now = FalconTime(rng.random());
            let waits: [u32; 4] = core::array::from_fn(|_| rng.random_range(0..4_000_000));
            let start = now.0.wrapping_sub(rng.random_range(0..4_000_000));
            let moved = clear_of_all(start, waits.into_iter(), now);
            for wait in waits {
                let ahead = moved.wrapping_add(wait).wrapping_sub(now.0) as i32;
                assert!(!(CLEAR_BEHIND..CLEAR_AHEAD).contains(&ahead), "{now:?}, {start}, {waits:?}");
            }
        }
    }
}
