//! The block protocol: the second ULP (F-7.1-2). Other than RDMA it may answer a pull with RNR, which happens while the
//! namespace is busy.

use transport_common::connection::{RESPONSES, State, WorkKind};
use transport_common::counters::Counter;
use transport_common::queues::{AccessFlags, Verb};
use transport_common::transaction::{CompletionCode, RequestState};
use transport_common::ulp::{Protocol, UlpCode};
use transport_common::wire::nack::NackCode;
use transport_common::wire::resync::ResyncCode;

use crate::harness::*;

/// Local RNR time of the connections opened here, code 14.
const RNR_MICROS: u64 = 1280;
const BLOCK: u32 = 512;

fn pair(ordered: bool) -> Pair {
    let mut p = parameters(ordered, initial(100, 300, 1), initial(100, 200, 1));
    p.config.protocol = Protocol::BLOCK;
    Pair::with(&p)
}

/// A pair whose target has another ULP than its initiator.
fn strangers(ordered: bool) -> Pair {
    let mut p = pair(ordered);
    p.a.entry.connection.flow.endpoint.protocol = Protocol::RDMA;
    p
}

fn set_busy(node: &mut Node, busy: bool) {
    node.regions[0].access.set(AccessFlags::BUSY, busy);
}

/// Returns a pair in which a pull has come to a busy namespace at 5 us, and its packet.
fn waiting_pull(ordered: bool) -> (Pair, Wire) {
    let mut p = pair(ordered);
    set_busy(&mut p.b, true);
    p.a.post(read(0, BLOCK));
    let sent = p.a.drain(at(0));
    assert_eq!((sent.len(), p.b.receive(&sent[0], at(5))), (1, None));
    (p, sent[0].clone())
}

fn state(node: &Node, rsn: usize, pull: bool, ordered: bool) -> RequestState {
    let key = match (ordered, pull) {
        (true, _) => rsn,
        (false, true) => 128 + 100 + rsn - 1,
        (false, false) => (300 + rsn - 1) % 128,
    };
    node.entry.tables.requests[key].state
}

fn kinds(wires: &[Wire]) -> Vec<u8> {
    wires.iter().map(|wire| wire.packet.kind as u8).collect()
}

/// D-45: a read of as much as the target answers at once is answered, one of a block more is refused in its response.
#[test]
fn a_read_has_a_largest_length() {
    for (blocks, code) in [(1, UlpCode::NONE), (2, UlpCode::INVALID_REQUEST)] {
        let mut p = pair(true);
        p.b.entry.connection.responder.max_answer = BLOCK as u16;
        p.a.post(read(0, blocks * BLOCK));
        p.run(0, 4000);
        let ends: Vec<_> = p.a.completions().iter().map(|c| (c.rsn, c.status, c.ulp_code)).collect();
        assert_eq!(ends, [(1, 0, code.0)]);
        p.assert_idle();
    }
}

/// F-7.1-2, F-8.5.3.2-1: blocks are written and read.
#[test]
fn blocks_are_written_and_read() {
    for ordered in [true, false] {
        let mut p = pair(ordered);
        p.a.memory[..1024].fill(7);
        p.a.post(write(2048, 2 * BLOCK));
        p.run(0, 100);
        assert!(p.b.memory[2048..3072].iter().all(|&byte| byte == 7));
        p.a.memory[..1024].fill(0);
        p.a.post(read(2048, BLOCK));
        p.run(110, 4000);
        assert!(p.a.memory[..512].iter().all(|&byte| byte == 7) && p.a.memory[512] == 0);
        assert_eq!(p.a.completed(), [(1, 0), (2, 0)]);
        p.assert_idle();
    }
}

/// What is not a read or write of whole blocks never leaves this end.
#[test]
fn other_work_is_refused_at_once() {
    let mut p = pair(false);
    for work in [work(Verb::SEND_ONLY, 0, BLOCK), work(Verb::FETCH_ADD, 0, 8), write(0, 100), read(8, BLOCK)]
    {
        p.a.post(work);
    }
    assert_eq!(p.a.drain(at(0)), []);
    let error = CompletionCode::OperationError as u8;
    let mut completed = p.a.completed();
    completed.sort_unstable();
    assert_eq!(completed, [(1, error), (2, error), (3, error), (4, error)]);
    assert_eq!(p.a.count(Counter::BadWorkRequest), 4);
}

/// F-6.4-2, F-6.6.4-1, F-6.6.4-2, F-8.5.3.4-2, F-11-32: a pull whose ULP is not ready is acknowledged on receipt, and
/// nothing else is sent. The ULP gets it again when the time is over, and again after twice the time, until it accepts.
#[test]
fn a_pull_that_the_ulp_is_not_ready_for_waits_at_the_target() {
    for ordered in [true, false] {
        let mut p = pair(ordered);
        set_busy(&mut p.b, true);
        p.a.post(read(0, BLOCK));
        let sent = p.a.drain(at(0));
        assert_eq!((sent.len(), sent[0].id()), (1, (PULL_REQUEST, 100, 1)));
        assert_eq!(p.b.receive(&sent[0], at(5)), None, "no NACK");
        assert_eq!(state(&p.b, 1, true, ordered), RequestState::Rnr);
        assert_eq!((p.b.free_cells(), p.b.entry.connection.target.waits_for_ulp()), (CELLS - 1, false));
        let reports = p.b.drain(at(5 + 100));
        assert_eq!(kinds(&reports), [BACK as u8]);
        assert_eq!(reports[0].bases(), (300, 101), "F-6.6.4-1: the pull is acknowledged");
        p.a.receive(&reports[0], at(110));
        assert_eq!(p.b.drain(at(5 + RNR_MICROS - 1)), [], "not before its time");
        assert_eq!(p.b.drain(at(5 + RNR_MICROS + 1)), [], "the ULP is still not ready");
        assert_eq!(state(&p.b, 1, true, ordered), RequestState::Rnr);
        set_busy(&mut p.b, false);
        assert_eq!(p.b.drain(at(5 + 2 * RNR_MICROS)), [], "the second time is twice as long");
        let answer = p.b.drain(at(10 + 3 * RNR_MICROS + 1));
        assert_eq!((answer.len(), answer[0].id()), (1, (PULL_DATA, 200, 1)), "F-6.6.4-2");
        assert_eq!(p.b.free_cells(), CELLS);
        assert_eq!(p.a.drain(at(10 + 3 * RNR_MICROS)), [], "one Pull Request on the wire");
        p.a.receive(&answer[0], at(10 + 3 * RNR_MICROS + 5));
        p.run(10 + 3 * RNR_MICROS + 10, 4000);
        assert_eq!(p.a.completed(), [(1, 0)]);
        p.assert_idle();
    }
}

/// F-8.5.3.4-2: both ends begin transactions, and a pull is answered later. The target of a READ first pulls what it
/// answers with, as the target of a command of NVMe does. Its own pull does not wait for the one that it owes.
#[test]
fn a_target_pulls_before_it_answers() {
    for ordered in [true, false] {
        let (mut p, _) = waiting_pull(ordered);
        p.a.memory[2048..2560].fill(7);
        p.b.post(read(2048, BLOCK));
        p.run(10, 100);
        assert_eq!((p.b.completed(), p.a.completed()), (vec![(1, 0)], vec![]));
        assert_eq!(state(&p.b, 1, true, ordered), RequestState::Rnr);
        set_busy(&mut p.b, false);
        p.run(120, 4000);
        assert_eq!(p.a.completed(), [(1, 0)]);
        assert!(p.a.memory[..512].iter().all(|&byte| byte == 7));
        p.assert_idle();
    }
}

/// D-42: what is behind a pull in RNR waits for it in order. Its sender is not notified, because it has not been
/// notified of the pull either.
#[test]
fn what_is_behind_a_pull_in_rnr_waits_without_a_nack() {
    let mut p = pair(true);
    set_busy(&mut p.b, true);
    p.a.post(read(0, BLOCK));
    p.a.post(write(0, BLOCK));
    p.a.post(read(0, BLOCK));
    let sent = p.a.drain(at(0));
    assert_eq!(sent.len(), 3);
    for wire in &sent {
        let reply = p.b.receive(wire, at(5));
        assert!(reply.is_none_or(|wire| !wire.is(NACK)));
    }
    let push = sent.iter().find(|wire| wire.is(PUSH_DATA)).expect("the write");
    assert!(p.b.receive(push, at(6)).is_none_or(|wire| !wire.is(NACK)), "nor for a copy");
    assert_eq!(state(&p.b, 2, false, true), RequestState::Held);
    set_busy(&mut p.b, false);
    p.run(5 + RNR_MICROS + 10, 4000);
    assert_eq!(p.b.delivered, [2]);
    assert_eq!(p.a.completed(), [(1, 0), (2, 0), (3, 0)]);
    p.assert_idle();
}

/// On an unordered connection a pull in RNR delays nobody. A push with the same PSN in the other window keeps its own
/// time.
#[test]
fn an_unordered_pull_in_rnr_delays_nobody() {
    let mut parameters = parameters(false, initial(300, 300, 1), initial(100, 200, 1));
    parameters.config.protocol = Protocol::BLOCK;
    let mut p = Pair::with(&parameters);
    set_busy(&mut p.b, true);
    p.a.post(read(0, BLOCK));
    p.a.post(write(0, BLOCK));
    let sent = p.a.drain(at(0));
    let (pull, push) = if sent[0].is(PULL_REQUEST) { (&sent[0], &sent[1]) } else { (&sent[1], &sent[0]) };
    assert_eq!(pull.packet.psn, push.packet.psn);
    p.b.receive(pull, at(5));
    let nack = p.b.receive(push, at(405)).expect("F-6.4-2: a push is refused");
    assert!(nack.is(NACK) && nack.packet.nack_code == RNR);
    set_busy(&mut p.b, false);
    p.a.post(read(0, BLOCK));
    let third = p.a.drain(at(410));
    assert!(
        p.b.receive(&third[0], at(415)).is_some_and(|wire| wire.is(PULL_DATA)),
        "RSN 3 is answered at once"
    );
    let answers = p.b.drain(at(5 + RNR_MICROS + 1));
    assert_eq!(answers.iter().filter(|wire| wire.id() == (PULL_DATA, 201, 1)).count(), 1);
    assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 0, "the push waits for its own time");
    p.b.drain(at(405 + RNR_MICROS + 1));
    assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 1);
}

/// A posted receive makes no namespace ready, so nobody asks for one.
#[test]
fn a_receive_does_not_wake_the_block_protocol() {
    let mut p = pair(false);
    set_busy(&mut p.b, true);
    p.b.post_receive(1, 0, 64);
    p.a.post(write(0, BLOCK));
    let sent = p.a.drain(at(0));
    p.b.receive(&sent[0], at(5));
    let services = p.b.services;
    p.b.drain(at(6));
    assert!(p.b.services - services <= 2, "it does not try again before its time");
    assert_eq!(p.b.queues().control.receive_wanted.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// F-8.5.3.1-1: without a cell, nothing of the pull is kept, and its initiator sends it again.
#[test]
fn a_pull_in_rnr_without_a_cell_comes_again() {
    let mut p = pair(true);
    set_busy(&mut p.b, true);
    p.b.withhold_cells(CELLS);
    p.a.post(read(0, BLOCK));
    let sent = p.a.drain(at(0));
    let nack = p.b.receive(&sent[0], at(5)).expect("a NACK");
    assert!(nack.is(NACK) && nack.packet.nack_code == NO_RESOURCES);
    assert!(p.b.entry.connection.flow.delivery.lanes[1].rx.received.is_zero());
    set_busy(&mut p.b, false);
    p.run(10, 4 * RTO_MICROS);
    assert_eq!(p.a.completed(), [(1, 0)]);
}

/// D-25: a Resync ends a pull in RNR, and gives its cell back.
#[test]
fn a_resync_ends_a_pull_in_rnr() {
    for ordered in [true, false] {
        let (mut p, request) = waiting_pull(ordered);
        let mut resync = request.clone();
        (resync.packet.kind, resync.packet.resync_type) = (RESYNC, PULL_REQUEST);
        resync.packet.resync_code = ResyncCode::TRANSACTION_TIMED_OUT;
        p.b.receive(&resync, at(10));
        assert_eq!((p.b.free_cells(), p.b.entry.connection.target.held), (CELLS, 0));
        set_busy(&mut p.b, false);
        let later = p.b.drain(at(5 + RNR_MICROS + 1));
        assert!(later.iter().all(|wire| wire.is(BACK) || wire.is(EACK)), "nobody answers it");
        assert!(!p.b.entry.connection.target.has_due());
    }
}

/// A pull whose RNR time is over waits while no response slot is free. The engine has nothing to do meanwhile.
#[test]
fn a_pull_in_rnr_waits_for_a_response_slot() {
    for ordered in [true, false] {
        let (mut p, _) = waiting_pull(ordered);
        set_busy(&mut p.b, false);
        let target = &mut p.b.entry.connection.target;
        let (head, tail) = (target.response_head, target.response_tail);
        target.response_head = tail.wrapping_sub(RESPONSES as u32);
        target.response_next = tail;
        p.b.drain(at(5 + RNR_MICROS + 1));
        assert!(!p.b.wake, "no slot, no work");
        assert_eq!(state(&p.b, 1, true, ordered), RequestState::Rnr);
        p.b.entry.connection.target.response_head = head;
        p.b.wake = true;
        let sent = p.b.drain(at(5 + RNR_MICROS + 2));
        assert!(sent.iter().any(|wire| wire.is(PULL_DATA)));
    }
}

/// The end of a connection gives back the cell of a pull in RNR.
#[test]
fn a_dead_connection_gives_back_a_pull_in_rnr() {
    for ordered in [true, false] {
        let (mut p, _) = waiting_pull(ordered);
        p.b.entry.connection.state = State::Fatal;
        p.b.wake = true;
        assert_eq!(p.b.drain(at(6)), []);
        assert_eq!((p.b.free_cells(), p.b.entry.connection.target.held), (CELLS, 0));
    }
}

/// F-7.8-5, F-9.2.4-8, D-21: a push for a ULP that does not know the connection is refused with an invalid CID, also its
/// copies, until the initiator's Resync ends it.
#[test]
fn a_push_for_another_ulp_is_refused_with_an_invalid_cid() {
    for ordered in [true, false] {
        let mut p = strangers(ordered);
        p.a.post(write(0, BLOCK));
        let sent = p.a.drain(at(0));
        let nack = p.b.receive(&sent[0], at(5)).expect("a NACK");
        assert!(nack.is(NACK) && nack.packet.nack_code == NackCode::INVALID_CID);
        let again = p.b.receive(&sent[0], at(6)).expect("a NACK");
        assert_eq!((again.packet.nack_code, again.packet.psn), (NackCode::INVALID_CID, 300));
        assert_eq!(p.b.count(Counter::DropProtocol), 1);
        p.a.receive(&nack, at(10));
        p.run(20, 4000);
        assert_eq!(p.a.completed(), [(1, CompletionCode::TargetNackCid as u8)]);
        assert_eq!(p.b.deliveries[WorkKind::PlaceRequest as usize], 0);
        p.assert_idle();
    }
}

/// F-11-31: a pull for a ULP that does not know the connection is reclaimed. Nothing but the ACK is sent.
#[test]
fn a_pull_for_another_ulp_is_reclaimed() {
    for ordered in [true, false] {
        let mut p = strangers(ordered);
        p.a.post(read(0, BLOCK));
        let sent = p.a.drain(at(0));
        assert_eq!(p.b.receive(&sent[0], at(5)), None);
        assert_eq!(p.b.count(Counter::DropProtocol), 1);
        assert_eq!((p.b.free_cells(), state(&p.b, 1, true, ordered)), (CELLS, RequestState::Free));
        assert_eq!(kinds(&p.b.drain(at(105))), [BACK as u8]);
        assert_eq!(p.b.drain(at(100_000)), []);
    }
}

/// The same for requests that had to wait for their turn: the protocol of each is remembered.
#[test]
fn a_held_request_keeps_its_ulp() {
    let mut p = strangers(true);
    p.a.post(write(0, BLOCK));
    p.a.post(write(0, BLOCK));
    p.a.post(read(0, BLOCK));
    let sent = p.a.drain(at(0));
    for wire in sent[1..].iter().chain(&sent[..1]) {
        p.b.receive(wire, at(5));
    }
    let refusals = p.b.drain(at(6));
    assert!(refusals.iter().any(|wire| wire.is(NACK) && wire.packet.psn == 301));
    assert_eq!((p.b.count(Counter::DropProtocol), p.b.free_cells()), (3, CELLS));
    assert_eq!(p.b.entry.connection.target.nrsn.0, 4);
}
