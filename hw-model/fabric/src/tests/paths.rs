//! Tests fabrics with several switches: the paths of frames, and the impairments on them.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{Fabric, address, drain, internet_checksum, ipv4, ipv6};
use crate::{Egress, FabricStats, FlowHash, LinkStats, Port, Time, Topology, Trunk};

const UDP: u8 = 17;
const FALCON_PORT: u16 = 4791;

fn fabric(topology: Topology, config: &str) -> Fabric {
    let hosts = topology.hosts();
    let mut fabric = Fabric::with_topology(topology, config.parse().expect("valid")).expect("ports exist");
    (0..hosts).map(Port).for_each(|port| fabric.learn(address(port), port));
    fabric
}

/// Returns a UDP frame over IPv4 of the flow with this source port.
fn datagram(from: Port, to: Port, source_port: u16, payload: usize) -> Vec<u8> {
    let ports = [source_port.to_be_bytes(), FALCON_PORT.to_be_bytes()].concat();
    ipv4(from, to, 0b10, 64, UDP, &[&ports[..], &vec![0; payload.max(4)]].concat())
}

fn labelled(from: Port, to: Port, flow_label: u32) -> Vec<u8> {
    let mut frame = ipv6(from, to, 0, 64, UDP, &[0; 8]);
    let word = 0x6000_0000 | flow_label;
    frame[14..18].copy_from_slice(&word.to_be_bytes());
    frame
}

fn carried(stats: &[LinkStats]) -> Vec<u64> {
    stats.iter().map(|link| link.delivered).collect()
}

#[test]
fn flows_spread_over_all_paths_and_keep_theirs() {
    const FLOWS: u16 = 4_000;
    for seed in 0..4 {
        let mut fabric = fabric(Topology::dumbbell(1, 1, 4), &format!("seed={seed}"));
        let mut once = vec![];
        for round in 1..=3 {
            for flow in 0..FLOWS {
                fabric.offer(Time(round), Port(0), datagram(Port(0), Port(1), 49_152 + flow, 0));
            }
            drain(&mut fabric);
            let now = carried(&fabric.stats().trunks);
            if round == 1 {
                once = now.clone();
            }
            let repeated: Vec<_> = once.iter().map(|count| count * round).collect();
            assert_eq!(now, repeated, "every flow takes the path it took before");
        }
        assert_eq!(once[4..], [0; 4], "nothing goes back");
        for count in &once[..4] {
            // Five standard deviations of a binomial distribution.
            assert!((863..=1_137).contains(count), "{once:?}");
        }
    }
}

#[test]
fn a_new_port_or_label_may_take_another_path() {
    let mut fabric = fabric(Topology::dumbbell(2, 2, 8), "seed=3");
    let (mut by_port, mut by_label) = (HashSet::new(), HashSet::new());
    for number in 0..100 {
        for (frame, ways) in [
            (datagram(Port(0), Port(3), 50_000 + number, 0), &mut by_port),
            (labelled(Port(0), Port(3), number.into()), &mut by_label),
        ] {
            let before = carried(&fabric.stats().trunks);
            let route = fabric.route(Port(0), Port(3), FlowHash::of(&frame));
            fabric.offer(Time::ZERO, Port(0), frame);
            drain(&mut fabric);
            let after = carried(&fabric.stats().trunks);
            let taken = (0..16).find(|trunk| after[*trunk] != before[*trunk]).expect("one was taken");
            assert_eq!(route, [Egress::Trunk(Trunk(taken as u16)), Egress::Host(Port(3))]);
            ways.insert(taken);
        }
    }
    assert_eq!((by_port.len(), by_label.len()), (8, 8));
}

#[test]
fn the_hash_of_a_frame_is_that_of_its_flow() {
    let frame = datagram(Port(0), Port(1), 50_000, 100);
    let flow = FlowHash::ipv4([10, 7, 0, 1], [10, 7, 0, 2], UDP, [50_000, FALCON_PORT]);
    assert_eq!(FlowHash::of(&frame), flow);
    let frame = labelled(Port(0), Port(1), 0xf_ffff);
    assert_eq!(FlowHash::of(&frame), FlowHash::ipv6([0xfd; 16], [0xfe; 16], UDP, 0xf_ffff));
    // In a fragment, or after options, the ports are not at their usual offset.
    let portless = FlowHash::ipv4([10, 7, 0, 1], [10, 7, 0, 2], UDP, [0, 0]);
    let changed = |offset: usize, byte: u8| {
        let mut frame = datagram(Port(0), Port(1), 50_000, 100);
        frame[offset] = byte;
        FlowHash::of(&frame)
    };
    assert_eq!(changed(20, 0x20), portless);
    assert_eq!(changed(14, 0x46), portless);
    assert_eq!(changed(20, 0x00), flow, "without the bit that forbids fragments");
}

/// One cable of four loses everything, one is unplugged in one direction and one is slow. The other directions and the
/// fourth cable are as before.
#[test]
fn trunks_differ() {
    const FLOWS: u16 = 400;
    let mut fabric =
        fabric(Topology::dumbbell(1, 1, 4), ";trunks:delay=1us;trunk1:loss=100%;trunk2:delay=1ms");
    fabric.set_link(Trunk(3), false);
    for flow in 0..FLOWS {
        fabric.offer(Time::ZERO, Port(0), datagram(Port(0), Port(1), 49_152 + flow, 0));
        fabric.offer(Time::ZERO, Port(1), datagram(Port(1), Port(0), 49_152 + flow, 0));
    }
    drain(&mut fabric);
    let stats = fabric.stats();
    let lost = |trunk: usize| (stats.trunks[trunk].lost, stats.trunks[trunk].link_down_dropped);
    let offered = |trunk: usize| stats.trunks[trunk].offered;
    assert_eq!([lost(0), lost(1), lost(2), lost(3)], [(0, 0), (offered(1), 0), (0, 0), (0, offered(3))]);
    assert!((4..8).all(|trunk| lost(trunk) == (0, 0) && offered(trunk) > 0), "the way back is whole");
    assert!((0..4).all(|trunk| offered(trunk) > 0));
    assert_eq!(fabric.impairments(Trunk(2)).to_string(), "delay=1ms");

    // All of it ends while the fabric runs.
    fabric.set_link(Trunk(3), true);
    fabric.set_impairments(Trunk(1), fabric.impairments(Trunk(0)).clone());
    let before = carried(&stats.trunks);
    let now = Time(2_000_000_000_000);
    (0..FLOWS).for_each(|flow| fabric.offer(now, Port(0), datagram(Port(0), Port(1), 49_152 + flow, 0)));
    drain(&mut fabric);
    let after = carried(&fabric.stats().trunks);
    assert_eq!((0..4).map(|trunk| after[trunk] - before[trunk]).sum::<u64>(), u64::from(FLOWS));
}

#[test]
fn the_second_switch_does_not_repeat_the_choice_of_the_first() {
    let flows = (0..10_000).map(|port| FlowHash::ipv4([10, 0, 0, 1], [10, 0, 0, 2], UDP, [port, 4791]));
    let same = flows.filter(|flow| flow.choose(1, 4) == flow.choose(2, 4)).count();
    assert!((2_283..=2_717).contains(&same), "{same} of 10,000, expected 2500 +- 5 sigma");
}

#[test]
fn each_switch_takes_a_hop_and_each_link_its_time() {
    let config = "hops=1,delay=1us,rate=1Gbps;trunks:hops=1,delay=10us,rate=10Gbps";
    let mut fabric = fabric(Topology::leaf_spine(3, 2, 2), config);
    let frame = datagram(Port(0), Port(5), 50_000, 4 + 962 - 8);
    assert_eq!(frame.len(), 996);
    fabric.offer(Time::ZERO, Port(0), frame.clone());
    fabric.offer(Time::ZERO, Port(0), datagram(Port(0), Port(1), 50_000, 958));
    let near = fabric.poll(Time(8_968_000)).expect("the neighbour at the same switch");
    assert_eq!((near.time, near.port, near.frame[22]), (Time(8_968_000), Port(1), 63));
    let far = drain(&mut fabric).remove(0);
    // The frame takes two trunks of 10 us and 0.7968 us each, and then the last link of 1 us and 7.968 us.
    assert_eq!((far.time, far.port, far.frame[22]), (Time(30_561_600), Port(5), 61));
    assert_eq!(internet_checksum(&far.frame[14..34]), 0);
    let stats = fabric.stats();
    assert_eq!(carried(&stats.trunks).iter().sum::<u64>(), 2);
    assert_eq!(carried(&stats.towards), [0, 1, 0, 0, 0, 1]);
}

#[test]
fn what_waits_in_a_queue_can_be_seen() {
    let mut fabric = fabric(Topology::dumbbell(2, 1, 1), "seed=1;trunks:rate=1Gbps,queue=4000B");
    let trunk = Egress::Trunk(Trunk(0));
    for _ in 0..6 {
        fabric.offer(Time::ZERO, Port(0), datagram(Port(0), Port(2), 1, 962));
    }
    assert_eq!(fabric.queued_bytes(trunk, Time::ZERO), 4_000, "1000 bytes each");
    assert_eq!(fabric.queued_bytes(trunk, Time(7_999_999)), 4_000);
    assert_eq!(fabric.queued_bytes(trunk, Time(8_000_000)), 3_000);
    assert_eq!(fabric.queued_bytes(Egress::Host(Port(2)), Time::ZERO), 0);
    drain(&mut fabric);
    assert_eq!(fabric.queued_bytes(trunk, Time(32_000_000)), 0);
    let stats = &fabric.stats().trunks[0];
    assert_eq!((stats.queue_peak, stats.queue_dropped, stats.delivered), (4_000, 2, 4));
}

#[test]
fn a_flow_keeps_its_order_among_others() {
    let config = "seed=2,rate=10Gbps,queue=1GiB;trunks:rate=1Gbps,queue=1GiB,delay=3us";
    let mut fabric = fabric(Topology::leaf_spine(2, 2, 4), config);
    let mut sent = vec![];
    for number in 0..1_000u64 {
        let flow = (number % 7) as u16;
        let mut frame = datagram(Port(flow % 2), Port(2 + flow % 2), flow, 4 + usize::from(flow) * 100);
        let end = frame.len();
        frame[end - 4..].copy_from_slice(&(number as u32).to_be_bytes());
        sent.push((flow, number as u32));
        fabric.offer(Time(number * 1_000), Port(flow % 2), frame);
    }
    let mut arrived: Vec<_> = drain(&mut fabric)
        .iter()
        .map(|delivery| {
            let number = *delivery.frame.last_chunk().expect("long enough");
            (u16::from_be_bytes([delivery.frame[34], delivery.frame[35]]), u32::from_be_bytes(number))
        })
        .collect();
    assert_ne!(arrived, sent, "different paths take different times");
    arrived.sort_by_key(|(flow, _)| *flow);
    sent.sort_by_key(|(flow, _)| *flow);
    assert_eq!(arrived, sent);
}

fn assert_conserved(stats: &FabricStats) {
    for link in stats.towards.iter().chain(&stats.trunks) {
        assert_eq!(link.offered + link.duplicated, link.delivered + link.dropped() + link.in_flight);
    }
}

proptest! {
    #[test]
    fn frames_and_queues_are_accounted_for_on_every_link(
        seed: u64, spines in 1..4u16, queue in 1_000u64..20_000,
        frames in prop::collection::vec((0..6u16, 0..6u16, 0..64u16, 0..1_500usize, 0..2_000_000u64), 1..150),
    ) {
        let config = format!(
            "seed={seed},loss=2%,duplicate=5%,rate=2Gbps,queue={queue}B,delay=1us;\
             trunks:loss=3%,reorder=10%,duplicate=5%,corrupt=5%,rate=1Gbps,queue={queue}B,jitter=2us"
        );
        let run = || {
            let mut fabric = fabric(Topology::leaf_spine(3, 2, spines), &config);
            let (mut now, mut last, mut seen) = (0, Time::ZERO, vec![]);
            for &(from, to, flow, payload, gap) in &frames {
                now += gap;
                while let Some(delivery) = fabric.poll(Time(now)) {
                    assert!(last <= delivery.time && delivery.time <= Time(now), "in order, none early");
                    last = delivery.time;
                    seen.push(delivery);
                }
                fabric.offer(Time(now), Port(from), datagram(Port(from), Port(to), flow, payload));
                assert_conserved(&fabric.stats());
                for egress in (0..6).map(Port).map(Egress::Host).chain((0..6 * spines).map(Trunk).map(Egress::Trunk)) {
                    assert!(fabric.queued_bytes(egress, Time(now)) <= queue);
                }
            }
            seen.extend(drain(&mut fabric));
            let stats = fabric.stats();
            assert_conserved(&stats);
            assert!(stats.towards.iter().chain(&stats.trunks).all(|link| link.in_flight == 0));
            let delivered: u64 = carried(&stats.towards).iter().sum();
            assert_eq!(delivered, seen.len() as u64);
            (stats, seen)
        };
        prop_assert_eq!(run(), run(), "one seed gives one result");
    }
}
