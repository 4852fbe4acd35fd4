//! The rate update engine in user space.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The state of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RateUpdateState {
    /// The thread does not run: no connection was placed in user space yet, or the node is down.
    #[default]
    Off,
    /// The thread waits until a connection is placed in user space.
    Parked,
    /// The thread answers events.
    Running,
    /// The thread had no sign of life for 100 ms: an algorithm hangs, or the thread gets no CPU time.
    Stalled,
    /// The thread has ended by a panic. No events are admitted. The next connection that is placed in user space
    /// starts the thread again.
    Dead,
}

/// The admission policy of every event queue (F-10.6.1-2, D-73).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionInfo {
    /// Entries of a queue. 0 if no events are admitted.
    pub capacity: u32,
    /// T1, T2, T3, entries.
    pub thresholds: [u32; 3],
    /// P1, nanoseconds.
    pub elapsed_ns: u64,
    /// P2, packets.
    pub packets: u32,
}

/// An event queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventQueueInfo {
    /// Events queued in total.
    pub events: u64,
    /// Events in the queue.
    pub occupancy: u64,
}

/// A connection whose algorithm has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAlgorithm {
    /// Local CID of the connection.
    pub cid: u32,
    /// Why the algorithm failed.
    pub reason: String,
}

/// The status of the rate update engine in user space, and of its results in the datapath.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateUpdateStatus {
    /// State of the thread.
    pub state: RateUpdateState,
    /// Number of times that the thread was started.
    pub starts: u64,
    /// Number of connections placed in user space.
    pub connections: usize,
    /// Events taken from the queues.
    pub events: u64,
    /// Results queued.
    pub results: u64,
    /// Events without a result: the connection had ended, or its algorithm has failed.
    pub unanswered: u64,
    /// Number of times that an algorithm panicked.
    pub panics: u64,
    /// Results dropped because the result queue was full, as the engine program did not run.
    pub result_queue_full: u64,
    /// Results that wait for the engine program.
    pub results_waiting: u64,
    /// The admission policy in force.
    pub admission: AdmissionInfo,
    /// The event queues, 0 to 3.
    pub queues: Vec<EventQueueInfo>,
    /// Number of events by verdict of the admission (D-73).
    pub verdicts: BTreeMap<String, u64>,
    /// Illegal results that were repaired, including those of algorithms in the kernel.
    pub repaired: u64,
    /// Events dropped because their result did not arrive within 16 ms.
    pub lost: u64,
    /// Results for which no event was outstanding.
    pub unexpected: u64,
    /// Connections whose algorithm has failed.
    pub failed: Vec<FailedAlgorithm>,
}
