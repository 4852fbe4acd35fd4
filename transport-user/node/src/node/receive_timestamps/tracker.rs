//! Computes the relation of two clocks from their readings. The datapath converts timestamps by this relation.

use std::collections::VecDeque;

use transport_common::hardware_clock::{CardTime, LARGEST_DRIFT, LARGEST_ERROR, Relation};
use transport_common::units::Picoseconds;

/// A reading of both clocks at the same instant, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// The card's clock.
    pub(super) stamp: u64,
    /// The monotonic clock.
    pub(super) time: u64,
    /// Largest error of `time`, in either direction.
    pub(super) error: u64,
}

/// Number of readings over which the drift is computed.
const READINGS: usize = 8;
/// Shortest span over which the drift is computed, nanoseconds. With an error of 2 us in both readings, the drift
/// is then known to 50 parts in a million, and the first relation to 10 us after 200 ms.
const SHORTEST_SPAN: u64 = 40_000_000;

/// Why a reading gives no relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    /// The reading takes too long.
    #[error(
        "the card's clock can be read to {0} ns only, and at most {most} ns are allowed: the bus or the \
         virtual machine is too slow",
        most = LARGEST_ERROR.as_nanos()
    )]
    Uncertain(u64),
    /// This is the first reading, at the start or after a jump.
    #[error("the card's clock has been read only once: its drift is not known yet")]
    First,
    /// The drift of the clock is too large.
    #[error("the card's clock drifts by more than 1 in 1000: check whether a program sets it")]
    Drifts,
}

/// The latest readings.
#[derive(Debug, Default)]
pub(super) struct Tracker {
    readings: VecDeque<Reading>,
    drift: i64,
}

impl Tracker {
    /// Adds a reading, and returns the relation. Readings must be added in the order in which they were made.
    pub(super) fn observe(&mut self, reading: Reading) -> Result<Relation, Unusable> {
        if reading.error > LARGEST_ERROR.as_nanos() {
            return Err(Unusable::Uncertain(reading.error));
        }
        if let Some(last) = self.readings.back()
            && self.readings.len() > 1
            && self.has_jumped(last, &reading)
        {
            self.readings.clear();
        }
        if self.readings.len() == READINGS {
            self.readings.pop_front();
        }
        self.readings.push_back(reading);
        let first = self.readings[0];
        let (stamps, times) = (
            i128::from(reading.stamp) - i128::from(first.stamp),
            i128::from(reading.time) - i128::from(first.time),
        );
        if times < i128::from(SHORTEST_SPAN) {
            return Err(Unusable::First);
        }
        let drift = if stamps > 0 { ((times - stamps) << 32) / stamps } else { i128::MAX };
        if drift.unsigned_abs() > LARGEST_DRIFT.unsigned_abs().into() {
            self.readings.clear();
            return Err(Unusable::Drifts);
        }
        self.drift = drift as i64;
        Ok(Relation {
            stamp: CardTime(reading.stamp),
            time: Picoseconds::from_nanos(reading.time),
            drift: self.drift,
        })
    }

    /// Returns whether the card's clock was set between two readings: their difference does not match the known
    /// drift.
    fn has_jumped(&self, last: &Reading, reading: &Reading) -> bool {
        let stamps = i128::from(reading.stamp) - i128::from(last.stamp);
        let expected = stamps + ((stamps * i128::from(self.drift)) >> 32);
        let times = i128::from(reading.time) - i128::from(last.time);
        (times - expected).unsigned_abs() > u128::from(4 * LARGEST_ERROR.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use transport_common::counters::Counter;

    /// Nanoseconds between readings.
    const PERIOD: u64 = 200_000_000;

    /// Returns the time of a card's clock that shows `start` when the monotonic clock shows 1 s, and that is
    /// faster by `ppb` parts in 10^9.
    fn card(start: u64, ppb: i64, time: u64) -> u64 {
        let passed = i128::from(time) - 1_000_000_000;
        (i128::from(start) + passed + passed * i128::from(ppb) / 1_000_000_000) as u64
    }

    fn reading(start: u64, ppb: i64, time: u64) -> Reading {
        Reading { stamp: card(start, ppb, time), time, error: 500 }
    }

    proptest! {
        /// For all clocks and all drifts: the timestamp of a frame that arrives before the next reading is
        /// converted with at most the error of the readings, plus the growth of an eighth of it.
        #[test]
        fn stamps_are_converted_to_within_the_readings_error(
            start in 1u64 << 32..1 << 62, ppb in -500_000i64..500_000,
            errors in prop::collection::vec(-500i64..=500, 2..20), later in 0u64..PERIOD,
        ) {
            let mut tracker = Tracker::default();
            let mut relation = None;
            let mut time = 5_000_000_000;
            for error in errors {
                time += PERIOD;
                let exact = reading(start, ppb, time);
                relation = tracker.observe(Reading { time: time.wrapping_add_signed(error), ..exact }).ok();
            }
            let relation = relation.expect("two readings give a relation");
            let arrival = time + later;
            let (found, counter) =
                relation.arrival(CardTime(card(start, ppb, arrival)), Picoseconds::from_nanos(arrival + 20_000));
            prop_assert_eq!(counter, Counter::StampHardware);
            let off = (found.0 as i64 - Picoseconds::from_nanos(arrival).0 as i64) / 1000;
            prop_assert!(off.abs() <= 500 + 1000 + 2, "off by {off} ns");
        }
    }

    #[test]
    fn one_reading_is_not_enough() {
        let mut tracker = Tracker::default();
        assert_eq!(tracker.observe(reading(7, 0, 2_000_000_000)), Err(Unusable::First));
        assert_eq!(tracker.observe(reading(7, 0, 2_010_000_000)), Err(Unusable::First));
        assert!(tracker.observe(reading(7, 0, 2_000_000_000 + PERIOD)).is_ok());
    }

    #[test]
    fn a_clock_that_cannot_be_read_well_is_refused() {
        let mut tracker = Tracker::default();
        let slow = Reading { error: LARGEST_ERROR.as_nanos() + 1, ..reading(0, 0, 2_000_000_000) };
        let refused = tracker.observe(slow).expect_err("uncertain");
        assert!(refused.to_string().contains("5001 ns"), "{refused}");
    }

    #[test]
    fn a_clock_that_is_set_starts_anew() {
        let mut tracker = Tracker::default();
        let mut time = 2_000_000_000;
        for _ in 0..3 {
            let _ = tracker.observe(reading(1 << 40, 100_000, time));
            time += PERIOD;
        }
        assert_eq!(tracker.observe(reading(1 << 50, 100_000, time)), Err(Unusable::First));
        time += PERIOD;
        let relation =
            tracker.observe(reading(1 << 50, 100_000, time)).expect("two readings of the new time");
        assert_eq!(relation.stamp, CardTime(card(1 << 50, 100_000, time)));
        let ppb = (relation.drift * 1_000_000_000) >> 32;
        assert!((-100_002..=-99_980).contains(&ppb), "{ppb}");
    }

    #[test]
    fn what_does_not_run_like_a_clock_is_refused() {
        let mut tracker = Tracker::default();
        let _ = tracker.observe(reading(1 << 40, 0, 2_000_000_000));
        let fast = tracker.observe(reading(1 << 40, 2_000_000, 2_000_000_000 + PERIOD));
        assert_eq!(fast, Err(Unusable::Drifts));
        let _ = tracker.observe(reading(1 << 40, 0, 3_000_000_000));
        let back = Reading { stamp: 5, ..reading(1 << 40, 0, 3_000_000_000 + PERIOD) };
        assert_eq!(tracker.observe(back), Err(Unusable::Drifts));
    }
}
