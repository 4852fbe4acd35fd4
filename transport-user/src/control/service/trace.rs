//! Traces for clients, one at a time, from the request to the complete file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::protocol::answer::{RunningTrace, Stopping, TraceEnd, TraceState, Traced};
use super::super::protocol::{FailureKind, request};
use super::{Failure, NodeService, ProgressSender, absolute};
use crate::common::mutex::lock;
use crate::{Error, TraceOptions, TraceReport};

/// Interval at which the progress of a trace is read.
const LOOK: Duration = Duration::from_millis(50);
/// Interval at which the end of a recording is waited for.
const ENDING: Duration = Duration::from_millis(2);

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
struct Entry<'t> {
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

    fn begin(&self, file: PathBuf) -> Result<Entry<'_>, Failure> {
        let mut place = lock(&self.0);
        if place.is_some() {
            return Err(Error::TraceRunning.into());
        }
        let course = Mutex::new((TraceState::Starting, TraceReport::default()));
        let running = Arc::new(Running { file, stop: AtomicBool::new(false), course });
        *place = Some(Arc::clone(&running));
        Ok(Entry { traces: self, running })
    }
}

impl Entry<'_> {
    fn is(&self, state: TraceState, report: TraceReport) {
        *lock(&self.running.course) = (state, report);
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        *lock(&self.traces.0) = None;
    }
}

impl NodeService {
    /// Records a trace until a limit is reached, a client stops it or its client disconnects.
    pub(super) async fn trace(
        &self,
        what: request::Trace,
        progress: &ProgressSender,
    ) -> Result<Traced, Failure> {
        let request::Trace { file, runs, duration_ms } = what;
        absolute(&file)?;
        let entry = self.inner.traces.begin(file.clone())?;
        let node = self.node().clone();
        let options =
            TraceOptions { file: file.clone(), runs, duration: duration_ms.map(Duration::from_millis) };
        // Loading programs and writing files block, so another thread does it.
        let tracing = blocking(move || node.trace(options)).await?;
        while !tracing.is_done() && progress.is_wanted() && !entry.running.stop.load(Relaxed) {
            let report = tracing.report();
            entry.is(TraceState::Recording, report);
            match (runs, duration_ms) {
                (Some(runs), _) => progress.report(report.runs.min(runs), Some(runs)),
                (None, Some(all)) => progress.report(report.elapsed_ms.min(all), Some(all)),
                (None, None) => progress.report(report.runs, None),
            }
            tokio::time::sleep(LOOK).await;
        }
        let ended_by = if tracing.is_done() { TraceEnd::Limit } else { TraceEnd::Request };
        tracing.end_recording();
        while !tracing.is_done() {
            tokio::time::sleep(ENDING).await;
        }
        // Nothing is recorded or lost any more. Only the file may take longer.
        entry.is(TraceState::Writing, tracing.report());
        let report = blocking(move || tracing.stop()).await?;
        Ok(Traced { file, ended_by, report })
    }

    pub(super) fn stop_trace(&self) -> Result<Stopping, Failure> {
        let running = lock(&self.inner.traces.0).clone();
        let running =
            running.ok_or_else(|| Failure::invalid("this node records no trace: start one first"))?;
        running.stop.store(true, Relaxed);
        Ok(Stopping { stopping: running.file.clone() })
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => Err(Failure::new(FailureKind::Node, error.to_string())),
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
