//! The initiator: order of completions, a full completion queue, refused work requests, timeouts, the end of a
//! connection (F-8.4, F-11-19, F-11-27, F-11-33, F-11-34, D-85, D-89).

use std::sync::atomic::Ordering;
use transport_common::queues::WorkFlags;
use transport_common::wire::resync::ResyncCode;

use proptest::prelude::*;
use transport_common::bitmap::Bitmap128;
use transport_common::connection::{State, TRANSACTIONS};
use transport_common::counters::Counter;
use transport_common::ids::Rsn;
use transport_common::queues::{COMPLETION_QUEUE_DEPTH, Command, LKey, Verb, WorkRequest};
use transport_common::transaction::{CompletionCode, PULL_CREDITS};

use crate::harness::*;

/// F-11-33, F-11-34, D-49.
#[test]
fn completion_codes_have_their_values() {
    let table = [
        (CompletionCode::Ack, 0x0),
        (CompletionCode::TargetNackCie, 0x1),
        (CompletionCode::TargetNackNre, 0x3),
        (CompletionCode::TargetNackCid, 0x4),
        (CompletionCode::LocalTimeout, 0x8),
        (CompletionCode::OperationError, 0x9),
        (CompletionCode::DeadConnection, 0xa),
        (CompletionCode::LocalResources, 0xb),
        (CompletionCode::UlpCredit, 0xc),
        (CompletionCode::RemoteError, 0xd),
        (CompletionCode::LocalXlr, 0xf),
        (CompletionCode::LocalProtection, 0x10),
    ];
    for (code, value) in table {
        assert_eq!(code as u8, value);
        assert_eq!(CompletionCode::from_code(value), Some(code));
    }
    let reserved = (0..=255u8).filter(|v| !table.iter().any(|t| t.1 == *v));
    for value in reserved {
        assert_eq!(CompletionCode::from_code(value), None, "{value:#x} is reserved");
    }
}

/// Returns an EACK that acknowledges the pushes at `offsets` from the base.
fn selective(to: &Node, bits: u64, now: u64) -> Wire {
    let c = &to.entry.connection;
    let mut wire = back(to, c.flow.delivery.data().tx.base.0, c.flow.delivery.request().tx.base.0, at(now));
    wire.packet.kind = EACK;
    wire.packet.acknowledgement.selective = 1;
    wire.packet.acknowledgement.data_acknowledged = Bitmap128 { low: bits, high: 0 };
    wire.packet.acknowledgement.data_received = Bitmap128 { low: bits, high: 0 };
    wire
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 100 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// F-8.4.1-1, F-8.4.2-1, F-8.4.2-2: pushes are acknowledged in any order. On an ordered connection they
    /// complete in RSN order, on an unordered one immediately. BRSN is the oldest that is not completed.
    #[test]
    fn completions_by_order_of_the_connection(
        ordered in any::<bool>(),
        order in Just((0..20u32).collect::<Vec<_>>()).prop_shuffle(),
        rsn in prop_oneof![Just(1), Just(u32::MAX - 7)],
    ) {
        let mut p = parameters(ordered, initial(0, 0, rsn), initial(0, 0, 0));
        p.config.ooo_threshold = 64;
        let mut node = Node::new(&p);
        for _ in 0..20 {
            node.post(write(0, 4));
        }
        prop_assert_eq!(node.drain(at(0)).len(), 20);
        let mut done = Vec::new();
        let mut reported = 0;
        for &n in &order {
            done.push(n);
            let base = node.entry.connection.flow.delivery.lanes[0].tx.base.0;
            let bits = done.iter().filter(|&&d| d >= base).fold(0u64, |bits, &d| bits | 1 << (d - base));
            let ack = selective(&node, bits, 1);
            node.receive(&ack, at(1));
            let got: Vec<u32> = node.completed().iter().map(|c| c.0.wrapping_sub(rsn)).collect();
            let contiguous = (0..20).find(|n| !done.contains(n)).unwrap_or(20);
            let expected: Vec<u32> = if ordered { (reported..contiguous).collect() } else { vec![n] };
            reported = contiguous;
            prop_assert_eq!(got, expected);
            let brsn = node.entry.connection.initiator.brsn.0;
            prop_assert_eq!(brsn, rsn.wrapping_add(contiguous));
            prop_assert_eq!(node.queues().send_consumer.load(Ordering::Relaxed), brsn);
        }
    }

    /// D-85: which packets are sent, for any mix of pushes and pulls and any gates, against a model with two
    /// queues.
    #[test]
    fn unordered_scheduler_is_two_queues(
        rounds in prop::collection::vec((prop::collection::vec(any::<bool>(), 0..12), 0..4u32, 0..4u32), 1..30),
        window in 1..6u32,
    ) {
        let mut p = parameters(false, initial(0, 0, u32::MAX - 50), initial(0, 0, 0));
        (p.request_window, p.data_window) = (window, window + 1);
        let mut node = Node::new(&p);
        let (mut pushes, mut pulls) = (Vec::new(), Vec::new()); // unsent
        let (mut data, mut request) = ((0u32, 0u32), (0u32, 0u32)); // base, next
        for (posts, push_acks, pull_acks) in rounds {
            for pull in posts {
                let open = node.queues().send_producer.load(Ordering::Relaxed)
                    .wrapping_sub(node.queues().send_consumer.load(Ordering::Relaxed));
                if open < 200 {
                    let rsn = node.post(if pull { read(0, 4) } else { write(0, 4) });
                    if pull { pulls.push(rsn) } else { pushes.push(rsn) }
                }
            }
            data.0 += push_acks.min(data.1 - data.0);
            request.0 += pull_acks.min(request.1 - request.0);
            let ack = back(&node, data.0, request.0, at(1));
            node.receive(&ack, at(1));
            // A sixteenth of the data window is reserved for responses, at least one packet of four.
            let reserve = if window + 1 < 4 { 0 } else { ((window + 1) / 16).max(1) };
            let free = |queue: &mut Vec<u32>, (base, next): &mut (u32, u32), size: u32| {
                let count = ((size - (*next - *base)) as usize).min(queue.len());
                *next += count as u32;
                queue.drain(..count).collect::<Vec<_>>()
            };
            let expected =
                (free(&mut pushes, &mut data, window + 1 - reserve), free(&mut pulls, &mut request, window));
            let sent = node.drain(at(1));
            let of = |kind| sent.iter().filter(|w| w.is(kind)).map(|w| w.packet.rsn).collect::<Vec<_>>();
            prop_assert_eq!((of(PUSH_DATA), of(PULL_REQUEST)), expected);
        }
    }
}

/// F-8.4.2-1: if a push is acknowledged before an older pull is answered, the push completes after the pull.
#[test]
fn push_completion_waits_for_the_pull_before_it() {
    let mut p = Pair::new(true);
    p.a.post(read(0, 4));
    p.a.post(write(0, 4));
    let sent = p.a.drain(at(0));
    let answer = p.b.receive(&sent[0], at(1)).expect("the response, which is late");
    let ack = p.b.receive(&sent[1], at(2)).expect("the push asked for an ACK");
    p.a.receive(&ack, at(3));
    assert_eq!(p.a.completed(), []);
    p.a.receive(&answer, at(4));
    assert_eq!(p.a.completed(), [(1, 0), (2, 0)]);
}

/// D-54: a response before the ACK of its request. F-6.1.1.2-2: the response is the completion.
#[test]
fn answer_before_the_acknowledgement_of_its_request() {
    let mut p = Pair::new(true);
    p.a.post(read(0, 4));
    let request = p.a.drain(at(0)).remove(0);
    let mut answer = p.b.receive(&request, at(1)).expect("the answer");
    answer.packet.acknowledgement.request_base.0 = 100;
    p.a.receive(&answer, at(2));
    assert_eq!(p.a.completed(), [(1, 0)]);
    assert_eq!(p.a.entry.connection.flow.delivery.lanes[1].tx.base.0, 100, "no implicit ACK");
    // The request is still repeated until it is acknowledged. This changes nothing.
    p.run(10, 3 * RTO_MICROS);
    assert_eq!(p.a.completed(), []);
    p.assert_idle();
}

/// A full completion queue delays completions and loses none. Their order stays the same.
#[test]
fn full_completion_queue_loses_nothing() {
    for ordered in [true, false] {
        let mut p = Pair::new(ordered);
        let full = COMPLETION_QUEUE_DEPTH as u32;
        let before = p.a.queues().completion_producer.load(Ordering::Relaxed);
        // The queue is full except for two completions.
        p.a.fill_completions(2);
        for _ in 0..5 {
            p.a.post(write(0, 4));
        }
        let sent = p.a.drain(at(0));
        for wire in &sent {
            p.b.receive(wire, at(1));
        }
        let ack = back(&p.a, 305, 100, at(2));
        p.a.receive(&ack, at(2));
        assert_eq!(p.a.queues().completion_producer.load(Ordering::Relaxed), before.wrapping_add(full));
        assert_eq!(p.a.entry.connection.initiator.completions_blocked, 1);
        p.a.turn(at(3));
        assert_eq!(p.a.count(Counter::CompletionQueueFull), 1);
        assert!(p.a.wake, "the engine continues to try");
        let first = p.a.completions();
        assert_eq!(first[first.len() - 2..].iter().map(|c| c.rsn).collect::<Vec<_>>(), [1, 2]);
        p.a.drain(at(4));
        assert_eq!(p.a.completed(), [(3, 0), (4, 0), (5, 0)]);
        assert_eq!(p.a.entry.connection.initiator.completions_blocked, 0);
        assert_eq!(p.a.entry.connection.initiator.brsn.0, 6);
    }
}

/// The same on an unordered connection, behind a transaction that is still open.
#[test]
fn blocked_completion_does_not_wait_for_an_older_transaction() {
    let mut p = Pair::new(false);
    p.a.fill_completions(0);
    p.a.post(write(0, 4));
    p.a.post(write(0, 4));
    p.a.drain(at(0));
    let ack = selective(&p.a, 0b10, 1);
    p.a.receive(&ack, at(1));
    assert_eq!(p.a.completions().len(), COMPLETION_QUEUE_DEPTH, "the earlier completions");
    p.a.wake = true; // the application has emptied the queue
    p.a.drain(at(2));
    assert_eq!(p.a.completed(), [(2, 0)]);
}

/// F-8.4.1-1: the place of a transaction whose completion was blocked is free in the service that reports it, although
/// another completion is still blocked.
#[test]
fn brsn_passes_a_blocked_completion_as_soon_as_it_is_reported() {
    for ordered in [true, false] {
        let mut p = Pair::new(ordered);
        p.a.fill_completions(0);
        p.a.post(write(0, 4));
        p.a.post(write(0, 4));
        p.a.drain(at(0));
        let ack = back(&p.a, 302, 100, at(1));
        p.a.receive(&ack, at(1));
        assert_eq!(p.a.entry.connection.initiator.brsn.0, 1);
        p.a.queues().completion_consumer.fetch_add(1, Ordering::Relaxed);
        p.a.turn(at(2));
        assert_eq!(p.a.entry.connection.initiator.brsn.0, 2, "ordered: {ordered}");
        assert_eq!(p.a.queues().send_consumer.load(Ordering::Relaxed), 2);
        assert!(p.a.wake, "the engine continues to try");
    }
}

/// F-8.5.3.1-1: a pull is sent only while the target has a response slot for it, even if the window is larger.
#[test]
fn pulls_wait_for_credit() {
    for ordered in [true, false] {
        let mut p = Pair::new(ordered);
        let credits = u32::from(PULL_CREDITS);
        for _ in 0..credits + 10 {
            p.a.post(read(0, 4));
        }
        let mut sent = 0;
        for step in 0..4 {
            let packets = p.a.drain(at(step));
            sent += packets.iter().filter(|wire| wire.packet.kind == PULL_REQUEST).count() as u32;
            // The requests are acknowledged, the responses are not there yet.
            let ack = back(&p.a, p.a.entry.connection.flow.delivery.lanes[0].tx.base.0, 100 + sent, at(step));
            p.a.receive(&ack, at(step));
        }
        assert_eq!((sent, p.a.entry.connection.initiator.open_pulls), (credits, PULL_CREDITS));
    }
}

/// Unsignaled requests complete without a report, unless they fail.
#[test]
fn unsignaled_requests_report_failure_only() {
    let mut p = Pair::new(true);
    p.a.post(WorkRequest { flags: WorkFlags::empty(), ..write(0, 4) });
    p.a.post(WorkRequest { flags: WorkFlags::empty(), rkey: 99, ..write(0, 4) });
    p.a.post(WorkRequest { flags: WorkFlags::empty(), ..read(0, 4) });
    p.run(0, 100);
    assert_eq!(p.a.completed(), [(2, CompletionCode::TargetNackCie as u8)]);
    p.assert_idle();
}

/// A malformed work request completes `OpErr`, and does not block the requests posted with it, here or at the
/// target.
#[test]
fn malformed_work_requests_do_not_block() {
    let long = write(0, MAX_SEGMENT + 1);
    let unknown = WorkRequest { opcode: Verb(99), ..write(0, 4) };
    let zero = WorkRequest { opcode: Verb(0), ..write(0, 4) };
    let misaligned = WorkRequest { remote_address: 4, ..work(Verb::FETCH_ADD, 0, 8) };
    for ordered in [true, false] {
        for bad in [long, unknown, zero, misaligned] {
            let mut p = Pair::new(ordered);
            for work in [write(0, 4), bad, write(8, 4), read(0, 4)] {
                p.a.post(work);
            }
            p.run(0, 200);
            let mut done = p.a.completed();
            done.sort_unstable();
            let failed = CompletionCode::OperationError as u8;
            assert_eq!(
                done,
                [(1, 0), (2, failed), (3, 0), (4, 0)],
                "opcode {} ordered {ordered}",
                bad.opcode.0
            );
            assert_eq!(p.a.count(Counter::BadWorkRequest), 1);
            p.assert_idle();
        }
    }
}

/// F-11-19: every transaction without a response ends by its own timeout, not one per timeout.
#[test]
fn unanswered_pulls_time_out_together() {
    for ordered in [true, false] {
        let mut p = parameters(ordered, initial(0, 0, 1), initial(0, 0, 0));
        p.config.transaction_timeout = transport_common::units::Ticks::from_nanos(5_000_000);
        let mut node = Node::new(&p);
        for n in 0..4 {
            node.post(read(0, 4));
            node.drain(at(n * 100));
        }
        let ack = back(&node, 0, 4, at(400)); // received, never answered
        node.receive(&ack, at(400));
        node.drain(at(4900));
        assert_eq!(node.completed(), []);
        for (n, now) in [5010u64, 5110, 5210, 5310].into_iter().enumerate() {
            node.drain(at(now));
            let expected = (n as u32 + 1, CompletionCode::LocalTimeout as u8);
            assert_eq!(node.completed(), [expected], "ordered {ordered}");
        }
    }
}

/// F-9-6, F-11-19: after its transaction timed out, a packet must not be rebuilt from a send queue entry that the
/// application has reused. A Resync takes its place.
#[test]
fn timed_out_push_is_not_rebuilt_from_a_reused_entry() {
    let mut p = parameters(true, initial(0, 0, 0), initial(0, 0, 0));
    p.config.transaction_timeout = transport_common::units::Ticks::from_nanos(1_500_000);
    p.config.max_retransmit_attempts = 100;
    let mut node = Node::new(&p);
    node.post(write(0x1111, 4));
    node.drain(at(0));
    node.drain(at(1001));
    let copies = node.drain(at(1600));
    assert_eq!((copies.len(), node.completed()), (0, vec![(0, CompletionCode::LocalTimeout as u8)]));
    // The application may reuse the entry.
    node.queues().send[0].store(write(0x2222, 8));
    for (now, count) in [(2100, 1), (3200, 1)] {
        let copies = node.drain(at(now));
        assert_eq!(copies.len(), count);
        assert_eq!(copies[0].id(), (RESYNC, 0, 0));
        assert_eq!(
            (copies[0].packet.resync_code, copies[0].packet.resync_type),
            (ResyncCode(4), PUSH_DATA),
            "F-7.6-2"
        );
    }
}

/// A work request that its owner has written over is not sent again: its transaction ends in error, and a Resync takes the
/// place of its packet. Nothing of what it says now leaves the node.
#[test]
fn a_request_that_was_written_over_is_not_sent_again() {
    let original = write(0x1111, 4);
    for (changed, again) in [
        (original, PUSH_DATA),
        (WorkRequest { wr_id: 99, ..original }, PUSH_DATA),
        (WorkRequest { local_offset: u64::MAX, ..original }, RESYNC),
        (WorkRequest { lkey: LKey(9), ..original }, RESYNC),
        (write(0x1111, 8), RESYNC),
        (write(0x1111, MAX_SEGMENT + 1), RESYNC),
        (read(0x1111, 4), RESYNC),
        (WorkRequest { opcode: Verb(99), ..original }, RESYNC),
    ] {
        for ordered in [true, false] {
            let mut node = Node::new(&parameters(ordered, initial(0, 0, 0), initial(0, 0, 0)));
            node.post(original);
            assert_eq!(node.drain(at(0)).len(), 1);
            node.queues().send[0].store(changed);
            let copies = node.drain(at(1001));
            assert_eq!(copies.len(), 1, "{changed:?}");
            assert_eq!(copies[0].id(), (again, 0, 0), "{changed:?}");
            let bad = again == RESYNC;
            let denied = bad && (changed.local_offset != 0 || changed.lkey != LKey::OWN);
            assert_eq!(node.count(Counter::BadWorkRequest), u32::from(bad && !denied));
            assert_eq!(node.count(Counter::LocalProtection), u32::from(denied));
            let code = if denied { CompletionCode::LocalProtection } else { CompletionCode::OperationError };
            let end = (0, code as u8);
            assert_eq!(node.completed(), if bad { vec![end] } else { vec![] });
        }
    }
}

/// A connection whose table of transactions is broken dies, with a counter of its own, and reports everything once: rather
/// than send what nobody posted.
#[test]
fn a_broken_table_ends_the_connection() {
    for ordered in [true, false] {
        let mut node = Node::new(&parameters(ordered, initial(0, 0, 1), initial(0, 0, 0)));
        for _ in 0..4 {
            node.post(write(0, 4));
        }
        assert_eq!(node.drain(at(0)).len(), 4);
        assert_eq!(node.count(Counter::TransactionTableBroken), 0);
        node.entry.connection.initiator.brsn = Rsn(100_000);
        node.wake = true;
        assert_eq!(node.drain(at(1)), [], "it is silent");
        assert_eq!(node.count(Counter::TransactionTableBroken), 1);
        assert_eq!(node.entry.connection.state, State::Fatal);
        assert_eq!(node.queues().control.state.load(Ordering::Relaxed), State::Fatal as u32);
        let dead = CompletionCode::DeadConnection as u8;
        assert_eq!(node.completed(), (1..5).map(|rsn| (rsn, dead)).collect::<Vec<_>>());
    }
}

/// F-11-27, F-11-11: closing completes everything submitted, sent or not, exactly once, then the state is CLOSED.
#[test]
fn closing_completes_everything() {
    for ordered in [true, false] {
        let mut p = parameters(ordered, initial(0, 0, 9), initial(0, 0, 0));
        p.data_window = 2;
        let mut node = Node::new(&p);
        for n in 0..8 {
            node.post(if n % 2 == 0 { write(0, 4) } else { read(0, 4) });
        }
        node.drain(at(0));
        node.queues().control.command.store(Command::CLOSE.0, Ordering::Relaxed);
        node.wake = true;
        node.drain(at(1));
        let dead = CompletionCode::DeadConnection as u8;
        let expected: Vec<_> = (9..17).map(|rsn| (rsn, dead)).collect();
        assert_eq!(node.completed(), expected);
        assert_eq!(node.entry.connection.state, State::Closed);
        assert_eq!(node.queues().control.state.load(Ordering::Relaxed), State::Closed as u32);
        // The dead are silent.
        node.wake = true;
        assert_eq!(node.drain(at(10_000)), []);
        assert_eq!(node.completed(), []);
    }
}

/// D-46, F-11-27: a connection that fails also completes the requests submitted since the last read of the
/// counter.
#[test]
fn failing_completes_what_was_submitted_meanwhile() {
    for ordered in [true, false] {
        let mut p = parameters(ordered, initial(0, 0, 9), initial(0, 0, 0));
        (p.data_window, p.config.max_retransmit_attempts) = (2, 1);
        let mut node = Node::new(&p);
        for _ in 0..4 {
            node.post(write(0, 4));
        }
        node.drain(at(0));
        for _ in 0..4 {
            node.post(write(0, 4));
        }
        let mut ended = Vec::new();
        for now in (0..100_000).step_by(500) {
            node.drain(at(now));
            ended.extend(node.completed().into_iter().map(|(rsn, _)| rsn));
        }
        assert_eq!(node.entry.connection.state, State::Fatal);
        assert_eq!(ended, (9..17).collect::<Vec<_>>(), "ordered {ordered}");
    }
}

/// The application's counter is untrusted: a value above what the table holds, or below what was sent, counts as
/// nothing.
#[test]
fn absurd_producer_counts_as_nothing() {
    for ordered in [true, false] {
        let mut node = Node::new(&parameters(ordered, initial(0, 0, 9), initial(0, 0, 0)));
        node.post(write(0, 4));
        node.post(read(0, 4));
        assert_eq!(node.drain(at(0)).len(), 2);
        for absurd in [9 + TRANSACTIONS as u32 + 1, 8, 9, u32::MAX, 1 << 31] {
            node.queues().send_producer.store(absurd, Ordering::Relaxed);
            node.turn(at(1));
            assert_eq!(node.entry.connection.flow.delivery.lanes[0].tx.in_flight(), 1, "producer {absurd}");
        }
        node.queues().send_producer.store(11, Ordering::Relaxed);
        node.post(write(0, 4));
        assert_eq!(node.drain(at(2)).len(), 1);
    }
}
