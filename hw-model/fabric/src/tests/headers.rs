//! Tests rewritten headers against a recomputed checksum.

use proptest::prelude::*;

use super::{A, B, drain, ethernet, fabric, internet_checksum, ipv4, ipv6};
use crate::Time;

/// Sends one frame and returns what arrives.
fn pass(config: &str, frame: Vec<u8>) -> Option<Vec<u8>> {
    let mut fabric = fabric(2, config);
    fabric.offer(Time::ZERO, A, frame);
    let delivery = drain(&mut fabric).pop();
    assert_eq!(fabric.stats().towards[1].hop_limit_expired, u64::from(delivery.is_none()));
    delivery.map(|delivery| delivery.frame)
}

/// Sends one frame with a threshold of zero, so that the queue is always above it.
fn marked(mark: &str, frame: Vec<u8>) -> Vec<u8> {
    pass(&format!("ecn=0,ecn_mark={mark}"), frame).expect("nothing drops it")
}

proptest! {
    #[test]
    fn hops_lower_ttl_and_keep_the_checksum(tos: u8, ttl: u8, hops: u8, payload: [u8; 8]) {
        let arrived = pass(&format!("hops={hops}"), ipv4(A, B, tos, ttl, 17, &payload));
        let dropped = hops != 0 && ttl <= hops;
        prop_assert_eq!(arrived.is_none(), dropped);
        if let Some(frame) = arrived {
            prop_assert_eq!(internet_checksum(&frame[14..34]), 0);
            prop_assert_eq!(frame, ipv4(A, B, tos, ttl - hops, 17, &payload));
        }
    }

    #[test]
    fn hops_lower_the_hop_limit(class: u8, limit: u8, hops: u8) {
        let arrived = pass(&format!("hops={hops}"), ipv6(A, B, class, limit, 17, &[0; 8]));
        let expected = (hops == 0 || limit > hops).then(|| ipv6(A, B, class, limit - hops, 17, &[0; 8]));
        prop_assert_eq!(arrived, expected);
    }

    #[test]
    fn marking_sets_both_bits_and_keeps_the_checksum(tos: u8, always: bool) {
        let mark = if always { "always" } else { "ect" };
        let expected = if always || tos & 3 != 0 { tos | 3 } else { tos };
        let frame = marked(mark, ipv4(A, B, tos, 64, 17, &[0; 8]));
        prop_assert_eq!(internet_checksum(&frame[14..34]), 0);
        prop_assert_eq!(frame, ipv4(A, B, expected, 64, 17, &[0; 8]));
        let frame = marked(mark, ipv6(A, B, tos, 64, 17, &[0; 8]));
        prop_assert_eq!(frame, ipv6(A, B, expected, 64, 17, &[0; 8]));
    }

    #[test]
    fn a_wrong_checksum_stays_wrong(error in 1u16..0xffff, ttl in 2u8..) {
        let mut frame = ipv4(A, B, 0b10, ttl, 17, &[0; 8]);
        let wrong = u16::from_be_bytes([frame[24], frame[25]]) ^ error;
        frame[24..26].copy_from_slice(&wrong.to_be_bytes());
        prop_assume!(internet_checksum(&frame[14..34]) != 0);
        let arrived = pass("hops=1,ecn=0", frame).expect("hop limit left");
        prop_assert_ne!(internet_checksum(&arrived[14..34]), 0);
    }

    #[test]
    fn any_bytes_pass(payload: Vec<u8>, ethertype in prop::sample::select(vec![0x0800, 0x86dd, 0x0806])) {
        let frame = ethernet(A, B, ethertype, &payload);
        let mut fabric = fabric(2, "hops=1,ecn=0,ecn_mark=always,corrupt=100%,duplicate=50%,reorder=50%");
        fabric.offer(Time::ZERO, A, frame);
        drain(&mut fabric);
        let stats = &fabric.stats().towards[1];
        prop_assert_eq!(stats.offered + stats.duplicated, stats.delivered + stats.dropped());
    }
}

#[test]
fn a_frame_already_marked_is_not_counted_again() {
    let mut fabric = fabric(2, "ecn=0");
    for tos in [0b00, 0b01, 0b10, 0b11] {
        fabric.offer(Time::ZERO, A, ipv4(A, B, tos, 64, 17, &[0; 8]));
    }
    drain(&mut fabric);
    assert_eq!(fabric.stats().towards[1].ecn_marked, 2);
}

#[test]
fn neighbour_discovery_keeps_its_hop_limit() {
    // RFC 4861, 6.1: a hop limit other than 255 is not valid.
    let solicitation = ipv6(A, B, 0, 255, 58, &[135, 0, 0, 0]);
    assert_eq!(pass("hops=4,loss=100%,corrupt=100%", solicitation.clone()), Some(solicitation));
    let echo = ipv6(A, B, 0, 64, 58, &[128, 0, 0, 0]);
    assert_eq!(pass("hops=4", echo), Some(ipv6(A, B, 0, 60, 58, &[128, 0, 0, 0])));
}

#[test]
fn housekeeping_is_passed_over_and_nothing_else_is() {
    let is_impaired = |frame: Vec<u8>| {
        let mut fabric = fabric(2, "loss=100%");
        fabric.offer(Time::ZERO, A, frame);
        let link = &fabric.stats().towards[1];
        assert_eq!(link.lost + link.spared, 1);
        link.lost == 1
    };
    let icmpv6 = |kind| is_impaired(ipv6(A, B, 0, 255, 58, &[kind, 0, 0, 0]));
    let spared: Vec<_> = (0..=255).filter(|kind| !icmpv6(*kind)).collect();
    assert_eq!(spared, [130, 131, 132, 133, 134, 135, 136, 137, 143]);
    assert!(!is_impaired(ipv6(A, B, 0, 1, 0, &[58, 0, 5, 2, 0, 0, 1, 0])), "a report behind a router alert");
    assert!(!is_impaired(ipv4(A, B, 0, 1, 2, &[0x22])), "IGMP");
    assert!(!is_impaired(ethernet(A, B, 0x0806, &[0; 28])), "ARP");
    for protocol in [1, 6, 17] {
        assert!(is_impaired(ipv4(A, B, 0, 64, protocol, &[0; 20])));
    }
    assert!(is_impaired(ipv6(A, B, 0, 64, 6, &[0; 20])) && is_impaired(ipv6(A, B, 0, 64, 17, &[0; 8])));
}

#[test]
fn the_scope_of_udp_spares_the_rest() {
    let mut fabric = fabric(2, "loss=100%,scope=udp,hops=1");
    let tcp = |ttl| ipv4(A, B, 0, ttl, 6, &[0; 20]);
    for frame in [tcp(64), ipv4(A, B, 0, 64, 17, &[0; 8]), ipv6(A, B, 0, 64, 17, &[0; 8])] {
        fabric.offer(Time::ZERO, A, frame);
    }
    let arrived: Vec<_> = drain(&mut fabric).into_iter().map(|delivery| delivery.frame).collect();
    assert_eq!(arrived, [tcp(63)], "it still crosses a router");
    assert_eq!(fabric.stats().towards[1].lost, 2);
}
