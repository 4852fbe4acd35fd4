//! The throughput of the cache.

use anyhow::Result;
use lab_report::{Bound, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};

use crate::{MemoryParameters, Parameters};

use super::common::{MILLION, case, experiment, limit, mega, percent};
use super::load::{Load, Outcome, measure};

/// Returns the most commands per cycle that pipeline and memory can carry at the measured hit rate.
///
/// A miss needs five passes through the pipeline: first pass, read completion, second pass, eviction, write
/// completion. It also needs a read and a write of the memory. The policy evicts at most as many entries at once
/// as it has to keep free, so this number limits the misses too.
fn bound(parameters: &Parameters, outcome: &Outcome) -> f64 {
    let of = &outcome.statistics;
    let per_command = |count: u64| count as f64 / of.processed as f64;
    let accesses = per_command(of.memory_reads + of.memory_writes);
    let second_passes = per_command(of.misses + of.queued_for_order);
    let memory = &parameters.off_chip;
    let interval = memory.request_interval(parameters.context_bytes) as f64;
    let latency = memory.latency as f64 + memory.jitter as f64 / 2.0;
    let pipeline = 1.0 + second_passes + accesses + per_command(of.evictions);
    let kept_free = f64::from(parameters.entries - parameters.threshold);
    let limits = [
        pipeline,
        accesses * interval,
        accesses * latency / memory.outstanding as f64,
        per_command(of.evictions) * latency / kept_free,
    ];
    1.0 / limits.into_iter().fold(0.0, f64::max)
}

/// Bytes per cycle of the fast memory.
const FAST: u32 = 200;

/// Runs `cache-latency`: hit rate and throughput over the latency of the memory.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn latency(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let base = Parameters { connections: MILLION, seed: options.seed, ..Parameters::default() };
    let mut report = experiment(
        "cache-latency",
        "What does the memory's latency cost?",
        "As many commands as the cache takes, for a million connections, over the latency of the off-chip memory. \
         A memory of 25 B/cycle with 64 outstanding requests is one DRAM channel. A fast memory of 200 B/cycle \
         shows the effect of the limit of outstanding requests and of the number of entries that are kept free.",
        options,
        &base,
    );
    let latencies = [50, 100, 200, 400, 800, 1_600, 3_200];
    let runs = [
        ("uniform", 0.0, 25, 64, 64),
        ("exponent 0.8", 0.8, 25, 64, 64),
        ("exponent 1.0", 1.0, 25, 64, 64),
        ("exponent 1.2", 1.2, 25, 64, 64),
        ("16 outstanding", 1.0, FAST, 16, 64),
        ("64 outstanding", 1.0, FAST, 64, 64),
        ("256 outstanding", 1.0, FAST, 256, 64),
        ("256, and 256 entries free", 1.0, FAST, 256, 256),
    ];
    let steps = runs.len() * latencies.len();
    let (mut most, mut least) = (0.0_f64, f64::INFINITY);
    let x = "memory latency, cycles";
    let carried_by =
        |name, title| Figure::new(name, title, x, "million commands a second at 1 GHz").log_x().log_y();
    let mut throughput =
        carried_by("throughput", "Commands the cache takes over memory latency, a million connections");
    let mut fast = carried_by("outstanding", "Commands the cache takes from a fast memory, exponent 1.0");
    let title = "Hit rate over memory latency, saturated, a million connections";
    let mut hits = Figure::new("hits", title, x, "hits, %").log_x();
    for (place, (name, skew, bytes_per_cycle, outstanding, free)) in runs.into_iter().enumerate() {
        let (mut carried, mut rates) = (Vec::new(), Vec::new());
        for (of, latency) in latencies.into_iter().enumerate() {
            progress(place * latencies.len() + of, steps);
            let memory = MemoryParameters { latency, jitter: latency / 5, outstanding, bytes_per_cycle };
            let threshold = base.entries - free;
            let parameters = Parameters { off_chip: memory, threshold, ..base.clone() };
            let load = Load { skew, interval: 1, work: 0, commands: 20_000 };
            let outcome = measure(&parameters, load, limit(options))?;
            let part = outcome.throughput().unwrap_or(0.0) / bound(&parameters, &outcome);
            (most, least) = (most.max(part), least.min(part));
            carried.extend(mega(outcome.throughput()).map(|rate| [latency as f64, rate]));
            rates.extend(percent(outcome.hit_rate()).map(|rate| [latency as f64, rate]));
            let case = case(format!("{name}, {latency} cycles"), &outcome);
            report.cases.push(case.with("of what can be carried", 100.0 * part, "%"));
        }
        if bytes_per_cycle == FAST {
            fast = fast.line(Look::Main, name, carried);
        } else {
            throughput = throughput.line(Look::Main, name, carried);
            hits = hits.line(Look::Main, name, rates);
        }
    }
    progress(steps, steps);
    let name = |which| format!("{which} throughput, of what pipeline and memory can carry");
    report.verdicts = vec![
        Verdict::new(name("least"), 100.0 * least, "%", Bound::AtLeast(80.0)),
        Verdict::new(name("greatest"), 100.0 * most, "%", Bound::AtMost(101.0)),
    ];
    report.figures = vec![throughput, fast, hits];
    Ok(report)
}

/// Runs `cache-work`: throughput over the time for which a command keeps its entry.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn work(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let base = Parameters { connections: MILLION, seed: options.seed, ..Parameters::default() };
    let mut report = experiment(
        "cache-work",
        "How long may work be pending?",
        "One command in 100 cycles (a packet of 2.5 kB at 200 Gb/s and 1 GHz), for a million connections that are \
         all equally popular. Each command keeps its connection in the cache until its work is done, as an \
         unacknowledged packet does. When more connections have work than the cache has entries, commands wait.",
        options,
        &base,
    );
    let interval = 100;
    let times = [0, 10_000, 30_000, 100_000, 200_000, 300_000, 400_000, 500_000, 700_000, 1_000_000];
    let (mut carried, mut ideal) = (Vec::new(), Vec::new());
    let mut least = f64::INFINITY;
    for (done, work) in times.into_iter().enumerate() {
        progress(done, times.len());
        // When entries are scarce, they become free in rounds. A round takes as long as the work. The measurement
        // covers ten rounds, and up to a part of one more at an end.
        let commands = 10 * u64::from(base.entries);
        let load = Load { skew: 0.0, interval, work, commands };
        let outcome = measure(&base, load, limit(options))?;
        // Little's law: entries = rate x time. The entry is also occupied while its context is read and written.
        let memory = 2 * base.off_chip.latency + base.off_chip.jitter;
        let expected = (f64::from(base.entries) / (work + memory) as f64).min(1.0 / interval as f64);
        least = least.min(outcome.throughput().unwrap_or(0.0) / expected);
        carried.extend(mega(outcome.throughput()).map(|rate| [work as f64 / 1000.0, rate]));
        ideal.extend(mega(Some(expected)).map(|rate| [work as f64 / 1000.0, rate]));
        let case = case(format!("{} us", work / 1000), &outcome);
        report.cases.push(case.with("expected", mega(Some(expected)), "M/s"));
    }
    progress(times.len(), times.len());
    let name = "least throughput, of what the entries allow (Little's law)";
    report.verdicts = vec![Verdict::new(name, 100.0 * least, "%", Bound::AtLeast(95.0))];
    let figure = Figure::new(
        "throughput",
        "Commands the cache takes over the time their work takes, 4096 entries",
        "time from command to work done, us",
        "million commands a second",
    )
    .line(Look::Main, "measured", carried)
    .line(Look::Reference, "entries / time, at most the load", ideal);
    report.figures.push(figure);
    Ok(report)
}
