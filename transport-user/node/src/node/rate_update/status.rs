//! The status of the rate update engine.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use tiercel::backend::Maps;
pub use tiercel::status::{
    AdmissionInfo, EventQueueInfo, FailedAlgorithm, RateUpdateState, RateUpdateStatus,
};
use transport_common::congestion::admission::Verdict;
use transport_common::congestion::queues::EVENT_QUEUES;
use transport_common::counters::Counter;

use super::state::{State, now_nanos};
use crate::common::mutex::lock;

/// A thread without a sign of life for this time counts as stalled. This is six times as long as the datapath
/// waits for a result.
const STALLED_NANOS: u64 = 100_000_000;

fn thread_state(engine: &State, finished: Option<bool>) -> RateUpdateState {
    match finished {
        None => RateUpdateState::Off,
        Some(true) => RateUpdateState::Dead,
        Some(false) if engine.parked.load(SeqCst) => RateUpdateState::Parked,
        Some(false) if now_nanos().saturating_sub(engine.heartbeat.load(SeqCst)) > STALLED_NANOS => {
            RateUpdateState::Stalled
        }
        Some(false) => RateUpdateState::Running,
    }
}

/// Returns the status of the engine. `finished` says whether its thread has ended, if it was started. `counters` are the
/// counters of the node by name.
pub(super) fn status(
    engine: &State,
    finished: Option<bool>,
    maps: &Maps,
    counters: &BTreeMap<String, u64>,
) -> RateUpdateStatus {
    let counts = &engine.counts;
    let count = |name: &str| counters.get(name).copied().unwrap_or(0);
    let queues = maps.congestion();
    let admission = queues.admission.load();
    let mut failed = Vec::new();
    let mut connections = 0;
    for place in &engine.places {
        let Some(cid) = lock(&place.assignment).as_ref().map(|assignment| assignment.cid.0) else {
            continue;
        };
        connections += 1;
        failed.extend(lock(&place.failure).clone().map(|reason| FailedAlgorithm { cid, reason }));
    }
    let queue = |n: usize| {
        let taken = queues.event_consumer[n].load(Acquire);
        let events = queues.event_producer[n].load(Acquire);
        EventQueueInfo { events, occupancy: events.saturating_sub(taken) }
    };
    let taken = queues.result_consumer.load(Acquire);
    RateUpdateStatus {
        state: thread_state(engine, finished),
        starts: counts.starts.load(Relaxed),
        connections,
        events: counts.events.load(Relaxed),
        results: counts.results.load(Relaxed),
        unanswered: counts.unanswered.load(Relaxed),
        panics: counts.panics.load(Relaxed),
        result_queue_full: counts.result_queue_full.load(Relaxed),
        results_waiting: queues.result_producer.load(Acquire).saturating_sub(taken),
        admission: AdmissionInfo {
            capacity: admission.capacity,
            thresholds: engine.admission.thresholds,
            elapsed_ns: engine.admission.elapsed.as_nanos(),
            packets: engine.admission.packets,
        },
        queues: (0..EVENT_QUEUES).map(queue).collect(),
        verdicts: Verdict::ALL.iter().map(|v| (v.name().to_owned(), count(v.name()))).collect(),
        repaired: count(Counter::CongestionResultRepaired.name()),
        lost: count(Counter::CongestionEventLost.name()),
        unexpected: count(Counter::CongestionResultUnexpected.name()),
        failed,
    }
}
