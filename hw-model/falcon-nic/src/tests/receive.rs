//! Compares one WRITE with cycles counted by hand.

use clocked::Cycle;

use super::*;
use transport_common::queues::Verb;
use transport_common::wire::ack::AckHeader;
use transport_common::wire::psp::Psp;

#[test]
fn a_write_takes_the_cycles_of_the_blocks_it_visits() {
    let parameters = Parameters::default();
    let mut pair = pair(&parameters, 1, Traffic::CONSTANT, "seed=1,delay=1us");
    pair.card(1).host_mut().register(REGION);
    pair.card(0).host_mut().memory_mut()[..64].copy_from_slice(&[0xa5; 64]);
    pair.card(0).host_mut().post(0, write(0, 4096, 64)).expect("the queue is empty");
    while pair.step(Cycle(1_000_000)) {}
    assert_eq!(pair.card(1).host().memory()[4095..4161], [&[0][..], &[0xa5; 64], &[0]].concat());
    let done = pair.card(0).host_mut().poll_completion(0).expect("it was acknowledged");
    assert_eq!((done.opcode, done.status), (Verb::WRITE, 0));

    let statistics = pair.card_mut(1).statistics();
    let write = statistics.event(Event::WriteReceived).expect("it came");
    // Ethernet 14, IPv4 20, UDP 8, PSP, Falcon, BTH 12, RETH 16, data 64: between 128 and 192 bytes, which is
    // three cycles of the bus.
    let latency = |block: Block| parameters.latency[block as usize];
    let moved = 3;
    let way_in = (latency(Block::Parser) + moved - 1)
        + (latency(Block::SecurityIn) + moved - 1)
        + (latency(Block::ChecksumIn) + moved - 1)
        + latency(Block::RegionTable);
    let lookup = parameters.cache.lookup_cycles as u64;
    assert_eq!(write.count, 1);
    assert!(u64::from(write.least) > way_in + lookup + latency(Block::MemoryWrite), "{write:?}");
    assert_eq!(write.busy[&Block::Parser], moved as f64);
    assert_eq!(write.busy[&Block::PacketReliability], 1.0, "accepted and placed in one step");
    assert_eq!(write.busy[&Block::MemoryWrite], 1.0);
    let ack = (14 + 20 + 8 + Psp::LEN + AckHeader::LEN) as u32;
    assert_eq!(write.busy[&Block::Line], parameters.budget(ack).ceil(), "the ACK left in its frame");
    assert_eq!(statistics.cache.misses, 1, "the first step of a connection");
    assert_eq!(statistics.cache.hits, 0, "there is no second step");
    assert_eq!(pair.card(1).pipeline().unfinished() + pair.card(0).pipeline().unfinished(), 0);

    // The next WRITE finds the context in the cache. It is a hit, and faster by the cycles of the miss.
    pair.card(0).host_mut().post(0, super::write(0, 4096, 64)).expect("the queue is empty");
    while pair.step(Cycle(2_000_000)) {}
    pair.card(0).host_mut().poll_completion(0).expect("it was acknowledged");
    let statistics = pair.card_mut(1).statistics();
    assert_eq!((statistics.cache.misses, statistics.cache.hits), (1, 1));
    let writes = statistics.event(Event::WriteReceived).expect("they came");
    assert_eq!((writes.count, writes.most), (2, write.least), "the first took longer");
    assert!(writes.least < writes.most, "{writes:?}");
    assert!(u64::from(writes.least) > way_in + lookup + latency(Block::MemoryWrite), "{writes:?}");
}
