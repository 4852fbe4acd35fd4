//! Runs random caches with random inputs under the checker.

use std::collections::BTreeSet;

use clocked::Cycle;
use proptest::prelude::*;

use crate::{ARCS, CacheInput, Event, Eviction, MemoryParameters, Parameters, State};

use super::{Bench, Load, command};

/// Parameters where every resource is scarce, so that every transition happens.
fn small() -> Parameters {
    let memory = MemoryParameters { latency: 12, jitter: 9, outstanding: 3, bytes_per_cycle: 512 };
    Parameters {
        entries: 4,
        threshold: 2,
        connections: 8,
        miss_queue: 12,
        on_chip_connections: 3,
        on_chip: MemoryParameters { latency: 3, ..memory },
        off_chip: memory,
        ..Parameters::default()
    }
}

fn memories() -> impl Strategy<Value = MemoryParameters> {
    (1..40u64, 0..30u64, 1..5usize, 40..2_000u32).prop_map(
        |(latency, jitter, outstanding, bytes_per_cycle)| MemoryParameters {
            latency,
            jitter,
            outstanding,
            bytes_per_cycle,
        },
    )
}

prop_compose! {
    fn caches()(
        (entries, connections, on_chip_connections) in (1..7u32, 1..12u32, 0..6u32),
        below in any::<prop::sample::Index>(),
        fifo: bool,
        (lookup_cycles, command_cycles, deallocation_stall) in (1..9usize, 2..5usize, 0..9u64),
        miss_queue in 1..16usize,
        (on_chip, off_chip) in (memories(), memories()),
        seed: u64,
    ) -> Parameters {
        Parameters {
            entries,
            threshold: below.index(entries as usize) as u32,
            eviction: if fifo { Eviction::Fifo } else { Eviction::Random },
            lookup_cycles,
            command_cycles,
            deallocation_stall,
            miss_queue,
            connections,
            on_chip_connections,
            on_chip,
            off_chip,
            seed,
            ..Parameters::default()
        }
    }
}

fn loads() -> impl Strategy<Value = Load> {
    (any::<u8>(), any::<u8>(), 0..64u8, 0..64u8, (any::<u8>(), 0..120u64))
        .prop_map(|(ulp, network, result, flush, work)| Load { ulp, network, result, flush, work })
}

proptest! {
    /// The checker verifies: a connection never has two memory operations, no entry with pending work is evicted,
    /// ULP commands stay in order, no update is lost, and everything is processed in the end.
    #[test]
    fn any_cache_under_any_load_keeps_its_promises(parameters in caches(), load in loads(), seed: u64) {
        let mut bench = Bench::new(&parameters);
        let result = bench.run(seed, 600, &load);
        prop_assert_eq!(result, Ok(()));
        let statistics = *bench.cache().statistics();
        prop_assert_eq!(statistics.processed, bench.checker.processed);
        prop_assert_eq!(statistics.dropped, bench.checker.dropped);
        prop_assert_eq!(statistics.commands, statistics.processed + statistics.dropped);
        prop_assert_eq!(statistics.hits + statistics.misses, statistics.commands);
        prop_assert_eq!(statistics.not_pending, 0);
    }

    /// Skipping idle cycles must not change any output.
    #[test]
    fn passing_over_idle_cycles_changes_nothing(
        mut at in prop::collection::vec((0..3_000u64, 0..8u32, any::<bool>()), 1..30),
        threshold in 0..4u32,
    ) {
        at.sort_unstable();
        let parameters = Parameters { threshold, ..small() };
        let run = |skip: bool| {
            let mut bench = Bench::new(&parameters);
            let mut seen = Vec::new();
            let mut left = at.iter().zip(0..).peekable();
            while let Some(((cycle, cid, ulp), tag)) = left.peek() {
                let now = bench.clock.now();
                let due = Cycle(*cycle) <= now;
                let given = due.then(|| command(*cid, *tag));
                let (ulp, network) = if *ulp { (given, None) } else { (None, given) };
                let output = bench.cycle(CacheInput { ulp, network, ..CacheInput::default() }, 0);
                let output = output.expect("the checker finds no error");
                if output.accepted.ulp || output.accepted.network {
                    left.next();
                }
                if output.processed.is_some() || output.transition.is_some() || output.issued.is_some() {
                    seen.push((now, output));
                }
                // The update of a processed command is an input of the next cycle, so that cycle must not be
                // skipped.
                if skip && output.processed.is_none() {
                    bench.clock.skip_idle(left.peek().map_or(Cycle::ZERO, |next| Cycle(next.0.0)));
                }
            }
            (seen, bench.clock.evaluated(), bench.clock.now())
        };
        let (all, passed_over) = (run(false), run(true));
        prop_assert_eq!(all.0, passed_over.0);
        prop_assert_eq!(all.2, passed_over.2);
        prop_assert!(passed_over.1 <= all.1);
    }
}

#[test]
fn all_transitions_are_reached() {
    let mut reached = BTreeSet::new();
    for seed in 0..40 {
        let mut bench = Bench::new(&Parameters { seed, ..small() });
        let load = Load { ulp: 40, network: 40, result: 12, flush: 12, work: (80, 60) };
        bench.run(seed, 1_500, &load).expect("the checker finds no error");
        reached.append(&mut bench.checker.reached);
    }
    let taken: BTreeSet<_> = reached.iter().map(|(from, event, to, _)| (*from, *event, *to)).collect();
    let all: BTreeSet<_> = ARCS.iter().map(|arc| (arc.from, arc.event, arc.to)).collect();
    assert_eq!(taken, all, "a transition was not reached, or is not in the table");
    // Transitions that depend on more than the state: both cases must be reached.
    use Event::{Command, FlushThrough};
    for (event, waits) in [(Command, true), (Command, false), (FlushThrough, true), (FlushThrough, false)] {
        assert!(reached.contains(&(State::Valid, event, State::Valid, waits)), "{event:?} {waits}");
    }
}

/// The checker detects the hazard that the every-other-cycle rule avoids: without the rule an update is lost.
#[test]
fn commands_of_a_connection_in_adjacent_cycles_would_lose_an_update() {
    let load = Load { ulp: 200, network: 200, result: 0, flush: 0, work: (0, 0) };
    let parameters = Parameters { connections: 1, ..small() };
    Bench::new(&parameters).run(1, 500, &load).expect("two cycles apart");
    let mut bench = Bench::new(&parameters);
    bench
        .cycle(CacheInput { network: Some(command(0, u32::MAX)), ..CacheInput::default() }, 0)
        .expect("accepted");
    bench.drain(200).expect("cached");
    bench.clock.block_mut().spacing = 1;
    bench.checker.allow_adjacent();
    let broken = bench.run(1, 500, &load).expect_err("one cycle apart");
    assert!(broken.contains("lost an update"), "{broken}");
}
