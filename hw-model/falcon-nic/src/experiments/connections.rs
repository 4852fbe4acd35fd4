//! The effect of more connections than the cache holds.

use anyhow::Result;
use lab_report::{Bound, Case, Experiment, Figure, Look, Verdict};
use model_experiment::{Options, Progress};

use crate::testbed::Traffic;
use crate::{Block, Parameters};

use super::load::{Kind, Load, measure};
use super::{SHORT, cycles, experiment, per_microsecond};

const ACTIVE: [usize; 6] = [8, 16, 32, 64, 128, 256];
const ENTRIES: [u32; 4] = [16, 32, 64, 512];

/// Runs `nic-connections`: operations and stalls over active connections, for caches of several sizes.
///
/// # Errors
/// Returns no error with the parameters that it uses.
pub fn connections(options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let base = Parameters::default();
    let mut report = experiment(
        ("nic-connections", "What do more connections than the cache holds cost?"),
        "64-byte WRITEs of a peer at 200 Gb/s over the number of active connections, for caches of several sizes \
         in front of one DRAM channel. The datapath's tables have 256 connections. The caches are small too, \
         because only the ratio matters.",
        options,
        &base,
    );
    let x = "active connections";
    let mut operations =
        Figure::new("operations", "64-byte WRITEs over active connections", x, "million operations a second");
    let mut hits = Figure::new("hits", "Hits of the cache over active connections", x, "hits, %");
    let mut waits =
        Figure::new("waits", "Waiting for the cache, beyond a hit's six cycles", x, "cycles a step, mean");
    let steps = ENTRIES.len() * ACTIVE.len();
    let mut evicted = 0.0;
    for (place, entries) in ENTRIES.into_iter().enumerate() {
        let (mut done, mut rates, mut waited) = (vec![], vec![], vec![]);
        for (of, connections) in ACTIVE.into_iter().enumerate() {
            progress(place * ACTIVE.len() + of, steps);
            let cache = context_cache::Parameters {
                entries,
                threshold: entries - 4,
                seed: options.seed,
                ..context_cache::Parameters::default()
            };
            let parameters = Parameters { cache, ..base.clone() };
            let cycles = cycles(options, &parameters);
            let load =
                Load { kind: Kind::WriteIn, length: SHORT, connections, traffic: Traffic::CONSTANT, cycles };
            let outcome = measure(&parameters, load)?;
            let statistics = &outcome.statistics;
            let millions = per_microsecond(outcome.completed, cycles, &parameters);
            let steps_done = statistics.block(Block::Lookup).served.max(1) as f64;
            let wait = statistics.cache_waits as f64 / steps_done;
            let rate = statistics.cache.hit_rate().map(|rate| 100.0 * rate);
            let at = connections as f64;
            done.push([at, millions]);
            rates.extend(rate.map(|rate| [at, rate]));
            waited.push([at, wait]);
            if entries == 512 {
                evicted += statistics.cache.evictions as f64;
            }
            report.cases.push(
                Case::new(format!("{entries} entries, {connections} connections"))
                    .with("operations", millions, "M/s")
                    .with("hits", rate, "%")
                    .with("wait for the cache", wait, "cycles a step")
                    .with(
                        "wait for the connection",
                        statistics.connection_waits as f64 / steps_done,
                        "cycles a step",
                    )
                    .with(
                        "lookup refused, miss queues full",
                        statistics.block(Block::Lookup).outstanding_stalls as f64,
                        "cycles",
                    )
                    .with(
                        "receive buffer waits for a context",
                        statistics.receive_waits_for_context as f64,
                        "cycles",
                    )
                    .with(
                        "receive buffer waits for the parser",
                        statistics.receive_waits_for_parser as f64,
                        "cycles",
                    )
                    .with("frames dropped", statistics.overruns as f64, ""),
            );
        }
        let name = format!("{entries} entries");
        operations = operations.line(Look::Main, name.clone(), done);
        hits = hits.line(Look::Main, name.clone(), rates);
        waits = waits.line(Look::Main, name, waited);
    }
    progress(steps, steps);
    let name = "512 entries hold all connections: evictions";
    report.verdicts = vec![Verdict::new(name, evicted, "", Bound::AtMost(0.0))];
    report.figures = vec![operations, hits, waits];
    Ok(report)
}
