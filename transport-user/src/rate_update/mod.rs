//! The rate update engine in user space (10.6): the thread that answers congestion events.
//!
//! The datapath queues an event for a connection that is placed in user space. This thread runs the algorithm of
//! the connection and queues the result. The engine program applies the result. The thread starts with the first
//! such connection.
//!
//! **Polling.** After an event, the thread polls the four queues without a pause for [`RateUpdateOptions::spin`].
//! Then it sleeps for [`RateUpdateOptions::pause`] between two polls, which the kernel makes about 50 us longer.
//! After 10 ms without an event it sleeps for 1 ms. Without connections in user space it is parked.
//!
//! **Failures.** The datapath never waits for the thread, and does not trust its results. Without a result, the
//! windows keep the values of the last result. An event without a result is dropped after 16 ms and counted.
//! Illegal results are repaired and counted. An algorithm that panics no longer runs for that connection, until
//! another algorithm is set. If the thread has died, the next connection that is placed in user space starts it
//! again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use transport_common::congestion::admission::Admission;
use transport_common::congestion::algorithm::{Algorithm, AlgorithmId};
use transport_common::congestion::parameters::{OutOfRange, Prepared};
use transport_common::congestion::queues::EVENT_QUEUE_CAPACITY;
use transport_common::ids::Cid;
use transport_common::queues::CONNECTIONS;
use transport_common::units::Ticks;

use crate::congestion::{AlgorithmChoice, Algorithms, CongestionControl, Placement, SharedAlgorithm};
use crate::error::Error;
use crate::mutex::lock;
use crate::shared::Shared;

mod status;
mod worker;

pub use status::{AdmissionInfo, EventQueueInfo, FailedAlgorithm, RateUpdateState, RateUpdateStatus};

/// Longest time to wait for the thread when it is stopped. A thread that hangs in an algorithm is abandoned.
const STOPPING: Duration = Duration::from_secs(1);
/// Longest spin and longest pause. With a longer pause, every event would be dropped before its result arrives.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Options of the rate update engine in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateUpdateOptions {
    /// Occupancies T1, T2, T3 of an event queue from which admission is stricter, entries: ascending, up to 768.
    /// With 768, the default, all events are admitted until the queue is full (F-10.6.1-2, D-73).
    pub thresholds: [u32; 3],
    /// P1: the condition holds if more time than this passed since the connection's last event (F-10.6.1-3). Up to
    /// 2 s, default 134 us.
    pub elapsed: Duration,
    /// P2: the condition holds if more packets than this were acknowledged since then (F-10.6.1-3).
    pub packets: u32,
    /// Time for which the thread polls for more events without a pause, up to 10 ms. Default 20 us.
    pub spin: Duration,
    /// Pause between two polls after that, up to 10 ms. Default 50 us.
    pub pause: Duration,
}

impl Default for RateUpdateOptions {
    fn default() -> Self {
        Self {
            thresholds: [EVENT_QUEUE_CAPACITY; 3],
            elapsed: Duration::from_micros(134), // D-78
            packets: Admission::PACKETS,
            spin: Duration::from_micros(20),
            pause: Duration::from_micros(50),
        }
    }
}

impl RateUpdateOptions {
    /// Returns the admission policy that the datapath applies.
    ///
    /// # Errors
    /// The first option out of its range.
    pub fn admission(&self) -> Result<Admission, OutOfRange> {
        let wrong = |name, range| Err(OutOfRange { name, range });
        let [t1, t2, t3] = self.thresholds;
        if !(t1 <= t2 && t2 <= t3 && t3 <= EVENT_QUEUE_CAPACITY) {
            return wrong("thresholds", "three ascending occupancies, 0 to 768 entries");
        }
        if self.elapsed > Duration::from_secs(2) {
            return wrong("elapsed", "0 to 2 s");
        }
        if self.spin > LONGEST_PAUSE || self.pause > LONGEST_PAUSE {
            return wrong("spin and pause", "0 to 10 ms");
        }
        Ok(Admission {
            thresholds: self.thresholds,
            elapsed: Ticks::from_nanos(self.elapsed.as_nanos() as u64),
            packets: self.packets,
            ..Admission::new(EVENT_QUEUE_CAPACITY)
        })
    }
}

/// The algorithm that runs for a connection, and its parameters.
#[derive(Clone)]
struct Assignment {
    cid: Cid,
    algorithm: Chosen,
    prepared: Prepared,
}

#[derive(Clone)]
enum Chosen {
    BuiltIn(AlgorithmId),
    Custom(SharedAlgorithm),
}

impl Chosen {
    fn get(&self) -> &dyn Algorithm {
        match self {
            Self::BuiltIn(id) => id,
            Self::Custom(algorithm) => algorithm.as_ref(),
        }
    }
}

/// The assignment of a connection slot, for the thread. The thread never holds a lock while an algorithm runs.
#[derive(Default)]
struct Place {
    /// Number of assignments so far. The thread reads the assignment again when this changes.
    version: AtomicU64,
    assignment: Mutex<Option<Assignment>>,
    /// Why the algorithm no longer runs, if it has failed.
    failure: Mutex<Option<String>>,
}

/// The counters of the thread.
#[derive(Default)]
struct Counts {
    events: AtomicU64,
    results: AtomicU64,
    unanswered: AtomicU64,
    panics: AtomicU64,
    result_queue_full: AtomicU64,
    starts: AtomicU64,
}

/// The engine of a node.
pub(crate) struct RateUpdate {
    options: RateUpdateOptions,
    admission: Admission,
    algorithms: Mutex<Algorithms>,
    places: Vec<Place>,
    thread: Mutex<Option<JoinHandle<()>>>,
    counts: Counts,
    stop: AtomicBool,
    parked: AtomicBool,
    /// Time of the last sign of life of the thread, nanoseconds of the monotonic clock.
    heartbeat: AtomicU64,
}

impl std::fmt::Debug for RateUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateUpdate").field("options", &self.options).finish_non_exhaustive()
    }
}

impl RateUpdate {
    /// Makes an engine whose thread does not run yet. The thread starts with the first connection in user space.
    pub(crate) fn new(options: RateUpdateOptions, algorithms: Algorithms) -> Result<Self, Error> {
        Ok(Self {
            options,
            admission: options.admission()?,
            algorithms: Mutex::new(algorithms),
            places: (0..CONNECTIONS).map(|_| Place::default()).collect(),
            thread: Mutex::default(),
            counts: Counts::default(),
            stop: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            heartbeat: AtomicU64::new(0),
        })
    }

    /// Registers an algorithm under its name.
    pub(crate) fn register(&self, algorithm: SharedAlgorithm) -> Result<AlgorithmChoice, Error> {
        lock(&self.algorithms).add(algorithm)
    }

    /// Returns all algorithms that are registered now.
    pub(crate) fn algorithms(&self) -> Algorithms {
        lock(&self.algorithms).clone()
    }

    /// Assigns the connection in `slot` to the thread, if `control` places it in user space. Must be called before
    /// `control` is in force.
    pub(crate) fn assign(
        shared: &Arc<Shared>,
        slot: usize,
        cid: Cid,
        control: &CongestionControl,
    ) -> Result<(), Error> {
        if control.placement != Placement::User {
            return Ok(());
        }
        let engine = &shared.rate_update;
        let algorithm = match control.algorithm {
            AlgorithmChoice::BuiltIn(id) => Chosen::BuiltIn(id),
            AlgorithmChoice::Custom(name) => {
                let found = lock(&engine.algorithms).own(name);
                let known = || engine.algorithms().names();
                Chosen::Custom(found.ok_or_else(|| Error::UnknownAlgorithm { name, known: known() })?)
            }
        };
        engine.set(slot, Some(Assignment { cid, algorithm, prepared: control.parameters.prepare()? }));
        engine.start(shared)
    }

    /// Removes the assignment of `slot`: its connection is no longer placed in user space, or has ended.
    pub(crate) fn unassign(&self, slot: usize) {
        if lock(&self.places[slot].assignment).is_some() {
            self.set(slot, None);
        }
    }

    fn set(&self, slot: usize, assignment: Option<Assignment>) {
        let place = &self.places[slot];
        *lock(&place.failure) = None;
        *lock(&place.assignment) = assignment;
        place.version.fetch_add(1, SeqCst);
    }

    /// Returns why the algorithm of the connection in `slot` no longer runs, if it has failed.
    pub(crate) fn failure(&self, slot: usize) -> Option<String> {
        lock(&self.places[slot].failure).clone()
    }

    fn is_needed(&self) -> bool {
        self.places.iter().any(|place| lock(&place.assignment).is_some())
    }

    /// Starts the thread, or wakes it.
    fn start(&self, shared: &Arc<Shared>) -> Result<(), Error> {
        let mut thread = lock(&self.thread);
        if shared.is_down() {
            return Err(Error::NodeDown);
        }
        if let Some(running) = thread.as_ref().filter(|thread| !thread.is_finished()) {
            running.thread().unpark();
            return Ok(());
        }
        self.heartbeat.store(now_nanos(), SeqCst);
        self.counts.starts.fetch_add(1, Relaxed);
        let shared = Arc::clone(shared);
        let builder = std::thread::Builder::new().name("tiercel-rate-update".into());
        let started = builder.spawn(move || worker::run(&shared));
        *thread = Some(started.map_err(|e| Error::system("start the rate update engine", e))?);
        Ok(())
    }

    /// Stops the thread and waits for it, at most one second.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        let Some(thread) = lock(&self.thread).take() else { return };
        thread.thread().unpark();
        let deadline = Instant::now() + STOPPING;
        while !thread.is_finished() {
            if Instant::now() > deadline {
                tracing::error!("an algorithm of the rate update engine hangs: its thread is abandoned");
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        // A panic of the thread was reported when it happened, and the status shows it.
        let _ = thread.join();
    }
}

fn now_nanos() -> u64 {
    // Every Linux has the monotonic clock. The datapath takes its timestamps from the same clock.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_defaults_are_those_of_the_core() {
        let admission = RateUpdateOptions::default().admission().expect("legal");
        assert_eq!(admission, Admission::new(EVENT_QUEUE_CAPACITY)); // D-73, D-78
    }

    #[test]
    fn thresholds_ascend_up_to_the_capacity() {
        let refused = |change: fn(&mut RateUpdateOptions)| {
            let mut options = RateUpdateOptions::default();
            change(&mut options);
            options.admission().expect_err("out of range").name
        };
        assert_eq!(refused(|o| o.thresholds = [3, 2, 4]), "thresholds");
        assert_eq!(refused(|o| o.thresholds = [1, 2, 769]), "thresholds");
        assert_eq!(refused(|o| o.elapsed = Duration::from_secs(3)), "elapsed");
        assert_eq!(refused(|o| o.pause = Duration::from_millis(16)), "spin and pause");
    }
}
