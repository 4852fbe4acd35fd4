//! Two domains on one node: an application reaches nothing of the other one, whatever it writes into its queues. It gets a
//! local protection error, and nothing else of its connection suffers.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use transport_common::counters::Counter;
use transport_common::memory::{AccessFlags, Domain, LKey, ProtectionDomain, Region};
use transport_common::queues::{ReceiveRequest, Verb, WorkRequest};
use transport_common::transaction::CompletionCode;
use transport_common::ulp::{OperationKind, UlpCode};

use crate::harness::*;

/// The domain of the application at `a`: bytes 4096 to 12,287 of its node.
const OWN: Domain = Domain { first_page: 1, pages: 2, id: ProtectionDomain(1) };
/// A byte of the other domains.
const FOREIGN: u8 = 0xee;
/// Where `a` works at the peer.
const REMOTE: u64 = 40_000;
const DENIED: u8 = CompletionCode::LocalProtection as u8;

const fn region(key: u32, offset: u64, access: AccessFlags, domain: u32) -> Region {
    Region { offset, length: 100, key, access, domain: ProtectionDomain(domain), reserved: 0 }
}

/// The regions of the node of `a`. The last one is not in its domain.
const REGIONS: [Region; 3] = [
    region(11, 4096, AccessFlags::LOCAL_WRITE, 1),
    region(12, 8192, AccessFlags::empty(), 1),
    region(13, 20_480, AccessFlags::all(), 2),
];

/// A pair whose first end is in a domain of its own.
fn pair(ordered: bool) -> Pair {
    let mut p = Pair::new(ordered);
    p.a.entry.connection.responder.domain = OWN;
    p.a.regions = REGIONS.into();
    p.a.memory.fill(FOREIGN);
    p.a.memory[4096..12_288].fill(1);
    p
}

fn local(lkey: u32, local_offset: u64, work: WorkRequest) -> WorkRequest {
    WorkRequest { lkey: LKey(lkey), local_offset, ..work }
}

/// Asserts that no byte of another domain was written at `a`, and none came to `b`.
fn assert_apart(p: &Pair) {
    let foreign = [&p.a.memory[..4096], &p.a.memory[12_288..]].concat();
    assert!(foreign.iter().all(|byte| *byte == FOREIGN), "written");
    assert!(!p.b.memory.contains(&FOREIGN), "read");
}

#[test]
fn a_request_on_foreign_memory_ends_and_nothing_else() {
    let (write, read, add) = (write(REMOTE, 8), read(REMOTE, 8), work(Verb::FETCH_ADD, REMOTE, 8));
    let good = local(0, 5000, write);
    for ordered in [true, false] {
        for bad in [
            local(0, 0, write),
            local(0, 4095, write),
            local(0, 12_281, write),
            local(0, u64::MAX, write),
            local(0, 4090, read),
            local(0, 12_281, WorkRequest { length: 1, ..add }),
            // Of another domain, of nobody, without the right, beyond the region.
            local(13, 0, write),
            local(13, 0, read),
            local(99, 0, write),
            local(12, 0, read),
            local(12, 0, add),
            local(11, 93, write),
            local(11, 93, WorkRequest { length: 1, ..add }),
            local(11, u64::MAX, write),
        ] {
            let mut p = pair(ordered);
            for work in [good, bad, good, local(0, 5000, read)] {
                p.a.post(work);
            }
            p.run(0, 300);
            let mut done = p.a.completed();
            done.sort_unstable();
            assert_eq!(done, [(1, 0), (2, DENIED), (3, 0), (4, 0)], "ordered {ordered} {bad:?}");
            let counted = [Counter::LocalProtection, Counter::BadWorkRequest, Counter::PlatformFault];
            assert_eq!(counted.map(|counter| p.a.count(counter)), [1, 0, 0], "{bad:?}");
            assert_apart(&p);
            p.assert_idle();
        }
    }
}

/// The offset counts from the start of the region.
#[test]
fn a_request_may_name_a_region_of_its_domain() {
    let mut p = pair(true);
    p.a.memory[4104..4112].copy_from_slice(b"by a key");
    p.a.post(local(11, 8, write(REMOTE, 8)));
    p.a.post(local(11, 24, read(REMOTE, 8)));
    p.a.post(local(11, 92, work(Verb::FETCH_ADD, REMOTE, 8)));
    p.a.post(local(12, 100, write(REMOTE, 0)));
    p.run(0, 300);
    assert_eq!(p.a.completed(), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    for at in [4120, 4188] {
        assert_eq!(&p.a.memory[at..at + 8], b"by a key", "{at}");
    }
    assert_eq!(p.a.count(Counter::LocalProtection), 0);
    p.assert_idle();
}

/// The application may write over its request while it is under way: what is placed is judged again.
#[test]
fn an_answer_is_not_placed_in_foreign_memory() {
    for ordered in [true, false] {
        for read in [read(REMOTE, 8), work(Verb::FETCH_ADD, REMOTE, 8)] {
            for changed in [local(0, 0, read), local(0, 12_281, read), local(13, 0, read), local(12, 0, read)]
            {
                let mut p = pair(ordered);
                p.a.post(local(0, 5000, read));
                let request = p.a.drain(at(0)).remove(0);
                let answer = p.b.receive(&request, at(1)).or_else(|| p.b.drain(at(1)).pop());
                p.a.queues().send[1].store(changed);
                p.a.receive(&answer.expect("an answer"), at(2));
                assert_eq!(p.a.completed(), [(1, DENIED)], "{changed:?}");
                assert_eq!(p.a.count(Counter::LocalProtection), 1);
                assert_apart(&p);
                p.run(10, 100);
                p.assert_idle();
            }
        }
    }
}

/// A message for a receive on foreign memory is refused like one that does not fit, and the receive ends with the error. The
/// next message finds the next receive.
#[test]
fn a_receive_on_foreign_memory_ends_and_nothing_else() {
    fn post_receive(node: &mut Node, lkey: u32, local_offset: u64) {
        let queues = node.queues();
        let number = queues.receive_producer.load(Relaxed);
        let receive = ReceiveRequest { local_offset, wr_id: number.into(), length: 64, lkey: LKey(lkey) };
        let rings = queues.post_receive(number, receive);
        node.wake |= rings;
    }
    for (lkey, offset, place) in [
        (0, 4096, Some(4096)),
        (11, 8, Some(4104)),
        (0, 0, None),
        (0, 12_281, None),
        (11, 93, None),
        (12, 0, None),
        (13, 0, None),
        (99, 0, None),
    ] {
        for ordered in [true, false] {
            let mut p = pair(ordered);
            post_receive(&mut p.a, lkey, offset);
            post_receive(&mut p.a, 0, 6000);
            p.b.memory[..8].fill(7);
            let send = WorkRequest { rkey: 0, ..work(Verb::SEND_ONLY, 0, 8) };
            p.b.post(send);
            p.run(0, 200);
            p.b.post(send);
            p.run(210, 200);
            let (sent, received) =
                if place.is_some() { (0, 0) } else { (CompletionCode::TargetNackCie as u8, DENIED) };
            assert_eq!(p.b.completed(), [(1, sent), (2, 0)], "{lkey} {offset}");
            let told: Vec<_> = p.a.completions().iter().map(|c| (c.wr_id, c.status)).collect();
            assert_eq!(told, [(0, received), (1, 0)], "{lkey} {offset}");
            assert_eq!(p.a.count(Counter::LocalProtection), u32::from(place.is_none()), "{lkey} {offset}");
            for place in place.into_iter().chain([6000]) {
                assert_eq!(p.a.memory[place..place + 8], [7; 8]);
            }
            assert_apart(&p);
            p.assert_idle();
        }
    }
}

/// An answer is built again from the region as it is then.
#[test]
fn an_answer_is_sent_again_only_from_the_domain_of_its_connection() {
    let mut p = Pair::new(true);
    p.a.post(read(0, 8));
    let request = p.a.drain(at(0)).remove(0);
    let lost = p.b.receive(&request, at(1)).expect("an answer");
    assert_eq!(lost.operation.kind, OperationKind::ReadResponse);
    p.b.drain(at(2));
    p.b.regions[0].domain = ProtectionDomain(2);
    let sent = p.b.drain(at(2 * RTO_MICROS));
    let again = sent.iter().find(|wire| wire.is(PULL_DATA)).expect("it is sent again");
    assert_eq!((again.operation.kind, again.operation.code), (OperationKind::ErrorResponse, UlpCode::ACCESS));
    p.a.receive(again, at(2 * RTO_MICROS + 1));
    let done: Vec<_> = p.a.completions().iter().map(|c| (c.status, c.ulp_code)).collect();
    assert_eq!(done, [(0, UlpCode::ACCESS.0)]);
}

/// Returns whether the application may use `length` bytes, by every byte.
fn allowed(lkey: u32, offset: u64, length: u32, writes: bool) -> bool {
    let byte = |n: u64| -> bool {
        let Some(at) = offset.checked_add(n) else { return false };
        if lkey == 0 {
            return (4096..12_288).contains(&at);
        }
        let usable = |region: &&Region| {
            region.key == lkey
                && region.domain == OWN.id
                && at < region.length
                && (!writes || region.key == 11)
        };
        REGIONS.iter().any(|region| usable(&region))
    };
    (0..u64::from(length)).all(byte)
}

fn requests() -> impl Strategy<Value = WorkRequest> {
    let verb = prop_oneof![Just(Verb::WRITE), Just(Verb::READ), Just(Verb::FETCH_ADD)];
    let key = prop_oneof![3 => Just(0u32), 1 => 10u32..15];
    let near = |at: u64| at - 70..at + 70;
    let offset = prop_oneof![
        near(4096),
        near(12_288),
        near(20_480),
        0u64..130,
        0u64..MEMORY as u64,
        u64::MAX - 70..=u64::MAX
    ];
    (verb, key, offset, 1u32..60).prop_map(|(verb, key, offset, length)| {
        let length = if verb == Verb::FETCH_ADD { 8 } else { length };
        local(key, offset, work(verb, 0, length))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever an application posts: each request ends with success or a local protection error, as its buffer deserves, and
    /// no byte passes between the domains.
    #[test]
    fn no_request_reaches_another_domain(
        posted in prop::collection::vec(requests(), 1..20),
        ordered in any::<bool>(),
    ) {
        let mut p = pair(ordered);
        let mut expected = Vec::new();
        for (n, work) in posted.iter().enumerate() {
            let may = allowed(work.lkey.0, work.local_offset, work.length, work.opcode != Verb::WRITE);
            p.a.post(WorkRequest { remote_address: REMOTE + 64 * n as u64, ..*work });
            expected.push((n as u32 + 1, if may { 0 } else { DENIED }));
        }
        p.run(0, 3000);
        let mut done = p.a.completed();
        done.sort_unstable();
        let denied = expected.iter().filter(|(_, status)| *status == DENIED).count();
        prop_assert_eq!(done, expected);
        prop_assert_eq!(p.a.count(Counter::LocalProtection), denied as u32);
        assert_apart(&p);
        p.assert_idle();
    }
}
