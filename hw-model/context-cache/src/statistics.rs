//! The counters of the cache.

use serde::{Deserialize, Serialize};

/// Counters since reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Commands accepted from the ULP and the network.
    pub commands: u64,
    /// Commands whose context was in the cache at their first lookup. Some of them still queue to keep the order.
    pub hits: u64,
    /// Commands whose context was not in the cache at their first lookup.
    pub misses: u64,
    /// Misses that found an entry in `Allocated`: the read of the context was already requested.
    pub misses_on_the_way: u64,
    /// Commands of the ULP that hit, but queued behind others of their connection.
    pub queued_for_order: u64,
    /// Commands processed.
    pub processed: u64,
    /// Packets dropped because their context was not in the cache and the miss queues were full.
    pub dropped: u64,
    /// Commands, flushes and results of connections that do not exist.
    pub unknown: u64,
    /// Contexts written to memory by the eviction policy.
    pub evictions: u64,
    /// Evictions that were cancelled because a command of the connection came before the entry was free.
    pub evictions_regretted: u64,
    /// Evictions that were not started because the chosen entry had work again at the end of processing.
    pub evictions_refused: u64,
    /// Times a connection had to wait for an entry because none was free.
    pub waits_for_entry: u64,
    /// Flushes and results that stalled because the entry was in `Allocated` or `Evicting`.
    pub stalled_writes: u64,
    /// Contexts read from memory.
    pub memory_reads: u64,
    /// Contexts, or parts of them, written to memory.
    pub memory_writes: u64,
    /// Cycles in which work could not enter the pipeline because other work of its connection had just entered.
    pub stalls_same_connection: u64,
    /// Cycles in which work could not enter the pipeline because a write completion of its connection had entered.
    pub stalls_deallocation: u64,
    /// Cycles in which a command of the ULP could not enter the pipeline because the miss queues were full.
    pub stalls_miss_queue: u64,
    /// The largest number of commands in the miss queues at one time.
    pub miss_queue_peak: u64,
    /// The largest number of occupied entries at one time.
    pub occupied_peak: u64,
    /// Reports of work done for a counter that was 0 or a connection that was not cached.
    pub not_pending: u64,
}

impl Statistics {
    /// Returns the share of first lookups that hit, 0 to 1. Returns `None` if there were no lookups.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        let lookups = self.hits + self.misses;
        (lookups > 0).then(|| self.hits as f64 / lookups as f64)
    }

    /// Returns what was counted since `earlier`. Peaks stay the peaks since reset.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            commands: self.commands - earlier.commands,
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            misses_on_the_way: self.misses_on_the_way - earlier.misses_on_the_way,
            queued_for_order: self.queued_for_order - earlier.queued_for_order,
            processed: self.processed - earlier.processed,
            dropped: self.dropped - earlier.dropped,
            unknown: self.unknown - earlier.unknown,
            evictions: self.evictions - earlier.evictions,
            evictions_regretted: self.evictions_regretted - earlier.evictions_regretted,
            evictions_refused: self.evictions_refused - earlier.evictions_refused,
            waits_for_entry: self.waits_for_entry - earlier.waits_for_entry,
            stalled_writes: self.stalled_writes - earlier.stalled_writes,
            memory_reads: self.memory_reads - earlier.memory_reads,
            memory_writes: self.memory_writes - earlier.memory_writes,
            stalls_same_connection: self.stalls_same_connection - earlier.stalls_same_connection,
            stalls_deallocation: self.stalls_deallocation - earlier.stalls_deallocation,
            stalls_miss_queue: self.stalls_miss_queue - earlier.stalls_miss_queue,
            miss_queue_peak: self.miss_queue_peak,
            occupied_peak: self.occupied_peak,
            not_pending: self.not_pending - earlier.not_pending,
        }
    }
}
