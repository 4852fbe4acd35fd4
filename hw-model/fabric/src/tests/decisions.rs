//! Tests the decisions of the seed: their frequency, and that they repeat.

use super::{A, B, address, drain, fabric, internet_checksum, ipv6, number_of, numbered, numbers, run};
use crate::{LinkStats, Port, Time};

const FRAMES: u64 = 100_000;

fn towards_b(config: &str) -> LinkStats {
    run(config, FRAMES, 1_000).0.stats().towards[1].clone()
}

/// Asserts that `count` is within five standard deviations of a binomial distribution.
fn assert_share(count: u64, of: u64, probability: f64, what: &str) {
    let mean = of as f64 * probability;
    let bound = 5.0 * (mean * (1.0 - probability)).sqrt();
    assert!((count as f64 - mean).abs() <= bound, "{what}: {count} of {of}, expected {mean} +- {bound}");
}

#[test]
fn each_impairment_happens_as_often_as_asked() {
    for seed in 0..4 {
        let stats =
            towards_b(&format!("seed={seed},loss=1%,duplicate=0.1%,corrupt=0.5%,reorder=2%,delay=10us"));
        assert_share(stats.lost, FRAMES, 0.01, "lost");
        let passed = FRAMES - stats.lost;
        assert_share(stats.duplicated, passed, 0.001, "duplicated");
        assert_share(stats.corrupted, passed + stats.duplicated, 0.005, "corrupted");
        assert_share(stats.held_back, passed + stats.duplicated, 0.02, "held back");
        assert!(stats.reordered * 10 > stats.held_back * 9, "held frames are overtaken: {stats:?}");
        assert_eq!(stats.delivered, passed + stats.duplicated);
    }
}

#[test]
fn never_and_always_are_exact() {
    let none = towards_b("");
    assert_eq!(none, LinkStats { offered: FRAMES, delivered: FRAMES, delivered_bytes: FRAMES * 98, ..none });
    assert_eq!(towards_b("loss=100%").lost, FRAMES);
    assert_eq!(towards_b("duplicate=100%").delivered, 2 * FRAMES);
    assert_eq!(towards_b("corrupt=100%").corrupted, FRAMES);
}

#[test]
fn bursts_have_the_length_and_share_asked() {
    // One burst in a thousand frames, four frames long.
    let (fabric, deliveries) = run("seed=3,burst=0.1%/25%/100%", FRAMES, 1_000);
    let stats = &fabric.stats().towards[1];
    let mut bursts = 0;
    let mut expected = 0;
    for number in numbers(&deliveries) {
        bursts += u64::from(number != expected);
        expected = number + 1;
    }
    assert_eq!(stats.lost, 0);
    assert_share(bursts, FRAMES, 0.001, "bursts");
    let mean_length = stats.burst_lost as f64 / bursts as f64;
    assert!((3.0..5.0).contains(&mean_length), "mean burst of {mean_length}");
    // Half of the frames of a burst survive if the burst says so.
    let half = towards_b("seed=3,burst=0.1%/25%/50%").burst_lost;
    assert_share(half, stats.burst_lost, 0.5, "half of each burst");
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_the_same_times() {
    let config = "seed=9,loss=5%,burst=1%/30%/90%,reorder=5%,duplicate=2%,corrupt=3%,corrupt_bits=3,delay=5us,\
                  jitter=3us,rate=1Gbps,queue=8KiB,ecn=4KiB,hops=1";
    let (first, second) = (run(config, 5_000, 700_000), run(config, 5_000, 700_000));
    assert_eq!(first.1, second.1);
    assert_eq!(first.0.stats(), second.0.stats());
    assert_eq!(first.0.corruptions(B), second.0.corruptions(B));
    let other = run(&config.replace("seed=9", "seed=10"), 5_000, 700_000);
    assert_ne!(first.1, other.1);
}

/// Returns all delivered frames, sorted, so that their order does not matter.
fn fates(config: &str, count: u64, gap: u64) -> Vec<Vec<u8>> {
    let (_, deliveries) = run(config, count, gap);
    let mut frames: Vec<_> = deliveries.into_iter().map(|delivery| delivery.frame).collect();
    frames.sort();
    frames
}

#[test]
fn decisions_do_not_depend_on_time_or_on_one_another() {
    let config = "seed=5,loss=5%,burst=1%/30%/90%,duplicate=2%,corrupt=3%,reorder=5%";
    let slow = fates(config, 5_000, 1_000_000);
    assert_eq!(slow, fates(config, 5_000, 1), "another pace");
    let other_timing = format!("{config},delay=1ms,jitter=1ms,rate=10Gbps,queue=1GiB,reorder_hold=5ns");
    assert_eq!(slow, fates(&other_timing, 5_000, 1_000_000), "other delays");

    let survivors = |config: &str| {
        let mut numbers = numbers(&run(config, 5_000, 1_000).1);
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    // This configuration has no corruption, because corruption may change the number in a frame.
    let lossy = survivors("seed=5,loss=5%");
    assert_eq!(lossy, survivors("seed=5,loss=5%,duplicate=50%,reorder=20%,jitter=1us,hops=2"));
}

#[test]
fn decisions_do_not_depend_on_other_traffic() {
    let config = "seed=11,loss=10%,duplicate=5%,reorder=5%";
    let alone = numbers(&run(config, 2_000, 1_000).1);
    let mut shared = fabric(3, config);
    let third = Port(2);
    for number in 0..2_000 {
        let now = Time(number * 1_000);
        // Other traffic between these frames: another sender to the same host, the reverse direction, and
        // housekeeping.
        shared.offer(now, third, numbered(third, B, number, 200));
        shared.offer(now, B, numbered(B, A, number, 300));
        let mut arp = [address(B), address(A)].concat();
        arp.extend([0x08, 0x06, 0, 0]);
        shared.offer(now, A, arp);
        shared.offer(now, A, ipv6(A, B, 0, 255, 58, &[135, 0, 0, 0]));
        shared.offer(now, A, numbered(A, B, number, 64));
    }
    let is_ours = |frame: &[u8]| frame.len() == 98 && frame[6..12] == address(A);
    let deliveries = drain(&mut shared);
    let ours: Vec<_> = deliveries.iter().filter(|d| d.port == B && is_ours(&d.frame)).collect();
    let mut ours: Vec<_> = ours.iter().map(|delivery| number_of(&delivery.frame)).collect();
    let mut alone = alone;
    // The order is the same too, but this test does not check it.
    ours.sort_unstable();
    alone.sort_unstable();
    assert_eq!(ours, alone);
}

#[test]
fn every_direction_has_luck_of_its_own() {
    let mut fabric = fabric(3, "seed=1,loss=50%");
    let ports = [A, B, Port(2)];
    let mut fates = Vec::new();
    for from in ports {
        for to in ports.into_iter().filter(|to| *to != from) {
            (0..64).for_each(|number| fabric.offer(Time::ZERO, from, numbered(from, to, number, 64)));
            fates.push(numbers(&drain(&mut fabric)));
        }
    }
    fates.sort();
    fates.dedup();
    assert_eq!(fates.len(), 6);
}

#[test]
fn flips_are_where_the_log_says_and_never_in_the_ethernet_header() {
    for bits in [1, 2, 8] {
        let (fabric, deliveries) = run(&format!("seed=2,corrupt=100%,corrupt_bits={bits}"), 2_000, 1_000);
        let log = fabric.corruptions(B);
        assert_eq!(log.len(), 2_000);
        for (entry, delivery) in log.iter().zip(&deliveries) {
            let sent = numbered(A, B, entry.ordinal, 64);
            assert_eq!((entry.ingress, entry.copy, entry.length), (0, 0, sent.len()));
            assert_eq!(entry.header[..], sent[..62]);
            assert_eq!(entry.flips.len(), bits);
            let mut repaired = delivery.frame.clone();
            for flip in &entry.flips {
                assert!((14..sent.len()).contains(&flip.offset) && flip.bit < 8);
                repaired[flip.offset] ^= 1 << flip.bit;
            }
            assert_eq!(repaired, sent);
            let differing: u32 = sent.iter().zip(&delivery.frame).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!(differing as usize, bits, "flips are distinct");
        }
    }
}

#[test]
fn no_switch_repairs_a_corrupted_header() {
    // With hops and marking on every frame, a flip in the IPv4 header still shows in its checksum.
    let (fabric, deliveries) = run("seed=2,corrupt=100%,hops=3,ecn=0", 2_000, 1_000);
    let mut hits = 0;
    for (entry, delivery) in fabric.corruptions(B).iter().zip(&deliveries) {
        let in_header = entry.flips[0].offset < 34;
        hits += u64::from(in_header);
        assert_eq!(internet_checksum(&delivery.frame[14..34]) != 0, in_header);
    }
    assert!(hits > 100);
}

#[test]
fn the_smallest_frames_have_nothing_to_corrupt() {
    let mut fabric = fabric(2, "corrupt=100%,duplicate=100%,corrupt_bits=255");
    let bare = [address(B), address(A)].concat();
    fabric.offer(Time::ZERO, A, bare.clone());
    assert_eq!(fabric.stats().runts, 1);
    fabric.offer(Time::ZERO, A, [&bare[..], &[0x12, 0x34]].concat());
    // The Ethernet frame has no bits to flip after its header. The IPv4 frame has more than 255.
    fabric.offer(Time::ZERO, A, numbered(A, B, 0, 0));
    let frames = drain(&mut fabric);
    assert_eq!(frames.len(), 3, "one housekeeping frame, one frame twice");
    assert_eq!(fabric.corruptions(B)[0].flips.len(), 255);
}
