//! The options of the command line.

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use tiercel_tests::simulation::{Profile, Scenario, SmallWorld};
use transport_user::quantity::{parse_integer, whole};

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
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000_000, requires = "exhaustive")]
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
            !self.exhaustive || self.worlds().next().is_some(),
            "--world {}: no small world has this in its name: {}",
            self.world.as_deref().unwrap_or_default(),
            SmallWorld::ALL.map(|world| world.name).join("; ")
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
    pub(crate) fn worlds(&self) -> impl Iterator<Item = &'static SmallWorld> {
        let wanted = |name: &str| self.world.as_ref().is_none_or(|text| name.contains(text));
        SmallWorld::ALL.iter().filter(move |world| wanted(world.name))
    }

    /// Returns the scenario of a seed.
    pub(crate) fn scenario(&self, seed: u64) -> Scenario {
        let profile = match self.profile {
            ProfileChoice::Lossy => Profile::Lossy,
            ProfileChoice::Exhausting => Profile::Exhausting,
            ProfileChoice::Both if seed.is_multiple_of(2) => Profile::Lossy,
            ProfileChoice::Both => Profile::Exhausting,
        };
        Scenario::with_faults(seed, profile)
    }

    /// Returns the option that selects the profile of this seed, with a space before it; empty if it is the default.
    pub(crate) const fn profile_option(&self) -> &'static str {
        match self.profile {
            ProfileChoice::Lossy => " --profile lossy",
            ProfileChoice::Exhausting => " --profile exhausting",
            ProfileChoice::Both => "",
        }
    }
}
