//! Tests the shared memory of a switch against a slow model that adds up everything each time.

use proptest::prelude::*;

use super::{address, drain, fabric, numbered};
use crate::{Fabric, Port, Time, Topology};

const A: Port = Port(0);

/// Sends `count` frames of 1000 bytes to `to` at once. Returns the number of frames that were stored.
fn fill(fabric: &mut Fabric, now: u64, to: Port, count: u64) -> u64 {
    let before = fabric.stats().towards[usize::from(to.0)].buffer_dropped;
    (0..count).for_each(|number| fabric.offer(Time(now), A, numbered(A, to, number, 966)));
    before + count - fabric.stats().towards[usize::from(to.0)].buffer_dropped
}

#[test]
fn a_lone_queue_takes_its_share_of_what_is_free() {
    // alpha / (1 + alpha) of the memory (Choudhury and Hahne, 1998, equation 3).
    for (alpha, frames) in [("1/8", 1), ("1/2", 3), ("1", 5), ("4", 8), ("9", 9), ("1000", 10)] {
        let mut fabric = fabric(2, &format!("rate=1Gbps,queue=1MiB;switches:buffer=10000B,alpha={alpha}"));
        assert_eq!(fill(&mut fabric, 0, Port(1), 20), frames, "alpha {alpha}");
        assert_eq!(fabric.stats().buffer_peaks, [frames * 1_000]);
    }
}

#[test]
fn queues_share_and_give_back() {
    let mut fabric = fabric(4, "rate=1Gbps,queue=1MiB;switches:buffer=9000B,alpha=1");
    assert_eq!(fill(&mut fabric, 0, Port(1), 20), 5, "the fifth finds 5 of 9 free, a sixth would find 4");
    assert_eq!(fill(&mut fabric, 0, Port(2), 20), 2);
    assert_eq!(fill(&mut fabric, 0, Port(3), 20), 1);
    // One frame has left each queue. 5 frames are stored, 4 of them in the first queue.
    assert_eq!(fill(&mut fabric, 8_000_000, Port(1), 20), 0);
    assert_eq!(fill(&mut fabric, 16_000_000, Port(1), 20), 2, "3 are used, all by itself");
    drain(&mut fabric);
    assert_eq!(fill(&mut fabric, 1_000_000_000, Port(3), 20), 5, "all is free again");
}

#[test]
fn a_links_own_limit_holds_as_well() {
    let mut fabric = fabric(2, "rate=1Gbps,queue=2000B;switches:buffer=9000B,alpha=1");
    fill(&mut fabric, 0, Port(1), 10);
    let stats = &fabric.stats().towards[1];
    assert_eq!((stats.queue_dropped, stats.buffer_dropped), (8, 0));
}

#[test]
fn trimming_takes_the_place_of_the_drop() {
    let mut fabric = fabric(2, "rate=1Gbps,queue=1MiB,trim=64B;switches:buffer=3200B,alpha=8");
    (0..10).for_each(|number| fabric.offer(Time::ZERO, A, numbered(A, Port(1), number, 966)));
    let stats = &fabric.stats().towards[1];
    // Three frames and three headers of 64 bytes fill 3192 bytes.
    assert_eq!((stats.trimmed, stats.buffer_dropped, stats.in_flight), (7, 4, 6));
    assert_eq!(fabric.stats().buffer_peaks, [3_192]);
    drain(&mut fabric);
    assert_eq!(fabric.stats().towards[1].delivered, 6);
}

#[test]
fn each_switch_has_its_own() {
    let config = "seed=1,rate=1Gbps;trunks:rate=1Gbps;switches:buffer=9000B,alpha=1";
    let mut fabric = Fabric::with_topology(Topology::dumbbell(2, 2, 1), config.parse().expect("valid"))
        .expect("ports exist");
    (0..4).map(Port).for_each(|port| fabric.learn(address(port), port));
    assert_eq!(fill(&mut fabric, 0, Port(1), 20), 5, "on the left switch");
    (0..20).for_each(|number| fabric.offer(Time::ZERO, Port(2), numbered(Port(2), Port(3), number, 966)));
    assert_eq!(fabric.stats().towards[3].buffer_dropped, 15, "the right switch is as free as the left was");
    assert_eq!(fabric.stats().buffer_peaks, [5_000, 5_000]);
    (0..20).for_each(|number| fabric.offer(Time::ZERO, A, numbered(A, Port(2), number, 966)));
    assert_eq!(
        fabric.stats().trunks[0].buffer_dropped,
        18,
        "the trunk's queue is on the left switch as well"
    );
}

proptest! {
    /// Compares the memory with a slow model that keeps all departures and adds them up for every frame.
    #[test]
    fn it_agrees_with_a_slow_one(
        bytes in 1_000u64..60_000, numerator in 1u32..9, denominator in 1u32..9,
        frames in prop::collection::vec((1..4u16, 0..1_500usize, 0..4_000_000u64), 1..300),
    ) {
        let config = format!("rate=1Gbps,queue=20000B;switches:buffer={bytes}B,alpha={numerator}/{denominator}");
        let mut fabric = fabric(4, &config);
        let mut queues: [Vec<(u64, u64)>; 4] = Default::default();
        let (mut now, mut refused) = (0, 0);
        for (to, payload, gap) in frames {
            now += gap;
            let frame = numbered(A, Port(to), 0, payload);
            let length = frame.len() as u64;
            let held = |queue: &Vec<(u64, u64)>| {
                queue.iter().filter(|(departure, _)| *departure > now).map(|(_, bytes)| bytes).sum::<u64>()
            };
            let free = bytes - queues.iter().map(held).sum::<u64>();
            let queue = &mut queues[usize::from(to)];
            let grown = held(queue) + length;
            let threshold = free * u64::from(numerator) / u64::from(denominator);
            if grown <= 20_000 && length <= free && grown <= threshold {
                let start = queue.last().map_or(now, |(departure, _)| now.max(*departure));
                queue.push((start + length * 8_000, length));
            } else {
                refused += 1;
            }
            while fabric.poll(Time(now)).is_some() {}
            fabric.offer(Time(now), A, frame);
            let dropped: u64 = fabric.stats().towards.iter().map(|link| link.queue_dropped + link.buffer_dropped).sum();
            prop_assert_eq!(dropped, refused);
        }
        prop_assert!(fabric.stats().buffer_peaks[0] <= bytes);
    }
}
