//! Compares latencies with cycles counted by hand.

use clocked::Cycle;

use crate::{CacheInput, Event, Parameters, Processed, Source};

use super::{Bench, Log, command};

/// Parameters with memories of exactly 100 cycles and ample bandwidth.
fn exact() -> Parameters {
    let mut parameters = Parameters::default();
    for memory in [&mut parameters.on_chip, &mut parameters.off_chip] {
        (memory.latency, memory.jitter, memory.bytes_per_cycle) = (100, 0, 4096);
    }
    parameters
}

fn network(cid: u32, tag: u32) -> CacheInput<Log, u32> {
    CacheInput { network: Some(command(cid, tag)), ..CacheInput::default() }
}

fn ulp(cid: u32, tag: u32) -> CacheInput<Log, u32> {
    CacheInput { ulp: Some(command(cid, tag)), ..CacheInput::default() }
}

/// Steps until `count` commands have been processed. Returns the cycle and the command of each.
fn until(bench: &mut Bench, count: usize) -> Vec<(u64, Processed<u32>)> {
    let mut processed = Vec::new();
    while processed.len() < count {
        let now = bench.clock.now();
        let output = bench.cycle(CacheInput::default(), 0).expect("the checker finds no error");
        processed.extend(output.processed.map(|of| (now.0, of)));
        assert!(now < Cycle(10_000));
    }
    processed
}

#[test]
fn a_miss_and_a_hit() {
    let mut bench = Bench::new(&exact());
    bench.cycle(network(3, 0), 0).expect("accepted");
    // The lookup is in cycles 0 to 5, processing in 6 and 7. The memory takes the read in 8. Its completion enters
    // in 108 and is processed in 114 and 115. The second pass enters in 116 and has finished its lookup in 122.
    let [(at, processed)] = until(&mut bench, 1)[..] else { panic!("one command") };
    assert_eq!((at, processed.first_pass, processed.accepted), (122, false, Cycle(0)));
    bench.drain(10).expect("done");
    let now = bench.clock.now().0;
    bench.cycle(network(3, 1), 0).expect("accepted");
    let [(at, processed)] = until(&mut bench, 1)[..] else { panic!("one command") };
    assert_eq!((at, processed.first_pass), (now + 6, true));
    bench.drain(10).expect("done");
    let statistics = bench.cache().statistics();
    assert_eq!((statistics.hits, statistics.misses, statistics.memory_reads), (1, 1, 1));
}

#[test]
fn one_connection_takes_every_other_cycle_two_take_every() {
    for (connections, cycles) in [(1, 2), (2, 1)] {
        let mut bench = Bench::new(&exact());
        for cid in 0..connections {
            bench.cycle(network(cid, 1_000 + cid), 0).expect("accepted");
        }
        bench.drain(1_000).expect("cached");
        let (from, mut tag) = (bench.clock.now(), 0);
        while tag < 20 {
            let output = bench.cycle(network(tag % connections, tag), 0).expect("the checker finds no error");
            tag += u32::from(output.accepted.network);
        }
        assert_eq!(bench.clock.now().since(from), 19 * cycles + 1, "{connections}");
        bench.drain(100).expect("done");
    }
}

#[test]
fn packets_overtake_the_miss_queue_and_the_ulp_does_not() {
    let mut bench = Bench::new(&exact());
    for tag in 0..4 {
        bench.cycle(ulp(5, tag), 0).expect("accepted");
        bench.cycle(CacheInput::default(), 0).expect("the other cycle");
    }
    // The read completion is processed in 114 and 115. A command that comes now finds the context, while four
    // commands are in the queue.
    while bench.clock.now() < Cycle(110) {
        bench.cycle(CacheInput::default(), 0).expect("waits");
    }
    bench.cycle(network(5, 10), 0).expect("accepted");
    bench.cycle(CacheInput::default(), 0).expect("the other cycle");
    bench.cycle(ulp(5, 4), 0).expect("accepted");
    let order = until(&mut bench, 6);
    let tags: Vec<_> = order.iter().map(|(at, of)| (*at, of.command.tag, of.source, of.first_pass)).collect();
    let expected = [
        (116, 10, Source::Network, true),
        (122, 0, Source::Ulp, false),
        (124, 1, Source::Ulp, false),
        (126, 2, Source::Ulp, false),
        (128, 3, Source::Ulp, false),
        (130, 4, Source::Ulp, false),
    ];
    assert_eq!(tags, expected);
    assert_eq!(bench.cache().statistics().queued_for_order, 1);
    bench.drain(10).expect("done");
}

#[test]
fn a_write_completion_stalls_its_connection_for_six_cycles_and_no_other() {
    let stalled = |cid: u32| {
        // The threshold is 0, so the context is evicted as soon as it is cached.
        let mut bench = Bench::new(&Parameters { entries: 1, threshold: 0, ..exact() });
        bench.cycle(network(1, 0), 0).expect("accepted");
        let mut completion = None;
        while completion.is_none() {
            let now = bench.clock.now();
            let output = bench.cycle(CacheInput::default(), 0).expect("the checker finds no error");
            let is_completion = output.issued.is_some_and(|issued| issued.event == Event::WriteCompletion);
            completion = is_completion.then_some(now);
        }
        let completion = completion.expect("the loop ends with it");
        while !bench.cycle(network(cid, 1), 0).expect("the checker finds no error").accepted.network {}
        let cycles = bench.clock.now().since(completion) - 1;
        let counted = bench.cache().statistics().stalls_deallocation;
        bench.drain(1_000).expect("done");
        (cycles, counted)
    };
    assert_eq!(stalled(1), (7, 6));
    assert_eq!(stalled(2), (1, 0));
}

#[test]
fn the_memories_take_no_more_than_they_can() {
    let mut parameters = exact();
    parameters.off_chip.outstanding = 2;
    let mut bench = Bench::new(&parameters);
    for tag in 0..6 {
        bench.cycle(network(tag, tag), 0).expect("accepted");
    }
    let at: Vec<_> = until(&mut bench, 6).into_iter().map(|(at, _)| at).collect();
    // Two requests at a time, 100 cycles each. The memory takes the next request in the cycle after a completion.
    assert_eq!(at, [122, 123, 223, 224, 324, 325]);
    // Each context occupies the memory for ten cycles, so the six reads are ten cycles apart.
    let mut parameters = exact();
    parameters.off_chip.bytes_per_cycle = parameters.context_bytes.div_ceil(10);
    let mut bench = Bench::new(&parameters);
    for tag in 0..6 {
        bench.cycle(network(tag, tag), 0).expect("accepted");
    }
    let at: Vec<_> = until(&mut bench, 6).into_iter().map(|(at, _)| at).collect();
    assert_eq!(at, [122, 132, 142, 152, 162, 172]);
}
