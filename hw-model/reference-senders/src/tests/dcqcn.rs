//! The state machines of the DCQCN paper, checked with values computed by hand.

use fabric_model::Span;

use crate::{CongestionPoint, Dcqcn, NotificationPoint, ReactionPoint, Red};

use super::at;

/// The rate and the target in Gb/s, rounded to one bit per second.
fn rates(point: &ReactionPoint) -> (f64, f64) {
    let giga = |rate: f64| rate.round() / 1e9;
    (giga(point.rate()), giga(point.target()))
}

#[test]
fn cuts_and_recovers() {
    let mut point = ReactionPoint::new(Dcqcn::new(40e9));
    assert_eq!((rates(&point), point.timer()), ((40.0, 40.0), None));
    point.on_sent(50_000_000);
    point.on_notification(at(0));
    assert_eq!((rates(&point), point.alpha()), ((20.0, 40.0), 1.0), "alpha starts as 1: halved");
    point.on_notification(at(1));
    assert_eq!(rates(&point), (10.0, 20.0));
    // Fast recovery: four steps, each half of the way.
    assert_eq!(point.timer(), Some(at(56)));
    let expected = [15.0, 17.5, 18.75, 19.375];
    for (step, rate) in (1..).zip(expected) {
        point.on_timer(at(1 + 55 * step));
        assert_eq!(rates(&point), (rate, 20.0));
    }
    let alpha = (255.0f64 / 256.0).powi(4);
    assert!((point.alpha() - alpha).abs() < 1e-12);
    // At the fifth step the stage has reached F, so R_AI is added first: (20.04 + 19.375) / 2.
    point.on_timer(at(1 + 55 * 5));
    assert_eq!(rates(&point), (19.707_5, 20.04));
    // A cut by alpha / 2.
    let (rate, alpha) = (point.rate(), point.alpha());
    point.on_notification(at(300));
    assert_eq!(point.rate(), rate * (1.0 - alpha / 2.0));
    assert_eq!(point.target(), rate);
    assert!((point.alpha() - (alpha * 255.0 / 256.0 + 1.0 / 256.0)).abs() < 1e-12);
}

#[test]
fn hyper_increase_needs_both_counters() {
    let mut point = ReactionPoint::new(Dcqcn::new(40e9));
    point.on_notification(at(0));
    point.on_notification(at(0));
    for _ in 0..5 {
        point.on_sent(10_000_000);
    }
    let target = 20e9 + 40e6;
    assert_eq!(point.target(), target, "one additive increase, by the fifth 10 MB");
    point.on_timer(at(55 * 5));
    assert_eq!(
        point.target(),
        target + 5.0 * 40e6,
        "the timer's stage does not exceed F, nor does that of bytes"
    );
    point.on_sent(10_000_000);
    assert_eq!(point.target(), target + 6.0 * 40e6);
    // 6 and 6: both are one above F.
    point.on_timer(at(55 * 6));
    assert_eq!(point.target(), target + 6.0 * 40e6 + 400e6);
}

#[test]
fn rates_have_bounds() {
    let mut point = ReactionPoint::new(Dcqcn::new(40e9));
    for micros in 0..20 {
        point.on_notification(at(micros));
    }
    assert_eq!(point.rate(), 10e6);
    point.on_timer(at(1_000_000));
    point.on_sent(1_000_000_000_000);
    for millis in 0..1_000 {
        point.on_timer(at(1_000_000 + millis * 1_000));
    }
    assert_eq!(rates(&point), (40.0, 40.0));
}

#[test]
fn one_notification_in_an_interval() {
    let mut point = NotificationPoint::new(Span::from_micros(50));
    let notified: Vec<_> = (0..200).step_by(10).filter(|micros| point.on_marked(at(*micros))).collect();
    assert_eq!((notified, point.sent()), (vec![0, 50, 100, 150], 4));
    assert!(point.on_marked(at(10_000)), "at once after a pause");
}

#[test]
fn marks_by_the_queue() {
    let red = Red::DCQCN;
    assert_eq!([0, 5_000, 200_000, 200_001].map(|queue| red.probability_at(queue)), [0.0, 0.0, 0.01, 1.0]);
    assert!((red.probability_at(102_500) - 0.005).abs() < 1e-12, "half of the way");
    let mut point = CongestionPoint::new(red, 7);
    assert!((0..1_000).all(|segment| !point.on_packet(4_000, 0, segment)));
    assert!((0..1_000).all(|segment| point.on_packet(300_000, 0, segment)));
    let mut marked = |flow| -> Vec<u32> {
        (0..100_000).filter(|segment| point.on_packet(102_500, flow, *segment)).collect()
    };
    // Expected 500 with a deviation of 22.
    let [first, second, again] = [3, 4, 3].map(&mut marked);
    assert!((400..600).contains(&first.len()) && (400..600).contains(&second.len()));
    assert_ne!(first, second);
    assert_eq!(first, again, "the same packets, whenever they come");
    assert_eq!(point.packets(), 302_000);
    assert_eq!(point.marked(), 1_000 + (first.len() + second.len() + again.len()) as u64);
}
