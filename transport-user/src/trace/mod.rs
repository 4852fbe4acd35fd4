//! Taking a trace: every run of the datapath, written to a file, from which its decisions can be made again.
//!
//! The recording programs take the place of the plain ones while the trace lasts; a thread writes what they leave in a
//! ring. The layout of the file is [`transport_common::tape::file`]'s.

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

/// What a trace is to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// The file to write. It must not be there yet.
    pub file: PathBuf,
    /// Ends after so many runs of the datapath; each is a packet received or a turn of the engine.
    pub runs: Option<u64>,
    /// Ends after so long.
    pub duration: Option<Duration>,
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReport {
    /// Runs of the datapath in it.
    pub runs: u64,
    /// Runs that are missing, because the ring was full.
    pub lost: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Milliseconds since it began.
    pub elapsed_ms: u64,
}

/// How far a trace is, for those who watch.
#[derive(Debug, Default)]
struct Progress {
    runs: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
    stop: AtomicBool,
    done: AtomicBool,
}

/// A trace that is being taken. Dropping it ends it; the file is complete then.
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

    /// What the trace holds so far.
    pub fn report(&self) -> TraceReport {
        TraceReport {
            runs: self.progress.runs.load(Relaxed),
            lost: self.progress.lost.load(Relaxed),
            bytes: self.progress.bytes.load(Relaxed),
            elapsed_ms: self.since.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
        }
    }

    /// Whether a limit was reached, or the trace failed: [`Tracing::stop`] says which.
    pub fn is_done(&self) -> bool {
        self.progress.done.load(Relaxed)
    }

    /// Ends the trace, and says what it holds. Takes some milliseconds.
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
            tracing::warn!(%error, "the trace is not complete");
        }
    }
}
