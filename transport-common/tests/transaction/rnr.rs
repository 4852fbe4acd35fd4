//! Receiver not ready (F-8.5.3.4, F-11-30, D-42, D-43): a SEND that finds no posted receive.

use std::sync::atomic::Ordering;

use transport_common::connection::{State, WorkKind};
use transport_common::counters::Counter;
use transport_common::queues::{COMPLETION_QUEUE_DEPTH, Verb, WorkFlags, WorkRequest};
use transport_common::transaction::RequestState;
use transport_common::units::Fcwnd;
use transport_common::wire::resync::ResyncCode;

use crate::harness::*;

/// Local RNR time of the connections opened here, code 14.
const RNR_MICROS: u64 = 1280;

fn sends(ordered: bool, n: usize) -> (Pair, Vec<Wire>) {
    let mut p = Pair::new(ordered);
    for _ in 0..n {
        p.a.post(work(Verb::SEND_ONLY, 0, 4));
    }
    let sent = p.a.drain(at(0));
    assert_eq!(sent.len(), n);
    (p, sent)
}

fn is_rnr(wire: &Option<Wire>, psn: u32) -> bool {
    wire.as_ref().is_some_and(|w| w.is(NACK) && w.packet.nack_code == RNR && w.packet.psn == psn)
}

/// F-6.1.2-3, F-8.5.3.4-1, F-8.5.3.4-3, F-9.1.7-2, D-43: the push is kept, received but not acknowledged, and redelivered when the local
/// time is over.
#[test]
fn refused_push_is_redelivered_after_the_rnr_time() {
    for ordered in [true, false] {
        let (mut p, sent) = sends(ordered, 1);
        let nack = p.b.receive(&sent[0], at(5));
        assert!(is_rnr(&nack, 300));
        assert_eq!(nack.expect("a NACK").packet.rnr_timeout_code, 14);
        let w = &p.b.entry.connection.flow.delivery.lanes[0].rx;
        assert!(w.received.get(0) && !w.is_acknowledged(w.base), "D-43: Rx bit 1, ACK bit 0");
        assert_eq!(p.b.free_cells(), CELLS - 1);
        let early = p.b.drain(at(RNR_MICROS - 50));
        assert!(early.iter().all(|w| w.is(BACK)), "at most a coalesced report");
        let again = p.b.drain(at(5 + RNR_MICROS + 1));
        assert!(again.iter().any(|w| w.is(NACK)), "the ULP was asked again and is not ready");
        assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 0);
        // By the clock alone, this would not happen before twice the time.
        p.b.post_receive(1, 64, 4);
        p.b.drain(at(5 + RNR_MICROS + 2));
        assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 1, "a receive was posted: at once");
        assert_eq!((p.b.free_cells(), p.b.completions().len()), (CELLS, 1));
        p.run(1300, 4000);
        assert_eq!(p.a.completed(), [(1, 0)]);
        p.assert_idle();
    }
}

/// F-11-30: in the other order, a copy arrives first and is delivered from the frame. The cell is freed.
#[test]
fn refused_push_is_redelivered_when_a_copy_arrives() {
    for ordered in [true, false] {
        let (mut p, sent) = sends(ordered, 1);
        p.b.receive(&sent[0], at(5));
        p.b.post_receive(1, 64, 4);
        p.b.receive(&sent[0], at(100));
        assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 1);
        assert_eq!((p.b.free_cells(), p.b.completions().len()), (CELLS, 1));
        p.run(110, 4000);
        assert_eq!((p.b.completions().len(), p.a.completed()), (0, vec![(1, 0)]));
        p.assert_idle();
    }
}

/// F-8.5.1-1, F-8.5.3.4-4, D-42: while RSN 1 is refused, later pushes cause RNR without asking the ULP, and later pulls
/// are held without a NACK. Duplicates of held pushes cause RNR again. Then everything is delivered in order.
#[test]
fn ordered_connection_stays_in_rnr() {
    let (mut p, mut sent) = sends(true, 3);
    p.a.post(read(0, 4));
    sent.extend(p.a.drain(at(1)));
    assert!(is_rnr(&p.b.receive(&sent[0], at(5)), 300));
    assert!(is_rnr(&p.b.receive(&sent[2], at(6)), 302), "without asking the ULP");
    assert!(is_rnr(&p.b.receive(&sent[1], at(7)), 301));
    assert_eq!(p.b.receive(&sent[3], at(8)), None, "no NACK for a pull");
    assert!(is_rnr(&p.b.receive(&sent[1], at(9)), 301), "a duplicate of a held one");
    assert_eq!(p.b.entry.connection.target.nrsn.0, 1, "the oldest that the ULP has not acknowledged");
    assert_eq!(p.b.free_cells(), CELLS - 4);
    assert_eq!(p.b.entry.tables.requests[1].state, RequestState::Rnr);
    assert_eq!(p.b.entry.tables.requests[2].state, RequestState::Held);
    assert_eq!(p.b.entry.connection.flow.delivery.lanes[1].rx.base.0, 101, "the pull is acknowledged");
    // A refused redelivery keeps the order and causes one more NACK: one cause each time (D-90).
    let again = p.b.drain(at(5 + RNR_MICROS + 1));
    assert_eq!(again.iter().filter(|w| w.is(NACK)).count(), 1);
    for n in 0..3 {
        p.b.post_receive(n, 64 + n * 4, 4);
    }
    p.run(5 + 2 * RNR_MICROS + 10, 4000);
    assert_eq!(p.b.delivered, [1, 2, 3]);
    assert_eq!(p.b.completions().iter().map(|c| c.wr_id).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(p.a.completed(), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    assert_eq!(p.b.entry.connection.target.nrsn.0, 5);
    p.assert_idle();
}

/// Returns what completes a receive of the peer: a SEND, and a WRITE with immediate data.
fn messages() -> [WorkRequest; 2] {
    let write = write(500, 4);
    let flags = write.flags | WorkFlags::IMMEDIATE;
    [work(Verb::SEND_ONLY, 0, 4), WorkRequest { flags, immediate: 42, ..write }]
}

/// F-6.4-1: while the completion queue is full, a push that would complete a receive is refused, as if none were posted. It
/// is delivered as soon as the application takes completions, and nothing is lost.
#[test]
fn a_push_waits_for_a_place_of_its_completion() {
    for (ordered, message) in [true, false].into_iter().flat_map(|ordered| messages().map(|m| (ordered, m))) {
        let mut p = Pair::new(ordered);
        p.b.post_receive(7, 64, 4);
        p.b.fill_completions(0);
        p.a.post(message);
        let sent = p.a.drain(at(0));
        assert!(is_rnr(&p.b.receive(&sent[0], at(5)), 300));
        assert_eq!((p.b.count(Counter::CompletionQueueFull), p.b.free_cells()), (1, CELLS - 1));
        let w = &p.b.entry.connection.flow.delivery.lanes[0].rx;
        assert!(w.received.get(0) && !w.is_acknowledged(w.base), "D-43: Rx bit 1, ACK bit 0");
        assert_eq!(p.b.queues().receive_consumer.load(Ordering::Relaxed), 0, "the receive is not used");
        p.b.drain(at(6));
        assert_eq!(p.b.completions().len(), COMPLETION_QUEUE_DEPTH);
        p.b.drain(at(7));
        assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 1, "completions were taken: at once");
        let done: Vec<_> = p.b.completions().iter().map(|c| (c.wr_id, c.rsn, c.length, c.status)).collect();
        assert_eq!(done, [(7, 1, 4, 0)]);
        assert_eq!((p.b.free_cells(), p.b.queues().receive_consumer.load(Ordering::Relaxed)), (CELLS, 1));
        p.run(10, 4000);
        assert_eq!(p.a.completed(), [(1, 0)]);
        p.assert_idle();
    }
}

/// An application that rings no doorbell: the place is found when the RNR time is over.
#[test]
fn a_place_is_found_after_the_rnr_time() {
    let (mut p, sent) = sends(true, 1);
    p.b.post_receive(7, 64, 4);
    p.b.fill_completions(0);
    assert!(is_rnr(&p.b.receive(&sent[0], at(5)), 300));
    p.b.drain(at(6));
    p.b.queues().completion_consumer.store(1, Ordering::Release);
    p.b.drain(at(5 + RNR_MICROS + 1));
    assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 1);
    assert_eq!(p.b.completions().last().map(|c| c.wr_id), Some(7));
}

/// Each place is for one push. What waits behind it goes on to wait, and the application is asked again.
#[test]
fn each_place_takes_one_push() {
    for ordered in [true, false] {
        let (mut p, sent) = sends(ordered, 3);
        (0..3).for_each(|n| p.b.post_receive(n, 64 + n * 4, 4));
        p.b.fill_completions(0);
        for (n, wire) in (0..).zip(&sent) {
            assert!(is_rnr(&p.b.receive(wire, at(5)), 300 + n));
        }
        p.b.drain(at(6));
        for n in 0..3 {
            assert_eq!(p.b.queues().receive_consumer.load(Ordering::Relaxed), n);
            assert!(p.b.queues().take_completions(n + 1), "a push waits for the place");
            p.b.wake = true;
            p.b.drain(at(7 + u64::from(n)));
        }
        let done: Vec<_> = p.b.completions().iter().rev().take(3).map(|c| c.wr_id).collect();
        assert_eq!(done, [2, 1, 0], "ordered: {ordered}");
        p.run(20, 4000);
        assert_eq!(p.a.completed(), [(1, 0), (2, 0), (3, 0)]);
        p.assert_idle();
    }
}

/// Own transactions that have ended take the places first. The push that waits is not offered in vain, which would cost a
/// NACK and double its delay.
#[test]
fn ends_of_own_transactions_take_places_first() {
    for ordered in [true, false] {
        let (mut p, sent) = sends(ordered, 1);
        p.b.post_receive(7, 64, 4);
        p.b.fill_completions(0);
        p.b.post(write(0, 4));
        let own = p.b.drain(at(0));
        p.a.receive(&own[0], at(1));
        let ack = back(&p.b, 201, 100, at(1));
        p.b.receive(&ack, at(1));
        assert_eq!(p.b.entry.connection.initiator.completions_blocked, 1);
        assert!(is_rnr(&p.b.receive(&sent[0], at(5)), 300));
        let _ = p.b.queues().take_completions(1);
        for _ in 0..8 {
            assert!(!is_rnr(&p.b.turn(at(6)), 300), "ordered: {ordered}");
        }
        assert_eq!(p.b.entry.connection.initiator.brsn.0, 2, "the end of the WRITE is reported");
        assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 0);
        assert_eq!(p.b.completions().len(), COMPLETION_QUEUE_DEPTH);
        p.b.drain(at(7));
        assert_eq!(p.b.completions().iter().map(|c| c.wr_id).collect::<Vec<_>>(), [7]);
    }
}

/// D-43: refused, and no cell is free to keep it. The RNR NACK already makes the peer send it again. Nothing is
/// marked.
#[test]
fn refused_push_without_a_cell_comes_again() {
    let (mut p, sent) = sends(true, 1);
    p.b.withhold_cells(CELLS);
    assert!(is_rnr(&p.b.receive(&sent[0], at(5)), 300));
    assert!(p.b.entry.connection.flow.delivery.lanes[0].rx.received.is_zero());
    p.b.post_receive(1, 64, 4);
    p.run(10, 4 * RTO_MICROS);
    assert_eq!(p.a.completed(), [(1, 0)]);
    assert_eq!(p.b.completions().len(), 1);
}

/// D-43 on an unordered connection: a pull with the same PSN as a refused push, but in the other window, does not
/// affect the push's RNR time. A Resync for such a pull does not affect it either.
#[test]
fn other_windows_psn_does_not_cancel_redelivery() {
    for resync in [false, true] {
        let mut p = Pair::with(&parameters(false, initial(300, 300, 1), initial(100, 200, 1)));
        p.a.post(work(Verb::SEND_ONLY, 0, 4));
        p.a.post(read(0, 4));
        let sent = p.a.drain(at(0));
        assert_eq!(sent[0].packet.psn, sent[1].packet.psn);
        assert!(is_rnr(&p.b.receive(&sent[0], at(5)), 300));
        let mut pull = sent[1].clone();
        if resync {
            (pull.packet.kind, pull.packet.resync_type, pull.packet.resync_code) =
                (RESYNC, PULL_REQUEST, ResyncCode(3));
        }
        p.b.receive(&pull, at(6)).expect("the answer, or the ACK of a Resync");
        p.b.post_receive(1, 64, 4);
        p.b.drain(at(5 + RNR_MICROS + 1));
        assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 1, "resync {resync}");
    }
}

/// D-43, unordered: several refused pushes. A copy delivers one of them just before the time is over. The others
/// follow at their time, without a copy.
#[test]
fn redelivery_goes_on_past_one_that_was_delivered_meanwhile() {
    let (mut p, sent) = sends(false, 3);
    for wire in &sent {
        p.b.receive(wire, at(5));
    }
    for n in 0..3 {
        p.b.post_receive(n, 64, 4);
    }
    // The RNR timer fires in a service that an ACK takes. Then a copy of the first push arrives, before the next
    // service.
    p.b.entry.connection.flow.delivery.ack.pending = 1;
    assert!(p.b.turn(at(5 + RNR_MICROS + 1)).is_some());
    assert!(!p.b.entry.connection.target.rnr_timer.is_armed());
    p.b.receive(&sent[0], at(5 + RNR_MICROS + 1));
    p.b.drain(at(5 + RNR_MICROS + 2));
    assert_eq!(p.b.delivered, [1, 2, 3]);
    assert_eq!((p.b.free_cells(), p.b.completions().len()), (CELLS, 3));
}

/// A connection that ends frees the cells of refused and held requests.
#[test]
fn dead_connection_gives_cells_back() {
    let (mut p, sent) = sends(true, 3);
    for wire in &sent {
        p.b.receive(wire, at(5));
    }
    assert_eq!(p.b.free_cells(), CELLS - 3);
    p.b.entry.connection.state = State::Fatal;
    p.b.wake = true;
    assert_eq!(p.b.drain(at(6)), []);
    assert_eq!((p.b.free_cells(), p.b.entry.connection.target.held), (CELLS, 0));
}

/// D-92: pushes that wait for receives at the other end do not keep an answer from passing the gate, nor other pushes. Each
/// of them counts again when it is sent again.
#[test]
fn pushes_that_wait_for_receives_leave_the_gate_open() {
    for ordered in [true, false] {
        let mut p = Pair::new(ordered);
        p.a.entry.connection.flow.congestion.fcwnd = Fcwnd::from_packets(2);
        p.a.entry.connection.flow.congestion.ncwnd = 2;
        for _ in 0..4 {
            p.a.post(work(Verb::SEND_ONLY, 0, 4));
        }
        p.b.post(read(0, 4));
        let pushes = p.a.drain(at(0));
        assert_eq!(pushes.len(), 2, "fcwnd");
        let request = p.b.drain(at(0));
        assert_eq!(p.a.receive(&request[0], at(1)), None, "the gate is closed");
        let mut next = Vec::new();
        for (n, push) in pushes.iter().enumerate() {
            let nack = p.b.receive(push, at(5 + n as u64)).expect("no receive is posted");
            assert!(nack.is(NACK) && nack.packet.nack_code == RNR);
            next.extend(p.a.receive(&nack, at(10 + n as u64)));
        }
        next.extend(p.a.drain(at(20)));
        let of = |kind| next.iter().filter(|w| w.is(kind)).count();
        assert_eq!(
            (of(PULL_DATA), of(PUSH_DATA)),
            (1, 1),
            "an answer, and as many pushes as fcwnd has room for"
        );
        for n in 0..4 {
            p.b.post_receive(n, 64 * n, 4);
        }
        p.run(30, 4 * RTO_MICROS);
        assert_eq!((p.a.completed().len(), p.b.completed().len()), (4, 5));
        p.assert_idle();
    }
}
