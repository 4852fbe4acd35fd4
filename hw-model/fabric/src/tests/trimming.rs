//! Tests trimming: which frames are cut, which overtake, and when each bit leaves.

use proptest::prelude::*;

use super::{A, B, drain, ethernet, fabric, internet_checksum, ipv6, numbered, run};
use crate::{Delivery, Fabric, Probability, Time, is_trimmed};

/// Returns a frame of 1000 bytes, which takes 8 us at 1 Gb/s. It has its number also in the first byte of its
/// payload.
fn frame(number: u8) -> Vec<u8> {
    let mut frame = numbered(A, B, number.into(), 966);
    frame[34] = number;
    frame
}

/// Returns the number, the length and the arrival time in nanoseconds of each frame.
fn arrivals(fabric: &mut Fabric) -> Vec<(u8, usize, u64)> {
    let row = |delivery: &Delivery| (delivery.frame[34], delivery.frame.len(), delivery.time.0 / 1_000);
    drain(fabric).iter().map(row).collect()
}

#[test]
fn what_does_not_fit_is_cut_and_overtakes_what_waits() {
    // The queue has space for two frames: one on the wire, and one that waits.
    let mut fabric = fabric(2, "rate=1Gbps,queue=2000B,trim=64B");
    (0..2).for_each(|number| fabric.offer(Time::ZERO, A, frame(number)));
    fabric.offer(Time(1_000), A, frame(2));
    let arrived = arrivals(&mut fabric);
    let ((whole, cut), stats) = ((arrived[2], arrived[1]), &fabric.stats().towards[1]);
    assert_eq!(arrived[0], (0, 1_000, 8_000));
    assert_eq!((cut.1, cut.2), (64, 8_512), "the header goes before the frame that waited");
    assert_eq!((whole.1, whole.2), (1_000, 16_512));
    assert_eq!([cut.0.min(whole.0), cut.0.max(whole.0)], [1, 2]);
    assert_eq!((stats.trimmed, stats.delivered, stats.dropped()), (1, 3, 0));
}

#[test]
fn the_one_that_came_and_the_one_that_waits_are_cut_on_equal_odds() {
    const RUNS: u32 = 1_000;
    let newest_is_cut = |seed: &u32| {
        let mut fabric = fabric(2, &format!("seed={seed},rate=1Gbps,queue=2000B,trim=64B"));
        (0..3).for_each(|number| fabric.offer(Time::ZERO, A, frame(number)));
        arrivals(&mut fabric)[1].0 == 2
    };
    let newest = (0..RUNS).filter(newest_is_cut).count();
    // Five standard deviations of a binomial distribution.
    assert!((421..=579).contains(&newest), "{newest} of {RUNS}");
}

#[test]
fn small_frames_overtake_data_and_are_not_cut() {
    let mut fabric = fabric(2, "rate=1Gbps,queue=1MiB,trim=98B");
    (0..3).for_each(|number| fabric.offer(Time::ZERO, A, frame(number)));
    let mut control = numbered(A, B, 9, 64);
    control[34] = 9;
    fabric.offer(Time(1), A, control.clone());
    let arrived = arrivals(&mut fabric);
    assert_eq!(arrived, [(0, 1_000, 8_000), (9, 98, 8_784), (1, 1_000, 16_784), (2, 1_000, 24_784)]);
    assert_eq!(fabric.stats().towards[1].trimmed, 0);
}

#[test]
fn data_has_its_turn_after_ten_headers() {
    let mut fabric = fabric(2, "rate=1Gbps,queue=1MiB,trim=98B");
    (0..3).for_each(|number| fabric.offer(Time::ZERO, A, frame(number)));
    (0..25).for_each(|number| fabric.offer(Time::ZERO, A, numbered(A, B, number, 64)));
    let lengths: Vec<_> = arrivals(&mut fabric).iter().map(|row| row.1).collect();
    let expected = [&[1_000][..], &[98; 10], &[1_000], &[98; 10], &[1_000], &[98; 5]].concat();
    assert_eq!(lengths, expected);
}

#[test]
fn headers_without_room_are_dropped() {
    // In addition to the frame on the wire, there is space for one data frame and for two headers.
    let mut fabric = fabric(2, "rate=1Gbps,queue=2000B,trim=64B,header_queue=128B");
    (0..6).for_each(|number| fabric.offer(Time::ZERO, A, frame(number)));
    assert_eq!(arrivals(&mut fabric).len(), 4);
    let stats = &fabric.stats().towards[1];
    assert_eq!((stats.trimmed, stats.queue_dropped, stats.delivered), (4, 2, 4));
    assert_eq!(stats.queue_peak, 2_128);
}

#[test]
fn the_headers_are_left_as_they_were() {
    let mut fabric = fabric(2, "rate=1Gbps,queue=0,trim=54B");
    let sent = [frame(1), ipv6(A, B, 2, 64, 17, &[7; 900])];
    sent.iter().for_each(|frame| fabric.offer(Time::ZERO, A, frame.clone()));
    let arrived: Vec<_> = drain(&mut fabric).into_iter().map(|delivery| delivery.frame).collect();
    for (whole, cut) in sent.iter().zip(&arrived) {
        assert_eq!(whole[..54], cut[..]);
        assert!(is_trimmed(cut) && !is_trimmed(whole));
    }
    assert_eq!(internet_checksum(&arrived[0][14..34]), 0);
}

#[test]
fn only_ip_is_cut() {
    let mut fabric = fabric(2, "rate=1Gbps,queue=1000B,trim=64B");
    (0..2).for_each(|_| fabric.offer(Time::ZERO, A, ethernet(A, B, 0x0806, &[0; 800])));
    let arrived = drain(&mut fabric);
    assert_eq!(arrived.len(), 1);
    assert!(!is_trimmed(&arrived[0].frame) && !is_trimmed(&arrived[0].frame[..100]));
    assert_eq!(fabric.stats().towards[1].queue_dropped, 1);
}

#[test]
fn switching_it_off_empties_both_queues_first() {
    let mut fabric = fabric(2, "rate=1Gbps,queue=2000B,trim=64B");
    (0..3).for_each(|number| fabric.offer(Time::ZERO, A, frame(number)));
    fabric.set_impairments(B, "rate=1Gbps,queue=3000B".parse().expect("valid"));
    (3..5).for_each(|number| fabric.offer(Time(1), A, frame(number)));
    let arrived = arrivals(&mut fabric);
    let times: Vec<_> = arrived.iter().map(|row| row.2).collect();
    assert_eq!(times, [8_000, 8_512, 16_512, 24_512]);
    assert_eq!(
        (arrived[3].0, fabric.stats().towards[1].queue_dropped),
        (3, 1),
        "there was no space for the last one"
    );
}

#[test]
fn the_other_impairments_decide_as_they_did() {
    // The queue is never full, so the same frames arrive at the same times with and without trimming.
    let config =
        "seed=5,loss=5%,duplicate=2%,corrupt=3%,reorder=5%,delay=3us,jitter=1us,rate=10Gbps,queue=1MiB";
    let trimming = format!("{config},trim=54B");
    assert_eq!(run(config, 3_000, 50_000).1, run(&trimming, 3_000, 50_000).1);
}

proptest! {
    /// For any arrivals: no frame vanishes, the wire carries one frame at a time, the wire is not idle while
    /// frames wait, and the data frames keep their order.
    #[test]
    fn the_wire_is_shared_by_the_rules(
        seed: u64, queue in 0u64..8_000, header_queue in 0u64..400,
        frames in prop::collection::vec((0..1_500usize, 0..20_000_000u64), 1..120),
    ) {
        let config = format!("seed={seed},rate=1Gbps,queue={queue}B,trim=100B,header_queue={header_queue}B");
        let mut fabric = fabric(2, &config);
        let (mut now, mut arrived) = (0, vec![]);
        let mut offered = vec![];
        for (number, &(payload, gap)) in (0u32..).zip(&frames) {
            now += gap;
            let mut frame = numbered(A, B, 0, payload);
            frame[34..38].copy_from_slice(&number.to_be_bytes());
            arrived.extend(core::iter::from_fn(|| fabric.poll(Time(now))));
            offered.push((now, frame.len()));
            fabric.offer(Time(now), A, frame);
        }
        arrived.extend(drain(&mut fabric));
        let stats = &fabric.stats().towards[1];
        prop_assert_eq!(stats.delivered + stats.queue_dropped, frames.len() as u64);
        prop_assert_eq!(stats.in_flight, 0);
        let number = |delivery: &Delivery| {
            u32::from_be_bytes(*delivery.frame[34..].first_chunk().expect("a numbered frame")) as usize
        };
        let mut free = 0;
        let mut last_data = None;
        for delivery in &arrived {
            let (came, length) = offered[number(delivery)];
            let takes = delivery.frame.len() as u64 * 8_000;
            let start = delivery.time.0 - takes;
            prop_assert!(start >= free, "one frame at a time");
            prop_assert!(start >= came, "not before it came");
            prop_assert!(start == free || offered.iter().any(|(came, _)| *came == start), "no idling");
            free = delivery.time.0;
            if delivery.frame.len() > 100 {
                prop_assert_eq!(delivery.frame.len(), length, "whole or cut to 100");
                prop_assert!(last_data < Some(number(delivery)), "data keeps its order");
                last_data = Some(number(delivery));
            }
        }
        let cut = arrived.iter().filter(|delivery| is_trimmed(&delivery.frame)).count() as u64;
        prop_assert!(cut <= stats.trimmed && stats.trimmed <= cut + stats.queue_dropped);
        prop_assert!(stats.queue_peak <= queue.max(1_500 + 34) + header_queue);
    }

    #[test]
    fn any_bytes_can_be_asked_about(frame: Vec<u8>) {
        let too_short_to_tell = frame.len() < 34;
        prop_assert!(!(too_short_to_tell && is_trimmed(&frame)));
    }
}

#[test]
fn certain_loss_comes_before_trimming() {
    let mut fabric = fabric(2, "rate=1Gbps,queue=0,trim=64B");
    fabric.set_impairments(B, {
        let mut impairments = fabric.impairments(B).clone();
        impairments.loss = Probability::ALWAYS;
        impairments
    });
    fabric.offer(Time::ZERO, A, frame(0));
    let stats = &fabric.stats().towards[1];
    assert_eq!((stats.lost, stats.trimmed), (1, 0));
}
