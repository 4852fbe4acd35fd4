//! The common interface of all experiments with hardware models.
//!
//! A crate with experiments has a list of [`Named`] functions. Each function has the type [`Run`]: it takes
//! [`Options`], reports its [`Progress`], and returns the common report [`lab_report::Experiment`]. This crate has
//! no model of its own, and no unit of time except `limit_us` in [`Options`], which is in simulated microseconds.
//!
//! `tiercel model experiment` lists the experiments of all crates. `tiercel model experiment cache-skew` runs one
//! of them, and `--all` runs all. The pages that `docs/model.md` lists give the expected and the measured
//! results.
//!
//! # Example
//!
//! ```
//! use lab_report::Experiment;
//! use model_experiment::{Named, Options, Progress};
//!
//! fn nothing(options: &Options, progress: Progress<'_>) -> anyhow::Result<Experiment> {
//!     progress(1, 1);
//!     Ok(Experiment::in_cycles("nothing", "What does nothing take?", "No work.", options.seed))
//! }
//!
//! let named = Named { name: "nothing", question: "What does nothing take?", run: nothing };
//! let report = (named.run)(&Options::default(), &mut |_, _| {})?;
//! assert_eq!(report.seed, model_experiment::SEED);
//! # Ok::<(), anyhow::Error>(())
//! ```

use anyhow::Result;
use lab_report::Experiment;

/// The options of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of everything random.
    pub seed: u64,
    /// Maximum simulated time of one run, in simulated microseconds. With `None` a run takes as long as its
    /// question needs. With a shorter limit, verdicts that need the whole time fail.
    pub limit_us: Option<u64>,
}

/// The seed of the published figures.
pub const SEED: u64 = 1;

impl Default for Options {
    fn default() -> Self {
        Self { seed: SEED, limit_us: None }
    }
}

/// A callback for the progress of an experiment: steps done, and the number of all steps.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// A function that runs an experiment.
pub type Run = fn(&Options, Progress<'_>) -> Result<Experiment>;

/// An experiment with a name.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The name on the command line.
    pub name: &'static str,
    /// The question that it answers.
    pub question: &'static str,
    /// The function that runs it.
    pub run: Run,
}
