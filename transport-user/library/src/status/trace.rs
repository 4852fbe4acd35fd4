//! Traces.

use serde::{Deserialize, Serialize};

/// The content of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReport {
    /// Number of recorded runs of the datapath.
    pub runs: u64,
    /// Number of runs that are missing because the ring was full.
    pub lost: u64,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Milliseconds from the start of the recording to now, or to its end.
    pub elapsed_ms: u64,
}
