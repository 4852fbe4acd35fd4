//! Tests rate, queue, marks and outages, exact to the picosecond.

use super::{A, B, drain, fabric, numbered, numbers, run};
use crate::{Rate, Span, Time};

/// Returns the length of a numbered frame with this payload.
const fn length(payload: u64) -> u64 {
    14 + 20 + payload
}

#[test]
fn a_frame_takes_its_bits_at_the_rate() {
    let gigabit = Rate::from_bits_per_second(1_000_000_000).expect("not zero");
    assert_eq!(gigabit.time_of(1_500), Span(12_000_000));
    let mut fabric = fabric(2, "rate=1Gbps,delay=3us");
    for number in 0..10 {
        fabric.offer(Time(5), A, numbered(A, B, number, 966));
    }
    for (index, delivery) in drain(&mut fabric).iter().enumerate() {
        let expected = Time(5 + (index as u64 + 1) * length(966) * 8_000) + Span::from_micros(3);
        assert_eq!(delivery.time, expected);
    }
}

#[test]
fn an_idle_link_begins_at_once() {
    let (_, deliveries) = run("rate=10Gbps", 5, 1_000_000);
    for (index, delivery) in deliveries.iter().enumerate() {
        assert_eq!(delivery.time, Time(index as u64 * 1_000_000 + length(64) * 800));
    }
}

#[test]
fn the_queue_drops_what_it_cannot_hold_and_fills_again() {
    // The queue has space for exactly four frames of 1000 bytes. Each takes 8 us.
    let mut fabric = fabric(2, "rate=1Gbps,queue=4000B");
    let mut number = 0;
    let mut offer = |fabric: &mut super::Fabric, now: u64| {
        fabric.offer(Time(now), A, numbered(A, B, number, 966));
        number += 1;
        fabric.stats().towards[1].queue_dropped
    };
    let drops: Vec<_> = (0..6).map(|_| offer(&mut fabric, 0)).collect();
    assert_eq!(drops, [0, 0, 0, 0, 1, 2]);
    assert_eq!(offer(&mut fabric, 7_999_999), 3, "one picosecond before the first frame has left");
    assert_eq!(offer(&mut fabric, 8_000_000), 3);
    assert_eq!(offer(&mut fabric, 8_000_000), 4);
    assert_eq!(numbers(&drain(&mut fabric)), [0, 1, 2, 3, 7]);
}

#[test]
fn marks_begin_above_the_threshold() {
    let mut fabric = fabric(2, "rate=1Gbps,queue=1MiB,ecn=3000B");
    for number in 0..5 {
        fabric.offer(Time::ZERO, A, numbered(A, B, number, 966));
    }
    let marks: Vec<_> = drain(&mut fabric).iter().map(|delivery| delivery.frame[15] & 3).collect();
    assert_eq!(marks, [0b10, 0b10, 0b10, 0b11, 0b11]);
    assert_eq!(fabric.stats().towards[1].ecn_marked, 2);
}

#[test]
fn a_new_rate_holds_for_new_frames() {
    let mut fabric = fabric(2, "rate=1Gbps");
    fabric.offer(Time::ZERO, A, numbered(A, B, 0, 966));
    fabric.set_impairments(B, "rate=10Gbps".parse().expect("valid"));
    fabric.offer(Time::ZERO, A, numbered(A, B, 1, 966));
    fabric.set_impairments(B, "".parse().expect("valid"));
    fabric.offer(Time::ZERO, A, numbered(A, B, 2, 966));
    let times: Vec<_> = drain(&mut fabric).iter().map(|delivery| delivery.time.0).collect();
    assert_eq!(times, [8_000_000, 8_800_000, 8_800_000]);
}

#[test]
fn outages_drop_what_is_offered_and_spare_what_is_under_way() {
    let (fabric, deliveries) = run("delay=10ns,down=10ns-20ns+30ns-31ns", 40, 1_000);
    let expected: Vec<_> = (0..40).filter(|number| !(10..20).contains(number) && *number != 30).collect();
    assert_eq!(numbers(&deliveries), expected);
    assert_eq!(fabric.stats().towards[1].link_down_dropped, 11);
}

#[test]
fn an_outage_does_not_shift_what_comes_after() {
    let config = "seed=1,loss=20%,burst=5%/20%/90%";
    let (_, whole) = run(config, 1_000, 1_000);
    let (_, broken) = run(&format!("{config},down=100ns-200ns"), 1_000, 1_000);
    let expected: Vec<_> =
        numbers(&whole).into_iter().filter(|number| !(100..200).contains(number)).collect();
    assert_eq!(numbers(&broken), expected);
}

#[test]
fn an_unplugged_host_neither_sends_nor_receives() {
    let mut fabric = fabric(2, "delay=1us");
    fabric.offer(Time::ZERO, A, numbered(A, B, 0, 64));
    fabric.set_link(B, false);
    fabric.offer(Time::ZERO, A, numbered(A, B, 1, 64));
    fabric.offer(Time::ZERO, B, numbered(B, A, 2, 64));
    fabric.set_link(B, true);
    fabric.offer(Time::ZERO, A, numbered(A, B, 3, 64));
    assert_eq!(numbers(&drain(&mut fabric)), [0, 3]);
    let dropped: Vec<_> = fabric.stats().towards.iter().map(|link| link.link_down_dropped).collect();
    assert_eq!(dropped, [1, 1]);
}
