//! Experiments with the card: cycles per event, the first block to saturate, and the effect of a small cache.
//!
//! [`ALL`] lists them. `tiercel model experiment nic-pipeline` runs one of them. Each run simulates 100,000 cycles
//! of 1 ns, unless `--limit` gives a shorter time. `docs/model/falcon-nic.md` describes the results.

mod connections;
mod load;
mod pipeline;
mod rate;

use std::collections::BTreeMap;

use fabric_model::Rate;
use lab_report::{Case, Experiment};
use model_experiment::{Named, Options};
use transport_common::congestion::settings::Settings;

use super::block::Block;
use super::parameters::Parameters;
use super::statistics::EventStatistics;
use super::testbed::Traffic;

pub use connections::connections;
pub use pipeline::pipeline;
pub use rate::rate;

/// All experiments of this crate.
pub const ALL: &[Named] = &[
    Named {
        name: "nic-pipeline",
        question: "What does an event take in the card, cycle by cycle?",
        run: pipeline,
    },
    Named {
        name: "nic-rate",
        question: "Which block of the card breaks first when the rate rises?",
        run: rate,
    },
    Named {
        name: "nic-connections",
        question: "What do more connections than the card's cache holds cost?",
        run: connections,
    },
];

/// Cycles of a run without a limit.
const CYCLES: u64 = 100_000;
/// Utilisation from which on a block counts as always busy.
const BUSY: f64 = 0.95;
/// Bytes of user data of a long operation. With its headers it fits an MTU of 1500.
const LONG: u32 = 1024;
/// Bytes of user data of a short operation.
const SHORT: u32 = 64;

fn cycles(options: &Options, parameters: &Parameters) -> u64 {
    let limit = options.limit_us.map(|us| us.saturating_mul(1_000_000) / parameters.period);
    CYCLES.min(limit.unwrap_or(CYCLES)).max(1)
}

/// Returns connections with inline Swift, which runs in the step of every ACK.
fn swift() -> Traffic {
    Traffic { settings: Settings::SWIFT, ..Traffic::CONSTANT }
}

fn gigabits(rate: u64) -> Option<Rate> {
    Rate::from_bits_per_second(rate * 1_000_000_000)
}

/// Returns operations per microsecond, which is millions per second.
fn per_microsecond(completed: u64, cycles: u64, parameters: &Parameters) -> f64 {
    completed as f64 / (cycles as f64 * parameters.period as f64 / 1e6)
}

/// Returns the report of an event.
fn event_case(name: String, of: &EventStatistics) -> Case {
    of.case(name).with("headroom of one connection", of.headroom_of_connection, "cycles")
}

fn settings(parameters: &Parameters) -> BTreeMap<&'static str, String> {
    let latency = |block: Block| format!("{} cycles", parameters.latency[block as usize]);
    [
        ("clock", format!("{} GHz", 1000.0 / parameters.period as f64)),
        ("rate", format!("{} Gb/s", parameters.rate.bits_per_second() as f64 / 1e9)),
        ("bus", format!("{} B", parameters.bus_bytes)),
        ("context memory", format!("{} B/cycle", parameters.context_width)),
        ("host memory", format!("{} B/cycle each way", parameters.memory_width)),
        ("read of host memory", latency(Block::MemoryRead)),
        ("write to host memory", latency(Block::MemoryWrite)),
        ("congestion", latency(Block::Congestion)),
        ("contexts in and out", format!("{}, {}", parameters.receive_contexts, parameters.transmit_contexts)),
        ("queues", parameters.queue.to_string()),
        ("cache entries", parameters.cache.entries.to_string()),
    ]
    .into()
}

/// Returns an experiment report without results.
fn experiment(
    (name, title): (&'static str, &'static str),
    description: &str,
    options: &Options,
    parameters: &Parameters,
) -> Experiment {
    Experiment {
        settings: settings(parameters),
        ..Experiment::in_cycles(name, title, description, options.seed)
    }
}
