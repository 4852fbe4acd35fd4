//! The experiments on virtual time.

mod failure;
mod fairness;
mod idle;
mod incast;
mod loss;
mod measure;
mod nic_congestion;
mod pacing;
mod paths;
mod permutation;
mod plb;
mod profiles;
mod progress;
mod series;
mod setup;
mod single_flow;
mod tail;
#[cfg(test)]
mod tests;

use anyhow::Result;
use lab_report::Experiment;

use crate::options::{Name, Options};
use progress::Progress;

/// Runs the selected experiments.
///
/// # Errors
/// If an experiment cannot be set up.
pub(crate) fn run(options: &Options) -> Result<Vec<Experiment>> {
    let names = options.experiments();
    let progress = Progress::new(names.iter().map(|name| runs(*name, options)).sum());
    let experiments = names.iter().map(|name| experiment(*name, options, &progress)).collect();
    progress.finish();
    experiments
}

/// Returns the number of runs of an experiment.
fn runs(name: Name, options: &Options) -> u64 {
    match name {
        Name::Fairness => fairness::COUNTS.len() as u64,
        Name::Incast => incast::COUNTS.len() as u64,
        Name::Loss => loss::RATES.len() as u64,
        Name::Plb => plb::runs(options),
        Name::Pacing => pacing::RUNS.len() as u64,
        Name::Paths => 2 * paths::PATHS.len() as u64,
        Name::Profiles => profiles::CASES.len() as u64,
        Name::Failure => failure::runs(),
        Name::Tail => tail::runs(),
        Name::SingleFlow | Name::NicCongestion | Name::Idle | Name::Permutation => 1,
    }
}

fn experiment(name: Name, options: &Options, progress: &Progress) -> Result<Experiment> {
    match name {
        Name::SingleFlow => single_flow::run(options, progress),
        Name::Fairness => fairness::run(options, progress),
        Name::Incast => incast::run(options, progress),
        Name::Loss => loss::run(options, progress),
        Name::Plb => plb::run(options, progress),
        Name::NicCongestion => nic_congestion::run(options, progress),
        Name::Idle => idle::run(options, progress),
        Name::Permutation => permutation::run(options, progress),
        Name::Pacing => pacing::run(options, progress),
        Name::Paths => paths::run(options, progress),
        Name::Profiles => profiles::run(options, progress),
        Name::Failure => failure::run(options, progress),
        Name::Tail => tail::run(options, progress),
    }
}
