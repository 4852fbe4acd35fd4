//! The experiments with the hardware model, by name: what `tiercel model experiment` makes.
//!
//! A room of the model that has experiments lists them here, each as a function that gives the common report.

use anyhow::Result;
use lab_report::{Experiment, Verdict, World};

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

/// All of them, in the order in which `--all` makes them.
pub const ALL: &[Named] = &[
    Named {
        name: "tonic-hardware",
        question: "Does the model take the published hardware's steps?",
        run: |options, progress| of_tonic(0, options, progress),
    },
    Named {
        name: "tonic-saturation",
        question: "How many segments a second, with how many flows and outstanding addresses?",
        run: |options, progress| of_tonic(1, options, progress),
    },
    Named {
        name: "tonic-rate-limiter",
        question: "How precise is a rate of integers?",
        run: |options, progress| of_tonic(2, options, progress),
    },
    Named {
        name: "tonic-conflicts",
        question: "What becomes of events of one flow in one cycle?",
        run: |options, progress| of_tonic(3, options, progress),
    },
    Named {
        name: "tonic-protocols",
        question: "What does a protocol cost, and does it fit?",
        run: |options, progress| of_tonic(4, options, progress),
    },
    Named {
        name: "tonic-delivery",
        question: "Does every protocol deliver every segment?",
        run: |options, progress| of_tonic(5, options, progress),
    },
    Named {
        name: "tonic-speed",
        question: "How fast is the model itself?",
        run: |options, progress| of_tonic(6, options, progress),
    },
    tonic_network::ALL[0],
    tonic_network::ALL[1],
    tonic_network::ALL[2],
    tonic_network::ALL[3],
    tonic_network::ALL[4],
    tonic_network::ALL[5],
];

/// The experiment of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Named> {
    ALL.iter().find(|named| named.name == name)
}

/// One of Tonic's own list, in the common form.
fn of_tonic(place: usize, options: &Options, progress: Progress<'_>) -> Result<Experiment> {
    let named = ALL[place];
    let report = tonic::run(named.name, progress)?;
    Ok(Experiment {
        name: named.name,
        title: named.question,
        description: String::new(),
        world: World::Cycles,
        seed: options.seed,
        congestion_control: None,
        settings: [].into(),
        cases: vec![],
        verdicts: report.claims.into_iter().map(|claim| Verdict::claim(claim.claim, claim.holds)).collect(),
        figures: vec![],
        details: serde_json::to_value(report.results)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_and_found() {
        for (place, named) in ALL.iter().enumerate() {
            assert!(ALL[..place].iter().all(|other| other.name != named.name), "{}", named.name);
            assert_eq!(find(named.name).map(|found| found.question), Some(named.question));
        }
        assert!(find("tonic-flight").is_none());
    }

    #[test]
    fn tonics_experiments_stand_in_their_order() {
        let names: Vec<_> = ALL.iter().map(|named| named.name).take(tonic::NAMES.len()).collect();
        assert_eq!(names, tonic::NAMES);
        let conflicts = find("tonic-conflicts").expect("it is listed");
        let report = (conflicts.run)(&Options::default(), &mut |_, _| {}).expect("it needs nothing");
        assert!(report.name == conflicts.name && report.verdicts.iter().all(|verdict| verdict.holds));
        assert!(!report.details.is_null());
    }
}
