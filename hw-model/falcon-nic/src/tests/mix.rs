//! Runs all kinds of operations in both directions at the same time, and checks the result.

use clocked::Cycle;
use fabric_model::{Fabric, Port};
use host_nic::testbed::{LONGEST_SEGMENT, mac};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use transport_common::queues::{AccessFlags, CELLS, ReceiveRequest, Region, Verb, WorkFlags, WorkRequest};

use super::super::testbed::{self, Traffic};
use super::super::*;

/// Maximum number of operations of each end of a connection. As many fit into the areas below.
const MOST: usize = 64;
/// Bytes between the buffers of two operations.
const PLACE: usize = 4096;
/// Bytes of an area.
const AREA: u64 = 4 << 20;
/// The area that the operations read from. It is never written.
const SOURCE: u64 = 0;
const WRITTEN: u64 = AREA;
const READ: u64 = 2 * AREA;
const SENT: u64 = 3 * AREA;
const COUNTERS: u64 = 4 * AREA;
/// The region for all operations.
const REGION: Region =
    Region { offset: 0, length: 5 * AREA, key: 1, access: AccessFlags::all(), ..Region::FREE };

/// An operation, and the place of its result.
struct Operation {
    side: usize,
    work: WorkRequest,
    /// For a SEND: the address of its receive buffer.
    received: u64,
    /// For an atomic operation: the expected original value.
    original: u64,
}

const fn place(slot: usize, number: usize) -> u64 {
    ((slot * MOST + number) * PLACE) as u64
}

/// Returns the operations of both ends of `connections` connections.
fn plan(seed: u64, connections: usize, count: usize) -> Vec<(usize, Vec<Operation>)> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut all = vec![];
    for side in 0..2 {
        for slot in 0..connections {
            let (mut sum, mut swapped, mut sends) = (0, 0, 0);
            let operations = (0..count).map(|number| {
                let length = random.random_range(1..=LONGEST_SEGMENT);
                let from = SOURCE + random.random_range(0..AREA - PLACE as u64);
                let mut work = WorkRequest {
                    flags: WorkFlags::SIGNALED,
                    length,
                    local_offset: from,
                    rkey: REGION.key,
                    wr_id: number as u64,
                    ..WorkRequest::default()
                };
                let counter = COUNTERS + (slot * 2 * 8) as u64;
                let (mut received, mut original) = (0, 0);
                match number % 5 {
                    0 => {
                        work.opcode = Verb::WRITE;
                        work.remote_address = WRITTEN + place(slot, number);
                    }
                    1 => {
                        work.opcode = Verb::READ;
                        work.remote_address = from;
                        work.local_offset = READ + place(slot, number);
                    }
                    2 => {
                        work.opcode = Verb::SEND_ONLY;
                        received = SENT + place(slot, sends);
                        sends += 1;
                    }
                    3 => {
                        work.opcode = Verb::FETCH_ADD;
                        work.swap_or_add = number as u64 + 1;
                        original = sum;
                        sum += work.swap_or_add;
                    }
                    _ => {
                        work.opcode = Verb::COMPARE_SWAP;
                        (work.compare, work.swap_or_add) = (swapped, number as u64);
                        original = swapped;
                        swapped = number as u64;
                    }
                }
                if number % 5 >= 3 {
                    work.length = 8;
                    work.remote_address = counter + if number % 5 == 4 { 8 } else { 0 };
                    work.local_offset = READ + place(slot, number);
                }
                Operation { side, work, received, original }
            });
            all.push((slot, operations.collect()));
        }
    }
    all
}

fn prepare(joined: &Joined, seed: u64, connections: usize, plan: &[(usize, Vec<Operation>)]) {
    for side in 0..2 {
        let mut host = joined.card(side).host_mut();
        let mut random = SmallRng::seed_from_u64(seed ^ (side as u64 + 1));
        random.fill(&mut host.memory_mut()[SOURCE as usize..(SOURCE + AREA) as usize]);
        host.register(REGION);
        for slot in 0..connections {
            for number in 0..MOST {
                let buffer = ReceiveRequest {
                    local_offset: SENT + place(slot, number),
                    length: PLACE as u32,
                    ..ReceiveRequest::default()
                };
                host.post_receive(slot, buffer).expect("there is room for all");
            }
        }
        for (slot, operations) in plan {
            for operation in operations.iter().filter(|operation| operation.side == side) {
                host.post(*slot, operation.work).expect("there is room for all");
            }
        }
    }
}

/// Checks that every byte is right, every operation completed once, and nothing is left over.
fn check(joined: &Joined, connections: usize, plan: &[(usize, Vec<Operation>)]) {
    for (slot, operations) in plan {
        for (number, operation) in operations.iter().enumerate() {
            let (mine, peer) = (joined.card(operation.side).host(), joined.card(1 - operation.side).host());
            let work = &operation.work;
            let bytes = |at: u64| at as usize..at as usize + work.length as usize;
            let (sent, came) = match work.opcode {
                Verb::WRITE => {
                    (&mine.memory()[bytes(work.local_offset)], &peer.memory()[bytes(work.remote_address)])
                }
                Verb::READ => {
                    (&peer.memory()[bytes(work.remote_address)], &mine.memory()[bytes(work.local_offset)])
                }
                Verb::SEND_ONLY => {
                    (&mine.memory()[bytes(work.local_offset)], &peer.memory()[bytes(operation.received)])
                }
                _ => {
                    let original = operation.original.to_ne_bytes();
                    assert_eq!(
                        mine.memory()[bytes(work.local_offset)],
                        original,
                        "connection {slot}, {number}"
                    );
                    continue;
                }
            };
            assert_eq!(sent, came, "connection {slot}, operation {number}, opcode {}", work.opcode.0);
        }
    }
    let sends = |slot: usize, side: usize| {
        let of = plan.iter().filter(|(of, _)| *of == slot).flat_map(|(_, operations)| operations);
        of.filter(|operation| operation.side != side && operation.work.opcode == Verb::SEND_ONLY).count()
    };
    for side in 0..2 {
        let mut host = joined.card(side).host_mut();
        for slot in 0..connections {
            let completions: Vec<_> = core::iter::from_fn(|| host.poll_completion(slot)).collect();
            let asked = plan.iter().filter(|(of, operations)| *of == slot && operations[0].side == side);
            let asked: usize = asked.map(|(_, operations)| operations.len()).sum();
            assert_eq!(completions.len(), asked + sends(slot, side), "side {side}, connection {slot}");
            assert!(
                completions.iter().all(|completion| completion.status == 0),
                "side {side}, connection {slot}"
            );
            let connection = &host.entry(slot).connection;
            assert_eq!(connection.target.held, 0);
            for lane in connection.flow.delivery.lanes {
                assert_eq!(lane.tx.base, lane.tx.next, "all acknowledged");
            }
        }
        assert_eq!(host.cells_in_use(), 0);
        assert_eq!(host.free_cells().len(), CELLS);
        assert!(host.page().ready.is_empty());
        drop(host);
        assert_eq!(joined.card(side).pipeline().unfinished(), 0);
    }
}

/// Runs the mix to its end, checks it, and returns the cards.
pub(super) fn run(
    parameters: &Parameters,
    fabric: &str,
    seed: u64,
    connections: usize,
    count: usize,
) -> Joined {
    assert!(count <= MOST && connections * MOST * PLACE <= AREA as usize, "the areas have room");
    let mut of = Fabric::new(2, fabric.parse().expect("a configuration")).expect("two ports");
    let traffic = Traffic { rto: 100_000, ..Traffic::CONSTANT };
    let cards = (0..2).map(|side| {
        of.learn(mac(side), Port(side as u16));
        let card = FalconNic::new(testbed::host_config(side), parameters.clone()).expect("possible");
        testbed::open(&mut card.host_mut(), side, connections, traffic);
        card
    });
    let mut joined = Joined::new(cards.collect(), of);
    let plan = plan(seed, connections, count);
    prepare(&joined, seed, connections, &plan);
    while joined.step(Cycle(100_000_000)) {}
    check(&joined, connections, &plan);
    joined
}
