//! The model against measured data of the published hardware, cycle by cycle.
//!
//! The data is `hw-model/tonic/data/tonic-open.json`, or any file of its form. Latencies, rates and the order of segments
//! are compared with the hardware's own NewReno as user logic; traces with that where they were made by it, and with
//! the recorded decisions of the user logic, so that they speak for the core alone.

mod compare;
mod data;
mod run;
mod user_logic;

pub use compare::{
    Comparison, Difference, LatencyComparison, RateComparison, TraceComparison, UserLogic, compare,
    compare_traces,
};
pub use data::{Data, DataError, Latency, RateRun, Rates, Selective, Summary, Trace};

/// The data that comes with the model.
pub const OPEN_SET: &str = include_str!("../../data/tonic-open.json");
