//! Tests that two cards complete all operations over fabrics that lose and reorder frames, for several parameters.

use super::mix;
use super::*;

const LOSSY: &str = "seed=7,delay=2us,loss=2%,reorder=3%,reorder_distance=6,duplicate=1%";

#[test]
fn writes_reads_sends_and_atomics_survive_loss_and_reordering() {
    let mut joined = mix::run(&Parameters::default(), LOSSY, 1, 8, 60);
    let statistics = [0, 1].map(|side| joined.card_mut(side).statistics());
    let count = |event| statistics.iter().filter_map(|of| of.event(event)).map(|of| of.count).sum::<u64>();
    for event in [
        Event::WriteReceived,
        Event::SendReceived,
        Event::ReadRequestReceived,
        Event::AtomicRequestReceived,
        Event::ReadResponseReceived,
        Event::AtomicResponseReceived,
        Event::HeldReceived,
        Event::SentAgain,
        Event::EackReceived,
        Event::RequestSent,
    ] {
        assert!(count(event) > 0, "{}", event.name());
    }
    assert_eq!(statistics[0].overruns + statistics[1].overruns, 0);
    for of in &statistics {
        let served = |block| of.block(block).served;
        assert!(
            served(Block::Reorder) > 0 && served(Block::Retransmission) > 0 && served(Block::TimingWheel) > 0
        );
        assert!(of.events.iter().all(|of| of.least <= of.percentile_99 && of.percentile_99 <= of.most));
    }
}

#[test]
fn a_seed_decides_every_cycle() {
    let run = || {
        let mut joined = mix::run(&Parameters::default(), LOSSY, 2, 4, 20);
        (joined.now(), [0, 1].map(|side| joined.card_mut(side).statistics()))
    };
    assert!(run() == run());
}

/// Every queue holds one frame, few frames are in flight, and the cache has fewer entries than there are
/// connections. If a circular wait between blocks were possible, it would happen here.
#[test]
fn the_smallest_card_does_not_lock_up() {
    let cache = context_cache::Parameters {
        entries: 2,
        threshold: 1,
        miss_queue: 2,
        ..context_cache::Parameters::default()
    };
    let parameters = Parameters {
        queue: 1,
        receive_contexts: 2,
        transmit_contexts: 1,
        memory_reads: 1,
        memory_writes: 1,
        bus_bytes: 8,
        context_width: 16,
        receive_buffer: 16 << 10,
        cache,
        ..Parameters::default()
    };
    let mut joined = mix::run(&parameters, LOSSY, 3, 4, 20);
    let statistics = joined.card_mut(1).statistics();
    assert!(statistics.receive_waits_for_context > 0 && statistics.cache.evictions > 0);
    assert!(statistics.cache_waits > 0 && statistics.receive_buffer_peak <= 16 << 10);
    assert_eq!(statistics.receives_in_flight_peak, 2);
}

#[test]
fn a_full_receive_buffer_drops_and_the_transport_recovers() {
    let parameters =
        Parameters { receive_contexts: 1, receive_buffer: 12_000, bus_bytes: 4, ..Parameters::default() };
    let mut joined = mix::run(&parameters, "seed=1,delay=2us", 4, 4, 30);
    let statistics = joined.card_mut(1).statistics();
    assert!(statistics.overruns > 0, "{statistics:?}");
    assert_eq!(statistics.overruns, joined.card(1).dropped());
}
