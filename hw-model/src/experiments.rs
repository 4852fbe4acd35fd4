//! The list of all experiments with the hardware models. `tiercel model experiment` runs them by name.
//!
//! [`all`] returns every experiment, [`find`] the one with a given name. The `run` function of an experiment
//! returns a report of the crate `lab_report`.
//!
//! ```no_run
//! use model_experiment::Options;
//!
//! let conflicts = hw_model::experiments::find("tonic-conflicts").expect("the list has this name");
//! let report = (conflicts.run)(&Options::default(), &mut |done, all| println!("{done} of {all}"))?;
//! assert!(report.verdicts.iter().all(|verdict| verdict.holds));
//! # Ok::<(), anyhow::Error>(())
//! ```

use model_experiment::Named;

/// The lists of the crates, in the order in which `--all` runs them.
const LISTS: [&[Named]; 5] = [
    tonic_model::experiments::ALL,
    tonic_network::experiments::ALL,
    context_cache::experiments::ALL,
    falcon_nic::experiments::ALL,
    swift_p4::experiments::ALL,
];

/// Returns all experiments.
pub fn all() -> impl Iterator<Item = &'static Named> {
    LISTS.into_iter().flatten()
}

/// Returns the experiment with this name, if there is one.
#[must_use]
pub fn find(name: &str) -> Option<&'static Named> {
    all().find(|named| named.name == name)
}

#[cfg(test)]
mod tests {
    use model_experiment::Options;

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
