//! The comparison of the model with measured data of the published hardware, cycle by cycle.
//!
//! The data is `hw-model/tonic/data/tonic-open.json` ([`OPEN_SET`]), or any file of the same form. The README
//! beside it describes the form. Latencies, rates and the order of segments are compared with the hardware's own
//! NewReno as user logic. Every trace is compared with the recorded decisions of the user logic, which tests the
//! core alone. A trace that was made with that NewReno is also compared with it.
//!
//! ```no_run
//! use tonic_model::published::{Data, OPEN_SET, compare};
//!
//! let comparison = compare(&Data::parse(OPEN_SET)?)?;
//! assert!(comparison.is_equal());
//! # Ok::<(), tonic_model::published::DataError>(())
//! ```
//!
//! `tiercel model experiment tonic-hardware` runs the comparison. `docs/model/tonic.md` describes the results.

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
