//! Takes away from a scenario whatever its failure does not need.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use tiercel_tests::simulation::{Scenario, Weather};

use crate::play::{Failure, play};

/// Longest time for one seed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something that can be taken away. Its text is the argument of `--reduce`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    /// `link=N`: the link with this number, from 0 on.
    Link(usize),
    /// `fault=N`: the fault with this number, from 0 on.
    Fault(usize),
    /// `half-operations`: half of the operations of each end of a link.
    HalfOperations,
    /// `one-way`: the operations of every link's second end.
    OneWay,
    /// `no-loss`, `no-reorder`, `no-duplicate`, `no-corrupt`, `no-rate`: what the network does.
    Weather(Weather),
    /// `no-drift`: the drift of the clocks.
    Drift,
    /// `no-errors`: operations that the target refuses, and malformed work requests.
    Errors,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(number) => write!(f, "link={number}"),
            Self::Fault(number) => write!(f, "fault={number}"),
            Self::HalfOperations => f.write_str("half-operations"),
            Self::OneWay => f.write_str("one-way"),
            Self::Weather(weather) => write!(f, "no-{}", weather.name()),
            Self::Drift => f.write_str("no-drift"),
            Self::Errors => f.write_str("no-errors"),
        }
    }
}

impl FromStr for Reduction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            let simple: Vec<String> = Self::simple().map(|reduction| reduction.to_string()).collect();
            format!("`{text}` is none of link=N, fault=N, {}", simple.join(", "))
        };
        if let Some((what, number)) = text.split_once('=') {
            let number = number.parse().map_err(|_| unknown())?;
            return match what {
                "link" => Ok(Self::Link(number)),
                "fault" => Ok(Self::Fault(number)),
                _ => Err(unknown()),
            };
        }
        Self::simple().find(|reduction| reduction.to_string() == text).ok_or_else(unknown)
    }
}

impl Reduction {
    fn simple() -> impl Iterator<Item = Self> {
        let weather = Weather::ALL.into_iter().map(Self::Weather);
        [Self::HalfOperations, Self::OneWay, Self::Drift, Self::Errors].into_iter().chain(weather)
    }

    /// Returns everything that might be taken away, what saves most first.
    fn candidates(scenario: &Scenario) -> Vec<Self> {
        let links = (0..scenario.links.len()).map(Self::Link);
        let faults = (0..scenario.faults.len()).map(Self::Fault);
        links
            .chain([Self::HalfOperations, Self::OneWay])
            .chain(faults)
            .chain(Self::simple().skip(2))
            .collect()
    }

    /// Returns the scenario without it; `None` if there is nothing to take away.
    pub(crate) fn apply(self, scenario: &Scenario) -> Option<Scenario> {
        let mut reduced = scenario.clone();
        let changed = match self {
            Self::Link(number) => {
                let there = number < reduced.links.len() && reduced.links.len() > 1;
                if there {
                    reduced.links.remove(number);
                }
                there
            }
            Self::Fault(number) => {
                let there = number < reduced.faults.len();
                if there {
                    reduced.faults.remove(number);
                }
                there
            }
            Self::HalfOperations => {
                let all = || scenario.links.iter().flat_map(|link| link.operations);
                for number in reduced.links.iter_mut().flat_map(|link| &mut link.operations) {
                    *number = number.div_ceil(2);
                }
                all().any(|number| number > 1)
            }
            Self::OneWay => {
                let seconds = reduced.links.iter_mut().map(|link| &mut link.operations[1]);
                seconds.map(|number| std::mem::take(number) > 0).fold(false, |a, b| a | b)
            }
            Self::Weather(weather) => weather.end(&mut reduced.fabric),
            Self::Drift => {
                let drifts = reduced.hosts.iter_mut().map(|host| &mut host.drift_ppm);
                drifts.map(|drift| std::mem::take(drift) != 0).fold(false, |a, b| a | b)
            }
            Self::Errors => {
                let links = reduced.links.iter_mut();
                links
                    .map(|link| std::mem::take(&mut link.errors) | std::mem::take(&mut link.malformed))
                    .fold(false, |a, b| a | b)
            }
        };
        changed.then_some(reduced)
    }
}

/// Takes away from a failed scenario what it can, as long as the same check fails. Returns what was taken away, in
/// this order, and the failure that is left, with its last events. Unless `quiet`, says on standard error that it looks for
/// a smaller case.
pub(crate) fn shrink(scenario: &Scenario, failure: &Failure, quiet: bool) -> (Vec<Reduction>, Failure) {
    let end = Instant::now() + PATIENCE;
    let (mut scenario, mut taken) = (scenario.clone(), vec![]);
    if !quiet {
        eprintln!("seed {} failed; looking for a smaller case", scenario.seed);
    }
    'again: loop {
        for reduction in Reduction::candidates(&scenario) {
            if Instant::now() >= end {
                break 'again;
            }
            let Some(reduced) = reduction.apply(&scenario) else { continue };
            if play(&reduced, false).failure.is_some_and(|left| left.location == failure.location) {
                scenario = reduced;
                taken.push(reduction);
                continue 'again;
            }
        }
        break;
    }
    let left = play(&scenario, true).failure.unwrap_or_else(|| failure.clone());
    (taken, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiercel_tests::simulation::Profile;

    #[test]
    fn a_reduction_is_read_as_it_is_written() {
        let all = Reduction::simple().chain([Reduction::Link(2), Reduction::Fault(0)]);
        for reduction in all {
            assert_eq!(reduction.to_string().parse(), Ok(reduction));
        }
        for wrong in ["", "link", "link=x", "no-sun", "fault=-1"] {
            let refused = wrong.parse::<Reduction>().expect_err("no reduction");
            assert!(refused.contains("link=N") && refused.contains("no-loss"), "{refused}");
        }
    }

    /// Whatever can be taken away leaves a scenario that runs, and after enough of it nothing is left.
    #[test]
    fn everything_can_be_taken_away() {
        let mut scenario = Scenario::with_faults(3, Profile::Exhausting);
        let mut taken = 0;
        while let Some(reduced) =
            Reduction::candidates(&scenario).into_iter().find_map(|reduction| reduction.apply(&scenario))
        {
            scenario = reduced;
            taken += 1;
            assert!(taken < 100, "{scenario:?}");
        }
        assert!(taken > 5 && scenario.faults.is_empty() && scenario.links.len() == 1, "{scenario:?}");
        assert!(play(&scenario, false).failure.is_none());
    }
}
