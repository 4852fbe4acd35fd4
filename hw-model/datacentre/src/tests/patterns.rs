//! Tests the traffic patterns, and a large data centre.

use fabric_model::Topology;

use super::{SEGMENT, complete, star};
use crate::{FIRST_ENTROPY_PORT, Plan, entropy_ports, incast, permutation};

#[test]
fn a_permutation_gives_each_host_one_flow_out_and_one_in() {
    for seed in 0..10 {
        let flows = permutation(17, 1, seed);
        let mut sources: Vec<u16> = flows.iter().map(|flow| flow.source).collect();
        let mut destinations: Vec<u16> = flows.iter().map(|flow| flow.destination).collect();
        assert!(flows.iter().all(|flow| flow.source != flow.destination));
        sources.sort_unstable();
        destinations.sort_unstable();
        assert_eq!(sources, (0..17).collect::<Vec<_>>());
        assert_eq!(destinations, sources);
        assert_eq!(flows, permutation(17, 1, seed), "one seed, one pattern");
    }
    assert_ne!(permutation(17, 1, 0), permutation(17, 1, 1));
}

#[test]
fn entropy_comes_from_its_range_and_differs() {
    let mut ports: Vec<u16> = entropy_ports(3).take(100).collect();
    assert!(ports.iter().all(|port| *port >= FIRST_ENTROPY_PORT));
    ports.sort_unstable();
    ports.dedup();
    assert!(ports.len() > 95, "100 draws from 16,384");
}

#[test]
fn an_incast_shares_one_link() {
    let mut plan = star(9, "rate=100Gbps,delay=1us,queue=16MiB");
    plan.flows = incast(8, 100 * SEGMENT, 1);
    let data_centre = complete(plan);
    let received: Vec<u64> = data_centre.host_stats().iter().map(|host| host.received).collect();
    assert_eq!(received[0], 800);
    assert!(received[1..].iter().all(|acknowledgements| (1..100).contains(acknowledgements)), "{received:?}");
}

#[test]
fn two_hundred_and_fifty_six_hosts_write_to_one_another() {
    let fabric = "rate=100Gbps,delay=1us,queue=4MiB,hops=1;trunks:rate=400Gbps,delay=1us,queue=4MiB,hops=1";
    let mut plan = Plan::new(Topology::leaf_spine(16, 16, 4), fabric.parse().expect("valid"));
    plan.flows = permutation(256, 20 * SEGMENT, 1);
    let data_centre = complete(plan);
    let stats = data_centre.fabric_stats();
    let data: u64 = stats.towards.iter().map(|link| link.delivered_bytes).sum();
    assert!(data > 256 * 20 * SEGMENT);
    assert!(stats.trunks.iter().all(|link| link.delivered > 0), "all cables are used");
    assert_eq!(stats.towards.iter().chain(&stats.trunks).map(|link| link.dropped()).sum::<u64>(), 0);
}
