//! Effects of a Resync on the request that it replaces (F-9.1.8, F-9.2.5, F-11-15, F-11-29, D-24, D-25, D-47).

use transport_common::connection::TRANSACTIONS;
use transport_common::counters::Counter;
use transport_common::queues::Verb;
use transport_common::transaction::{CompletionCode, RequestState};
use transport_common::ulp::Operation;
use transport_common::wire::resync::ResyncCode;

use crate::harness::*;

/// Returns the Resync that replaces `wire`.
fn resync_of(wire: &Wire, code: u8) -> Wire {
    let mut packet = wire.packet;
    packet.resync_type = packet.kind;
    packet.kind = RESYNC;
    packet.resync_code = ResyncCode(code);
    packet.ack_request = 0;
    Wire { packet, operation: Operation::default(), data: Vec::new(), head: Vec::new() }
}

fn sent(ordered: bool, posts: &[transport_common::queues::WorkRequest]) -> (Pair, Vec<Wire>) {
    let mut p = Pair::new(ordered);
    for &post in posts {
        p.a.post(post);
    }
    let sent = p.a.drain(at(0));
    assert_eq!(sent.len(), posts.len());
    (p, sent)
}

/// F-9.2.5-1, F-9.2.5-2, D-25: for a packet that was never received: both bits, the base, an ACK at once. Its RSN counts as consumed.
#[test]
fn of_a_packet_that_never_arrived() {
    for ordered in [true, false] {
        let (mut p, sent) = sent(ordered, &[write(0, 4), write(4, 4)]);
        let ack = p.b.receive(&resync_of(&sent[0], 3), at(5)).expect("at once, without AR");
        assert_eq!((ack.packet.kind, ack.bases()), (BACK, (301, 100)));
        p.b.receive(&sent[1], at(6));
        assert_eq!(p.b.delivered, [2], "the ordered connection continues");
        // A duplicate of the Resync is also acknowledged at once, if it is no storm. The original, if late, is a
        // duplicate.
        assert!(p.b.receive(&resync_of(&sent[0], 3), at(500)).is_some_and(|w| w.is(BACK)));
        p.b.receive(&sent[0], at(501));
        assert_eq!(p.b.delivered, [2]);
    }
}

/// D-22, D-25: copies of a Resync that is acknowledged. The first is acknowledged at once, as its sender waits. Those that
/// follow share an ACK in 16 coalescing times, also if they are rarer than the coalescing time,
/// whether their PSN is below the base or in the window.
#[test]
fn copies_in_a_storm_share_acks() {
    for (in_window, apart) in [(false, 1), (true, 1), (false, 12), (true, 12)] {
        let (mut p, sent) = sent(true, &[write(0, 4), write(4, 4)]);
        let resync = resync_of(&sent[in_window as usize], 3);
        let coalescing =
            p.b.entry.connection.flow.delivery.tuning.ack_coalescing.as_picos().0.div_ceil(1_000_000);
        let repeated = 16 * coalescing;
        assert!(p.b.receive(&resync, at(100)).is_some(), "the first is acknowledged at once");
        let first = 100 + 2 * repeated;
        assert!(p.b.receive(&resync, at(first)).is_some(), "a copy as well");
        let mut acks = 0;
        for now in (first + 1..first + 10 * repeated).step_by(apart) {
            acks += p.b.receive(&resync, at(now)).is_some() as u64;
            acks += p.b.drain(at(now)).len() as u64;
        }
        assert!((8..=10).contains(&acks), "{acks} ACKs in ten times the time between two");
    }
}

/// D-24: the Resync of a Pull Request belongs to the request window.
#[test]
fn of_a_pull_request() {
    let (mut p, sent) = sent(true, &[read(0, 4), read(0, 4)]);
    let ack = p.b.receive(&resync_of(&sent[0], 3), at(5)).expect("at once");
    assert_eq!((ack.packet.kind, ack.bases()), (BACK, (300, 101)));
    assert_eq!(p.b.entry.connection.target.nrsn.0, 2);
    let answer = p.b.receive(&sent[1], at(6)).expect("RSN 2 is answered");
    assert_eq!(answer.id(), (PULL_DATA, 200, 2));
}

/// D-25: for held requests: their cells are freed, and the order passes over a chain of consumed requests.
#[test]
fn of_held_requests_and_a_chain_of_consumed_ones() {
    let posts = [write(0, 4), write(4, 4), write(8, 4), write(12, 4), write(16, 4), write(20, 4)];
    let (mut p, sent) = sent(true, &posts);
    for wire in &sent[1..5] {
        p.b.receive(wire, at(5));
    }
    assert_eq!(p.b.free_cells(), CELLS - 4);
    for wire in &sent[1..4] {
        let ack = p.b.receive(&resync_of(wire, 4), at(6)).expect("at once");
        assert!(matches!(ack.packet.kind, EACK | BACK));
    }
    assert_eq!(p.b.free_cells(), CELLS - 1);
    for key in 2..5 {
        assert_eq!(p.b.entry.tables.requests[key].state, RequestState::Consumed);
    }
    assert_eq!(p.b.entry.connection.flow.delivery.lanes[0].rx.base.0, 300, "the hole is still there");
    p.b.receive(&sent[0], at(7));
    p.b.drain(at(7));
    assert_eq!(p.b.delivered, [1, 5], "2, 3, 4 are passed");
    p.b.receive(&sent[5], at(8));
    p.b.drain(at(8));
    assert_eq!(p.b.delivered, [1, 5, 6]);
    assert_eq!(p.b.free_cells(), CELLS);
    assert!(p.b.entry.tables.requests.iter().all(|r| r.state == RequestState::Free));
    p.run(10, 100);
    assert_eq!(p.b.entry.connection.flow.delivery.lanes[0].rx.base.0, 306);
}

/// D-25: of the request after the last one that was delivered. The order passes over it at once. Otherwise the request
/// behind it would need a receive cell, though it is next, and would be refused forever if there is none.
#[test]
fn of_the_next_request_with_nothing_held() {
    let (mut p, mut sent) = sent(true, &[write(0, 4), write(4, 4), write(8, 4)]);
    // Its ACK leaves at once, so no timer asks for a service.
    sent[0].packet.ack_request = 1;
    p.b.receive(&resync_of(&sent[1], 3), at(5));
    p.b.drain(at(5));
    assert_eq!(p.b.entry.tables.requests[2].state, RequestState::Consumed);
    p.b.receive(&sent[0], at(6));
    p.b.drain(at(7));
    assert_eq!(p.b.entry.connection.target.nrsn.0, 3);
    assert_eq!(p.b.entry.tables.requests[2].state, RequestState::Free);
    p.b.receive(&sent[2], at(8));
    assert_eq!((p.b.delivered.as_slice(), p.b.free_cells()), (&[1, 3][..], CELLS), "3 needed no cell");
}

/// D-25, F-11-13: a held Pull Request was acknowledged when it arrived, so its Resync is an old duplicate and is
/// acknowledged at once. The request itself is discarded, its cell is freed, and the order passes its RSN.
#[test]
fn of_a_held_pull_request() {
    let (mut p, sent) = sent(true, &[write(0, 4), read(0, 4), write(4, 4)]);
    p.b.receive(&sent[1], at(5));
    assert!(p.b.receive(&resync_of(&sent[1], 3), at(6)).is_some_and(|w| w.is(BACK)));
    assert_eq!((p.b.count(Counter::DropOldDuplicate), p.b.free_cells()), (1, CELLS));
    p.b.receive(&sent[0], at(7));
    p.b.receive(&sent[2], at(8));
    let answers = p.b.drain(at(9));
    assert!(!answers.iter().any(|w| w.is(PULL_DATA)), "the pull is over");
    assert_eq!((p.b.delivered.as_slice(), p.b.free_cells()), (&[1, 3][..], CELLS));
}

/// D-25: for a push that the ULP refused (RNR): its cell is freed, RNR ends, and the requests held behind it are
/// delivered.
#[test]
fn of_a_push_in_rnr() {
    let (mut p, sent) = sent(true, &[work(Verb::SEND_ONLY, 0, 4), write(4, 4)]);
    p.b.receive(&sent[0], at(5)).expect("RNR");
    p.b.receive(&sent[1], at(6)).expect("RNR");
    p.b.receive(&resync_of(&sent[0], 3), at(7)).expect("an ACK");
    p.b.drain(at(7));
    assert_eq!((p.b.delivered.as_slice(), p.b.free_cells()), (&[2][..], CELLS));
    assert_eq!(p.b.entry.connection.flow.delivery.lanes[0].rx.base.0, 302);
    p.b.post_receive(1, 0, 64);
    p.b.drain(at(5000));
    assert_eq!(p.b.delivered, [2], "the RNR timer has nothing to do");
}

/// The same on an unordered connection.
#[test]
fn of_an_unordered_push_in_rnr() {
    let (mut p, sent) = sent(false, &[work(Verb::SEND_ONLY, 0, 4)]);
    p.b.receive(&sent[0], at(5)).expect("RNR");
    p.b.receive(&resync_of(&sent[0], 3), at(7)).expect("an ACK");
    p.b.post_receive(1, 0, 64);
    p.b.drain(at(5000));
    assert_eq!((p.b.delivered.len(), p.b.free_cells()), (0, CELLS));
    assert_eq!(p.b.entry.connection.flow.delivery.lanes[0].rx.base.0, 301);
}

/// F-11-15, F-11-29: for a push that was completed in error: the entry is free again.
#[test]
fn of_a_push_completed_in_error() {
    for ordered in [true, false] {
        let mut bad = write(0, 4);
        bad.rkey = 99;
        let (mut p, sent) = sent(ordered, &[bad, write(4, 4)]);
        let nack = p.b.receive(&sent[0], at(5)).expect("CIE");
        assert_eq!(nack.packet.nack_code, CIE);
        p.b.receive(&sent[1], at(6));
        assert_eq!(p.b.delivered, [2], "the order has passed the failed one");
        p.b.receive(&resync_of(&sent[0], 1), at(7)).expect("an ACK");
        assert_eq!(p.b.entry.connection.flow.delivery.lanes[0].rx.base.0, 302);
        assert!(p.b.entry.tables.requests.iter().all(|r| r.state == RequestState::Free));
    }
}

/// D-25: for Pull Data: acknowledged. The pull ends by its own timeout, or at once for a reset of the peer (code
/// 2).
#[test]
fn of_pull_data() {
    for (code, completion) in [(3, None), (2, Some(CompletionCode::RemoteError))] {
        let (mut p, sent) = sent(true, &[read(0, 4)]);
        let answer = p.b.receive(&sent[0], at(5)).expect("the answer, lost");
        let ack = p.a.receive(&resync_of(&answer, code), at(6)).expect("an ACK at once");
        assert_eq!(ack.bases().0, 201);
        let expected: Vec<_> = completion.iter().map(|&c| (1, c as u8)).collect();
        assert_eq!(p.a.completed(), expected);
        if completion.is_none() {
            p.a.drain(at(2_100_000));
            assert_eq!(p.a.completed(), [(1, CompletionCode::LocalTimeout as u8)], "F-11-19");
        }
    }
}

/// A Resync for a later RSN does not affect the SEND in progress. A Resync that replaces a segment breaks its
/// message.
#[test]
fn inside_a_message() {
    let posts = [
        work(Verb::SEND_FIRST, 0, 4),
        work(Verb::SEND_LAST, 0, 4),
        write(0, 4),
        work(Verb::SEND_FIRST, 0, 4),
        work(Verb::SEND_MIDDLE, 0, 4),
        work(Verb::SEND_LAST, 0, 4),
        work(Verb::SEND_ONLY, 0, 4),
    ];
    let (mut p, sent) = sent(true, &posts);
    for n in 0..3 {
        p.b.post_receive(n, 64 * n, 64);
    }
    p.b.receive(&sent[0], at(5));
    p.b.receive(&resync_of(&sent[2], 3), at(6)).expect("an ACK");
    p.b.receive(&sent[1], at(7));
    p.b.drain(at(7));
    let first = p.b.completions();
    assert_eq!((first.len(), first[0].length), (1, 8), "RSN 3 was not a segment of it");

    p.b.receive(&sent[3], at(8));
    p.b.receive(&resync_of(&sent[4], 3), at(9)).expect("an ACK");
    let nack = p.b.receive(&sent[5], at(10)).expect("the message has a hole");
    assert_eq!((nack.packet.kind, nack.packet.nack_code), (NACK, CIE));
    p.b.receive(&sent[6], at(11));
    let last = p.b.completions();
    assert_eq!((last.len(), last[0].length, last[0].rsn), (1, 4, 7), "the next message is complete");
}

/// The same if the Resync arrives before earlier requests.
#[test]
fn ahead_of_its_turn_inside_a_message() {
    let posts = [work(Verb::SEND_FIRST, 0, 4), work(Verb::SEND_MIDDLE, 0, 4), work(Verb::SEND_LAST, 0, 4)];
    let (mut p, sent) = sent(true, &posts);
    p.b.post_receive(0, 0, 64);
    p.b.receive(&resync_of(&sent[1], 3), at(5)).expect("an ACK");
    p.b.receive(&sent[2], at(6));
    p.b.receive(&sent[0], at(7));
    p.b.drain(at(7));
    assert_eq!(p.b.completions(), [], "no incomplete message is delivered");
    assert_eq!(p.b.entry.tables.requests[3].state, RequestState::Errored);
    assert_eq!(p.b.count(Counter::DropDuplicate), 0);
}

/// For an RSN whose table entry belongs to another request: that request and its cell are not changed.
#[test]
fn of_an_rsn_whose_place_is_taken() {
    let (mut p, sent) = sent(true, &[write(0, 4), write(4, 4), write(8, 4)]);
    let far = |wire: &Wire, later: u32| {
        let mut far = resync_of(wire, 3);
        far.packet.psn = sent[2].packet.psn + later;
        far.packet.rsn = wire.packet.rsn + TRANSACTIONS as u32;
        far
    };
    assert_eq!(p.b.receive(&sent[1], at(1)), None);
    let held = p.b.entry.tables.requests[2];
    assert_eq!((held.state, p.b.free_cells()), (RequestState::Held, CELLS - 1));
    // Further ahead than the table reaches: it is not acknowledged, so it is sent again.
    let base = p.b.entry.connection.flow.delivery.lanes[0].rx;
    p.b.receive(&far(&sent[1], 0), at(2));
    assert_eq!((p.b.entry.tables.requests[2], p.b.free_cells()), (held, CELLS - 1));
    assert_eq!(p.b.entry.connection.flow.delivery.lanes[0].rx, base);
    assert_eq!(p.b.count(Counter::DropResources), 1);

    // Its table entry belongs to a request that was refused and waits for its own Resync. So this Resync has to be
    // sent again.
    p.b.regions.clear();
    p.b.receive(&sent[0], at(3)).expect("a NACK");
    let errored = p.b.entry.tables.requests[1];
    assert_eq!(errored.state, RequestState::Errored);
    p.b.receive(&far(&sent[0], 1), at(4));
    assert_eq!(p.b.entry.tables.requests[1], errored);
    assert_eq!(p.b.count(Counter::DropResources), 2);
    p.b.drain(at(5));
    assert_eq!(p.b.free_cells(), CELLS, "the held one was refused too");
}
