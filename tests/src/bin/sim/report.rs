//! The result for people and for programs.

use std::fmt;

use serde::Serialize;
use tiercel_tests::simulation::{Reached, Scenario};

use crate::options::Options;
use crate::play::{Failure, Played};
use crate::shrink::Reduction;

/// The result of all seeds.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Number of seeds played.
    pub(crate) seeds: u64,
    /// Steps of cards in all of them.
    pub(crate) steps: u64,
    /// Virtual time of all of them, seconds.
    pub(crate) virtual_seconds: f64,
    /// What happened in all of them, and how often.
    pub(crate) reached: Reached,
    /// Time that it took, seconds.
    pub(crate) seconds: f64,
    /// Number of threads.
    pub(crate) jobs: usize,
    /// The failed seeds, in their order.
    pub(crate) failed: Vec<Failed>,
    /// The last events, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<String>,
}

/// A failed seed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Failed {
    seed: u64,
    /// The check that failed, after shrinking.
    message: String,
    /// Where the check is.
    location: String,
    /// The command that plays it again.
    command: String,
    /// Hosts, links, operations and faults that are left.
    left: String,
    /// The last events before the failure.
    trace: String,
}

impl Report {
    pub(crate) fn add(&mut self, played: &Played) {
        self.seeds += 1;
        self.steps += played.steps;
        self.virtual_seconds += played.picoseconds as f64 / 1e12;
        self.reached.add(&played.reached);
        self.jobs = self.jobs.max(1);
    }

    /// Returns how many seeds one CPU plays in an hour.
    fn per_core_hour(&self) -> f64 {
        self.seeds as f64 * 3600.0 / (self.seconds * self.jobs as f64).max(1e-9)
    }
}

impl Failed {
    pub(crate) fn new(
        scenario: &Scenario,
        options: &Options,
        (reductions, failure): (Vec<Reduction>, Failure),
    ) -> Self {
        let mut command = format!("cargo xtask sim --seed {}{}", scenario.seed, options.changed());
        let all: Vec<String> = options.reduce.iter().chain(&reductions).map(ToString::to_string).collect();
        if !all.is_empty() {
            command += &format!(" --reduce {}", all.join(","));
        }
        let reduced =
            reductions.iter().try_fold(scenario.clone(), |scenario, reduction| reduction.apply(&scenario));
        let left = reduced.as_ref().unwrap_or(scenario);
        let operations: Vec<[usize; 2]> = left.links.iter().map(|link| link.operations).collect();
        let faults: Vec<String> = left.faults.iter().map(ToString::to_string).collect();
        Self {
            seed: scenario.seed,
            message: failure.message,
            location: failure.location,
            command,
            left: format!(
                "{} hosts, links with {operations:?} operations, faults: {}",
                left.hosts.len(),
                if faults.is_empty() { "none".to_owned() } else { faults.join("; ") }
            ),
            trace: failure.trace.unwrap_or_default(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(trace) = &self.trace {
            writeln!(f, "{trace}")?;
        }
        for failed in &self.failed {
            writeln!(f, "{}seed {}: {}", failed.trace, failed.seed, failed.message)?;
            writeln!(f, "    checked at {}", failed.location)?;
            writeln!(f, "    left: {}", failed.left)?;
            writeln!(f, "    play it again: {} --trace\n", failed.command)?;
        }
        writeln!(f, "what happened, and how often:\n{}", self.reached)?;
        writeln!(
            f,
            "{} seeds, {} failed: {:.1} s on {} threads, {} steps of cards, {:.1} s of virtual time",
            self.seeds,
            self.failed.len(),
            self.seconds,
            self.jobs,
            self.steps,
            self.virtual_seconds
        )?;
        writeln!(f, "one CPU plays {:.0} seeds an hour", self.per_core_hour())
    }
}
