//! Traces for clients, one at a time, from the request to the complete file.

use std::time::Duration;

use tiercel::control::answer::{Stopping, TraceEnd, TraceState, Traced};
use tiercel::control::{FailureKind, request};

use super::{Failure, NodeService, ProgressSender, absolute};
use crate::{NodeError, TraceOptions};

/// Interval at which the progress of a trace is read.
const LOOK: Duration = Duration::from_millis(50);
/// Interval at which the end of a recording is waited for.
const ENDING: Duration = Duration::from_millis(2);

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
        while !tracing.is_done() && progress.is_wanted() && !entry.is_stopped() {
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
        let none = || Failure::invalid("this node records no trace: start one first");
        Ok(Stopping { stopping: self.inner.traces.stop().ok_or_else(none)? })
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => Err(Failure::new(FailureKind::Node, error.to_string())),
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Library(error) => error.into(),
            NodeError::TraceFile { .. } => Self::new(FailureKind::File, error.to_string()),
            _ => Self::invalid(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// The exit code of `tiercel` follows from it.
    #[test]
    fn clients_learn_what_has_failed() {
        let failed = |error: NodeError| Failure::from(error).kind;
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(failed(NodeError::TraceRunning), FailureKind::Invalid);
        assert_eq!(
            failed(NodeError::TraceFile { file: "/a".into(), hint: "Free some space", source: full() }),
            FailureKind::File
        );
        assert_eq!(failed(tiercel::Error::NodeDown.into()), FailureKind::Node);
        assert_eq!(failed(NodeError::system("read a file", full())), FailureKind::Node);
    }
}
