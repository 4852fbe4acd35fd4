//! What the handle of the rate update engine and its thread share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tiercel::congestion::SharedAlgorithm;
use transport_common::congestion::admission::Admission;
use transport_common::congestion::algorithm::{Algorithm, AlgorithmId};
use transport_common::congestion::parameters::{OutOfRange, Prepared};
use transport_common::ids::Cid;
use transport_common::queues::CONNECTIONS;

use super::options::RateUpdateOptions;
use crate::common::mutex::lock;

/// The algorithm that runs for a connection, and its parameters.
#[derive(Clone)]
pub(super) struct Assignment {
    pub(super) cid: Cid,
    pub(super) algorithm: Chosen,
    pub(super) prepared: Prepared,
}

#[derive(Clone)]
pub(super) enum Chosen {
    BuiltIn(AlgorithmId),
    Custom(SharedAlgorithm),
}

impl Chosen {
    pub(super) fn get(&self) -> &dyn Algorithm {
        match self {
            Self::BuiltIn(id) => id,
            Self::Custom(algorithm) => algorithm.as_ref(),
        }
    }
}

/// The assignment of a connection slot, for the thread. The thread never holds a lock while an algorithm runs.
#[derive(Default)]
pub(super) struct Place {
    /// Number of assignments so far. The thread reads the assignment again when this changes.
    pub(super) version: AtomicU64,
    pub(super) assignment: Mutex<Option<Assignment>>,
    /// Why the algorithm no longer runs, if it has failed.
    pub(super) failure: Mutex<Option<String>>,
}

/// The counters of the thread.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) events: AtomicU64,
    pub(super) results: AtomicU64,
    pub(super) unanswered: AtomicU64,
    pub(super) panics: AtomicU64,
    pub(super) result_queue_full: AtomicU64,
    pub(super) starts: AtomicU64,
}

/// The state of the engine.
pub(super) struct State {
    pub(super) options: RateUpdateOptions,
    pub(super) admission: Admission,
    pub(super) places: Vec<Place>,
    pub(super) counts: Counts,
    pub(super) stop: AtomicBool,
    pub(super) parked: AtomicBool,
    /// Time of the last sign of life of the thread, nanoseconds of the monotonic clock.
    pub(super) heartbeat: AtomicU64,
}

impl State {
    pub(super) fn new(options: RateUpdateOptions) -> Result<Self, OutOfRange> {
        Ok(Self {
            options,
            admission: options.admission()?,
            places: (0..CONNECTIONS).map(|_| Place::default()).collect(),
            counts: Counts::default(),
            stop: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            heartbeat: AtomicU64::new(0),
        })
    }

    /// Sets or removes the assignment of `slot`.
    pub(super) fn set(&self, slot: usize, assignment: Option<Assignment>) {
        let place = &self.places[slot];
        *lock(&place.failure) = None;
        *lock(&place.assignment) = assignment;
        place.version.fetch_add(1, SeqCst);
    }

    /// Returns whether a connection is assigned.
    pub(super) fn is_needed(&self) -> bool {
        self.places.iter().any(|place| lock(&place.assignment).is_some())
    }
}

/// Returns the time of the monotonic clock, nanoseconds.
pub(super) fn now_nanos() -> u64 {
    // Every Linux has the monotonic clock. The datapath takes its timestamps from the same clock.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}
