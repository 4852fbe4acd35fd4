//! Experiments with the cache: hit rate, throughput, latency, on-chip memory and solicited push.
//!
//! [`ALL`] lists the experiments. `tiercel model experiment cache-skew` runs one of them. Times are in cycles of 1
//! ns (1 GHz). [`measure`] runs a cache under a [`Load`] and returns an [`Outcome`]. [`Incast`] runs many
//! initiators against one target. `docs/model/context-cache.md` describes the results.

mod bytes;
mod common;
mod hit_rate;
mod incast;
mod load;
mod throughput;

use model_experiment::Named;

pub use bytes::{OnChipBytes, bytes, on_chip_bytes};
pub use hit_rate::{resident, skew, uniform};
pub use incast::{Incast, IncastOutcome, push};
pub use load::{IndependentReferences, Load, Outcome, measure};
pub use throughput::{latency, work};

/// All experiments of this crate.
pub const ALL: &[Named] = &[
    Named {
        name: "cache-resident",
        question: "Is every command a hit when the connections fit?",
        run: resident,
    },
    Named {
        name: "cache-uniform",
        question: "What does a cache of 4096 entries do for a million connections?",
        run: uniform,
    },
    Named { name: "cache-skew", question: "How much does popularity help?", run: skew },
    Named { name: "cache-latency", question: "What does the memory's latency cost?", run: latency },
    Named { name: "cache-work", question: "How long may work be pending?", run: work },
    Named { name: "cache-bytes", question: "What does a connection cost in on-chip memory?", run: bytes },
    Named { name: "cache-push", question: "What does asking before pushing do for the target?", run: push },
];
