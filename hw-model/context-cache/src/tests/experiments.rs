//! Tests the short experiments as a whole, and the parts of the long ones.

use std::collections::BTreeMap;

use clocked::Cycle;
use model_experiment::{Options, SEED};

use crate::experiments::{ALL, Incast, IndependentReferences, Load, bytes, measure, on_chip_bytes, push};
use crate::{Eviction, Parameters};

const NEVER: Cycle = Cycle::NEVER;

fn small(connections: u32) -> Parameters {
    Parameters { entries: 64, threshold: 56, connections, miss_queue: 64, ..Parameters::default() }
}

#[test]
fn a_resident_set_hits_and_nothing_else() {
    let load = Load { skew: 0.0, interval: 1, work: 0, commands: 20_000 };
    let outcome = measure(&small(56), load, NEVER).expect("possible");
    assert_eq!((outcome.hit_rate(), outcome.percentile_99), (Some(1.0), 6));
    assert_eq!((outcome.statistics.misses, outcome.statistics.memory_writes), (0, 0));
    // One command in 56 follows a command of its own connection and waits for one cycle.
    let throughput = outcome.throughput().expect("commands");
    assert!((0.97..0.99).contains(&throughput), "{throughput}");
}

/// Random and FIFO replacement have the hit rate of the theory at any skew.
#[test]
fn hit_rates_are_those_of_independent_references() {
    for skew in [0.0, 0.7, 1.1] {
        let expected = IndependentReferences::new(2_000, skew).hit_rate(56);
        for eviction in [Eviction::Random, Eviction::Fifo] {
            let parameters = Parameters { eviction, ..small(2_000) };
            let load = Load { skew, interval: 100, work: 0, commands: 20_000 };
            let rate = measure(&parameters, load, NEVER).expect("possible").hit_rate().expect("commands");
            // The standard error is 0.004 at most. A context is not available while it is read.
            assert!((rate - expected).abs() < 0.02, "{skew} {eviction:?}: {rate}, not {expected}");
        }
    }
}

/// Compares the theory with a simple cache without cycles that replaces a random entry.
#[test]
fn the_theory_is_that_of_a_plain_random_cache() {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    let (connections, entries) = (500, 40);
    let mut random = StdRng::seed_from_u64(1);
    let zipf = rand_distr::Zipf::new(f64::from(connections), 0.9).expect("possible");
    let mut cached: Vec<u32> = (0..entries).collect();
    let mut hits = BTreeMap::from([(true, 0u32), (false, 0)]);
    for _ in 0..200_000 {
        let connection = random.sample(zipf) as u32 - 1;
        let hit = cached.contains(&connection);
        *hits.entry(hit).or_default() += 1;
        if !hit {
            let victim = random.random_range(0..cached.len());
            cached[victim] = connection;
        }
    }
    let rate = f64::from(hits[&true]) / 200_000.0;
    let expected = IndependentReferences::new(connections, 0.9).hit_rate(entries);
    assert!((rate - expected).abs() < 0.01, "{rate}, not {expected}");
    assert!(IndependentReferences::new(10, 0.0).hit_rate(10) == 1.0);
}

#[test]
fn work_keeps_entries_and_holds_the_cache_up() {
    let load = Load { skew: 0.0, interval: 10, work: 6_400, commands: 3_000 };
    let outcome = measure(&small(10_000), load, NEVER).expect("possible");
    let per_entry = outcome.throughput().expect("commands") / 64.0;
    // An entry is occupied for the work, the read and the write of its context, and the pipeline between them.
    assert!((1.0 / 7_100.0..1.0 / 6_800.0).contains(&per_entry), "{}", 1.0 / per_entry);
    assert!(outcome.statistics.waits_for_entry > 1_000);
}

#[test]
fn a_limit_ends_a_run() {
    let load = Load { skew: 0.0, interval: 1, work: 0, commands: u64::MAX };
    let outcome = measure(&small(10_000), load, Cycle(50_000)).expect("possible");
    assert!(outcome.cycles <= 50_000);
    let none = measure(&small(10_000), load, Cycle(10)).expect("possible");
    assert_eq!((none.throughput(), none.hit_rate()), (None, None));
    assert!(measure(&Parameters { entries: 0, ..small(1) }, load, NEVER).is_err());
}

#[test]
fn solicited_pushes_stay_within_the_room_and_all_arrive() {
    let incast = Incast {
        initiators: 40,
        pushes: 5,
        bytes: 1000,
        solicited: true,
        room: 8_000,
        one_way: 300,
        spread: 200,
        bytes_per_cycle: 25,
        cache: Parameters { connections: 40, ..small(40) },
    };
    let solicited = incast.run(NEVER).expect("possible");
    assert_eq!((solicited.complete, solicited.peak_bytes), (200, 8_000));
    assert_eq!(solicited.commands, 200 * 3 + 200, "request, data, ULP-ACK, and the ACK of the grant");
    let unsolicited = Incast { solicited: false, ..incast.clone() }.run(NEVER).expect("possible");
    assert_eq!((unsolicited.complete, unsolicited.peak_bytes, unsolicited.commands), (200, 200_000, 400));
    assert!(Incast { initiators: 41, ..incast.clone() }.run(NEVER).is_err());
    assert!(Incast { room: 999, ..incast }.run(NEVER).is_err());
}

#[test]
fn bytes_on_the_chip_by_hand() {
    let parameters =
        Parameters { entries: 4096, context_bytes: 100, miss_queue: 1024, ..Parameters::default() };
    let bytes = on_chip_bytes(&parameters);
    assert_eq!(bytes.contexts, 409_600);
    assert_eq!(bytes.tags, 4096 * 59 / 8);
    assert_eq!(bytes.lookup, 2 * 4096 * 36 / 8);
    assert_eq!(bytes.miss_queues, 1024 * 266 / 8);
    assert_eq!(bytes.total(), 409_600 + 30_208 + 36_864 + 34_048);
}

#[test]
fn short_experiments_keep_their_promises() {
    for (run, name) in [(bytes as model_experiment::Run, "cache-bytes"), (push, "cache-push")] {
        let mut last = (0, 0);
        let report = run(&Options::default(), &mut |done, all| {
            assert!(done <= all && done >= last.0, "progress never goes back");
            last = (done, all);
        })
        .expect("possible");
        assert_eq!((last.0, report.seed, report.name), (last.1, SEED, name));
        assert!(report.verdicts.iter().all(|verdict| verdict.holds), "{:#?}", report.verdicts);
        assert!(ALL.iter().any(|named| named.name == name) && !report.figures.is_empty());
    }
}
