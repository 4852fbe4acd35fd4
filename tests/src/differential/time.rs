//! One clock for both: the contexts are moved to the kernel's time, and the kernel's reading is found again in what it
//! wrote.

use transport_common::congestion::nic_time::NicTime;
use transport_common::connection::{Entry, timer};
use transport_common::packet_delivery::packet_flag;
use transport_common::units::{FalconTime, Picoseconds};
use transport_common::wire::nack::rnr_timeout;

use super::frame::{Places, packet_type, put_word, word};
use super::{Case, Stimulus};

/// No deadline lies closer ahead than this, in ticks (100 ms): by then the case is over.
const CLEAR_AHEAD: i32 = 800_000;
/// No deadline lies closer behind than this, in ticks.
const CLEAR_BEHIND: i32 = -200;

const BACK: u8 = 9;
const EACK: u8 = 10;
const NACK: u8 = 8;
/// Picoseconds in the unit of the inter-packet gap.
const GAP_UNIT: u64 = 512_000;
/// Where BACK, EACK and NACK carry T1.
const T1: usize = 16;

impl Case {
    /// Moves everything that is measured by the card's own clock from `then` to `now`, and deadlines that might pass
    /// while the case is played out of its way.
    pub fn rebase(&mut self, now: Picoseconds) {
        let then = core::mem::replace(&mut self.taken, now);
        let shift = now.ticks().0.wrapping_sub(then.ticks().0);
        let c = &mut self.entry.connection;
        c.security.last_iv = c.security.last_iv.wrapping_add(now.0.wrapping_sub(then.0));
        let timers = &mut c.timers;
        let deadlines = [
            &mut timers.retransmit,
            &mut timers.coalescing,
            &mut timers.rnr,
            &mut timers.transaction,
            &mut timers.filed,
            &mut timers.pacing,
        ];
        for deadline in deadlines {
            *deadline = clear(deadline.wrapping_add(shift), now.ticks());
        }
        c.report.t2 = c.report.t2.wrapping_add(shift);
        let congestion = &mut c.congestion;
        congestion.last_departure = congestion.last_departure.wrapping_add(now.0.wrapping_sub(then.0));
        // What is paced is due at a time of its own, whatever the timer says.
        let due = congestion.last_departure.wrapping_add(u64::from(congestion.inter_packet_gap) * GAP_UNIT);
        let due = Picoseconds(due).ticks().0;
        let moved = clear(due, now.ticks()).wrapping_sub(due) as i32;
        congestion.last_departure = congestion.last_departure.wrapping_add_signed(i64::from(moved) << 17);
        for time in [&mut congestion.last_event, &mut congestion.delays_since] {
            time.0 = time.0.wrapping_add(shift);
        }
        let (rto, timeout) = (c.congestion.rto.0, c.config.transaction_timeout.0);
        let tables = &mut self.entry.tables;
        for packet in tables.request_packets.iter_mut().chain(&mut tables.data_packets) {
            let rnr = if packet.flags & packet_flag::RNR != 0 { rnr_timeout(packet.rnr_code).0 } else { 0 };
            let wait = rto.max(rnr);
            packet.last_sent = clear(packet.last_sent.wrapping_add(shift).wrapping_add(wait), now.ticks())
                .wrapping_sub(wait);
        }
        for transaction in &mut tables.transactions {
            let deadline = transaction.since.wrapping_add(shift).wrapping_add(timeout);
            transaction.since = clear(deadline, now.ticks()).wrapping_sub(timeout);
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

/// Where an acknowledgement carries T1.
fn acknowledgement_t1(frame: &[u8]) -> Option<usize> {
    let places = Places::of(frame)?;
    let at = places.falcon + T1;
    (matches!(packet_type(frame, &places), BACK | EACK | NACK) && frame.len() >= at + 4).then_some(at)
}

fn clear(deadline: u32, now: FalconTime) -> u32 {
    let ahead = deadline.wrapping_sub(now.0) as i32;
    if !(CLEAR_BEHIND..CLEAR_AHEAD).contains(&ahead) {
        return deadline;
    }
    let away = if deadline & 1 == 0 { CLEAR_AHEAD + 1000 } else { CLEAR_BEHIND - 1000 };
    now.0.wrapping_add(away as u32)
}

/// The readings of the clock between two instants, as far as a program left traces of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bracket {
    /// Not before this, picoseconds.
    pub(super) first: u64,
    /// Not after this.
    pub(super) last: u64,
}

impl Bracket {
    /// The instant in the bracket at which the clock shows `ticks`.
    fn at_ticks(self, ticks: u32) -> Option<Picoseconds> {
        let first = Picoseconds(self.first).ticks().0;
        let ahead = u64::from(ticks.wrapping_sub(first));
        let instant = ((self.first >> 17) + ahead) << 17;
        (instant >> 17 <= self.last >> 17).then_some(Picoseconds(instant.max(self.first)))
    }

    /// The reading that turned `before` into `after`: exactly when a packet was sent, to the tick when something else
    /// shows it, else none, and then it does not matter.
    pub(super) fn reading(self, before: &Entry, after: &Entry, stimulus: &Stimulus) -> Option<Reading> {
        let (b, a) = (&before.connection, &after.connection);
        let iv = a.security.last_iv;
        if iv != b.security.last_iv && (self.first..=self.last).contains(&iv) {
            return Some(Reading { time: Picoseconds(iv), exact: true });
        }
        let departure = a.congestion.last_departure;
        let since = departure.wrapping_sub(b.congestion.last_departure);
        // One that had waited may be booked for when it was due, whole gaps after the last.
        let booked_as_due = b.congestion.waited != 0 && since.is_multiple_of(GAP_UNIT);
        if since != 0 && !booked_as_due && (self.first..=self.last).contains(&departure) {
            return Some(Reading { time: Picoseconds(departure), exact: true });
        }
        let mut traces = Vec::new();
        if a.congestion.last_event != b.congestion.last_event {
            traces.push(a.congestion.last_event.0);
        }
        if a.report.t2 != b.report.t2 {
            traces.push(a.report.t2);
        }
        if let Stimulus::Frame(frame) = stimulus
            && let Some(t1) = acknowledgement_t1(frame).and_then(|at| word(frame, at))
        {
            if a.congestion.delays != b.congestion.delays {
                // The delay is known modulo 2^24, and the bracket is much shorter than that.
                let first = Picoseconds(self.first).ticks().0;
                let shown = t1.wrapping_add(a.congestion.delays[0].last.0);
                traces.push(first.wrapping_add(shown.wrapping_sub(first) & NicTime::MASK));
            }
            traces.push(t1.wrapping_add(a.congestion.rtt.0));
        }
        let tables = [
            (&before.tables.request_packets, &after.tables.request_packets),
            (&before.tables.data_packets, &after.tables.data_packets),
        ];
        for (old, new) in tables {
            let changed = old.iter().zip(new).filter(|(old, new)| old.last_sent != new.last_sent);
            traces.extend(changed.map(|(_, new)| new.last_sent));
        }
        let transactions = before.tables.transactions.iter().zip(&after.tables.transactions);
        traces.extend(transactions.filter(|(old, new)| old.since != new.since).map(|(_, new)| new.since));
        traces.extend(timer_traces(before, after));
        let found = traces.into_iter().find_map(|ticks| self.at_ticks(ticks))?;
        Some(Reading { time: found, exact: false })
    }

    /// The reading that only the transaction timer shows: that of the first step of a redelivery.
    pub(super) fn first_step(self, before: &Entry, after: &Entry) -> Option<Picoseconds> {
        let timeout = after.connection.config.transaction_timeout.0;
        let (old, new) = (before.connection.timers.transaction, after.connection.timers.transaction);
        [new.wrapping_sub(timeout), new]
            .into_iter()
            .filter(|_| old != new)
            .find_map(|ticks| self.at_ticks(ticks))
    }
}

/// What newly set timers say.
fn timer_traces(before: &Entry, after: &Entry) -> impl Iterator<Item = u32> {
    let (b, a) = (before.connection.timers, after.connection.timers);
    let config = &after.connection.config;
    let candidates = [
        (timer::COALESCING, b.coalescing, a.coalescing, config.ack_coalescing.0),
        (timer::RNR, b.rnr, a.rnr, rnr_timeout(config.rnr_timeout_code).0),
        (timer::TRANSACTION, b.transaction, a.transaction, config.transaction_timeout.0),
        (timer::TRANSACTION, b.transaction, a.transaction, 0),
        (timer::RETRANSMIT, b.retransmit, a.retransmit, after.connection.congestion.rto.0),
    ];
    candidates
        .into_iter()
        .filter(move |(bit, old, new, _)| a.armed & bit != 0 && (old != new || b.armed & bit == 0))
        .map(|(_, _, new, wait)| new.wrapping_sub(wait))
}

/// A reading found again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) time: Picoseconds,
    /// To the picosecond, not only to the tick.
    pub(super) exact: bool,
}
