//! Experiments with the cache.

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

/// What can be asked for here.
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
