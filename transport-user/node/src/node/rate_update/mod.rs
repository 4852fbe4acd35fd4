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

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tiercel::Error;
use tiercel::backend::{Datapath, UserPlacement};
use tiercel::congestion::{AlgorithmChoice, Algorithms, CongestionControl, Placement, SharedAlgorithm};
use transport_common::ids::Cid;

use crate::common::mutex::lock;

mod options;
mod state;
mod status;
mod worker;

use state::{Assignment, Chosen, State, now_nanos};

pub use options::RateUpdateOptions;
pub use status::{AdmissionInfo, EventQueueInfo, FailedAlgorithm, RateUpdateState, RateUpdateStatus};

/// Longest time to wait for the thread when it is stopped. A thread that hangs in an algorithm is abandoned.
const STOPPING: Duration = Duration::from_secs(1);

/// The engine of a node.
pub(crate) struct RateUpdate {
    state: Arc<State>,
    algorithms: Mutex<Algorithms>,
    thread: Mutex<Option<JoinHandle<()>>>,
    datapath: Arc<Datapath>,
}

impl std::fmt::Debug for RateUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RateUpdate").field("options", &self.state.options).finish_non_exhaustive()
    }
}

impl RateUpdate {
    /// Makes an engine whose thread does not run yet. The thread starts with the first connection in user space.
    pub(crate) fn new(
        options: RateUpdateOptions,
        algorithms: Algorithms,
        datapath: Arc<Datapath>,
    ) -> Result<Arc<Self>, Error> {
        let state = Arc::new(State::new(options)?);
        Ok(Arc::new(Self { state, algorithms: Mutex::new(algorithms), thread: Mutex::default(), datapath }))
    }

    /// Registers an algorithm under its name.
    pub(crate) fn register(&self, algorithm: SharedAlgorithm) -> Result<AlgorithmChoice, Error> {
        lock(&self.algorithms).add(algorithm)
    }

    /// Returns all algorithms that are registered now.
    pub(crate) fn algorithms(&self) -> Algorithms {
        lock(&self.algorithms).clone()
    }

    /// Returns the status. `counters` are the counters of the node by name.
    pub(crate) fn status(&self, counters: &BTreeMap<String, u64>) -> RateUpdateStatus {
        let finished = lock(&self.thread).as_ref().map(JoinHandle::is_finished);
        status::status(&self.state, finished, &self.datapath.maps, counters)
    }

    /// Starts the thread, or wakes it.
    fn start(&self) -> Result<(), Error> {
        let mut thread = lock(&self.thread);
        if self.datapath.is_down() {
            return Err(Error::NodeDown);
        }
        if let Some(running) = thread.as_ref().filter(|thread| !thread.is_finished()) {
            running.thread().unpark();
            return Ok(());
        }
        self.state.heartbeat.store(now_nanos(), SeqCst);
        self.state.counts.starts.fetch_add(1, Relaxed);
        let (state, datapath) = (Arc::clone(&self.state), Arc::clone(&self.datapath));
        let builder = std::thread::Builder::new().name("tiercel-rate-update".into());
        let started = builder.spawn(move || worker::run(&state, &datapath));
        *thread = Some(started.map_err(|e| Error::system("start the rate update engine", e))?);
        Ok(())
    }

    /// Stops the thread and waits for it, at most one second.
    pub(crate) fn stop(&self) {
        self.state.stop.store(true, SeqCst);
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

impl UserPlacement for RateUpdate {
    fn assign(&self, slot: usize, cid: Cid, control: &CongestionControl) -> Result<(), Error> {
        if control.placement != Placement::User {
            return Ok(());
        }
        let algorithm = match control.algorithm {
            AlgorithmChoice::BuiltIn(id) => Chosen::BuiltIn(id),
            AlgorithmChoice::Custom(name) => {
                let found = lock(&self.algorithms).own(name);
                let known = || self.algorithms().names();
                Chosen::Custom(found.ok_or_else(|| Error::UnknownAlgorithm { name, known: known() })?)
            }
        };
        let prepared = control.parameters.prepare()?;
        self.state.set(slot, Some(Assignment { cid, algorithm, prepared }));
        self.start()
    }

    fn unassign(&self, slot: usize) {
        if lock(&self.state.places[slot].assignment).is_some() {
            self.state.set(slot, None);
        }
    }

    fn failure(&self, slot: usize) -> Option<String> {
        lock(&self.state.places[slot].failure).clone()
    }
}
