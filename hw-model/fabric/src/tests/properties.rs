//! Tests properties that hold for all configurations and all sequences of events.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{A, B, Fabric, address, fabric, numbered};
use crate::{FabricStats, Impairments, Port, Time};

/// An action of a driver.
#[derive(Clone, Debug)]
enum Action {
    Offer { from: u16, to: u16, payload: usize },
    Advance(u64),
    Poll,
    SetLink { port: u16, up: bool },
    SetImpairments { port: u16, which: usize },
}

const CONFIGS: &[&str] = &[
    "",
    "loss=30%,duplicate=30%,corrupt=30%,reorder=30%",
    "rate=1Gbps,queue=3KiB,ecn=1KiB,duplicate=20%",
    "burst=20%/30%/90%,reorder=50%,reorder_distance=2,reorder_hold=1us,delay=2us,jitter=2us",
    "hops=64,scope=udp",
    "hops=1,delay=1us,rate=40Gbps,reorder=10%,down=3us-5us",
    "rate=1Gbps,queue=3KiB,ecn=1KiB,trim=80B,header_queue=200B,duplicate=20%,reorder=20%,loss=5%,corrupt=30%",
];

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0..3u16, 0..4u16, 0..1_500usize).prop_map(|(from, to, payload)| Action::Offer { from, to, payload }),
        3 => (0..3_000_000u64).prop_map(Action::Advance),
        3 => Just(Action::Poll),
        1 => (0..3u16, any::<bool>()).prop_map(|(port, up)| Action::SetLink { port, up }),
        1 => (0..3u16, 0..CONFIGS.len()).prop_map(|(port, which)| Action::SetImpairments { port, which }),
    ]
}

fn assert_conserved(stats: &FabricStats, delivered: &[u64; 3]) {
    for (link, delivered) in stats.towards.iter().zip(delivered) {
        assert_eq!(link.offered + link.duplicated, link.delivered + link.dropped() + link.in_flight);
        assert_eq!(link.delivered, *delivered);
    }
}

proptest! {
    #[test]
    fn every_frame_is_accounted_for(
        seed: u64, which in 0..CONFIGS.len(), actions in prop::collection::vec(action(), 0..200),
    ) {
        let mut fabric = fabric(3, &format!("seed={seed},{};switches:buffer=6KiB", CONFIGS[which]).replace(",;", ";"));
        let mut now = Time::ZERO;
        let mut delivered = [0; 3];
        let mut last = Time::ZERO;
        let mut poll = |fabric: &mut Fabric, now: Time, delivered: &mut [u64; 3]| {
            while let Some(delivery) = fabric.poll(now) {
                assert!(last <= delivery.time && delivery.time <= now, "in order, and not before its time");
                last = delivery.time;
                delivered[usize::from(delivery.port.0)] += 1;
            }
            assert!(fabric.next_event().is_none_or(|time| time > now));
        };
        for action in actions {
            match action {
                // No host has the address of port 3, so the frame is flooded.
                Action::Offer { from, to, payload } => {
                    fabric.offer(now, Port(from), numbered(Port(from), Port(to), 0, payload));
                }
                Action::Advance(span) => now = Time(now.0 + span),
                Action::Poll => poll(&mut fabric, now, &mut delivered),
                Action::SetLink { port, up } => fabric.set_link(Port(port), up),
                Action::SetImpairments { port, which } => {
                    fabric.set_impairments(Port(port), CONFIGS[which].parse().expect("valid"));
                }
            }
            // Every driver takes due deliveries before its clock advances.
            if matches!(action, Action::Advance(_)) {
                poll(&mut fabric, now, &mut delivered);
            }
            assert_conserved(&fabric.stats(), &delivered);
        }
        while let Some(time) = fabric.next_event() {
            now = now.max(time);
            poll(&mut fabric, now, &mut delivered);
        }
        assert_conserved(&fabric.stats(), &delivered);
        prop_assert!(fabric.stats().towards.iter().all(|link| link.in_flight == 0));
    }

    /// Compares the queue with a slow one that keeps a list of its frames and visits all of them each time.
    #[test]
    fn the_queue_agrees_with_a_slow_one(
        rate in 1_000_000u64..400_000_000_000, queue in 100u64..20_000,
        frames in prop::collection::vec((0..2_000usize, 0..40_000_000u64), 1..200),
    ) {
        let impairments: Impairments = format!("rate={rate}bps,queue={queue}B").parse().expect("valid");
        let mut fabric = Fabric::new(2, Default::default()).expect("the ports exist");
        fabric.learn(address(B), B);
        fabric.set_impairments(B, impairments);
        let mut waiting: VecDeque<(u64, u64)> = VecDeque::new();
        let (mut now, mut expected, mut arrived) = (0u64, Vec::new(), Vec::new());
        for (payload, gap) in frames {
            now += gap;
            let frame = numbered(A, B, 0, payload);
            let bytes = frame.len() as u64;
            waiting.retain(|(departure, _)| *departure > now);
            if waiting.iter().map(|(_, bytes)| bytes).sum::<u64>() + bytes <= queue {
                let start = waiting.back().map_or(now, |(departure, _)| *departure);
                let takes = (u128::from(bytes) * 8_000_000_000_000).div_ceil(u128::from(rate)) as u64;
                waiting.push_back((start + takes, bytes));
                expected.push(start + takes);
            }
            arrived.extend(core::iter::from_fn(|| fabric.poll(Time(now))).map(|delivery| delivery.time.0));
            fabric.offer(Time(now), A, frame);
        }
        arrived.extend(super::drain(&mut fabric).iter().map(|delivery| delivery.time.0));
        prop_assert_eq!(arrived, expected);
    }
}
