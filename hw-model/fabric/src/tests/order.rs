//! Tests delay, jitter and reordering.

use super::{A, B, drain, ethernet, fabric, number_of, numbered, numbers, run};
use crate::{Span, Time};

#[test]
fn delay_is_exact() {
    let (_, deliveries) = run("delay=50us", 100, 1_000);
    for (index, delivery) in deliveries.iter().enumerate() {
        assert_eq!(delivery.time, Time(index as u64 * 1_000) + Span::from_micros(50));
    }
}

#[test]
fn jitter_spreads_delays_and_keeps_the_order() {
    let gap = 10_000_000;
    let (fabric, deliveries) = run("seed=1,delay=50us,jitter=100us", 2_000, gap);
    assert!(numbers(&deliveries).is_sorted());
    assert_eq!(fabric.stats().towards[1].reordered, 0);
    let delay = |index: usize| deliveries[index].time.since(Time(index as u64 * gap));
    let delays: Vec<_> = (0..deliveries.len()).map(delay).collect();
    let (least, most) = (delays.iter().min().expect("some"), delays.iter().max().expect("some"));
    assert!(*least >= Span::from_micros(50) && *most <= Span::from_micros(150));
    assert!(*most > Span::from_micros(140), "the whole range is used: {most}");
}

#[test]
fn a_held_frame_follows_the_frames_that_were_to_overtake_it() {
    for distance in [1, 3, 8] {
        let config = format!("seed=4,reorder=2%,reorder_distance={distance},reorder_hold=1s,delay=1us");
        let (fabric, deliveries) = run(&config, 20_000, 1_000);
        let order = numbers(&deliveries);
        let mut distances = vec![0u64; distance + 1];
        let mut highest = 0;
        for (position, number) in order.iter().enumerate() {
            if *number < highest {
                // The count includes frames that were held themselves. They do not count as overtaking in the
                // model, so the count is limited to `distance`.
                let overtakers = order[..position].iter().rev().take(40).filter(|other| *other > number);
                distances[overtakers.count().min(distance)] += 1;
            }
            highest = highest.max(*number);
        }
        assert_eq!(distances[0], 0);
        assert!(distances[1..].iter().all(|count| *count > 20), "all distances occur: {distances:?}");
        let late: u64 = distances.iter().sum();
        assert_eq!(fabric.stats().towards[1].reordered, late, "as counted by hand");
    }
}

#[test]
fn a_held_frame_nothing_overtakes_comes_late() {
    let mut fabric = fabric(2, "reorder=100%,reorder_hold=200us,delay=5us");
    for number in 0..3 {
        fabric.offer(Time::ZERO, A, numbered(A, B, number, 64));
    }
    let deliveries = drain(&mut fabric);
    assert_eq!(numbers(&deliveries), [0, 1, 2]);
    assert!(deliveries.iter().all(|delivery| delivery.time == Time::ZERO + Span::from_micros(205)));
    let stats = &fabric.stats().towards[1];
    assert_eq!((stats.held_back, stats.reordered), (3, 0));
}

#[test]
fn who_comes_after_the_time_is_up_overtakes_nobody() {
    let mut fabric = fabric(2, "reorder=100%,reorder_hold=1us");
    fabric.offer(Time::ZERO, A, numbered(A, B, 0, 64));
    fabric.set_impairments(B, "delay=2us".parse().expect("valid"));
    // Enough to release any distance.
    (1..20).for_each(|number| fabric.offer(Time::ZERO, A, numbered(A, B, number, 64)));
    let deliveries = drain(&mut fabric);
    assert_eq!(numbers(&deliveries), (0..20).collect::<Vec<_>>());
    assert_eq!(deliveries[0].time, Time::ZERO + Span::from_micros(1), "at the end of its hold time");
}

#[test]
fn housekeeping_overtakes_nobody() {
    let mut fabric = fabric(2, "reorder=100%,reorder_hold=1us");
    fabric.offer(Time::ZERO, A, numbered(A, B, 0, 64));
    (0..20).for_each(|_| fabric.offer(Time::ZERO, A, ethernet(A, B, 0x0806, &[0; 28])));
    let last = drain(&mut fabric).pop().expect("all arrive");
    assert_eq!((number_of(&last.frame), last.time), (0, Time::ZERO + Span::from_micros(1)));
}

#[test]
fn a_duplicate_is_not_reordered() {
    let (fabric, deliveries) = run("duplicate=100%", 3, 1_000);
    assert_eq!(numbers(&deliveries), [0, 0, 1, 1, 2, 2]);
    assert_eq!(fabric.stats().towards[1].reordered, 0);
}

#[test]
fn changes_take_hold_from_the_next_frame() {
    let mut fabric = fabric(2, "delay=5us");
    fabric.offer(Time::ZERO, A, numbered(A, B, 0, 64));
    fabric.set_impairments(B, "loss=100%".parse().expect("valid"));
    fabric.offer(Time::ZERO, A, numbered(A, B, 1, 64));
    assert_eq!(fabric.impairments(B).to_string(), "loss=100%");
    fabric.set_impairments(B, "".parse().expect("valid"));
    fabric.offer(Time::ZERO, A, numbered(A, B, 2, 64));
    let deliveries = drain(&mut fabric);
    assert_eq!(numbers(&deliveries), [0, 2], "a shorter delay does not overtake what is on the wire");
}
