//! SEND in one and in several segments, WRITE with immediate (D-84).

use transport_common::counters::Counter;
use transport_common::queues::{Verb, WorkFlags, WorkRequest};
use transport_common::transaction::CompletionCode;
use transport_common::ulp::UlpCode;

use crate::harness::*;

/// Returns a segment of a SEND from `offset` here.
fn segment(code: Verb, number: u32, offset: u64, length: u32) -> WorkRequest {
    WorkRequest { local_offset: offset, segment: number, rkey: 0, ..work(code, 0, length) }
}

fn post_message(node: &mut Node, lengths: &[u32], immediate: Option<u32>) {
    let mut offset = 0;
    for (n, &length) in lengths.iter().enumerate() {
        let code = match (n, n + 1 == lengths.len()) {
            (0, true) => Verb::SEND_ONLY,
            (0, false) => Verb::SEND_FIRST,
            (_, false) => Verb::SEND_MIDDLE,
            (_, true) => Verb::SEND_LAST,
        };
        let mut work = segment(code, n as u32, offset, length);
        if let (Some(value), true) = (immediate, n + 1 == lengths.len()) {
            work.flags |= WorkFlags::IMMEDIATE;
            work.immediate = value;
        }
        node.post(work);
        offset += u64::from(length);
    }
}

/// One posted receive per message, its segments one after the other, one completion with the whole length.
#[test]
fn segments_fill_one_receive() {
    let mut p = Pair::new(true);
    for n in 0..3000 {
        p.a.memory[n] = (n % 251) as u8;
    }
    p.b.post_receive(7, 10_000, 4096);
    p.b.post_receive(8, 20_000, 4096);
    post_message(&mut p.a, &[1024, 1024, 952], Some(0xfeed));
    post_message(&mut p.a, &[5], None);
    let mut sent = p.a.drain(at(0));
    sent.reverse(); // the RSN decides the order
    for wire in &sent {
        let answer = p.b.receive(wire, at(5));
        answer.map(|w| p.a.receive(&w, at(5)));
    }
    p.run(10, 100);
    assert_eq!(p.b.memory[10_000..13_000], p.a.memory[..3000]);
    assert_eq!(p.b.memory[20_000..20_005], p.a.memory[..5]);
    let done = p.b.completions();
    assert_eq!(done.len(), 2);
    assert_eq!((done[0].wr_id, done[0].length, done[0].rsn), (7, 3000, 3), "RSN of the last segment");
    assert_eq!(
        (done[0].opcode, done[0].flags, done[0].immediate),
        (Verb::RECEIVE, WorkFlags::IMMEDIATE, 0xfeed)
    );
    assert_eq!((done[1].wr_id, done[1].length, done[1].flags), (8, 5, WorkFlags::empty()));
    assert_eq!(p.a.completed().len(), 4);
    assert_eq!(p.b.queues().receive_consumer.load(std::sync::atomic::Ordering::Relaxed), 2);
    p.assert_idle();
}

/// The last segment of a message waits for a place of the completion. Those before it are in the receive by then.
#[test]
fn the_last_segment_waits_for_a_place_of_the_completion() {
    let mut p = Pair::new(true);
    for n in 0..2000 {
        p.a.memory[n] = (n % 251) as u8;
    }
    p.b.post_receive(7, 10_000, 4096);
    p.b.fill_completions(1);
    post_message(&mut p.a, &[1024, 952], Some(9));
    let sent = p.a.drain(at(0));
    p.b.receive(&sent[0], at(1));
    p.b.fill_completions(0);
    let nack = p.b.receive(&sent[1], at(2)).expect("no place is left");
    assert_eq!((nack.packet.kind, nack.packet.nack_code), (NACK, RNR));
    assert_eq!(p.b.memory[10_000..11_024], p.a.memory[..1024]);
    p.b.completions();
    p.run(3, 4000);
    let done: Vec<_> = p.b.completions().iter().map(|c| (c.wr_id, c.length, c.immediate)).collect();
    assert_eq!(done, [(7, 1976, 9)]);
    assert_eq!(p.b.memory[10_000..11_976], p.a.memory[..1976]);
    assert_eq!(p.a.completed(), [(1, 0), (2, 0)]);
    p.assert_idle();
}

/// A message longer than its buffer: the segment that does not fit and those after it are completed in error. The
/// receiver is notified. The next message is not affected.
#[test]
fn message_longer_than_its_receive() {
    let mut p = Pair::new(true);
    p.b.post_receive(7, 10_000, 1500);
    p.b.post_receive(8, 20_000, 1500);
    post_message(&mut p.a, &[1000, 1000, 1000], None);
    post_message(&mut p.a, &[100], None);
    p.run(0, 2000);
    let cie = CompletionCode::TargetNackCie as u8;
    let done = p.a.completions();
    let status: Vec<_> = done.iter().map(|c| (c.rsn, c.status, c.ulp_code)).collect();
    let invalid = UlpCode::INVALID_REQUEST.0;
    assert_eq!(status, [(1, 0, 0), (2, cie, invalid), (3, cie, invalid), (4, 0, 0)]);
    let received: Vec<_> = p.b.completions().iter().map(|c| (c.wr_id, c.status, c.length)).collect();
    assert_eq!(received, [(7, CompletionCode::OperationError as u8, 2000), (8, 0, 100)]);
    assert!(p.b.memory[11_000..].iter().take(9000).all(|&b| b == 0), "nothing beyond the first segment");
    p.assert_idle();
}

/// D-84: on an unordered connection a SEND has only one segment.
#[test]
fn unordered_sends_are_whole() {
    let mut p = Pair::new(false);
    p.b.post_receive(7, 10_000, 1500);
    post_message(&mut p.a, &[10, 10], None);
    post_message(&mut p.a, &[20], None);
    p.run(0, 2000);
    let mut done = p.a.completed();
    done.sort_unstable();
    let cie = CompletionCode::TargetNackCie as u8;
    assert_eq!(done, [(1, cie), (2, cie), (3, 0)]);
    let received: Vec<_> = p.b.completions().iter().map(|c| (c.wr_id, c.status, c.length)).collect();
    assert_eq!(received, [(7, 0, 20)]);
    p.assert_idle();
}

/// A middle or last segment without a first one is invalid.
#[test]
fn segments_without_a_first_are_invalid() {
    for code in [Verb::SEND_MIDDLE, Verb::SEND_LAST] {
        let mut p = Pair::new(true);
        p.b.post_receive(7, 0, 64);
        p.a.post(segment(code, 1, 0, 4));
        p.run(0, 100);
        assert_eq!(p.a.completed(), [(1, CompletionCode::TargetNackCie as u8)]);
        assert_eq!(p.b.completions(), [], "the receive is still posted");
        p.assert_idle();
    }
}

/// WRITE with immediate places its data and consumes a receive. If no receive is posted, it causes RNR.
#[test]
fn write_with_immediate_consumes_a_receive() {
    let mut p = Pair::new(true);
    p.a.memory[..4].copy_from_slice(b"imm!");
    let mut w = write(500, 4);
    w.flags |= WorkFlags::IMMEDIATE;
    w.immediate = 42;
    p.a.post(w);
    let sent = p.a.drain(at(0));
    let nack = p.b.receive(&sent[0], at(5)).expect("no receive is posted");
    assert_eq!((nack.packet.nack_code, &p.b.memory[500..504]), (RNR, &[0; 4][..]));
    p.b.post_receive(9, 0, 0);
    p.run(1000, 4000);
    let done = p.b.completions();
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].wr_id, done[0].length, done[0].immediate), (9, 4, 42));
    assert_eq!((done[0].opcode, done[0].flags), (Verb::RECEIVE_IMMEDIATE, WorkFlags::IMMEDIATE));
    assert_eq!(&p.b.memory[500..504], b"imm!");
    assert_eq!(p.a.completed(), [(1, 0)]);
    p.assert_idle();
}

/// A receive posted outside the memory of its domain makes its message fail, not the node.
#[test]
fn receive_outside_memory_is_an_error() {
    for offset in [u64::MAX - 2, (1 << 28) - 2, 1 << 40] {
        let mut p = Pair::new(true);
        p.b.post_receive(7, offset, 64);
        post_message(&mut p.a, &[4], None);
        p.run(0, 100);
        assert_eq!(p.a.completed(), [(1, CompletionCode::TargetNackCie as u8)]);
        assert_eq!(p.b.completed(), [(1, CompletionCode::LocalProtection as u8)]);
        assert_eq!((p.b.count(Counter::LocalProtection), p.a.count(Counter::LocalProtection)), (1, 0));
        p.assert_idle();
    }
}
