//! Tests forwarding among many hosts.

use super::{A, B, Fabric, address, drain, fabric, numbered};
use crate::{Port, Time};

#[test]
fn addresses_are_learned_and_the_unknown_is_flooded() {
    let mut fabric = Fabric::new(4, "".parse().expect("valid")).expect("the ports exist");
    let ports =
        |fabric: &mut Fabric| drain(fabric).iter().map(|delivery| delivery.port.0).collect::<Vec<_>>();
    fabric.offer(Time::ZERO, A, numbered(A, B, 0, 64));
    assert_eq!(ports(&mut fabric), [1, 2, 3], "not yet known");
    fabric.offer(Time::ZERO, B, numbered(B, A, 1, 64));
    assert_eq!(ports(&mut fabric), [0], "learned from the first frame");
    fabric.offer(Time::ZERO, A, numbered(A, B, 2, 64));
    assert_eq!(ports(&mut fabric), [1]);
    let mut broadcast = numbered(A, B, 3, 64);
    broadcast[..6].fill(0xff);
    fabric.offer(Time::ZERO, A, broadcast);
    assert_eq!(ports(&mut fabric), [1, 2, 3]);
    // B moves to the last port, like a host that is plugged in elsewhere.
    fabric.learn(address(B), Port(3));
    fabric.offer(Time::ZERO, A, numbered(A, B, 4, 64));
    assert_eq!(ports(&mut fabric), [3]);
}

#[test]
fn a_frame_to_its_own_port_is_filtered() {
    let mut fabric = fabric(2, "");
    fabric.offer(Time::ZERO, A, numbered(A, A, 0, 64));
    assert_eq!(drain(&mut fabric), []);
    assert_eq!(fabric.stats().filtered, 1);
}

#[test]
fn a_group_address_is_never_learned() {
    let mut fabric = fabric(3, "");
    let mut forged = numbered(A, B, 0, 64);
    forged[6..12].fill(0xff);
    fabric.offer(Time::ZERO, A, forged);
    let mut broadcast = numbered(B, A, 1, 64);
    broadcast[..6].fill(0xff);
    fabric.offer(Time::ZERO, B, broadcast);
    assert_eq!(drain(&mut fabric).len(), 3, "one to B, two flooded");
}

#[test]
fn two_hundred_and_fifty_six_hosts_in_a_ring() {
    let hosts = 256u16;
    let mut fabric =
        Fabric::new(hosts, "seed=1,rate=100Gbps,delay=1us,reorder=1%,loss=1%".parse().expect("valid"))
            .expect("the ports exist");
    let address = |port: u16| [2, 0, 0, 0, (port >> 8) as u8, port as u8];
    (0..hosts).for_each(|port| fabric.learn(address(port), Port(port)));
    for round in 0..100 {
        for port in 0..hosts {
            let mut frame = numbered(A, B, round, 1_000);
            frame[..6].copy_from_slice(&address((port + 1) % hosts));
            frame[6..12].copy_from_slice(&address(port));
            fabric.offer(Time(round * 1_000_000), Port(port), frame);
        }
    }
    let deliveries = drain(&mut fabric);
    assert!(deliveries.is_sorted_by_key(|delivery| delivery.time));
    assert!(deliveries.iter().all(|delivery| delivery.frame[..6] == address(delivery.port.0)));
    let stats = fabric.stats();
    assert!(stats.towards.iter().all(|link| link.offered == 100 && link.in_flight == 0));
    let (delivered, dropped) = stats
        .towards
        .iter()
        .fold((0, 0), |(delivered, dropped), link| (delivered + link.delivered, dropped + link.dropped()));
    assert_eq!((delivered, delivered + dropped), (deliveries.len() as u64, 25_600));
}
