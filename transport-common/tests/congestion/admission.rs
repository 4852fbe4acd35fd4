//! Event admission (10.6.1, D-73).

use std::collections::HashSet;

use transport_common::congestion::admission::{Admission, Verdict};
use transport_common::units::Ticks;

const POLICY: Admission =
    Admission { capacity: 100, thresholds: [40, 60, 80], elapsed: Ticks(1022), packets: 512 };

/// F-10.6.1-2: fills the queue step by step, with all four combinations of the predicates.
#[test]
fn each_band_of_the_queue_asks_for_its_predicates() {
    for occupancy in 0..=120 {
        for (p1, p2) in [(false, false), (false, true), (true, false), (true, true)] {
            let since = Ticks(if p1 { 1023 } else { 1022 });
            let acked = if p2 { 513 } else { 512 };
            let verdict = POLICY.judge(occupancy, since, acked, false);
            let admitted = match occupancy {
                0..40 => true,
                40..60 => p1 || p2,
                60..80 => p1,
                80..100 => p1 && p2,
                _ => false,
            };
            assert_eq!(verdict.is_admitted(), admitted, "{occupancy} {p1} {p2} {verdict:?}");
            let band = match occupancy {
                0..40 => [Verdict::AdmittedBelowFirst, Verdict::AdmittedBelowFirst],
                40..60 => [Verdict::AdmittedBelowSecond, Verdict::RefusedBelowSecond],
                60..80 => [Verdict::AdmittedBelowThird, Verdict::RefusedBelowThird],
                80..100 => [Verdict::AdmittedAboveThird, Verdict::RefusedAboveThird],
                _ => [Verdict::RefusedFull, Verdict::RefusedFull],
            };
            assert!(band.contains(&verdict), "{occupancy} {verdict:?}");
        }
    }
}

/// F-10.6.1-3, D-73: both predicates are strictly greater.
#[test]
fn predicates_are_strict() {
    assert_eq!(POLICY.judge(50, Ticks(1022), 512, false), Verdict::RefusedBelowSecond);
    assert_eq!(POLICY.judge(50, Ticks(1023), 512, false), Verdict::AdmittedBelowSecond);
    assert_eq!(POLICY.judge(50, Ticks(1022), 513, false), Verdict::AdmittedBelowSecond);
}

/// D-73: one outstanding event per connection, whatever the state of the queue and the predicates.
#[test]
fn an_outstanding_event_refuses_the_next() {
    assert_eq!(POLICY.judge(0, Ticks(u32::MAX), 1023, true), Verdict::RefusedOutstanding);
    assert_eq!(POLICY.judge(100, Ticks(0), 0, true), Verdict::RefusedOutstanding);
}

/// D-73, D-78: by default every event is admitted until the queue is full. P1 is 134 us, P2 is 512.
#[test]
fn the_default_admits_until_full() {
    let policy = Admission::new(64);
    assert!((0..64).all(|n| policy.judge(n, Ticks(0), 0, false) == Verdict::AdmittedBelowFirst));
    assert_eq!(policy.judge(64, Ticks(u32::MAX), 1023, false), Verdict::RefusedFull);
    assert_eq!((policy.elapsed, policy.packets), (Ticks(1022), 512));
}

#[test]
fn every_verdict_has_a_counter_of_its_own() {
    let names: HashSet<_> = Verdict::ALL.iter().map(|verdict| verdict.name()).collect();
    assert_eq!(names.len(), Verdict::ALL.len());
    for (index, verdict) in Verdict::ALL.into_iter().enumerate() {
        assert_eq!(verdict as usize, index);
        assert_eq!(verdict.is_admitted(), verdict.name().starts_with("event_admitted"));
    }
}
