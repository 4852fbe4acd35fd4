//! Records a trace: every run of the datapath is written to a file, from which a replay can repeat its decisions.
//!
//! While a trace is recorded, the recording programs replace the plain ones. They write to a ring, and a thread
//! copies the ring to the file. [`transport_common::tape::file`] defines the layout of the file.

mod file;
mod taker;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::loader::Attachment;
use crate::shared::Shared;
use file::TraceFile;
use taker::Taker;

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

/// The content of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReport {
    /// Number of recorded runs of the datapath.
    pub runs: u64,
    /// Number of runs that are missing because the ring was full.
    pub lost: u64,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Milliseconds since the trace began.
    pub elapsed_ms: u64,
}

/// The progress of a trace.
#[derive(Debug, Default)]
struct Progress {
    runs: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
    done: AtomicBool,
}

/// A trace that is being recorded. Dropping it ends the trace and completes the file.
#[derive(Debug)]
pub struct Tracing {
    progress: Arc<Progress>,
    since: Instant,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Tracing {
    /// Begins a trace of the node whose programs `attachment` holds.
    pub(crate) fn start(
        options: TraceOptions,
        shared: &Arc<Shared>,
        attachment: Weak<Mutex<Attachment>>,
    ) -> Result<Self, Error> {
        let progress = Arc::new(Progress::default());
        let taker = Taker::begin(options, Arc::clone(&shared.maps), attachment, Arc::clone(&progress))?;
        let thread = std::thread::Builder::new().name("trace".to_owned()).spawn(move || taker.run());
        let thread = thread.map_err(|e| Error::system("start the thread that takes the trace", e))?;
        Ok(Self { progress, since: Instant::now(), thread: Some(thread) })
    }

    /// Returns the content of the trace so far.
    pub fn report(&self) -> TraceReport {
        TraceReport {
            runs: self.progress.runs.load(Relaxed),
            lost: self.progress.lost.load(Relaxed),
            bytes: self.progress.bytes.load(Relaxed),
            elapsed_ms: self.since.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
        }
    }

    /// Returns whether a limit was reached or the trace failed. [`Tracing::stop`] returns which of them.
    pub fn is_done(&self) -> bool {
        self.progress.done.load(Relaxed)
    }

    /// Ends the trace, and returns its content. Takes some milliseconds.
    ///
    /// # Errors
    /// [`Error::TraceFile`], [`Error::System`].
    pub fn stop(mut self) -> Result<TraceReport, Error> {
        self.end()?;
        Ok(self.report())
    }

    fn end(&mut self) -> Result<(), Error> {
        self.progress.stop.store(true, Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "the file of the trace is not complete");
        }
    }
}
