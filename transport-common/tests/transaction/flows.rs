//! Whole transactions, event by event: packets, states, what the ULP of each end sees (sections 6.1, 8.1, 8.4, 8.5).

use transport_common::bitmap::Bitmap128;
use transport_common::connection::{State, TRANSACTIONS, WorkKind};
use transport_common::packet_delivery::Window;
use transport_common::queues::Verb;
use transport_common::transaction::{CompletionCode, RequestState, ResponseState, TransactionState};
use transport_common::units::Ticks;

use crate::harness::*;

const TIMEOUT: u8 = CompletionCode::LocalTimeout as u8;

fn states(node: &Node) -> [TransactionState; 2] {
    [1, 2].map(|rsn: usize| node.entry.tables.transactions[rsn % TRANSACTIONS].state)
}

/// Returns an EACK for the packet after the base of each window that is named.
fn second_acknowledged(to: &Node, window: Window, now: u64) -> Wire {
    let c = &to.entry.connection;
    let mut wire = back(to, c.flow.delivery.data().tx.base.0, c.flow.delivery.request().tx.base.0, at(now));
    wire.packet.kind = EACK;
    let ack = &mut wire.packet.acknowledgement;
    ack.selective = 1;
    let second = Bitmap128 { low: 0b10, high: 0 };
    match window {
        Window::Data => (ack.data_received, ack.data_acknowledged) = (second, second),
        Window::Request => ack.request = second,
    }
    wire
}

/// F-6.1.1.1-1, F-8.4.1-4, F-8.4.3.3-1, F-8.4.3.3-2, F-8.5.1-4: two pushes of an ordered connection, from their
/// submission to their completions. The second is always first: at the target, and with its ACK.
#[test]
fn pushes_from_submission_to_completion() {
    use TransactionState::{Done, Sent, Submitted};
    let mut p = Pair::new(true);
    p.a.memory[..4].copy_from_slice(b"push");
    assert_eq!([p.a.post(write(64, 4)), p.a.post(write(68, 4))], [1, 2]);
    assert_eq!(states(&p.a), [Submitted; 2]);
    let sent = p.a.drain(at(0));
    let ids: Vec<_> = sent.iter().map(Wire::id).collect();
    assert_eq!(ids, [(PUSH_DATA, 300, 1), (PUSH_DATA, 301, 2)], "one Push Data each");
    assert_eq!(states(&p.a), [Sent; 2]);

    assert_eq!(p.b.receive(&sent[1], at(1)), None);
    assert_eq!(p.b.entry.tables.requests[2].state, RequestState::Held);
    assert_eq!((p.b.delivered.len(), &p.b.memory[68..72]), (0, &[0; 4][..]));
    p.b.receive(&sent[0], at(2));
    p.b.drain(at(2));
    assert_eq!((p.b.delivered.as_slice(), &p.b.memory[64..72]), (&[1, 2][..], &b"pushpush"[..]));
    assert!(p.b.entry.tables.requests.iter().all(|request| request.state == RequestState::Free));
    assert_eq!(
        p.b.entry.connection.flow.delivery.lanes[0].rx.base.0, 302,
        "acknowledged when the ULP has them"
    );

    let ack = second_acknowledged(&p.a, Window::Data, 3);
    p.a.receive(&ack, at(3));
    assert_eq!((states(&p.a), p.a.completed()), ([Sent, Done], vec![]), "F-8.4.3.3-2: in RSN order");
    let ack = back(&p.a, 302, 100, at(4));
    p.a.receive(&ack, at(4));
    assert_eq!(p.a.completed(), [(1, 0), (2, 0)]);
    assert_eq!(states(&p.a), [Submitted; 2], "both entries are free");
    p.run(10, 100);
    assert_eq!(p.a.completed(), []);
    p.assert_idle();
}

/// F-6.1.1.2-1, F-7.3-1, F-8.1-1, F-8.4.1-3, F-8.4.3.1-1, F-8.4.3.1-2, F-8.4.3.2-3: two pulls of an ordered
/// connection. One Pull Request and one Pull Data each; the Pull Data is the completion. The second Pull Data comes
/// first: it is stored, and reported after the first.
#[test]
fn pulls_from_submission_to_completion() {
    use TransactionState::{Acknowledged, Done, Sent, Submitted};
    let mut p = Pair::new(true);
    p.b.memory[64..72].copy_from_slice(b"pullPULL");
    let second = transport_common::queues::WorkRequest { local_offset: 4, ..read(68, 4) };
    assert_eq!([p.a.post(read(64, 4)), p.a.post(second)], [1, 2]);
    assert_eq!(states(&p.a), [Submitted; 2]);
    let sent = p.a.drain(at(0));
    let ids: Vec<_> = sent.iter().map(Wire::id).collect();
    assert_eq!(ids, [(PULL_REQUEST, 100, 1), (PULL_REQUEST, 101, 2)]);
    assert_eq!(states(&p.a), [Sent; 2]);
    let ack = second_acknowledged(&p.a, Window::Request, 1);
    p.a.receive(&ack, at(1));
    assert_eq!(states(&p.a), [Sent, Acknowledged]);

    assert_eq!(p.b.receive(&sent[1], at(2)), None);
    assert_eq!(p.b.entry.tables.requests[2].state, RequestState::Held, "PullReqRx");
    let mut answers: Vec<Wire> = p.b.receive(&sent[0], at(3)).into_iter().collect();
    answers.extend(p.b.drain(at(3)));
    answers.retain(|wire| wire.is(PULL_DATA));
    let ids: Vec<_> = answers.iter().map(Wire::id).collect();
    assert_eq!(ids, [(PULL_DATA, 200, 1), (PULL_DATA, 201, 2)]);
    assert_eq!(answers.iter().map(|wire| wire.data.as_slice()).collect::<Vec<_>>(), [b"pull", b"PULL"]);
    let responses = |node: &Node| [0, 1].map(|n: usize| node.entry.tables.responses[n].state);
    assert_eq!(responses(&p.b), [ResponseState::Sent; 2]);

    p.a.receive(&answers[1], at(4));
    assert_eq!((p.a.completed(), &p.a.memory[..8]), (vec![], &b"\0\0\0\0PULL"[..]));
    assert_eq!(states(&p.a)[1], Done);
    p.a.receive(&answers[0], at(5));
    assert_eq!((p.a.completed(), &p.a.memory[..8]), (vec![(1, 0), (2, 0)], &b"pullPULL"[..]));
    assert_eq!(p.a.deliveries[WorkKind::PlaceResponse as usize], 2);
    let ack = p.a.drain(at(20));
    assert_eq!((ack.len(), ack[0].packet.kind, ack[0].bases().0), (1, BACK, 202));
    p.b.receive(&ack[0], at(21));
    assert_eq!(responses(&p.b), [ResponseState::Free; 2]);
    p.run(30, 100);
    assert_eq!(p.a.completed(), []);
    p.assert_idle();
}

/// F-6.1.1.1-3, F-6.1.2-4, F-9-4: a push of the target acknowledges, and no ACK packet follows.
#[test]
fn a_piggyback_completes_a_push() {
    let mut p = Pair::new(true);
    p.a.post(write(0, 4));
    let mut push = p.a.drain(at(0)).remove(0);
    push.packet.ack_request = 0;
    assert_eq!(p.b.receive(&push, at(1)), None);
    p.b.post(write(0, 4));
    let reverse = p.b.drain(at(2));
    assert_eq!((reverse.len(), reverse[0].packet.kind), (1, PUSH_DATA));
    p.a.receive(&reverse[0], at(3));
    assert_eq!(p.a.completed(), [(1, 0)]);
    assert_eq!(p.b.drain(at(50)), []);
}

/// Carries packets both ways. `lost` decides which packets of `a` and of `b` never arrive.
fn run_lossy(p: &mut Pair, times: std::ops::Range<u64>, mut lost: impl FnMut(&Wire) -> bool) {
    for now in times.step_by(20) {
        for wire in p.a.drain(at(now)) {
            if lost(&wire) {
                continue;
            }
            if let Some(answer) = p.b.receive(&wire, at(now))
                && !lost(&answer)
            {
                p.a.receive(&answer, at(now));
            }
        }
        for wire in p.b.drain(at(now)) {
            if !lost(&wire)
                && let Some(answer) = p.a.receive(&wire, at(now))
            {
                p.b.receive(&answer, at(now));
            }
        }
    }
}

/// F-9.1.8-1, F-11-3: a packet that never arrives leaves no hole. A Resync fills it, and is repeated when it is lost
/// as well. Everything behind it goes on.
#[test]
fn a_resync_fills_the_hole_of_a_packet_that_is_lost_for_ever() {
    for ordered in [true, false] {
        for pull in [true, false] {
            let mut p = Pair::new(ordered);
            let work = |n: u64| if pull { read(n * 8, 4) } else { write(n * 8, 4) };
            let mut resyncs = 0;
            let mut lost = |wire: &Wire| {
                let first = wire.packet.rsn == 1 && matches!(wire.packet.kind, PUSH_DATA | PULL_REQUEST);
                resyncs += u32::from(wire.is(RESYNC));
                first || (wire.is(RESYNC) && resyncs == 1)
            };
            p.a.post(work(0));
            run_lossy(&mut p, 0..2 * RTO_MICROS + 500, &mut lost);
            // Two more before the Resyncs, so that they wait for the hole to be filled.
            p.a.post(work(1));
            p.a.post(work(2));
            run_lossy(&mut p, 2 * RTO_MICROS + 500..20 * RTO_MICROS, &mut lost);
            assert_eq!(resyncs, 2, "ordered {ordered}, pull {pull}");
            let mut done = p.a.completed();
            done.sort_unstable();
            assert_eq!(done, [(1, TIMEOUT), (2, 0), (3, 0)]);
            assert_eq!(p.a.entry.connection.state, State::Open);
            p.assert_idle();
        }
    }
}

/// F-6.4-8: nobody ever serves these transactions. After the configured time, and not before, they end, and neither
/// end keeps anything for them.
#[test]
fn abandoned_transactions_give_everything_back() {
    for ordered in [true, false] {
        for millis in [10, 40] {
            let mut parameters = parameters(ordered, initial(100, 300, 1), initial(100, 200, 1));
            parameters.config.transaction_timeout = Ticks::from_nanos(millis * 1_000_000);
            let mut p = Pair::with(&parameters);
            p.a.post(work(Verb::SEND_ONLY, 0, 4)); // no receive is ever posted
            p.a.post(read(0, 4)); // its Pull Data is always lost, and so is the Resync in its place
            let early = (millis - 1) * 1000;
            for now in (0..early).step_by(500) {
                let sent = p.a.drain(at(now));
                let mut answers: Vec<Wire> = sent.iter().filter_map(|w| p.b.receive(w, at(now))).collect();
                answers.extend(p.b.drain(at(now)));
                for answer in answers.iter().filter(|w| !w.is(PULL_DATA)) {
                    p.a.receive(answer, at(now));
                }
            }
            assert_eq!(p.a.completed(), [], "ordered {ordered}, {millis} ms");
            assert!(p.b.free_cells() < CELLS, "the target keeps the SEND");
            for now in (early..early + 400_000).step_by(500) {
                let sent = p.a.drain(at(now));
                let mut answers: Vec<Wire> = sent.iter().filter_map(|w| p.b.receive(w, at(now))).collect();
                answers.extend(p.b.drain(at(now)));
                for answer in answers.iter().filter(|w| !w.is(PULL_DATA)) {
                    if let Some(ack) = p.a.receive(answer, at(now)) {
                        p.b.receive(&ack, at(now));
                    }
                }
            }
            let mut done = p.a.completed();
            done.sort_unstable();
            assert_eq!(done, [(1, TIMEOUT), (2, TIMEOUT)]);
            p.assert_idle();
        }
    }
}

/// F-8.4.3.5-2, F-8.4.3.5-1: a push in error completes with the target's code when its Resync is acknowledged, and on
/// an ordered connection after all lower RSNs.
#[test]
fn a_push_in_error_completes_in_its_turn() {
    for ordered in [true, false] {
        let mut p = Pair::new(ordered);
        p.a.post(write(0, 4));
        p.a.post(write(4, 4));
        p.a.drain(at(0));
        let mut refusal = nack(&p.a, Window::Data, 301, CIE, at(1));
        refusal.packet.ulp_code = 0x42;
        p.a.receive(&refusal, at(1));
        let resyncs: Vec<_> = p.a.drain(at(2)).iter().map(|w| (w.id(), w.packet.resync_code.0)).collect();
        assert_eq!(resyncs, [((RESYNC, 301, 2), 1)]);
        assert_eq!(p.a.completed(), [], "D-44");
        let ack = second_acknowledged(&p.a, Window::Data, 3);
        p.a.receive(&ack, at(3));
        let code = CompletionCode::TargetNackCie as u8;
        let mut done: Vec<_> = p.a.completions().iter().map(|c| (c.rsn, c.status, c.ulp_code)).collect();
        assert_eq!(done.len(), usize::from(!ordered));
        let ack = back(&p.a, 302, 100, at(4));
        p.a.receive(&ack, at(4));
        done.extend(p.a.completions().iter().map(|c| (c.rsn, c.status, c.ulp_code)));
        let expected = if ordered { [(1, 0, 0), (2, code, 0x42)] } else { [(2, code, 0x42), (1, 0, 0)] };
        assert_eq!(done, expected);
    }
}
