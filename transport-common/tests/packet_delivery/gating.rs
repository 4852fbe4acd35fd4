//! The transmit gate from outside: what is sent when nothing is acknowledged (F-9.1.2, D-28, D-29, D-85).

use proptest::prelude::*;
use transport_common::units::Fcwnd;
use transport_common::wire::PacketType;

use crate::harness::*;

/// Returns the numbers of pushes and pulls that are sent without any acknowledgement.
fn sent(p: &mut Node, now: u64) -> (usize, usize) {
    let sent = p.drain(at(now));
    (sent.iter().filter(|w| w.is(PUSH_DATA)).count(), sent.iter().filter(|w| w.is(PULL_REQUEST)).count())
}

/// F-9.1.2-8, D-28: the integer part, or 1 below 1.
#[test]
fn fractional_fabric_window() {
    for (fcwnd, packets) in [(2 * 1024 + 921, 2), (512, 1), (1, 1), (1024, 1), (3 * 1024, 3)] {
        let mut p = parameters(false, initial(0, 0, 0), initial(0, 0, 0));
        p.fcwnd = Fcwnd(fcwnd);
        let mut node = Node::new(&p);
        for _ in 0..5 {
            node.post(write(0, 4));
        }
        assert_eq!(sent(&mut node, 0), (packets, 0), "fcwnd {fcwnd}/1024");
    }
}

/// F-9.1.2-2, F-9.1.1-7: ncwnd does not count Pull Data.
#[test]
fn pull_data_passes_a_closed_nic_window() {
    let mut p = Pair::new(false);
    p.b.entry.connection.flow.congestion.ncwnd = 1;
    p.b.entry.connection.flow.congestion.fcwnd = Fcwnd::from_packets(4);
    for _ in 0..6 {
        p.a.post(read(0, 4));
    }
    let requests = p.a.drain(at(0));
    let mut answers: Vec<Wire> = requests.iter().filter_map(|w| p.b.receive(w, at(1))).collect();
    answers.extend(p.b.drain(at(1)));
    assert_eq!(answers.iter().filter(|w| w.is(PULL_DATA)).count(), 4, "fcwnd of them");
    assert_eq!(p.b.entry.connection.flow.delivery.lanes[0].tx.outstanding_requests, 0);
    for w in answers {
        p.a.receive(&w, at(2));
    }
    p.run(10, 200);
    assert_eq!(p.a.completed().len(), 6);
    p.assert_idle();
}

/// F-6.1.2-1, D-85: on an unordered connection each window has its own gate. F-9.1.3-2: on an ordered one a
/// blocked push blocks the pulls behind it.
#[test]
fn a_blocked_push_holds_pulls_only_where_order_binds() {
    for ordered in [false, true] {
        let mut p = parameters(ordered, initial(0, 0, 0), initial(0, 0, 0));
        p.data_window = 1;
        let mut node = Node::new(&p);
        node.post(write(0, 4));
        node.post(write(0, 4));
        node.post(read(0, 4));
        node.post(write(0, 4));
        node.post(read(0, 4));
        let order: Vec<_> = node.drain(at(0)).iter().map(|w| (w.packet.kind, w.packet.rsn)).collect();
        if ordered {
            assert_eq!(order, [(PUSH_DATA, 0)]);
        } else {
            assert_eq!(order, [(PUSH_DATA, 0), (PULL_REQUEST, 2), (PULL_REQUEST, 4)]);
        }
        // The base moves: the next push is sent, and RSN order resumes.
        let ack = back(&node, 1, 0, at(5));
        node.receive(&ack, at(5));
        let order: Vec<_> = node.drain(at(5)).iter().map(|w| (w.packet.kind, w.packet.rsn)).collect();
        let expected: &[_] = if ordered { &[(PUSH_DATA, 1), (PULL_REQUEST, 2)] } else { &[(PUSH_DATA, 1)] };
        assert_eq!(order, expected);
    }
}

/// F-8.3-1, F-8.3-2, F-8.3-4: requests and answers wait in queues of their own and take turns. If the requests are
/// blocked, the answers leave all the same.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn requests_and_answers_take_turns() {
    for (ordered, ncwnd) in [(true, 64), (false, 64), (true, 2), (false, 2)] {
        let mut p = Pair::new(ordered);
        for _ in 0..10 {
            p.a.post(read(0, 4));
            p.b.post(write(0, 4));
        }
        let requests = p.a.drain(at(0));
        p.b.entry.connection.flow.delivery.lanes[0].tx.size = 0; // nothing can leave yet
        for wire in &requests {
            assert_eq!(p.b.receive(wire, at(1)).filter(|answer| answer.is(PULL_DATA)), None);
        }
        p.b.entry.connection.flow.delivery.lanes[0].tx.size = 128;
        p.b.entry.connection.flow.congestion.ncwnd = ncwnd;
        p.b.wake = true;
        let mut kinds: Vec<_> = p.b.drain(at(2)).iter().map(|wire| wire.packet.kind).collect();
        kinds.retain(|kind| matches!(*kind, PUSH_DATA | PULL_DATA));
        let count = |kind| kinds.iter().filter(|it| **it == kind).count();
        assert_eq!((count(PUSH_DATA), count(PULL_DATA)), (10.min(ncwnd as usize), 10));
        let both = 2 * count(PUSH_DATA);
        let equal = |pair: &[PacketType]| pair[0] == pair[1];
        assert!(!kinds[..both].windows(2).any(equal), "ordered {ordered}: {kinds:?}");
    }
}

/// D-92, F-9.1.2-3: fcwnd and ncwnd gate pushes and nothing else does, while the window holds more.
#[test]
fn four_pushes_leave_in_a_congestion_window_of_four() {
    let mut p = parameters(true, initial(0, 0, 0), initial(0, 0, 0));
    p.fcwnd = Fcwnd::from_packets(4);
    let mut node = Node::new(&p);
    for _ in 0..5 {
        node.post(write(0, 4));
    }
    assert_eq!(sent(&mut node, 0), (4, 0));
}

/// F-8.3-5: a connection whose window is used up is not serviced until something changes.
#[test]
fn a_blocked_connection_asks_for_no_service() {
    let mut p = parameters(true, initial(0, 0, 0), initial(0, 0, 0));
    p.fcwnd = Fcwnd::from_packets(2);
    let mut node = Node::new(&p);
    for _ in 0..5 {
        node.post(write(0, 4));
    }
    assert_eq!(sent(&mut node, 0), (2, 0));
    let services = node.services;
    for now in 1..100 {
        assert_eq!(node.drain(at(now)), []);
    }
    assert_eq!(node.services, services);
    let ack = back(&node, 1, 0, at(100));
    node.receive(&ack, at(100));
    assert_eq!(sent(&mut node, 100), (1, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 100 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-9-5, F-9.1.2-1, F-9.1.2-3, F-6.1.2-6: min(fcwnd, window, ncwnd, posted) of each kind are sent.
    #[test]
    fn without_acknowledgements_a_minimum_leaves(
        fcwnd in 1..200u32,
        ncwnd in 1..200u32,
        request_window in 1..=64u32,
        data_window in 1..=128u32,
        pushes in 0..100usize,
        pulls in 0..100usize,
    ) {
        let mut p = parameters(false, initial(9, u32::MAX - 9, 5), initial(0, 0, 0));
        (p.fcwnd, p.ncwnd) = (Fcwnd::from_packets(fcwnd), ncwnd);
        (p.request_window, p.data_window) = (request_window, data_window);
        let mut node = Node::new(&p);
        for n in 0..pushes.max(pulls) {
            if n < pushes {
                node.post(write(0, 4));
            }
            if n < pulls {
                node.post(read(0, 4));
            }
        }
        let least = |window: u32, posted: usize| (fcwnd.min(ncwnd).min(window) as usize).min(posted);
        // Pushes leave a sixteenth of the sequence numbers of their window to responses, at least one of four (D-92).
        let data_window = data_window - if data_window < 4 { 0 } else { (data_window / 16).max(1) };
        prop_assert_eq!(sent(&mut node, 0), (least(data_window, pushes), least(request_window, pulls)));
        let c = &node.entry.connection;
        prop_assert_eq!(usize::from(c.flow.delivery.data().tx.outstanding_requests), least(data_window, pushes)); // DORC
        prop_assert_eq!(usize::from(c.flow.delivery.request().tx.outstanding_requests), least(request_window, pulls)); // RORC
    }

    /// F-9.1.2-4, F-9.1.2-6, F-9.1.2-7, D-29: after everything timed out, min(fcwnd, ncwnd) copies of each window
    /// are sent. The rest waits with its counter incremented. When the base is acknowledged, the next copy passes.
    /// At the end ORRC is 0.
    #[test]
    fn retransmissions_pass_their_own_gate(
        fcwnd in 1..40u32,
        ncwnd in 1..40u32,
        pushes in 1..40u32,
    ) {
        let mut node = Node::new(&parameters(false, initial(9, u32::MAX - 9, 5), initial(0, 0, 0)));
        node.entry.connection.flow.congestion.fcwnd = Fcwnd::from_packets(64);
        for _ in 0..pushes {
            node.post(write(0, 4));
        }
        prop_assert_eq!(sent(&mut node, 0), (pushes as usize, 0));
        node.entry.connection.flow.congestion.fcwnd = Fcwnd::from_packets(fcwnd);
        node.entry.connection.flow.congestion.ncwnd = ncwnd;
        let edge = fcwnd.min(ncwnd).min(pushes);
        let copies = node.drain(at(RTO_MICROS + 1));
        let psns: Vec<u32> = copies.iter().map(|w| w.packet.psn.wrapping_sub(u32::MAX - 9)).collect();
        prop_assert_eq!(psns, (0..edge).collect::<Vec<_>>());
        prop_assert_eq!(u32::from(node.entry.connection.flow.delivery.lanes[0].tx.outstanding_retransmitted), edge);
        prop_assert_eq!(node.entry.connection.flow.delivery.lanes[0].tx.retransmit.count_ones(), pushes - edge);
        for n in 1..=pushes {
            // One acknowledged copy frees one credit.
            let ack = back(&node, (u32::MAX - 9).wrapping_add(n), 9, at(RTO_MICROS + 2));
            node.receive(&ack, at(RTO_MICROS + 2));
            let more = node.drain(at(RTO_MICROS + 2)).len() as u32;
            prop_assert_eq!(more, u32::from(n + edge <= pushes));
        }
        let w = node.entry.connection.flow.delivery.lanes[0].tx;
        prop_assert_eq!((w.outstanding_retransmitted, w.outstanding_requests), (0, 0));
        prop_assert!(w.retransmit.is_zero());
    }
}
