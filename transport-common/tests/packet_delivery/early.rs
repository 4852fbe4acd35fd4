//! Early retransmission (F-9.1.4, D-36, D-37) against the formula on a list.

use proptest::prelude::*;
use transport_common::bitmap::Bitmap128;
use transport_common::packet_delivery::Window;

use crate::harness::*;

/// Returns an EACK with data bitmaps, in response to a packet sent at `t1`.
fn eack(node: &Node, received: Bitmap128, acknowledged: Bitmap128, t1: u64, now: u64) -> Wire {
    let c = &node.entry.connection;
    let mut wire = back(node, c.flow.delivery.data().tx.base.0, c.flow.delivery.request().tx.base.0, at(now));
    wire.packet.kind = EACK;
    wire.packet.t1 = at(t1).ticks();
    wire.packet.acknowledgement.selective = 1;
    wire.packet.acknowledgement.data_received = received;
    wire.packet.acknowledgement.data_acknowledged = acknowledged;
    wire
}

fn node_with(pushes: u32) -> Node {
    let mut p = parameters(false, initial(0, u32::MAX - 30, 0), initial(0, 0, 0));
    p.fcwnd = transport_common::units::Fcwnd::from_packets(128);
    let mut node = Node::new(&p);
    for _ in 0..pushes {
        node.post(write(0, 4));
    }
    assert_eq!(node.drain(at(0)).len(), pushes as usize);
    node
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Resent are packets that were not received and are below highest received - threshold (strictly), or with
    /// OWN all packets not received. Never resent are packets that are acknowledged or wait for an RNR timeout.
    /// The last copy must be at least one RTT old.
    #[test]
    fn holes_far_enough_below_the_highest_are_resent(
        sent in 1..=60u32,
        received in any::<u64>(),
        acknowledged in any::<u64>(),
        threshold in 0..8u32,
        own in any::<bool>(),
        rnr in prop::option::of(0..60u32),
        fresh in any::<bool>(),
    ) {
        let mut node = node_with(sent);
        node.entry.connection.flow.delivery.tuning.ooo_threshold = threshold;
        let base = node.entry.connection.flow.delivery.lanes[0].tx.base;
        let inside = Bitmap128::low_mask(sent);
        let received = Bitmap128 { low: received, high: 0 }.and(inside);
        let acknowledged = Bitmap128 { low: acknowledged, high: 0 }.and(received);
        let rnr = rnr.filter(|&n| n < sent && !acknowledged.get(n));
        if let Some(n) = rnr {
            let mut refused = nack(&node, Window::Data, base.add(n).0, RNR, at(5));
            refused.packet.rnr_timeout_code = 20;
            node.receive(&refused, at(5));
        }
        // `fresh`: the EACK answers a packet sent before these packets, so their last copy is younger than one
        // RTT.
        let mut wire = eack(&node, received, acknowledged, 0, 100);
        if fresh {
            wire.packet.t1 = transport_common::units::FalconTime(at(0).ticks().0.wrapping_sub(50));
        }
        wire.packet.acknowledgement.own_data = own as u8;
        node.receive(&wire, at(100));
        let resent: Vec<u32> = node.drain(at(100)).iter().map(|w| w.packet.psn.wrapping_sub(base.0)).collect();
        let high = (0..sent).rev().find(|&n| received.get(n)).map(i64::from);
        let expected: Vec<u32> = (0..sent)
            .filter(|&n| !received.get(n) && rnr != Some(n) && !fresh)
            .filter(|&n| own || high.is_some_and(|high| i64::from(n) < high - i64::from(threshold)))
            .collect();
        prop_assert_eq!(&resent, &expected);
        // F-9.1.1-11: this is not a timeout, so the attempts do not increase.
        for psn in resent {
            prop_assert_eq!(node.entry.tables.delivery.packets[0][base.add(psn).0 as usize & 127].attempts, 0);
        }
        // F-9.1.4-2: the same EACK within the RTT resends nothing.
        let mut again = eack(&node, received, Bitmap128::ZERO, 0, 101);
        let moved = node.entry.connection.flow.delivery.lanes[0].tx.base.distance_from(base);
        again.packet.acknowledgement.data_received = received.shift_right(moved);
        again.packet.acknowledgement.own_data = own as u8;
        again.packet.t1 = at(90).ticks();
        if !fresh {
            node.receive(&again, at(101));
            prop_assert!(node.drain(at(101)).is_empty());
        }
    }
}

/// F-9.1.1-12, F-9.1.4-1, D-36: strictly below. A hole at exactly the threshold is not resent.
#[test]
fn threshold_is_strict() {
    for (highest, resent) in [(3, 0), (4, 1)] {
        let mut node = node_with(6);
        let wire = eack(&node, Bitmap128::bit(highest), Bitmap128::ZERO, 0, 50);
        node.receive(&wire, at(50));
        assert_eq!(node.drain(at(50)).len(), resent, "threshold 3, highest at {highest}");
    }
}

/// F-9.1.4-3: a packet received by Falcon but not by the ULP is not lost. F-9.1.4-4: OWN resends the packets
/// beyond the received bitmap, once per RTT.
#[test]
fn own_resends_the_tail_once_per_rtt() {
    let mut node = node_with(40);
    let received = Bitmap128::low_mask(30);
    let mut wire = eack(&node, received, Bitmap128::ZERO, 0, 60);
    wire.packet.acknowledgement.own_data = 1;
    node.receive(&wire, at(60));
    let base = node.entry.connection.flow.delivery.lanes[0].tx.base.0;
    let resent: Vec<u32> = node.drain(at(60)).iter().map(|w| w.packet.psn.wrapping_sub(base)).collect();
    assert_eq!(resent, (30..40).collect::<Vec<_>>());
    node.receive(&wire, at(70));
    assert_eq!(node.drain(at(70)).len(), 0);
    wire.packet.t1 = at(60).ticks();
    node.receive(&wire, at(130));
    assert_eq!(node.drain(at(130)).len(), 10);
}

/// F-9.2.3-8 for the request window: request bits are both received and acknowledged.
#[test]
fn request_holes_are_resent() {
    let mut p = Pair::new(false);
    for _ in 0..6 {
        p.a.post(read(0, 4));
    }
    p.a.drain(at(0));
    let mut wire = eack(&p.a, Bitmap128::ZERO, Bitmap128::ZERO, 0, 50);
    wire.packet.acknowledgement.request = Bitmap128 { low: 0b110000, high: 0 };
    p.a.receive(&wire, at(50));
    let resent: Vec<_> = p.a.drain(at(50)).iter().map(Wire::id).collect();
    assert_eq!(resent, [(PULL_REQUEST, 100, 1), (PULL_REQUEST, 101, 2)], "105 - 3 > 101");
    assert_eq!(
        p.a.entry.connection.flow.delivery.lanes[1].tx.outstanding_requests, 4,
        "EACK bits free (D-30)"
    );
}
