//! `trace`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::{Failure, FailureKind, NodeService, ProgressSender, absolute, value};
use crate::{Error, TraceOptions};

/// How often a trace is looked at.
const LOOK: Duration = Duration::from_millis(50);

impl NodeService {
    /// Takes a trace until a limit is reached or the client is gone.
    pub(super) async fn trace(
        &self,
        file: PathBuf,
        runs: Option<u64>,
        duration_ms: Option<u64>,
        progress: &ProgressSender,
    ) -> Result<Value, Failure> {
        absolute(&file)?;
        let node = self.node().clone();
        let options = TraceOptions { file, runs, duration: duration_ms.map(Duration::from_millis) };
        // Loading programs and writing files are nothing for the threads that answer.
        let tracing = blocking(move || node.trace(options)).await?;
        while !tracing.is_done() && progress.is_wanted() {
            let report = tracing.report();
            match (runs, duration_ms) {
                (Some(runs), _) => progress.report(report.runs.min(runs), runs),
                (None, Some(all)) => progress.report(report.elapsed_ms.min(all), all),
                (None, None) => {}
            }
            tokio::time::sleep(LOOK).await;
        }
        value(blocking(move || tracing.stop()).await?)
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
