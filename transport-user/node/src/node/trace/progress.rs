//! What a trace is asked for, and how far it is.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// The options of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// The file to write. It must not exist yet.
    pub file: PathBuf,
    /// Limit: number of runs of the datapath. A run is a received packet or a service of the engine.
    pub runs: Option<u64>,
    /// Limit: time.
    pub duration: Option<Duration>,
}

/// The progress of a trace.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) runs: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) stop: AtomicBool,
    /// When the plain programs were attached again, or the trace failed.
    pub(super) ended: OnceLock<Instant>,
}

impl Progress {
    /// Notes that the recording has ended.
    pub(super) fn recording_ended(&self) {
        // It ends once.
        let _ = self.ended.set(Instant::now());
    }
}
