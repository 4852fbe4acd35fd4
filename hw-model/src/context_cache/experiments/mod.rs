//! Experiments with the cache.

mod load;

pub use load::{Load, Outcome, independent_reference_hit_rate, measure};
