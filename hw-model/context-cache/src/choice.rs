//! The choices of the arbiter, and its result.

use clocked::Cycle;
use transport_common::ids::Cid;

/// A connection whose work may not enter the pipeline before the cycle `until`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    pub(super) cid: Cid,
    pub(super) until: Cycle,
    /// True if the reason is a write completion of the connection that entered the pipeline.
    pub(super) deallocation: bool,
}

/// The kind of work that enters the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Completion,
    SecondPass,
    Flush,
    Result,
    Evict(Cid),
    Ulp,
    Network,
}

/// The result of the arbiter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arbitration {
    pub(super) choice: Option<Choice>,
    /// The connection of the first ready miss queue is stalled.
    pub(super) rotate: bool,
    /// The eviction policy moves to another entry.
    pub(super) next_candidate: bool,
    pub(super) stalled_same_connection: bool,
    pub(super) stalled_deallocation: bool,
    pub(super) stalled_miss_queue: bool,
}
