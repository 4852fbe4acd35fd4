//! What an experiment with a model is told, and what it gives.
//!
//! A crate with experiments lists them as [`Named`] functions that give the common report of `lab_report`. Whoever makes
//! them, like `tiercel model experiment`, hands over [`Options`] and is told of the [`Progress`].

use anyhow::Result;
use lab_report::Experiment;

/// What an experiment may be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Of everything random.
    pub seed: u64,
    /// Longest time to simulate in one run, in simulated microseconds; None: as long as the question needs. A shorter
    /// one leaves promises unkept that need the whole time.
    pub limit_us: Option<u64>,
}

/// The seed of published figures.
pub const SEED: u64 = 1;

impl Default for Options {
    fn default() -> Self {
        Self { seed: SEED, limit_us: None }
    }
}

/// Told how far an experiment is: steps done, and all of them.
pub type Progress<'a> = &'a mut dyn FnMut(usize, usize);

/// Makes an experiment.
pub type Run = fn(&Options, Progress<'_>) -> Result<Experiment>;

/// An experiment one can ask for.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// By which it is asked for.
    pub name: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// Makes it.
    pub run: Run,
}
