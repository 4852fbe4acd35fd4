//! Situations that must neither block nor cause a packet storm: a lost response, a late receive, a gate that stays
//! closed, a queue that the application does not empty. Each of these once ended a connection, or kept it busy for
//! nothing.

use std::sync::atomic::Ordering;

use transport_common::congestion::settings::Settings;
use transport_common::connection::State;
use transport_common::counters::Counter;
use transport_common::queues::{COMPLETION_QUEUE_DEPTH, Command, Verb};
use transport_common::transaction::{CompletionCode, PULL_CREDITS};
use transport_common::units::{Fcwnd, Ticks};

use crate::harness::*;

const TIMEOUT: u8 = CompletionCode::LocalTimeout as u8;

/// F-9-6, F-9-7, F-11-4, D-54: a READ whose response came before the ACK of its request is complete. The request
/// is sent again with its PSN until it is acknowledged, and stays the same packet.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn a_request_is_sent_again_after_its_answer_came() {
    for ordered in [true, false] {
        let mut p = Pair::new(ordered);
        p.a.post(read(8, 16));
        let request = p.a.drain(at(0)).remove(0);
        let mut answer = p.b.receive(&request, at(5)).expect("the answer");
        answer.packet.acknowledgement.request_base = transport_common::ids::Psn(100); // as if sent before
        p.a.receive(&answer, at(10));
        assert_eq!(p.a.completed(), [(1, 0)]);
        p.a.post(write(0, 4)); // the application continues
        for n in 1..3 {
            let copies = p.a.drain(at(n * (RTO_MICROS + 20)));
            let copy = copies.iter().find(|w| w.id() == (PULL_REQUEST, 100, 1));
            let copy = copy.expect("a copy of the request, no Resync");
            assert_eq!(copy.operation, request.operation);
            assert!(copies.iter().all(|w| !w.is(RESYNC)));
        }
        p.run(4 * RTO_MICROS, 4 * RTO_MICROS);
        assert_eq!(p.a.completed(), [(2, 0)]);
        p.assert_idle();
    }
}

/// F-8.5.3.1-1: an initiator does not request more responses than the target can keep, so one lost Pull Data
/// causes no NACK.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn a_lost_answer_keeps_its_credit() {
    let mut p = Pair::new(true);
    for node in [&mut p.a, &mut p.b] {
        node.entry.connection.flow.congestion.fcwnd = Fcwnd::from_packets(256);
        node.entry.connection.flow.congestion.ncwnd = 256;
    }
    let (mut posted, mut lost, mut completed) = (0, false, 0);
    for now in (0..40_000).step_by(4) {
        while posted < 400 && posted - completed < 200 {
            p.a.post(read(0, 4));
            posted += 1;
        }
        for request in p.a.drain(at(now)) {
            if let Some(answer) = p.b.receive(&request, at(now)) {
                if !lost && answer.is(PULL_DATA) {
                    lost = true; // the first one
                } else {
                    p.a.receive(&answer, at(now));
                }
            }
        }
        for answer in p.b.drain(at(now)) {
            p.a.receive(&answer, at(now));
        }
        completed += p.a.completed().len();
        assert!(p.a.entry.connection.initiator.open_pulls <= PULL_CREDITS);
    }
    assert_eq!((completed, p.b.count(Counter::DropResources)), (400, 0));
    p.assert_idle();
}

/// F-11-10, F-11-19, D-47: a request that the gate never let pass has its own timeout.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn a_request_that_cannot_be_sent_times_out() {
    for ordered in [true, false] {
        let mut p = parameters(ordered, initial(9, 20, 1), initial(0, 0, 0));
        (p.data_window, p.config.max_retransmit_attempts) = (1, 10_000);
        p.config.transaction_timeout = Ticks::from_nanos(700_000_000);
        let mut node = Node::new(&p);
        node.post(write(0, 4));
        node.post(write(4, 4));
        assert_eq!(node.drain(at(0)).len(), 1, "the window is one packet");
        let mut ended = Vec::new();
        for now in (0..800_000).step_by(500) {
            node.drain(at(now));
            ended.extend(node.completed());
        }
        assert_eq!(ended, [(1, TIMEOUT), (2, TIMEOUT)], "ordered {ordered}");
        // When the gate opens, the target of an ordered connection is notified to pass it.
        let ack = back(&node, 21, 9, at(810_000));
        node.receive(&ack, at(810_000));
        let sent: Vec<_> = node.drain(at(810_001)).iter().map(|w| (w.id(), w.packet.resync_code.0)).collect();
        let expected: &[_] = if ordered { &[((RESYNC, 21, 2), 4)] } else { &[] };
        assert_eq!(sent, expected);
        if ordered {
            let ack = back(&node, 22, 9, at(820_000));
            node.receive(&ack, at(820_000));
        }
        assert_eq!(node.queues().send_consumer.load(Ordering::Relaxed), 3, "both slots are free again");
    }
}

/// Times are compared in half of the 563 s after which they wrap. A node may be stopped for any time.
const STOPS: [u64; 8] = [60, 100, 281, 282, 300, 500, 1000, 100_000];

/// What was outstanding when a node was stopped times out as soon as it goes on, sent or not, each once.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn what_is_outstanding_ends_after_a_stop() {
    for stop in STOPS {
        for ordered in [true, false] {
            let mut p = parameters(ordered, initial(9, 20, 1), initial(0, 0, 0));
            (p.data_window, p.config.max_retransmit_attempts) = (2, 10_000);
            p.config.transaction_timeout = Ticks::from_nanos(30_000_000_000);
            let mut node = Node::new(&p);
            (0..4).for_each(|n| {
                node.post(if n == 1 { read(0, 4) } else { write(4 * n, 4) });
            });
            node.drain(at(0));
            let now = at(stop * 1_000_000);
            node.wake = false;
            node.drain(now);
            let mut ended = node.completed();
            ended.sort_unstable();
            let all = [(1, TIMEOUT), (2, TIMEOUT), (3, TIMEOUT), (4, TIMEOUT)];
            assert_eq!(ended, all, "{stop} s, ordered {ordered}");
            let statistics = &node.entry.tables.statistics;
            let again = statistics.retransmissions() + statistics.resyncs_sent;
            assert!((1..=4).contains(&again), "{again} copies after {stop} s: each packet times out once");
            let next = node.deadline().expect("packets are outstanding");
            let wait = next.since(now.ticks());
            assert!(wait <= Ticks::from_nanos(RTO_MICROS * 1000), "the next timer runs for {wait:?}");
        }
    }
}

/// Requests that wait for the ULP are offered to it again as soon as a node goes on, and an answer that its wire program sent
/// while the engine was stopped is sent again.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn a_target_goes_on_after_a_stop() {
    for stop in STOPS {
        for ordered in [true, false] {
            let mut p = parameters(ordered, initial(100, 300, 1), initial(100, 200, 1));
            p.config.transaction_timeout = Ticks::from_nanos(30_000_000_000);
            let mut p = Pair::with(&p);
            p.a.post(read(0, 4));
            p.a.post(work(Verb::SEND_ONLY, 0, 4));
            for request in p.a.drain(at(0)) {
                p.b.receive(&request, at(5)); // the answers are lost
            }
            let now = stop * 1_000_000;
            let sent = [p.b.drain(at(now)), p.b.drain(at(now + 10))].concat();
            assert!(sent.iter().any(|w| w.is(PULL_DATA)), "the answer, after {stop} s, ordered {ordered}");
            assert!(sent.iter().any(|w| w.is(NACK)), "the ULP is asked, after {stop} s, ordered {ordered}");
        }
    }
}

/// The completion of the oldest transaction finds no space for minutes. The one behind it is overdue all that time, and ends
/// when its turn comes.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn what_is_overdue_stays_so_behind_a_full_completion_queue() {
    let mut p = parameters(true, initial(9, 20, 1), initial(0, 0, 0));
    p.config.max_retransmit_attempts = 10_000;
    p.config.transaction_timeout = Ticks::from_nanos(30_000_000_000);
    let mut node = Node::new(&p);
    node.fill_completions(0);
    node.post(write(0, 4));
    node.post(write(4, 4));
    node.drain(at(0));
    let ack = back(&node, 21, 9, at(10));
    node.receive(&ack, at(10));
    for second in 1..=400 {
        node.turn(at(second * 1_000_000));
    }
    assert_eq!(node.completions().len(), COMPLETION_QUEUE_DEPTH);
    for second in 401..=431 {
        node.turn(at(second * 1_000_000));
    }
    assert_eq!(node.completed(), [(1, 0), (2, TIMEOUT)]);
}

/// A timeout of more than a quarter of the wrap is no stop: nothing ends before it.
#[test]
fn a_long_timeout_is_no_stop() {
    let mut p = parameters(true, initial(9, 20, 1), initial(0, 0, 0));
    (p.data_window, p.config.max_retransmit_attempts) = (1, 10_000);
    p.config.transaction_timeout = Ticks::from_nanos(280_000_000_000);
    let mut node = Node::new(&p);
    node.post(write(0, 4));
    node.drain(at(0));
    let ack = back(&node, 21, 9, at(10));
    node.receive(&ack, at(10));
    node.post(read(0, 4));
    node.drain(at(20));
    let ack = back(&node, 21, 10, at(30));
    node.receive(&ack, at(30));
    assert_eq!(node.completed(), [(1, 0)]);
    node.drain(at(279_000_000));
    assert_eq!(node.completed(), [], "it waits for its answer");
    node.drain(at(280_000_100));
    assert_eq!(node.completed(), [(2, TIMEOUT)]);
}

/// What it costs to wait.
struct Wait {
    packets: u32,
    /// Services of both engines.
    services: u32,
    /// When it ended, microseconds.
    end: u64,
}

/// Lets `sends` SENDs wait for a receive, for 6 s.
fn wait_for_a_receive(ordered: bool, sends: usize) -> (Pair, Wait) {
    let mut p = parameters(ordered, initial(100, 300, 1), initial(100, 200, 1));
    p.config.transaction_timeout = Ticks::from_nanos(100_000_000_000);
    p.fcwnd = Fcwnd::from_packets(256);
    p.ncwnd = 256;
    let mut p = Pair::with(&p);
    for _ in 0..sends {
        p.a.post(work(Verb::SEND_ONLY, 0, 4));
    }
    let (mut packets, mut end) = (0, 0);
    for now in (0..6_000_000).step_by(20) {
        for wire in p.a.drain(at(now)) {
            packets += 1;
            if let Some(answer) = p.b.receive(&wire, at(now)) {
                p.a.receive(&answer, at(now));
            }
        }
        for wire in p.b.drain(at(now)) {
            packets += 1;
            p.a.receive(&wire, at(now));
        }
        end = now;
    }
    let services = p.a.services + p.b.services;
    (p, Wait { packets, services, end })
}

/// D-42, D-43: behind a push that waits for a receive, only that push is sent again, and less and less often. A
/// posted receive ends the wait at once.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn waiting_for_a_receive_costs_next_to_nothing() {
    let (mut p, Wait { packets, services, end }) = wait_for_a_receive(true, 40);
    assert!(packets < 500, "{packets} packets in 6 s of waiting");
    assert!(services < 500, "{services} services in 6 s of waiting");
    for n in 0..40 {
        p.b.post_receive(n, 64, 4);
    }
    for wire in p.b.drain(at(end + 10)) {
        p.a.receive(&wire, at(end + 10));
    }
    assert!(p.b.completions().len() >= 28, "the posted receives rang the doorbell");
    p.run(end + 20, 400_000);
    assert_eq!(p.a.completed().len(), 40);
    p.assert_idle();
}

/// D-43, unordered: each push waits on its own, so the cost grows with their number: a NACK of the target's own and a
/// copy with its NACK per push, every 164 ms.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn waiting_for_receives_unordered_costs_as_much_as_there_are_pushes() {
    for sends in [1, 40, 120] {
        let (_, Wait { packets, services, .. }) = wait_for_a_receive(false, sends);
        eprintln!("{sends}: {packets} packets, {services} services");
        // The delays double from 1.28 ms to 163.84 ms, so there are 42 in 6 s.
        let most = 42 * 3 * sends as u32;
        assert!(packets <= most, "{packets} packets of {sends} pushes in 6 s");
        assert!(services <= most + 500, "{services} services for {sends} pushes in 6 s");
    }
}

/// The same with Swift on an idle link: waiting for a receive is not congestion.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn waiting_for_a_receive_leaves_the_windows_alone() {
    let mut p = parameters(true, initial(100, 300, 1), initial(100, 200, 1));
    p.settings = Settings::SWIFT;
    p.config.transaction_timeout = Ticks::from_nanos(100_000_000_000);
    let mut p = Pair::with(&p);
    p.a.post(work(Verb::SEND_ONLY, 0, 4));
    let before = p.a.entry.connection.flow.congestion.fcwnd;
    let mut end = 0;
    for now in (0..6_000_000u64).step_by(100) {
        p.exchange(at(now));
        end = now;
    }
    p.b.post_receive(1, 64, 4);
    p.run(end + 10, 400_000);
    assert_eq!(p.a.completed(), [(1, 0)]);
    let c = &p.a.entry.connection.flow.congestion;
    assert!(c.fcwnd >= before, "fabric window {} of {}", c.fcwnd.0, before.0);
    assert!(c.rtt < Ticks::from_nanos(1_000_000), "a round trip of {} ticks", c.rtt.0);
    assert!(p.a.entry.tables.statistics.congestion_events < 20);
}

/// F-6.4-1, D-43, unordered: each refused push has its own RNR time.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn refused_pushes_wait_each_for_its_own_time() {
    let mut p = Pair::new(false);
    for _ in 0..2 {
        p.a.post(work(Verb::SEND_ONLY, 0, 4));
    }
    let sent = p.a.drain(at(0));
    p.b.receive(&sent[0], at(0));
    p.b.receive(&sent[1], at(1000)); // due 1.28 ms later
    let nacks = |node: &mut Node, now| node.drain(at(now)).into_iter().filter(|w| w.is(NACK)).count();
    nacks(&mut p.b, 1200);
    assert_eq!(nacks(&mut p.b, 1300), 1, "only the first");
    assert_eq!(nacks(&mut p.b, 2200), 0);
    assert_eq!(nacks(&mut p.b, 2300), 1, "the second");
}

/// D-26: pushes that wait for receives leave space in the data window for the responses that their receiver may
/// need before it posts any.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn answers_pass_pushes_that_wait() {
    let mut p = Pair::new(true);
    p.a.entry.connection.flow.congestion.fcwnd = Fcwnd::from_packets(16);
    for _ in 0..100 {
        p.a.post(work(Verb::SEND_ONLY, 0, 4));
    }
    p.run(0, 5_000);
    p.b.post(read(0, 8));
    p.run(5_100, 1_000);
    assert_eq!(p.b.completed(), [(1, 0)], "the READ is answered while the SENDs wait");
}

/// A connection that has died and is not closed writes its last completions when its application takes others. Until then
/// the engine does nothing for it.
#[test]
fn a_dead_connection_waits_for_places_of_its_completions() {
    for ordered in [true, false] {
        let mut node = Node::new(&parameters(ordered, initial(0, 0, 0), initial(0, 0, 0)));
        node.fill_completions(0);
        (0..8).for_each(|_| {
            node.post(write(0, 4));
        });
        node.drain(at(0));
        node.entry.connection.state = State::Fatal;
        node.wake = true;
        let before = node.services;
        node.drain(at(1));
        assert_eq!(node.services, before + 1, "ordered: {ordered}");
        assert_eq!(node.completions().len(), COMPLETION_QUEUE_DEPTH);
        node.drain(at(2));
        let ends: Vec<_> = (0..8).map(|rsn| (rsn, CompletionCode::DeadConnection as u8)).collect();
        assert_eq!(node.completed(), ends, "ordered: {ordered}");
    }
}

/// A connection that its owner closes ends even if nothing empties the completion queue.
#[test]
#[cfg_attr(miri, ignore = "too many steps")]
fn closing_ends_with_a_full_completion_queue() {
    for ordered in [true, false] {
        let mut node = Node::new(&parameters(ordered, initial(0, 0, 0), initial(0, 0, 0)));
        node.fill_completions(0);
        (0..8).for_each(|_| {
            node.post(write(0, 4));
        });
        node.drain(at(0));
        node.queues().control.command.store(Command::CLOSE.0, Ordering::Relaxed);
        node.wake = true;
        node.drain(at(1));
        assert_eq!(node.queues().control.state.load(Ordering::Relaxed), 0, "closed");
    }
}
