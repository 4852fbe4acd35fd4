//! Common parts of the experiments.

use std::collections::BTreeMap;

use clocked::Cycle;
use lab_report::{Case, Experiment};
use model_experiment::Options;

use crate::parameters::Parameters;

use super::load::Outcome;

/// The clock rate that converts cycles to time.
pub(super) const GIGAHERTZ: f64 = 1.0;

/// A million connections.
pub(super) const MILLION: u32 = 1_000_000;

pub(super) fn limit(options: &Options) -> Cycle {
    options.limit_us.map_or(Cycle::NEVER, |us| Cycle(us.saturating_mul((GIGAHERTZ * 1000.0) as u64)))
}

/// Converts a number per cycle to millions per second.
pub(super) fn mega(per_cycle: Option<f64>) -> Option<f64> {
    per_cycle.map(|per_cycle| per_cycle * GIGAHERTZ * 1000.0)
}

pub(super) fn percent(part: Option<f64>) -> Option<f64> {
    part.map(|part| part * 100.0)
}

/// Returns the report of a run that all experiments share.
pub(super) fn case(name: impl Into<String>, outcome: &Outcome) -> Case {
    let of = &outcome.statistics;
    Case::new(name)
        .with("commands", of.processed as f64, "")
        .with("hits", percent(outcome.hit_rate()), "%")
        .with("misses", of.misses as f64, "")
        .with("throughput", mega(outcome.throughput()), "M/s")
        .with("median", outcome.median as f64, "cycles")
        .with("99 of 100", outcome.percentile_99 as f64, "cycles")
        .with("memory reads", of.memory_reads as f64, "")
        .with("memory writes", of.memory_writes as f64, "")
}

pub(super) fn settings(parameters: &Parameters) -> BTreeMap<&'static str, String> {
    let memory = &parameters.off_chip;
    let outstanding = memory.outstanding;
    [
        ("clock", format!("{GIGAHERTZ} GHz")),
        ("entries", parameters.entries.to_string()),
        ("threshold", parameters.threshold.to_string()),
        ("context", format!("{} B", parameters.context_bytes)),
        ("miss queue", parameters.miss_queue.to_string()),
        ("memory latency", format!("{} to {} cycles", memory.latency, memory.latency + memory.jitter)),
        ("memory bandwidth", format!("{} B/cycle, {outstanding} outstanding", memory.bytes_per_cycle)),
    ]
    .into()
}

/// Returns an experiment report without results.
pub(super) fn experiment(
    name: &'static str,
    title: &'static str,
    description: &str,
    options: &Options,
    parameters: &Parameters,
) -> Experiment {
    Experiment {
        settings: settings(parameters),
        ..Experiment::in_cycles(name, title, description, options.seed)
    }
}
