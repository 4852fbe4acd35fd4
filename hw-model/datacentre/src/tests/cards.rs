//! Tests the model of the card, exact to the picosecond.

use fabric_model::{ByteCount, Egress, FlowHash, Port, Rate, Span, Time};

use super::{BACK, FRAME, SEGMENT, build, complete, micros, star, write};
use crate::{HostModel, SlowUlp};
use transport_common::units::Fcwnd;

const GIGABIT: u64 = 1_000_000_000;

fn rate(gigabits: u64) -> Rate {
    Rate::from_bits_per_second(gigabits * GIGABIT).expect("not zero")
}

#[test]
fn a_packet_takes_turn_wire_and_cable_there_and_back() {
    for (line, cable, turn) in [(100, 1_000, 20), (200, 300, 0), (10, 5_000, 1_000)] {
        let mut plan = star(2, "rate=40Gbps,delay=2us,hops=1");
        plan.host = HostModel {
            line_rate: rate(line),
            cable: Span::from_nanos(cable),
            engine_turn: Span::from_nanos(turn),
            slow_ulp: None,
        };
        plan.flows = vec![write(0, 1, SEGMENT)];
        let data_centre = complete(plan);
        let wire = |bytes| rate(line).time_of(bytes) + rate(40).time_of(bytes);
        let cables = Span::from_nanos(2 * cable) + Span::from_micros(4);
        let expected = Time::ZERO + Span::from_nanos(turn) + wire(FRAME) + wire(BACK) + cables;
        assert_eq!(data_centre.flow(0).completions(), [Some(expected)]);
    }
}

#[test]
fn an_engine_as_fast_as_the_wire_fills_it() {
    let time_for_1000_packets = |turn| {
        let mut plan = star(2, "rate=100Gbps,queue=1MiB");
        plan.host.engine_turn = Span::from_nanos(turn);
        plan.host.cable = Span::ZERO;
        plan.flows = vec![write(0, 1, 1_000 * SEGMENT)];
        plan.flows[0].tuning.fcwnd = Fcwnd::from_packets(128);
        complete(plan).flow(0).completions()[0].expect("complete").0
    };
    let wire = 1_000 * rate(100).time_of(FRAME).0;
    // Acknowledgements need no service of the engine, so only the wire limits the rate.
    for turn in [0, 20, 200] {
        let time = time_for_1000_packets(turn);
        assert!((wire..wire + wire / 500).contains(&time), "turn of {turn} ns: {time} ps, wire {wire} ps");
    }
    // An engine service of twice the time of a frame halves the rate.
    let time = time_for_1000_packets(2 * wire / 1_000_000);
    assert!((2 * wire - wire / 100..2 * wire + wire / 20).contains(&time), "{time} ps, wire {wire} ps");
}

#[test]
fn a_slow_ulp_is_waited_for_and_its_buffer_never_exceeded() {
    let mut plan = star(3, "rate=100Gbps,delay=1us,queue=1MiB");
    let buffer = ByteCount(40 * FRAME);
    let slow = HostModel { slow_ulp: Some(SlowUlp { rate: rate(25), buffer }), ..plan.host };
    plan.hosts.insert(1, slow);
    plan.sample_every = Span::from_micros(1);
    for (destination, window) in [(1, 32), (2, 32)] {
        let mut flow = write(0, destination, 400 * SEGMENT);
        flow.tuning.fcwnd = Fcwnd::from_packets(window);
        plan.flows.push(flow);
    }
    let data_centre = complete(plan);
    let [slow, fast] = [0, 1].map(|flow| data_centre.flow(flow).completions()[0].expect("complete").0);
    let taken = 400 * rate(25).time_of(FRAME).0;
    assert!((taken..taken + taken / 10).contains(&slow), "{slow} ps at 25 Gb/s, {taken} ps of them data");
    assert!(fast < slow / 2, "the other host's ULP is not slow");
    let stats = data_centre.host_stats()[1];
    assert!(
        stats.buffer_peak <= 32 * FRAME && stats.buffer_peak > 16 * FRAME,
        "at most one window: {stats:?}"
    );
    assert_eq!(stats.overflowed, 0);
    let record = data_centre.record();
    let seen = record.buffers[0].iter().max().copied().unwrap_or_default();
    assert!(
        (stats.buffer_peak - 2 * FRAME..=stats.buffer_peak).contains(&seen),
        "a sample every microsecond comes close to the peak"
    );
}

#[test]
fn a_full_receive_buffer_drops_and_the_data_arrives_none_the_less() {
    let mut plan = star(2, "rate=100Gbps,delay=1us,queue=1MiB");
    let buffer = ByteCount(10 * FRAME);
    plan.host.slow_ulp = Some(SlowUlp { rate: rate(25), buffer });
    plan.flows = vec![write(0, 1, 400 * SEGMENT)];
    plan.sample_every = Span::from_micros(5);
    let data_centre = complete(plan);
    let stats = data_centre.host_stats()[1];
    assert!(stats.overflowed > 0 && stats.buffer_peak <= buffer.0, "{stats:?}");
    let last = data_centre.record().flows[0].last().expect("sampled");
    assert_eq!(last.received, 400 * SEGMENT);
    assert!(last.retransmissions >= stats.overflowed);
}

#[test]
fn a_host_with_many_connections_has_several_cards_on_one_wire() {
    let mut plan = star(3, "rate=100Gbps,delay=1us,queue=16MiB");
    plan.watch = vec![Egress::Host(Port(0))];
    plan.flows = (0..600).map(|n| write(1 + n % 2, 0, SEGMENT)).collect();
    let data_centre = complete(plan);
    let stats = data_centre.fabric_stats();
    assert_eq!(stats.towards[0].delivered, 600);
    assert_eq!(data_centre.host_stats()[0].received, 600);
    // Two wires bring the data, and one takes it.
    let last = data_centre.flows().iter().filter_map(|flow| flow.completions()[0]).max();
    let wire = 600 * rate(100).time_of(FRAME).0;
    assert!(last.is_some_and(|last| last.0 > wire && last.0 < wire + wire / 10), "{last:?}, wire {wire}");
}

#[test]
fn packets_take_the_route_that_is_told() {
    for ip_version in [4, 6] {
        let topology = fabric_model::Topology::leaf_spine(2, 1, 4);
        let mut plan = crate::Plan::new(topology, "seed=5,delay=1us".parse().expect("valid"));
        let mut flow = write(0, 1, 10 * SEGMENT);
        (flow.ip_version, flow.entropy) = (ip_version, 60_000);
        plan.flows = vec![flow];
        let mut data_centre = build(plan);
        let route = data_centre.route(0);
        data_centre.run_until(micros(100));
        let stats = data_centre.fabric_stats();
        for egress in &route {
            let link = match egress {
                Egress::Host(port) => &stats.towards[usize::from(port.0)],
                Egress::Trunk(trunk) => &stats.trunks[usize::from(trunk.0)],
            };
            assert_eq!(link.delivered, 10, "IPv{ip_version}: {egress:?}");
        }
        assert_eq!(route.len(), 3);
        if ip_version == 4 {
            let ports = [60_000, transport_common::wire::udp::FALCON_UDP_PORT];
            let hash = FlowHash::ipv4([10, 0, 0, 1], [10, 0, 1, 1], 17, ports);
            assert_eq!(hash, crate::address::flow_hash(&data_centre.path(0)));
        }
    }
}
