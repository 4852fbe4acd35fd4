//! Tests flushes by software and results of the rate update engine.

use transport_common::ids::Cid;

use crate::{CacheInput, Flush, FlushMode, Parameters, State};

use super::{Bench, Log, command};

const NEW: Log = Log { history: 77, result: 7 };

fn bench() -> Bench {
    Bench::new(&Parameters { connections: 16, ..Parameters::default() })
}

/// Gives a flush or a result, runs 1500 cycles until it is complete, and returns the states of the connection's
/// entry.
fn states(bench: &mut Bench, mut input: CacheInput<Log, u32>) -> Vec<Option<State>> {
    let cid = input.flush.map(|flush| flush.cid).or(input.result.map(|(cid, _)| cid)).expect("one of them");
    let mut states = Vec::new();
    for _ in 0..1_500 {
        let output = bench.cycle(input, 0).expect("the checker finds no error");
        assert!(output.accepted.flush || output.accepted.result || !states.is_empty(), "at once");
        input = CacheInput::default();
        let state = bench.cache().entry(cid).map(|entry| entry.state);
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    assert!(bench.cache().is_quiet());
    states
}

fn flush(cid: u32, mode: FlushMode) -> CacheInput<Log, u32> {
    CacheInput { flush: Some(Flush { cid: Cid(cid), context: NEW, mode }), ..CacheInput::default() }
}

fn cache(bench: &mut Bench, cid: u32) {
    let input = CacheInput { network: Some(command(cid, cid)), ..CacheInput::default() };
    bench.cycle(input, 0).expect("accepted");
    bench.drain(2_000).expect("cached");
}

#[test]
fn a_flush_of_what_is_not_cached() {
    let mut through = bench();
    assert_eq!(states(&mut through, flush(1, FlushMode::Through)), [None, Some(State::Evicting), None]);
    assert_eq!(*through.cache().stored(Cid(1)), NEW);
    let mut install = bench();
    assert_eq!(states(&mut install, flush(1, FlushMode::Install)), [None, Some(State::Valid)]);
    assert_eq!(*install.cache().stored(Cid(1)), Log::default(), "memory sees it when it is evicted");
    assert_eq!(install.cache().statistics().memory_writes, 0);
}

#[test]
fn a_flush_of_what_is_cached() {
    for (mode, in_memory) in [(FlushMode::Through, NEW), (FlushMode::Install, Log::default())] {
        let mut bench = bench();
        cache(&mut bench, 1);
        assert_eq!(states(&mut bench, flush(1, mode)), [Some(State::Valid)]);
        let entry = bench.cache().entry(Cid(1)).expect("it stays").entry;
        assert_eq!(*bench.cache().context(entry), NEW);
        assert_eq!(*bench.cache().stored(Cid(1)), in_memory, "{mode:?}");
    }
}

#[test]
fn a_result_writes_its_part_of_the_context() {
    let result = CacheInput { result: Some((Cid(2), 9)), ..CacheInput::default() };
    let mut uncached = bench();
    assert_eq!(states(&mut uncached, result.clone()), [None, Some(State::Evicting), None]);
    assert_eq!(uncached.cache().stored(Cid(2)).result, 9);
    let mut cached = bench();
    cache(&mut cached, 2);
    assert_eq!(states(&mut cached, result), [Some(State::Valid)]);
    let entry = cached.cache().entry(Cid(2)).expect("it stays").entry;
    assert_eq!(cached.cache().context(entry).result, 9);
}

#[test]
fn writes_are_stalled_while_the_context_is_on_its_way() {
    let mut bench = bench();
    let input = CacheInput { network: Some(command(1, 0)), ..CacheInput::default() };
    bench.cycle(input, 0).expect("accepted");
    bench.cycle(CacheInput::default(), 0).expect("the other cycle");
    let input = CacheInput { result: Some((Cid(1), 4)), ..flush(1, FlushMode::Through) };
    bench.cycle(input, 0).expect("accepted");
    for _ in 0..20 {
        let output = bench.cycle(CacheInput::default(), 0).expect("the checker finds no error");
        assert!(output.flush_busy);
    }
    assert_eq!(bench.cache().entry(Cid(1)).map(|of| of.state), Some(State::Allocated));
    assert_eq!(bench.cache().statistics().stalled_writes, 2);
    // A second flush is not accepted before the first is complete.
    assert!(!bench.cycle(flush(2, FlushMode::Install), 0).expect("waits").accepted.flush);
    bench.drain(2_000).expect("both are done behind the read");
}
