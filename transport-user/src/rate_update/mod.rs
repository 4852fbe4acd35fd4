//! The rate update engine in user space (10.6): the thread that answers congestion events.
//!
//! The datapath queues an event for a connection that is placed in user space, the thread here runs the connection's
//! algorithm and queues the result, the engine program applies it. The thread starts with the first such connection.
//!
//! **Polling.** After an event the thread looks at the four queues without a pause for [`RateUpdateOptions::spin`]; then
//! it sleeps for [`RateUpdateOptions::pause`] between two looks, which the kernel makes about 50 us longer, and when
//! nothing has come for 10 ms for 1 ms. Without connections in user space it is parked.
//!
//! **When it goes wrong.** The datapath never waits for the thread, and trusts nothing it says: without a result the
//! windows stay where the last one left them, an event without a result is given up after 16 ms and counted, illegal
//! results are repaired and counted. An algorithm that panics answers no more for that connection, until another is set.
//! A thread that has died is started again by the next connection that is placed in user space.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
use crate::shared::Shared;

mod status;
mod worker;

pub use status::{AdmissionInfo, EventQueueInfo, FailedAlgorithm, RateUpdateState, RateUpdateStatus};

/// How long a thread that is told to stop is waited for; one that hangs in an algorithm is left behind.
const STOPPING: Duration = Duration::from_secs(1);
/// Longest spin, and longest pause: beyond, every event would be given up before it is answered.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Options of the rate update engine in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateUpdateOptions {
    /// Occupancies T1, T2, T3 of an event queue from which admission is stricter, entries: ascending, up to 768. At
    /// 768, the default, everything is admitted until the queue is full (F-10.6.1-2, D-73).
    pub thresholds: [u32; 3],
    /// P1: more time than this passed since the connection's last event (F-10.6.1-3).
    pub elapsed: Duration,
    /// P2: more packets than this were acknowledged since then (F-10.6.1-3).
    pub packets: u32,
    /// How long the thread looks for more events without a pause, up to 10 ms.
    pub spin: Duration,
    /// Pause between two looks after that, up to 10 ms.
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
    /// The admission policy that the datapath applies.
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

/// What runs for a connection.
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

/// What the thread is told about a connection slot. It never holds a lock while an algorithm runs.
#[derive(Default)]
struct Place {
    /// Counts assignments; the thread takes the new one when it sees it change.
    version: AtomicU64,
    assignment: Mutex<Option<Assignment>>,
    /// Why the algorithm answers no more.
    failure: Mutex<Option<String>>,
}

/// What the thread counts.
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
    /// When the thread last showed that it moves, nanoseconds of the monotonic clock.
    heartbeat: AtomicU64,
}

impl std::fmt::Debug for RateUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateUpdate").field("options", &self.options).finish_non_exhaustive()
    }
}

impl RateUpdate {
    /// Not running; it starts with the first connection in user space.
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

    /// Makes an algorithm known under its own name.
    pub(crate) fn register(&self, algorithm: SharedAlgorithm) -> Result<AlgorithmChoice, Error> {
        lock(&self.algorithms).add(algorithm)
    }

    /// All algorithms that are known at present.
    pub(crate) fn algorithms(&self) -> Algorithms {
        lock(&self.algorithms).clone()
    }

    /// Before `control` is put into force for the connection in `slot`: the thread learns of it, if it is to decide.
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

    /// The connection in `slot` is decided for elsewhere, or gone.
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

    /// Why the algorithm of the connection in `slot` answers no more.
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

    /// Ends the thread and waits for it, but not for ever.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        let Some(thread) = lock(&self.thread).take() else { return };
        thread.thread().unpark();
        let deadline = Instant::now() + STOPPING;
        while !thread.is_finished() {
            if Instant::now() > deadline {
                tracing::error!("an algorithm of the rate update engine hangs: its thread is left behind");
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        // A panic was reported when it happened, and is shown as the state.
        let _ = thread.join();
    }
}

fn now_nanos() -> u64 {
    // The monotonic clock exists on every Linux; it is the one the datapath stamps with.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

/// A lock whose holders never panic half way: poisoning carries no meaning here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
