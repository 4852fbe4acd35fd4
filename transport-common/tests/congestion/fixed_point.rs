//! The arithmetic against floats.

use proptest::prelude::*;
use transport_common::congestion::fixed_point::{Fraction, RECIPROCAL_SQRT_BITS, divide, reciprocal_sqrt};
use transport_common::units::{Fcwnd, Ticks};

/// All windows: the error bound that flow scaling relies on, and a monotonic result.
#[test]
fn reciprocal_sqrt_of_every_window() {
    let one = (1u64 << RECIPROCAL_SQRT_BITS) as f64;
    let mut worst = 0.0f64;
    for raw in 1..=Fcwnd::MAX.0 {
        let exact = 1.0 / (f64::from(raw) / 1024.0).sqrt();
        let error = (reciprocal_sqrt(Fcwnd(raw)) as f64 / one / exact - 1.0).abs();
        worst = worst.max(error);
    }
    assert!(worst < 2f64.powf(-29.5), "2^{}", worst.log2());
    assert_eq!(reciprocal_sqrt(Fcwnd(0)), reciprocal_sqrt(Fcwnd(1)));
    assert_eq!(reciprocal_sqrt(Fcwnd(u32::MAX)), reciprocal_sqrt(Fcwnd::MAX));
}

/// F-10.3.4-3: alpha 0.75 on 100 and 200 gives 125 (D-61: alpha weighs the history).
#[test]
fn smoothing_weighs_the_history() {
    assert_eq!(Fraction::ratio(3, 4).smooth(Ticks(100), Ticks(200)).round(), Ticks(125));
    assert_eq!(Fraction::ratio(1, 4).smooth(Ticks(100), Ticks(200)).round(), Ticks(175));
    assert_eq!(Fraction::ZERO.smooth(Ticks(100), Ticks(200)).round(), Ticks(200));
    assert_eq!(Fraction::ONE.smooth(Ticks(100), Ticks(200)).round(), Ticks(100));
}

#[test]
fn fractions_round_to_nearest() {
    assert_eq!(Fraction::ratio(8, 10).0, 52_429);
    assert_eq!(Fraction::ratio(101, 100).0, 66_191);
    assert_eq!(Fraction::ratio(1, 0), Fraction::ZERO);
    assert_eq!(Fraction::ratio(u32::MAX, 1).0, u32::MAX);
    assert_eq!(Fraction::ratio(3, 2).complement(), Fraction::ZERO);
    assert_eq!(Fraction::ratio(1, 2).of(3), 2, "halves go up");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 5000 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn division_rounds_to_nearest(numerator in 0..1u64 << 62, denominator in 1..1u64 << 40) {
        let exact = (u128::from(numerator) * 2 + u128::from(denominator)) / (2 * u128::from(denominator));
        prop_assert_eq!(u128::from(divide(numerator, denominator)), exact);
    }

    #[test]
    fn smoothing_stays_between(alpha in 0..=65_536u32, history in 0..1u32 << 24, sample in 0..1u32 << 24) {
        let smoothed = Fraction(alpha).smooth(Ticks(history), Ticks(sample));
        let rounded = smoothed.round().0;
        prop_assert!(rounded >= history.min(sample) && rounded <= history.max(sample));
        let weight = f64::from(alpha) / 65_536.0;
        let exact = f64::from(history) * weight + f64::from(sample) * (1.0 - weight);
        // 40 bits fit a float.
        prop_assert_eq!(smoothed.0 as f64 / 65_536.0, exact);
        prop_assert_eq!(f64::from(rounded), exact.round());
    }
}
