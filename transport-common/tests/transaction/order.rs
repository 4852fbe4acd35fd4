//! Order at the target, requests held for it, and handling of each duplicate (F-8.5.2-1, D-21, D-23, D-53).

use proptest::prelude::*;
use transport_common::connection::{TRANSACTIONS, WorkKind};
use transport_common::counters::Counter;

use transport_common::queues::Verb;
use transport_common::transaction::RequestState;

use crate::harness::*;

/// Returns `n` alternating pushes and pulls, as `a` sends them.
fn sent(ordered: bool, n: usize) -> (Pair, Vec<Wire>) {
    let mut p = Pair::new(ordered);
    p.a.entry.connection.flow.congestion.fcwnd = transport_common::units::Fcwnd::from_packets(128);
    for i in 0..n {
        p.a.post(if i % 2 == 0 { write(i as u64 * 8, 8) } else { work(Verb::FETCH_ADD, 0x800, 8) });
    }
    let sent = p.a.drain(at(0));
    assert_eq!(sent.len(), n);
    (p, sent)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 60 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-8.5.2-1, F-8.4.2-1: for any reordering by the network, with additional copies, the ULP at the target sees
    /// RSN order across both windows. The ULP at the initiator gets completions in RSN order. Each comes exactly
    /// once.
    #[test]
    fn ordered_delivery_is_rsn_order(
        n in 1..40usize,
        keys in prop::collection::vec(any::<u32>(), 80),
    ) {
        let (mut p, sent) = sent(true, n);
        let mut arrivals: Vec<usize> = (0..n).chain(0..n).collect();
        arrivals.sort_by_key(|&i| keys[i]);
        arrivals.dedup_by_key(|i| keys[*i] % 7); // some copies are lost; the RTO resends them
        let mut now = 1;
        for i in arrivals {
            now += 1;
            if let Some(answer) = p.b.receive(&sent[i], at(now)) {
                p.a.receive(&answer, at(now));
            }
            if keys[i] % 2 == 0 {
                let answer = p.b.turn(at(now));
                answer.map(|w| p.a.receive(&w, at(now)));
            }
        }
        p.run(now + 10, 4 * RTO_MICROS);
        let order: Vec<u32> = (1..=n as u32).collect();
        prop_assert_eq!(&p.b.delivered, &order);
        let completed: Vec<(u32, u8)> = order.iter().map(|&rsn| (rsn, 0)).collect();
        prop_assert_eq!(p.a.completed(), completed);
        // Each atomic was executed exactly once. Each added 0, so the test counts the deliveries.
        prop_assert_eq!(p.b.deliveries[WorkKind::FetchAdd as usize] as usize, n / 2);
        p.assert_idle();
    }

    /// F-8.5.2-2: on an unordered connection each request is delivered on arrival.
    #[test]
    fn unordered_delivery_is_arrival_order(keys in prop::collection::vec(any::<u32>(), 1..40)) {
        let (mut p, sent) = sent(false, keys.len());
        let mut arrivals: Vec<usize> = (0..keys.len()).collect();
        arrivals.sort_by_key(|&i| keys[i]);
        for &i in &arrivals {
            if let Some(answer) = p.b.receive(&sent[i], at(5)) {
                p.a.receive(&answer, at(5));
            }
        }
        let order: Vec<u32> = arrivals.iter().map(|&i| sent[i].packet.rsn).collect();
        prop_assert_eq!(&p.b.delivered, &order);
        prop_assert_eq!(p.b.free_cells(), CELLS, "nothing was held");
        p.run(10, 100);
        prop_assert_eq!(p.a.completed().len(), keys.len());
        p.assert_idle();
    }
}

/// F-9.2.2.4-3, F-11-13, F-11-14, D-21: no duplicate is delivered, whatever the state of the first copy.
#[test]
fn duplicates_by_state() {
    let (mut p, sent) = sent(true, 4);
    // Held: RSN 3, which is not next yet.
    p.b.receive(&sent[2], at(1));
    assert_eq!(p.b.receive(&sent[2], at(2)), None);
    // A pull that is acknowledged and held.
    p.b.receive(&sent[1], at(3));
    assert_eq!(p.b.receive(&sent[1], at(4)), None);
    assert_eq!(p.b.free_cells(), CELLS - 2);
    // Done: RSN 1.
    p.b.receive(&sent[0], at(5));
    assert_eq!(p.b.delivered, [1]);
    assert_eq!(p.b.receive(&sent[0], at(6)), None);
    assert_eq!(p.b.count(Counter::DropDuplicate) + p.b.count(Counter::DropOldDuplicate), 3);
    assert_eq!(p.b.entry.tables.statistics.duplicates, 3);
    assert_eq!(p.b.count(Counter::DropOldDuplicate), 2);
    p.b.drain(at(7));
    assert_eq!(p.b.delivered, [1, 2, 3], "each exactly once");
}

/// D-23, F-8.5.3.1-1, F-8.5.3.3-1, F-11-16: without a cell nothing is marked, and the packet is accepted later. The
/// two packets come so far apart that each is refused by a NACK.
#[test]
fn resource_nack_marks_nothing() {
    let (mut p, sent) = sent(true, 4);
    p.b.withhold_cells(CELLS);
    for (wire, window, now) in [(&sent[1], 1, at(1)), (&sent[2], 0, at(131))] {
        let nack = p.b.receive(wire, now).expect("a NACK at once");
        assert_eq!((nack.packet.kind, nack.packet.nack_code), (NACK, NO_RESOURCES));
        assert_eq!((nack.packet.psn, nack.packet.nack_window), (wire.packet.psn, window), "F-7.8-6");
        p.a.receive(&nack, now);
    }
    let c = &p.b.entry.connection;
    assert!(c.flow.delivery.data().rx.received.is_zero() && c.flow.delivery.request().rx.received.is_zero());
    assert_eq!(p.b.count(Counter::DropResources), 2);
    // The next request in order needs no cell. The others are sent again by their timers.
    p.b.receive(&sent[0], at(132));
    p.run(140, 4 * RTO_MICROS);
    assert_eq!(p.b.delivered, [1, 2, 3, 4]);
    assert_eq!(p.a.completed().len(), 4);
}

/// A stale piggyback in a held packet is counted once, not by both of its steps.
#[test]
fn a_held_packet_counts_once() {
    let (mut p, mut sent) = sent(true, 2);
    sent[1].packet.acknowledgement.data_base.0 -= 1;
    p.b.receive(&sent[1], at(1));
    assert_eq!((p.b.count(Counter::AckStale), p.b.free_cells()), (1, CELLS - 1));
}

/// D-53: a new PSN with an RSN that was already passed is a protocol error: acknowledged, dropped, counted. An RSN
/// too far ahead for the table causes a resource NACK.
#[test]
fn rsn_out_of_range() {
    let (mut p, sent) = sent(true, 4);
    p.b.receive(&sent[0], at(1));
    let mut old = sent[2].clone();
    old.packet.rsn = 1;
    old.packet.psn = sent[2].packet.psn;
    assert_eq!(p.b.receive(&old, at(2)), None);
    assert_eq!((p.b.count(Counter::DropRsn), p.b.delivered.len()), (1, 1));
    assert_eq!(
        p.b.entry.connection.flow.delivery.lanes[0].rx.base.0, 302,
        "acknowledged, otherwise it would be repeated forever"
    );
    let mut far = sent[3].clone();
    far.packet.rsn = 2 + TRANSACTIONS as u32;
    let nack = p.b.receive(&far, at(3)).expect("a NACK");
    assert_eq!((nack.packet.nack_code, p.b.count(Counter::DropResources)), (NO_RESOURCES, 1));
    far.packet.rsn = 1 + TRANSACTIONS as u32;
    assert_eq!(p.b.receive(&far, at(4)), None);
    let key = far.packet.rsn as usize % TRANSACTIONS;
    assert_eq!(p.b.entry.tables.requests[key].state, RequestState::Held);
}

/// F-8.5.3.1-1 for responses: if the response ring is full, a pull is NACKed. Acknowledgements free its slots.
#[test]
fn pulls_without_a_response_slot_are_nacked() {
    let mut p = Pair::new(false);
    p.a.entry.connection.flow.congestion.fcwnd = transport_common::units::Fcwnd::from_packets(64);
    p.b.entry.connection.flow.congestion.fcwnd = transport_common::units::Fcwnd::from_packets(1);
    let mut nacked = 0;
    let mut posted = 0;
    for round in 0..4 {
        for _ in 0..60 {
            p.a.post(read(0, 4));
            posted += 1;
        }
        for wire in p.a.drain(at(round)) {
            if let Some(answer) = p.b.receive(&wire, at(round)) {
                // The only response that may be sent is lost. Only requests are acknowledged here.
                nacked += u32::from(answer.is(NACK) && answer.packet.nack_code == NO_RESOURCES);
            }
        }
        let base = p.b.entry.connection.flow.delivery.lanes[1].rx.base.0;
        let ack = back(&p.a, 300, base, at(round));
        p.a.receive(&ack, at(round));
        p.a.entry.connection.initiator.open_pulls = 0; // an initiator without credits
    }
    assert!(nacked > 0);
    let t = p.b.entry.connection.target;
    assert_eq!(t.response_tail.wrapping_sub(t.response_head), 128);
    p.b.entry.connection.flow.congestion.fcwnd = transport_common::units::Fcwnd::from_packets(64);
    p.run(10, 10 * RTO_MICROS);
    assert_eq!(p.a.completed().len(), posted);
    p.assert_idle();
}
