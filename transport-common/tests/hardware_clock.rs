//! Which of a card's receive timestamps are accepted, and their time by our clock.

use proptest::prelude::*;
use transport_common::counters::Counter;
use transport_common::hardware_clock::{
    CardTime, ClockPage, LARGEST_DRIFT, LARGEST_ERROR, LONGEST_USE, OLDEST_STAMP, Relation,
};
use transport_common::units::Picoseconds;

/// 5 s by our clock. The card's clock shows 1000 s more.
const RELATION: Relation =
    Relation { stamp: CardTime(1_005_000_000_000), time: Picoseconds::from_nanos(5_000_000_000), drift: 0 };
const OFFSET: u64 = 1_000_000_000_000;

/// Returns the result for a stamp of `stamp` by our clock, in a packet that is processed at `now`, nanoseconds.
fn judged(stamp: u64, now: u64) -> (u64, Counter) {
    let (arrival, counter) = RELATION.arrival(CardTime(stamp + OFFSET), Picoseconds::from_nanos(now));
    (arrival.as_nanos(), counter)
}

#[test]
fn a_stamp_is_converted_to_our_clock() {
    let now = 5_010_000_000;
    assert_eq!(judged(now - 3_000, now), (now - 3_000, Counter::StampHardware));
    // A stamp from before the clocks were compared.
    assert_eq!(judged(4_999_999_000, 5_000_001_000), (4_999_999_000, Counter::StampHardware));
}

#[test]
fn a_stamp_of_zero_is_none() {
    let now = Picoseconds::from_nanos(5_000_000_000);
    assert_eq!(RELATION.arrival(CardTime(0), now), (now, Counter::StampAbsent));
}

#[test]
fn a_stamp_a_little_in_the_future_is_now_and_one_beyond_is_refused() {
    let now = 5_010_000_000;
    assert_eq!(judged(now + LARGEST_ERROR.as_nanos(), now), (now, Counter::StampHardware));
    assert_eq!(judged(now + LARGEST_ERROR.as_nanos() + 1, now), (now, Counter::StampInFuture));
    assert_eq!(judged(now + 1 + (1 << 60), now), (now, Counter::StampInFuture));
}

#[test]
fn a_stamp_older_than_a_packet_can_be_is_refused() {
    let now = 5_200_000_000;
    assert_eq!(
        judged(now - OLDEST_STAMP.as_nanos(), now),
        (now - OLDEST_STAMP.as_nanos(), Counter::StampHardware)
    );
    assert_eq!(judged(now - OLDEST_STAMP.as_nanos() - 1, now), (now, Counter::StampTooOld));
    let (at, counter) = RELATION.arrival(CardTime(1), Picoseconds::from_nanos(now));
    assert_eq!((at.as_nanos(), counter), (now, Counter::StampTooOld));
}

#[test]
fn a_relation_that_is_too_old_is_not_used() {
    let now = RELATION.time.as_nanos() + LONGEST_USE.as_nanos();
    assert_eq!(judged(now - 1, now).1, Counter::StampHardware);
    assert_eq!(judged(now, now + 1), (now + 1, Counter::StampClockUnknown));
}

#[test]
fn the_last_relation_published_is_in_force() {
    let page: ClockPage = bytemuck::Zeroable::zeroed();
    assert_eq!(page.relation(), None);
    for n in 1..5 {
        let relation = Relation { stamp: CardTime(n), time: Picoseconds(10 * n), drift: -(n as i64) };
        page.publish(relation);
        assert_eq!(page.relation(), Some(relation));
    }
    page.publish(Relation { drift: i64::MIN, ..RELATION });
    assert_eq!(page.relation(), Some(Relation { drift: -LARGEST_DRIFT, ..RELATION }));
}

proptest! {
    /// Compares with exact arithmetic, also where our clock in picoseconds wraps (after 213 days).
    #[test]
    fn conversion_is_exact_to_a_nanosecond(
        stamp in 1u64 << 40..1 << 62, time in 1u64 << 40..1 << 62, drift in -LARGEST_DRIFT..=LARGEST_DRIFT,
        since in 0u64..LONGEST_USE.as_nanos(), age in 0u64..50_000_000,
    ) {
        let relation = Relation { stamp: CardTime(stamp), time: Picoseconds::from_nanos(time), drift };
        let now = Picoseconds::from_nanos(time + since);
        let arrival = i128::from(time + since) - i128::from(age);
        // Elapsed time by our clock = elapsed time by the card's clock * (1 + drift / 2^32).
        let by_card = ((arrival - i128::from(time)) << 32) / ((1i128 << 32) + i128::from(drift));
        let (found, counter) = relation.arrival(CardTime((i128::from(stamp) + by_card) as u64), now);
        prop_assert_eq!(counter, Counter::StampHardware);
        let off = found.0.wrapping_sub(Picoseconds::from_nanos(arrival as u64).0) as i64;
        prop_assert!(off.abs() <= 2_000, "off by {off} ps");
    }

    /// Whatever the driver reports: the instant is now or earlier, and not earlier than a packet can be old.
    #[test]
    fn no_stamp_gives_an_instant_that_cannot_be(
        relation in (any::<u64>(), any::<u64>(), -LARGEST_DRIFT..=LARGEST_DRIFT), stamp: u64, now: u64,
    ) {
        let relation = Relation { stamp: CardTime(relation.0), time: Picoseconds(relation.1), drift: relation.2 };
        let (arrival, counter) = relation.arrival(CardTime(stamp), Picoseconds(now));
        prop_assert!(now.wrapping_sub(arrival.0) <= OLDEST_STAMP.0);
        prop_assert!(counter == Counter::StampHardware || arrival.0 == now);
    }
}
