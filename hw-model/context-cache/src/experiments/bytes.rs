//! The on-chip memory that a connection needs.

use anyhow::Result;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};
use serde::{Deserialize, Serialize};
use transport_common::connection::{Connection, Tables};

use crate::Parameters;

use super::common::{MILLION, experiment};

/// Bits of an entry's tag: the CID (24), the state (2), a write in progress (1), two pending counters (16 each).
const TAG_BITS: u64 = 24 + 2 + 1 + 2 * 16;
/// Bits of a command in the miss queue: a fixed format of 32 bytes (an assumption). The link to the next command
/// comes on top.
const COMMAND_BITS: u64 = 8 * 32;

/// On-chip memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OnChipBytes {
    /// The cached contexts.
    pub contexts: u64,
    /// Tags of the entries.
    pub tags: u64,
    /// The CID lookup: a half-full hash table of CIDs and entry indices.
    pub lookup: u64,
    /// The miss queues.
    pub miss_queues: u64,
}

impl OnChipBytes {
    /// Returns the sum.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.contexts + self.tags + self.lookup + self.miss_queues
    }
}

/// Returns the on-chip memory of a cache.
#[must_use]
pub const fn on_chip_bytes(parameters: &Parameters) -> OnChipBytes {
    let index = u32::BITS - (parameters.entries - 1).leading_zeros();
    let link = usize::BITS - (parameters.miss_queue - 1).leading_zeros();
    let entries = parameters.entries as u64;
    OnChipBytes {
        contexts: entries * parameters.context_bytes as u64,
        tags: (entries * TAG_BITS).div_ceil(8),
        lookup: (2 * entries * (24 + index as u64)).div_ceil(8),
        miss_queues: (parameters.miss_queue as u64 * (COMMAND_BITS + link as u64)).div_ceil(8),
    }
}

/// Runs `cache-bytes`: the on-chip memory per connection.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn bytes(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    progress(0, 1);
    let base = Parameters { connections: MILLION, seed: options.seed, ..Parameters::default() };
    let mut report = experiment(
        "cache-bytes",
        "What does a connection cost in on-chip memory?",
        "Bytes of the cached contexts, and of the memory that the cache needs to find them. The contexts are the \
         connection contexts of the datapath. The tables of a context (packets, transactions, requests, \
         responses) are buffers of the engines beside the cache. They are not in the cache.",
        options,
        &base,
    );
    report.settings.insert("context tables", format!("{} B, not cached", size_of::<Tables>()));
    let mut cached = Vec::new();
    for entries in [1024, 2048, 4096, 8192, 16384, 65536] {
        let parameters = Parameters { entries, threshold: entries - 64, ..base.clone() };
        let bytes = on_chip_bytes(&parameters);
        let total = bytes.total() as f64;
        cached.push([f64::from(entries), total / f64::from(MILLION)]);
        let case = Case::new(format!("{entries} entries"))
            .with("contexts", bytes.contexts as f64, "B")
            .with("tags", bytes.tags as f64, "B")
            .with("lookup", bytes.lookup as f64, "B")
            .with("miss queues", bytes.miss_queues as f64, "B")
            .with("on chip", total / f64::from(1 << 20), "MiB")
            .with("per cached connection", total / f64::from(entries), "B")
            .with("per connection of a million", total / f64::from(MILLION), "B");
        report.cases.push(case);
    }
    let all = f64::from(MILLION) * size_of::<Connection>() as f64;
    let without = Case::new("no cache: a million contexts on the chip")
        .with("contexts", all, "B")
        .with("on chip", all / f64::from(1 << 20), "MiB")
        .with("per connection of a million", size_of::<Connection>() as f64, "B");
    report.cases.push(without);
    let overhead = on_chip_bytes(&base);
    let of_contexts = 100.0 * (overhead.total() - overhead.contexts) as f64 / overhead.contexts as f64;
    let name = "4096 entries: tags, lookup and miss queues, of the contexts' bytes";
    report.verdicts = vec![Verdict::new(name, of_contexts, "%", Bound::AtMost(10.0))];
    let figure = Figure::new(
        "bytes",
        "On-chip memory of the cache, per connection of a million",
        "entries",
        "bytes per connection",
    )
    .log_x()
    .log_y()
    .line(Look::Main, "cache", cached)
    .level("every context on the chip", size_of::<Connection>() as f64);
    report.figures.push(figure);
    progress(1, 1);
    Ok(report)
}
