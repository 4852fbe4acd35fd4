//! What the arbiter decides of, and what it found.

use clocked::Cycle;
use transport_common::ids::Cid;

/// A connection that may not enter the pipeline again before a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    pub(super) cid: Cid,
    pub(super) until: Cycle,
    /// Its write completion has entered.
    pub(super) deallocation: bool,
}

/// What enters the pipeline.
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

/// What the arbiter found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arbitration {
    pub(super) choice: Option<Choice>,
    /// The first of the ready miss queues is stalled.
    pub(super) rotate: bool,
    /// The policy looks at another entry.
    pub(super) next_candidate: bool,
    pub(super) stalled_same_connection: bool,
    pub(super) stalled_deallocation: bool,
    pub(super) stalled_miss_queue: bool,
}
