//! The experiments with the hardware model, by name: what `tiercel model experiment` makes.
//!
//! A room of the model that has experiments lists them here, each as a function that gives the common report.

use anyhow::Result;
use lab_report::Experiment;

use crate::context_cache::experiments as context_cache;
use crate::falcon_nic::experiments as falcon_nic;
use crate::p4::experiments as p4;
use crate::tonic::experiments as tonic;
use crate::tonic_network::experiments as tonic_network;

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

/// The rooms' lists, in the order in which `--all` makes them.
const ROOMS: [&[Named]; 5] = [tonic::ALL, tonic_network::ALL, context_cache::ALL, falcon_nic::ALL, p4::ALL];

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Named> {
    ROOMS.into_iter().flatten()
}

/// The experiment of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Named> {
    all().find(|named| named.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_and_found() {
        let names: Vec<_> = all().map(|named| named.name).collect();
        for (place, name) in names.iter().enumerate() {
            assert!(!names[..place].contains(name), "{name}");
            assert_eq!(find(name).map(|found| found.name), Some(*name));
        }
        assert!(find("tonic-flight").is_none());
    }

    #[test]
    fn an_experiment_reports() {
        let conflicts = find("tonic-conflicts").expect("it is listed");
        let report = (conflicts.run)(&Options::default(), &mut |_, _| {}).expect("it needs nothing");
        assert!(report.name == conflicts.name && report.verdicts.iter().all(|verdict| verdict.holds));
        assert!(!report.details.is_null() && !report.cases.is_empty());
    }
}
