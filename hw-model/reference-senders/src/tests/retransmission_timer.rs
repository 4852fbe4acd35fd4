//! RFC 6298, checked with values computed by hand.

use fabric_model::Span;

use crate::{RetransmissionTimer, TimeoutBounds};

use super::TIMEOUT;

fn timer(min_millis: u64) -> RetransmissionTimer {
    RetransmissionTimer::new(TimeoutBounds { min: Span::from_millis(min_millis), ..TIMEOUT })
}

#[test]
fn two_measurements() {
    let mut timer = timer(1);
    assert_eq!((timer.timeout(), timer.smoothed()), (Span::from_millis(1_000), None));
    // 2.2: SRTT = R, RTTVAR = R / 2, RTO = SRTT + 4 RTTVAR.
    timer.measured(Span::from_millis(100));
    assert_eq!(timer.timeout(), Span::from_millis(300));
    // 2.3: RTTVAR = 3/4 50 + 1/4 |100 - 140| = 47.5, SRTT = 7/8 100 + 1/8 140 = 105.
    timer.measured(Span::from_millis(140));
    assert_eq!(timer.smoothed(), Some(Span::from_millis(105)));
    assert_eq!(timer.timeout(), Span::from_millis(295));
}

#[test]
fn bounds_and_back_off() {
    let mut timer = timer(200);
    timer.measured(Span::from_micros(10));
    assert_eq!(timer.timeout(), Span::from_millis(200));
    timer.back_off();
    timer.back_off();
    assert_eq!(timer.timeout(), Span::from_millis(800));
    for _ in 0..80 {
        timer.back_off();
    }
    assert_eq!(timer.timeout(), Span::from_millis(60_000));
    timer.measured(Span::from_micros(10));
    assert_eq!(timer.timeout(), Span::from_millis(200), "a measurement ends the back-off");
}
