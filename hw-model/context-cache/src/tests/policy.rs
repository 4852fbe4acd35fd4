//! Tests which entries are evicted, and when.

use transport_common::ids::Cid;

use crate::{CacheInput, Command, Counter, Event, Eviction, Parameters, State};

use super::{Bench, Load, Log, command};

fn eight(eviction: Eviction) -> Parameters {
    Parameters { entries: 8, threshold: 4, connections: 64, eviction, ..Parameters::default() }
}

/// Gives a command, runs 2000 cycles, and returns the connections that were evicted.
fn evicted(bench: &mut Bench, given: Command<u32>) -> Vec<u32> {
    let mut evicted = Vec::new();
    let mut network = Some(given);
    for _ in 0..2_000 {
        let output = bench.cycle(CacheInput { network, ..CacheInput::default() }, u64::MAX >> 1);
        let output = output.expect("the checker finds no error");
        if output.accepted.network {
            network = None;
        }
        let transition = output.transition.filter(|of| of.event == Event::Evict && of.to == State::Evicting);
        evicted.extend(transition.map(|of| of.cid.0));
    }
    evicted
}

#[test]
fn below_the_threshold_nothing_is_evicted_above_it_one_for_one() {
    for eviction in [Eviction::Random, Eviction::Fifo] {
        let mut bench = Bench::new(&eight(eviction));
        for cid in 0..4 {
            assert_eq!(evicted(&mut bench, command(cid, cid)), [0; 0]);
        }
        for cid in 4..30 {
            let gone = evicted(&mut bench, command(cid, cid));
            assert_eq!(gone.len(), 1, "{eviction:?}: one eviction for each new connection");
            assert_eq!(bench.cache().occupied(), 4);
        }
    }
}

#[test]
fn fifo_evicts_in_the_order_of_the_entries() {
    let mut bench = Bench::new(&eight(Eviction::Fifo));
    let gone: Vec<_> = (0..40).flat_map(|cid| evicted(&mut bench, command(cid, cid))).collect();
    assert_eq!(gone, (0..36).collect::<Vec<_>>(), "first in, first out");
}

#[test]
fn random_evicts_any_and_by_its_seed() {
    let run = |seed| {
        let mut bench = Bench::new(&Parameters { seed, ..eight(Eviction::Random) });
        (0..40).flat_map(|cid| evicted(&mut bench, command(cid, cid))).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert!(!run(1).is_sorted());
}

#[test]
fn what_has_work_pending_stays() {
    for eviction in [Eviction::Random, Eviction::Fifo] {
        let mut bench = Bench::new(&eight(eviction));
        for cid in 0..3 {
            let busy = Command { pending: Some(Counter::Reorder), ..command(cid, cid) };
            assert_eq!(evicted(&mut bench, busy), [0; 0]);
        }
        let gone: Vec<_> = (3..20).flat_map(|cid| evicted(&mut bench, command(cid, cid))).collect();
        assert_eq!(gone.len(), 16, "all others share one entry");
        assert!(gone.iter().all(|cid| *cid >= 3), "{gone:?}");
        assert_eq!(bench.cache().entry(Cid(0)).map(|of| (of.state, of.pending)), Some((State::Valid, 1)));
    }
}

/// All entries are busy, and more connections need one. Packets end the work, so packets must get through.
#[test]
fn misses_without_an_entry_wait_and_hold_nothing_up() {
    let mut bench = Bench::new(&Parameters { entries: 2, threshold: 1, ..eight(Eviction::Fifo) });
    for cid in 0..2 {
        let busy = Command { pending: Some(Counter::Transmit), ..command(cid, cid) };
        evicted(&mut bench, busy);
    }
    for cid in 2..6 {
        evicted(&mut bench, command(cid, cid));
    }
    assert_eq!(bench.cache().queued(), 4);
    assert_eq!(bench.cache().statistics().waits_for_entry, 4);
    let now = bench.clock.now();
    let ack = CacheInput { network: Some(command(1, 100)), ..CacheInput::default() };
    bench.cycle(ack, 0).expect("accepted");
    let processed = std::iter::from_fn(|| {
        Some(bench.cycle(CacheInput::default(), 0).expect("the checker finds no error").processed)
    });
    let ack = processed.take(6).flatten().next().expect("a hit");
    assert_eq!((ack.command.tag, ack.accepted), (100, now));
    bench.finish_work();
    bench.drain(5_000).expect("all four are processed");
}

#[test]
fn full_miss_queues_stall_the_ulp_and_drop_packets() {
    let parameters = Parameters { miss_queue: 2, ..eight(Eviction::Fifo) };
    let mut bench = Bench::new(&parameters);
    let load = Load { ulp: 0, network: 255, result: 0, flush: 0, work: (0, 0) };
    bench.run(3, 400, &load).expect("the checker finds no error");
    assert!(bench.cache().statistics().dropped > 0);
    assert!(bench.cache().statistics().miss_queue_peak == 2);
    let mut bench = Bench::new(&parameters);
    let load = Load { ulp: 255, network: 0, ..load };
    bench.run(3, 400, &load).expect("the checker finds no error");
    let statistics = bench.cache().statistics();
    assert_eq!(statistics.dropped, 0);
    assert!(statistics.stalls_miss_queue > 300, "{statistics:?}");
}

#[test]
fn what_does_not_exist_is_dropped_and_counted() {
    let mut bench = Bench::new(&eight(Eviction::Random));
    let input = CacheInput { network: Some(command(64, 7)), ..CacheInput::default() };
    let output = (0..8).map(|cycle| {
        let given = if cycle == 0 { input.clone() } else { CacheInput::<Log, u32>::default() };
        bench.cycle(given, 0).expect("the checker finds no error").dropped
    });
    assert_eq!(output.collect::<Vec<_>>()[7], Some(command(64, 7)));
    assert_eq!(bench.cache().statistics().unknown, 1);
    assert!(bench.cache().is_quiet());
    let done = CacheInput::<Log, u32> { transmit_done: Some(Cid(3)), ..CacheInput::default() };
    bench.clock.step(&done);
    assert_eq!(bench.cache().statistics().not_pending, 1);
}
