//! Records a trace: every run of the datapath is written to a file, from which a replay can repeat its decisions.
//!
//! While a trace is recorded, the recording programs replace the plain ones. They write to a ring, and a thread
//! copies the ring to the file. [`transport_common::tape::file`] defines the layout of the file. While a file system stalls,
//! the ring fills, and runs are lost and counted. The recording ends in time all the same.

mod file;
mod progress;
mod taker;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use tiercel::backend::Shared;

pub use tiercel::status::TraceReport;

use crate::node::error::NodeError;
use crate::node::instruments::Instruments;
use crate::node::xdp::loader::Attachment;
use progress::Progress;
pub use progress::TraceOptions;
use taker::Taker;

/// A trace that is being recorded. Dropping it ends the trace and completes the file.
#[derive(Debug)]
pub struct Tracing {
    progress: Arc<Progress>,
    since: Instant,
    thread: Option<JoinHandle<Result<(), NodeError>>>,
}

impl Tracing {
    /// Begins a trace of the node whose programs `attachment` holds.
    pub(crate) fn start(
        options: TraceOptions,
        shared: &Arc<Shared>,
        instruments: &Arc<Instruments>,
        attachment: Weak<Mutex<Attachment>>,
    ) -> Result<Self, NodeError> {
        let progress = Arc::new(Progress::default());
        let (maps, instruments) = (Arc::clone(&shared.maps), Arc::clone(instruments));
        let taker = Taker::begin(options, (maps, instruments), attachment, Arc::clone(&progress))?;
        let thread = std::thread::Builder::new().name("trace".to_owned()).spawn(move || taker.run());
        let thread = thread.map_err(|e| NodeError::system("start the thread that takes the trace", e))?;
        Ok(Self { progress, since: Instant::now(), thread: Some(thread) })
    }

    /// Returns the content of the trace so far.
    pub fn report(&self) -> TraceReport {
        let until = self.progress.ended.get().copied().unwrap_or_else(Instant::now);
        let elapsed = until.saturating_duration_since(self.since);
        TraceReport {
            runs: self.progress.runs.load(Relaxed),
            lost: self.progress.lost.load(Relaxed),
            bytes: self.progress.bytes.load(Relaxed),
            elapsed_ms: elapsed.as_millis().try_into().unwrap_or(u64::MAX),
        }
    }

    /// Returns whether the recording has ended: a limit was reached, or the trace failed. [`Tracing::stop`] returns which of
    /// them. The file may not be complete yet.
    pub fn is_done(&self) -> bool {
        // A thread that has panicked records nothing either.
        self.progress.ended.get().is_some() || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks for the end of the recording. [`Tracing::is_done`] tells when it has ended, which takes some milliseconds.
    pub(crate) fn end_recording(&self) {
        self.progress.stop.store(true, Relaxed);
    }

    /// Ends the trace, waits until its file is complete, and returns its content. The recording ends in some milliseconds.
    /// The file takes as long as its file system.
    ///
    /// # Errors
    /// [`NodeError::TraceFile`], [`tiercel::Error::System`].
    pub fn stop(mut self) -> Result<TraceReport, NodeError> {
        self.end()?;
        Ok(self.report())
    }

    fn end(&mut self) -> Result<(), NodeError> {
        self.end_recording();
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
