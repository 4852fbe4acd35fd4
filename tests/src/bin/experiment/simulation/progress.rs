//! The progress of the experiments.

use indicatif::{ProgressBar, ProgressStyle};

/// Shows the progress on a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Creates the bar. indicatif draws on the standard error stream, and only if that is a terminal.
    pub(super) fn new(runs: u64) -> Self {
        let style = ProgressStyle::with_template("{msg:<36} {wide_bar} {pos:>4}/{len:<4} {eta:>4}");
        Self(ProgressBar::new(runs).with_style(style.expect("the template is well-formed")))
    }

    /// Performs one run.
    pub(crate) fn run<T>(&self, what: impl Into<String>, work: impl FnOnce() -> T) -> T {
        self.0.set_message(what.into());
        let outcome = work();
        self.0.inc(1);
        outcome
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
