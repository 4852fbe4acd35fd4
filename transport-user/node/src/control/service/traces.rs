//! The trace that a client lets the node record.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use tiercel::control::Failure;
use tiercel::control::answer::{RunningTrace, TraceState};

use crate::common::mutex::lock;
use crate::{NodeError, TraceReport};

/// The trace that is being recorded, if any.
#[derive(Debug, Default)]
pub(super) struct Traces(Mutex<Option<Arc<Running>>>);

#[derive(Debug)]
struct Running {
    file: PathBuf,
    stop: AtomicBool,
    course: Mutex<(TraceState, TraceReport)>,
}

/// The entry of a trace in [`Traces`]. Dropping it removes the entry.
pub(super) struct Entry<'t> {
    traces: &'t Traces,
    running: Arc<Running>,
}

impl Traces {
    /// Returns the state of the trace that is being recorded, if any.
    pub(super) fn status(&self) -> Option<RunningTrace> {
        let running = lock(&self.0).clone()?;
        let (state, report) = *lock(&running.course);
        Some(RunningTrace { file: running.file.clone(), state, report })
    }

    /// Notes that a trace begins.
    ///
    /// # Errors
    /// Another trace is being recorded.
    pub(super) fn begin(&self, file: PathBuf) -> Result<Entry<'_>, Failure> {
        let mut place = lock(&self.0);
        if place.is_some() {
            return Err(NodeError::TraceRunning.into());
        }
        let course = Mutex::new((TraceState::Starting, TraceReport::default()));
        let running = Arc::new(Running { file, stop: AtomicBool::new(false), course });
        *place = Some(Arc::clone(&running));
        Ok(Entry { traces: self, running })
    }

    /// Asks the trace that is being recorded to stop. Returns its file, if there is one.
    pub(super) fn stop(&self) -> Option<PathBuf> {
        let running = lock(&self.0).clone()?;
        running.stop.store(true, Relaxed);
        Some(running.file.clone())
    }
}

impl Entry<'_> {
    /// Returns whether a client asked it to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.running.stop.load(Relaxed)
    }

    /// Notes how far it is.
    pub(super) fn is(&self, state: TraceState, report: TraceReport) {
        *lock(&self.running.course) = (state, report);
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        *lock(&self.traces.0) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_trace_at_a_time_and_its_place_is_given_back() {
        let traces = Traces::default();
        assert_eq!(traces.status(), None);
        let entry = traces.begin("/a.trace".into()).expect("the first");
        assert!(traces.begin("/b.trace".into()).is_err());
        assert_eq!(traces.status().map(|trace| trace.state), Some(TraceState::Starting));
        entry.is(TraceState::Recording, TraceReport { runs: 7, ..TraceReport::default() });
        let status = traces.status().expect("it is being taken");
        assert_eq!((status.state, status.report.runs), (TraceState::Recording, 7));
        drop(entry);
        assert_eq!(traces.status(), None);
        assert!(traces.begin("/b.trace".into()).is_ok());
    }
}
