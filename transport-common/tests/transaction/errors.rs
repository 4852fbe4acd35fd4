//! Errors of the target ULP, and how the initiator handles responses (F-8.5.3.5, F-8.4.3.2, D-44, D-45, D-48,
//! D-84).

use std::sync::atomic::Ordering;

use transport_common::connection::WorkKind;
use transport_common::counters::Counter;
use transport_common::ids::Psn;
use transport_common::packet_delivery::Window;
use transport_common::queues::{AccessFlags, Command, Region, Verb, WorkRequest};
use transport_common::transaction::{CompletionCode, RequestState};
use transport_common::ulp::{Answer, AnswerKind, OperationKind, UlpCode};
use transport_common::units::Ticks;
use transport_common::wire::nack::NackCode;

use crate::harness::*;

/// Returns status and ULP code of the completion of `work`.
fn outcome(ordered: bool, prepare: impl Fn(&mut Pair), work: WorkRequest) -> (u8, u8) {
    let mut p = Pair::new(ordered);
    prepare(&mut p);
    p.a.post(work);
    p.run(0, 200);
    let done = p.a.completions();
    assert_eq!(done.len(), 1, "exactly one completion (F-6.1-2)");
    p.assert_idle();
    (done[0].status, done[0].ulp_code)
}

/// Restricts the peer's only region to 64 bytes and `rights`.
fn region(rights: AccessFlags) -> impl Fn(&mut Pair) {
    move |p| {
        p.b.regions =
            vec![Region { offset: 4096, length: 64, key: RKEY, access: rights, ..Region::default() }]
    }
}

/// D-84: key, bounds and rights of each operation. A push fails with a NACK, a pull with its response (D-45).
#[test]
fn access_is_checked() {
    const ALL: AccessFlags = AccessFlags::all();
    let push = (CompletionCode::TargetNackCie as u8, UlpCode::ACCESS.0);
    let pull = (CompletionCode::Ack as u8, UlpCode::ACCESS.0);
    for ordered in [true, false] {
        for (code, right, failed) in [
            (Verb::WRITE, AccessFlags::REMOTE_WRITE, push),
            (Verb::READ, AccessFlags::REMOTE_READ, pull),
            (Verb::FETCH_ADD, AccessFlags::REMOTE_ATOMIC, pull),
            (Verb::COMPARE_SWAP, AccessFlags::REMOTE_ATOMIC, pull),
        ] {
            let inside = work(code, 56, 8);
            assert_eq!(outcome(ordered, region(ALL), inside), (0, 0));
            assert_eq!(outcome(ordered, region(right), inside), (0, 0));
            assert_eq!(outcome(ordered, region(ALL - right), inside), failed);
            assert_eq!(outcome(ordered, region(ALL), work(code, 64, 8)), failed);
            assert_eq!(outcome(ordered, region(ALL), work(code, u64::MAX - 7, 8)), failed);
            assert_eq!(outcome(ordered, |_| (), WorkRequest { rkey: 2, ..inside }), failed);
            assert_eq!(outcome(ordered, |_| (), WorkRequest { rkey: 0, ..inside }), failed);
        }
    }
}

/// F-6.4-4, F-8.5.3.5-2: a READ longer than a segment of the target is answered in error, without a NACK. F-8.5.3.2-1: the
/// response carries the request's RSN.
#[test]
fn oversize_read_is_answered_in_error() {
    let mut p = Pair::new(true);
    p.b.entry.connection.responder.max_answer = 16;
    p.a.post(read(0, 17));
    let request = p.a.drain(at(0)).remove(0);
    let answer = p.b.receive(&request, at(1)).expect("an answer");
    assert_eq!(answer.id(), (PULL_DATA, 200, 1));
    assert_eq!(answer.operation.kind, OperationKind::ErrorResponse);
    assert_eq!(answer.operation.code, UlpCode::INVALID_REQUEST);
    p.a.receive(&answer, at(2));
    let done = p.a.completions();
    assert_eq!(
        (done[0].status, done[0].ulp_code, done[0].length),
        (0, UlpCode::INVALID_REQUEST.0, 0),
        "D-45"
    );
    assert_eq!(p.b.entry.tables.statistics.nacks_sent, 0);
}

/// A READ is limited by what Pull Data can hold, not by the segments that the target itself sends.
#[test]
fn read_longer_than_a_segment_of_the_target() {
    let mut p = parameters(true, initial(100, 300, 1), initial(100, 200, 1));
    (p.config.max_segment, p.config.max_answer) = (1392, 1416);
    let mut p = Pair::with(&p);
    p.a.entry.connection.flow.endpoint.max_segment = 3264; // its MTU is larger
    for (length, code) in [(1393, 0), (1416, 0), (1417, UlpCode::INVALID_REQUEST.0)] {
        p.a.post(read(0, length));
        let request = p.a.drain(at(0)).remove(0);
        let answer = p.b.receive(&request, at(1)).expect("an answer");
        assert_eq!(answer.operation.code.0, code, "{length} bytes");
        assert_eq!(answer.data.len(), if code == 0 { length as usize } else { 0 });
    }
}

/// If a region is removed between request and response, the response is an error and reveals no data.
#[test]
fn region_gone_before_the_answer_leaves() {
    let mut p = Pair::new(true);
    p.a.post(read(0, 8));
    let request = p.a.drain(at(0)).remove(0);
    p.b.receive(&request, at(1)).expect("the first answer, lost");
    p.b.regions.clear();
    let again = p.b.drain(at(2 + RTO_MICROS));
    let answer = again.iter().find(|w| w.is(PULL_DATA)).expect("the copy");
    assert_eq!((answer.operation.kind, answer.data.len()), (OperationKind::ErrorResponse, 0));
    p.a.receive(answer, at(1010));
    assert_eq!(p.a.completions()[0].ulp_code, UlpCode::ACCESS.0);
}

/// D-84: a payload that is not a valid operation. A push is NACKed with code 1, a pull is answered with it.
#[test]
fn malformed_operations() {
    let mut p = Pair::new(true);
    p.a.post(write(0, 4));
    p.a.post(read(0, 4));
    let mut sent = p.a.drain(at(0));
    for wire in &mut sent {
        wire.operation.kind = OperationKind::Invalid;
    }
    let nack = p.b.receive(&sent[0], at(1)).expect("a NACK");
    assert_eq!((nack.packet.nack_code, nack.packet.ulp_code), (CIE, UlpCode::INVALID_REQUEST.0));
    let answer = p.b.receive(&sent[1], at(2)).expect("an answer");
    assert_eq!(answer.operation.code, UlpCode::INVALID_REQUEST);
    // The context gets nothing of the scratch memory's content for such a payload.
    let kept = p.b.entry.tables.responses[0].answer;
    let code = UlpCode::INVALID_REQUEST;
    assert_eq!(kept, Answer { kind: AnswerKind::Error, code, ..Answer::default() });
}

/// D-44: a refusal is remembered for the transaction of its packet only, not for a later one with the same table entry.
#[test]
fn a_late_refusal_does_not_change_the_next_transaction_in_its_entry() {
    let mut p = parameters(false, initial(100, 300, 1), initial(100, 200, 1));
    p.config.transaction_timeout = Ticks::from_nanos(10_000_000);
    p.rto = Ticks::from_nanos(1_000_000_000); // no Resync takes the packet's place meanwhile
    let mut p = Pair::with(&p);
    p.a.post(write(0, 4));
    assert_eq!(p.a.drain(at(0)).len(), 1, "lost");
    p.run(10, 11_000);
    assert_eq!(p.a.completed(), [(1, CompletionCode::LocalTimeout as u8)]);
    for rsn in 2..=256 {
        p.a.post(read(0, 4));
        p.exchange(at(11_100));
        assert_eq!(p.a.completed(), [(rsn, 0)]);
    }
    assert_eq!(p.a.post(read(0, 4)), 257);
    let sent = p.a.drain(at(11_200));
    let mut late = nack(&p.a, Window::Data, 300, CIE, at(11_200));
    late.packet.ulp_code = UlpCode::ACCESS.0;
    p.a.receive(&late, at(11_200));
    for wire in &sent {
        if let Some(answer) = p.b.receive(wire, at(11_210)) {
            p.a.receive(&answer, at(11_220));
        }
    }
    p.run(11_230, 100);
    let done = p.a.completions();
    assert_eq!((done[0].rsn, done[0].status, done[0].ulp_code), (257, 0, 0));
}

/// D-44: a refusal does not change a pull whose answer has arrived, although it is not reported yet.
#[test]
fn a_refusal_after_the_answer_changes_nothing() {
    let mut p = Pair::new(true);
    p.a.post(write(0, 4));
    p.a.post(read(0, 4));
    let sent = p.a.drain(at(0));
    p.b.receive(&sent[0], at(1));
    let mut answer = p.b.receive(&sent[1], at(2)).expect("an answer");
    answer.packet.acknowledgement.request_base = Psn(100);
    answer.packet.acknowledgement.data_base = Psn(300);
    p.a.receive(&answer, at(3));
    assert_eq!(p.a.completed(), [], "the WRITE before it is open");
    let mut refusal = nack(&p.a, Window::Request, 100, CIE, at(4));
    refusal.packet.ulp_code = UlpCode::ACCESS.0;
    p.a.receive(&refusal, at(4));
    let ack = back(&p.a, 301, 100, at(5));
    p.a.receive(&ack, at(5));
    let done: Vec<_> = p.a.completions().iter().map(|c| (c.rsn, c.status, c.ulp_code)).collect();
    assert_eq!(done, [(1, 0, 0), (2, 0, 0)]);
}

/// The ULP could not place a push that it had taken: it is completed in error with code 3. A duplicate repeats the
/// NACK (D-21).
#[test]
fn placing_can_fail() {
    for held in [false, true] {
        let mut p = Pair::new(true);
        p.b.lose_memory(0x8000..0x8004);
        p.a.post(write(0, 4));
        p.a.post(write(0x8000, 4));
        let sent = p.a.drain(at(0));
        let mut nack = None;
        for n in if held { [1, 0] } else { [0, 1] } {
            nack = p.b.receive(&sent[n], at(1)).filter(|w| w.is(NACK)).or(nack);
        }
        nack = p.b.drain(at(1)).into_iter().find(|w| w.is(NACK)).or(nack);
        let nack = nack.expect("a NACK");
        assert_eq!((nack.packet.nack_code, nack.packet.ulp_code), (CIE, UlpCode::OPERATIONAL.0));
        assert_eq!(p.b.entry.tables.requests[2].state, RequestState::Errored);
        assert_eq!(p.b.free_cells(), CELLS);
        assert!(p.b.receive(&sent[1], at(2)).is_some_and(|w| w.packet.ulp_code == UlpCode::OPERATIONAL.0));
        p.run(10, 3 * RTO_MICROS);
        assert_eq!(p.a.completed(), [(1, 0), (2, CompletionCode::TargetNackCie as u8)]);
        p.assert_idle();
    }
}

/// F-8.4.3.2-1, D-23: Pull Data that answers nothing is dropped but acknowledged: an unknown RSN, a push's RSN, a
/// second response.
#[test]
fn unknown_pull_data_is_acknowledged_and_dropped() {
    for rsn in [1u32, 3, 9, 2u32.wrapping_sub(256), 2 + 256] {
        let mut p = Pair::new(true);
        p.a.post(write(0, 4));
        p.a.post(read(0, 4));
        let sent = p.a.drain(at(0));
        p.b.receive(&sent[0], at(1));
        let answer = p.b.receive(&sent[1], at(1)).expect("the answer");
        let mut wrong = answer;
        wrong.packet.rsn = rsn;
        wrong.packet.acknowledgement.data_base.0 = 300;
        p.a.receive(&wrong, at(2));
        assert_eq!(p.a.count(Counter::DropPullDataUnknown), 1, "RSN {rsn}");
        assert_eq!((p.a.completed(), p.a.entry.connection.flow.delivery.lanes[0].rx.base.0), (vec![], 201));
        assert_eq!(p.a.deliveries[WorkKind::PlaceResponse as usize], 0);
    }
}

/// F-8.4.3.2-2, F-11-21, F-11-22, D-48: a shorter response completes with its own length. A longer one is an operation error
/// and is not placed. So is a response of the wrong kind.
#[test]
fn answers_that_do_not_fit() {
    for (change, status, length) in [(-3i32, 0, 5), (0, 0, 8), (1, CompletionCode::OperationError as u8, 0)] {
        let mut p = Pair::new(true);
        p.a.post(read(0, 8));
        let request = p.a.drain(at(0)).remove(0);
        let mut answer = p.b.receive(&request, at(1)).expect("the answer");
        answer.data.resize((8 + change) as usize, 0xee);
        answer.operation.length = answer.data.len() as u32;
        answer.packet.payload_length = answer.packet.payload_length.wrapping_add_signed(change);
        p.a.receive(&answer, at(2));
        let done = p.a.completions();
        assert_eq!((done.len(), done[0].status, done[0].length), (1, status, length));
        assert_eq!(p.a.entry.connection.flow.delivery.lanes[0].rx.base.0, 201, "acknowledged (D-23)");
        assert_eq!(p.a.deliveries[WorkKind::PlaceResponse as usize], u32::from(status == 0));
    }
    let mut p = Pair::new(true);
    p.a.post(read(0, 8));
    let request = p.a.drain(at(0)).remove(0);
    let mut answer = p.b.receive(&request, at(1)).expect("the answer");
    answer.operation.kind = OperationKind::AtomicResponse;
    p.a.receive(&answer, at(2));
    assert_eq!(p.a.completed(), [(1, CompletionCode::OperationError as u8)]);
}

/// Lets the node's host function be reset, or ends that.
fn reset(node: &mut Node, command: Command, now: u64) {
    node.queues().control.command.store(command.0, Ordering::Relaxed);
    node.wake = true;
    assert_eq!(node.drain(at(now)), []);
}

/// F-11-17, F-11-28, F-11-23, D-50: a target whose function is being reset NACKs new requests with code 4, and keeps
/// nothing of them but the piggyback. The initiator completes them with `RemoteErr`. After the reset, all goes on.
#[test]
fn a_target_in_reset_drops_requests() {
    for ordered in [true, false] {
        let mut p = Pair::new(ordered);
        p.b.post(write(0, 4));
        let own = p.b.drain(at(0)).remove(0);
        p.a.receive(&own, at(1));
        reset(&mut p.b, Command::DROP_REQUESTS, 2);
        p.a.post(write(0, 4));
        p.a.post(read(0, 4));
        let sent: Vec<_> = p.a.drain(at(3)).into_iter().filter(|w| !w.is(BACK)).collect();
        for (wire, window) in sent.iter().zip([0, 1]) {
            let nack = p.b.receive(wire, at(4)).expect("a NACK at once");
            assert_eq!((nack.packet.kind, nack.packet.nack_code), (NACK, NackCode(4)));
            assert_eq!((nack.packet.psn, nack.packet.nack_window), (wire.packet.psn, window));
            assert_eq!(
                p.b.completed(),
                if window == 0 { vec![(1, 0)] } else { vec![] },
                "the piggyback counts"
            );
            p.a.receive(&nack, at(5));
        }
        let c = &p.b.entry.connection;
        assert!(
            c.flow.delivery.data().rx.received.is_zero() && c.flow.delivery.request().rx.received.is_zero()
        );
        assert!(p.b.entry.tables.requests.iter().all(|request| request.state == RequestState::Free));
        assert_eq!((p.b.free_cells(), p.b.delivered.len(), p.b.count(Counter::DropXlr)), (CELLS, 0, 2));
        p.run(10, 100);
        let remote = CompletionCode::RemoteError as u8;
        let mut done = p.a.completed();
        done.sort_unstable();
        assert_eq!(done, [(1, remote), (2, remote)], "after the Resyncs");
        reset(&mut p.b, Command::NONE, 200);
        p.a.post(write(0, 4));
        p.run(210, 100);
        assert_eq!((p.a.completed(), p.b.delivered.as_slice()), (vec![(3, 0)], &[3][..]));
        p.assert_idle();
    }
}

/// F-11-20, D-47, D-50: requests of a function that is being reset complete with `LocalXlr`. On an ordered connection
/// a Resync with code 2 lets the target pass them.
#[test]
fn an_initiator_in_reset_sends_no_requests() {
    for ordered in [true, false] {
        let mut p = Pair::new(ordered);
        reset(&mut p.a, Command::DROP_REQUESTS, 0);
        p.a.post(write(0, 4));
        p.a.post(read(0, 4));
        let sent = p.a.drain(at(1));
        let ids: Vec<_> = sent.iter().map(|wire| (wire.id(), wire.packet.resync_code.0)).collect();
        let expected = if ordered { vec![((RESYNC, 300, 1), 2), ((RESYNC, 100, 2), 2)] } else { vec![] };
        assert_eq!(ids, expected);
        let local = CompletionCode::LocalXlr as u8;
        assert_eq!(p.a.completed(), [(1, local), (2, local)]);
        assert_eq!(p.a.count(Counter::DropXlr), 2);
        for wire in &sent {
            let ack = p.b.receive(wire, at(2)).expect("an ACK at once");
            p.a.receive(&ack, at(3));
        }
        reset(&mut p.a, Command::NONE, 4);
        p.a.post(write(0, 4));
        p.run(10, 100);
        assert_eq!((p.a.completed(), p.b.delivered.as_slice()), (vec![(3, 0)], &[3][..]));
        p.assert_idle();
    }
}

/// D-84: the original value of the atomic is returned in host order. The memory changes exactly once, although
/// request and response are lost and repeated.
#[test]
fn atomics_happen_exactly_once() {
    let mut p = Pair::new(true);
    p.b.memory[0x800..0x808].copy_from_slice(&100u64.to_le_bytes());
    let add = WorkRequest { swap_or_add: 5, local_offset: 8, ..work(Verb::FETCH_ADD, 0x800, 8) };
    let swap =
        WorkRequest { swap_or_add: 7, compare: 105, local_offset: 16, ..work(Verb::COMPARE_SWAP, 0x800, 8) };
    let miss =
        WorkRequest { swap_or_add: 9, compare: 1, local_offset: 24, ..work(Verb::COMPARE_SWAP, 0x800, 8) };
    for work in [add, swap, miss] {
        p.a.post(work);
    }
    let sent = p.a.drain(at(0));
    for wire in sent.iter().chain(&sent) {
        p.b.receive(wire, at(1)); // answers lost
    }
    p.run(10, 3 * RTO_MICROS);
    let value =
        |node: &Node, at: usize| u64::from_le_bytes(node.memory[at..at + 8].try_into().expect("8 bytes"));
    assert_eq!(value(&p.b, 0x800), 7);
    assert_eq!([value(&p.a, 8), value(&p.a, 16), value(&p.a, 24)], [100, 105, 7]);
    assert_eq!(p.b.delivered, [1, 2, 3]);
    assert_eq!(p.a.completed(), [(1, 0), (2, 0), (3, 0)]);
    p.assert_idle();
}
