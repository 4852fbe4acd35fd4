//! The options of the command line.

use std::ops::RangeInclusive;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use tiercel::quantity::{parse_integer, whole};
use tiercel_tests::simulation::{Hosts, MOST_HOSTS, Profile, Scenario, SmallWorld};

use crate::shrink::Reduction;

/// Number of seeds without another option.
const SEEDS: u64 = 1000;

/// Plays networks of Falcon nodes on virtual time. A seed decides everything: the connections and their settings, the
/// operations, what the network does to each packet, and what fails. After every event the invariants are checked, at
/// the end every byte and every result. A seed that fails is shrunk to a smaller case, which can be played again.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "cargo xtask sim",
    bin_name = "cargo xtask sim",
    after_help = "Examples:
  cargo xtask sim --seeds 5000
  cargo xtask sim --minutes 10 --first 1000000
  cargo xtask sim --hosts 8 --seeds 500
  cargo xtask sim --exhaustive
  cargo xtask sim --seed 77 --trace
  cargo xtask sim --seed 77 --reduce no-loss,link=1,half-operations

The exit code is 0 if no check failed, else 1."
)]
pub(crate) struct Options {
    /// Number of seeds to play [default: 1000; with --minutes, as many as there is time for]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(1..=u64::MAX))]
    seeds: Option<u64>,

    /// Play for this time, minutes
    #[arg(long, value_name = "MINUTES")]
    pub(crate) minutes: Option<f64>,

    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 0, value_parser = parse_integer)]
    pub(crate) first: u64,

    /// Play only this seed
    #[arg(long, value_name = "SEED", value_parser = parse_integer, conflicts_with_all = ["seeds", "minutes", "first"])]
    pub(crate) seed: Option<u64>,

    /// Take these things away from the scenario of the seed, in this order; a failure names them
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "seed")]
    pub(crate) reduce: Vec<Reduction>,

    /// Show the last events also if no check failed
    #[arg(long, requires = "seed")]
    pub(crate) trace: bool,

    /// What may happen to operations
    #[arg(long, value_enum, default_value_t = ProfileChoice::Both)]
    profile: ProfileChoice,

    /// Number of hosts, or its range, at most 32 [default: 2 or 3, and 4 to 8 in one seed of ten]
    #[arg(long, value_name = "NUMBER|FIRST..LAST", value_parser = parse_hosts, conflicts_with = "exhaustive")]
    hosts: Option<RangeInclusive<usize>>,

    /// Stop after this number of failed seeds
    #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = whole::<usize>(1..=u64::MAX))]
    pub(crate) failures: usize,

    /// Shrink at most this number of failed seeds
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    pub(crate) shrink: usize,

    /// Walk small worlds entirely, in every order in which their events can happen
    #[arg(long, conflicts_with_all = ["seeds", "minutes", "first", "seed"])]
    pub(crate) exhaustive: bool,

    /// Stop the walk of a small world after this number of states
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000_000, requires = "exhaustive")]
    pub(crate) states: u64,

    /// Walk only the small worlds with this text in their names
    #[arg(long, value_name = "TEXT", requires = "exhaustive")]
    world: Option<String>,

    /// Number of threads [default: one for each CPU]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<usize>(1..=1024))]
    jobs: Option<usize>,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Selects the purpose of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileChoice {
    /// Unlimited attempts: every operation ends as if the network were perfect
    Lossy,
    /// Few attempts, short timeouts, restarts of hosts: operations may fail, but never twice and never silently
    Exhausting,
    /// Even seeds are lossy, odd ones exhausting
    Both,
}

impl Options {
    /// Checks what the parser cannot.
    pub(crate) fn check(&self) -> Result<()> {
        let in_order = self.minutes.is_none_or(|minutes| minutes.is_finite() && minutes > 0.0);
        ensure!(
            !self.exhaustive || !self.worlds().is_empty(),
            "--world {}: no small world has this in its name; there are\n{}",
            self.world.as_deref().unwrap_or_default(),
            SmallWorld::all().iter().map(|world| world.name.as_str()).collect::<Vec<_>>().join("\n")
        );
        ensure!(in_order, "--minutes {}: give a number above 0", self.minutes.unwrap_or_default());
        Ok(())
    }

    pub(crate) fn seeds(&self) -> u64 {
        self.seeds.unwrap_or(if self.minutes.is_some() { u64::MAX } else { SEEDS })
    }

    pub(crate) fn jobs(&self) -> usize {
        let cpus = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(cpus)
    }

    /// Returns the small worlds to walk.
    pub(crate) fn worlds(&self) -> Vec<SmallWorld> {
        let wanted = |name: &str| self.world.as_ref().is_none_or(|text| name.contains(text));
        SmallWorld::all().into_iter().filter(|world| wanted(&world.name)).collect()
    }

    /// Returns the scenario of a seed.
    pub(crate) fn scenario(&self, seed: u64) -> Scenario {
        let profile = match self.profile {
            ProfileChoice::Lossy => Profile::Lossy,
            ProfileChoice::Exhausting => Profile::Exhausting,
            ProfileChoice::Both if seed.is_multiple_of(2) => Profile::Lossy,
            ProfileChoice::Both => Profile::Exhausting,
        };
        let hosts = self.hosts.clone().map_or(Hosts::Any, Hosts::Within);
        Scenario::with_faults_among(seed, profile, &hosts)
    }

    /// Returns the options that change what a seed means, with a space before each; empty if all have their defaults.
    pub(crate) fn changed(&self) -> String {
        let profile = match self.profile {
            ProfileChoice::Lossy => " --profile lossy",
            ProfileChoice::Exhausting => " --profile exhausting",
            ProfileChoice::Both => "",
        };
        let hosts = self.hosts.as_ref().map(|hosts| format!(" --hosts {}..{}", hosts.start(), hosts.end()));
        format!("{profile}{}", hosts.unwrap_or_default())
    }
}

/// Reads a number of hosts, or the first and the last of a range.
fn parse_hosts(text: &str) -> Result<RangeInclusive<usize>, String> {
    let refused = || format!("`{text}` is no number from 2 to {MOST_HOSTS} and no range such as 4..8");
    let number = |text: &str| text.parse().map_err(|_| refused());
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let range = number(first)?..=number(last)?;
    let fits = !range.is_empty() && *range.start() >= 2 && *range.end() <= MOST_HOSTS;
    if fits { Ok(range) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_a_number_or_a_range() {
        assert_eq!(parse_hosts("5"), Ok(5..=5));
        assert_eq!(parse_hosts("2..32"), Ok(2..=32));
        for wrong in ["", "1", "33", "1..4", "8..4", "4..33", "..", "four", "-3"] {
            assert!(parse_hosts(wrong).is_err(), "{wrong}");
        }
    }
}
