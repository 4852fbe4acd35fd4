//! The experiments on real packets: hosts in network namespaces, the XDP programs, and between them the live
//! fabric at a rate that the machine can carry.

mod course;
mod failure;
mod fairness;
mod idle;
mod incast;
mod loss;
mod nic_congestion;
mod pacing;
mod pacing_load;
mod pacing_report;
mod paths;
mod plb;
mod rate;
mod series;
mod single_flow;
mod tcp;

use anyhow::{Context, Result, bail, ensure};
use fabric_model::Rate;
use lab_report::Experiment;

use crate::options::{Name, Options};

/// The experiments on real packets.
const NAMES: [Name; 10] = [
    Name::SingleFlow,
    Name::Fairness,
    Name::Incast,
    Name::Loss,
    Name::Plb,
    Name::NicCongestion,
    Name::Idle,
    Name::Pacing,
    Name::Paths,
    Name::Failure,
];

/// Rate for several flows or nodes, bits per second. A pause of a thread must be short compared with what a
/// queue holds.
const SLOWER: u64 = 60_000_000;
/// The parameters for this rate.
const SEVERAL: [&str; 2] = ["base_delay_target=10ms", "min_rto=50ms"];
/// The parameters if requests wait for their ULP. The timeout is longer than their wait at Swift's target
/// level, because a copy would reduce the fabric window. No pause reaches the delay target, because the fabric
/// is not slow here.
const WAITING: [&str; 2] = ["base_delay_target=100ms", "min_rto=500ms"];

/// Runs the selected experiments on real packets.
///
/// # Errors
/// Without root, for an experiment that is only simulated, or if hosts and nodes cannot be set up.
pub(crate) fn run(options: &Options) -> Result<Vec<Experiment>> {
    // SAFETY: a system call without arguments.
    let root = unsafe { libc::geteuid() } == 0;
    ensure!(
        root,
        "--live needs root, because it makes network namespaces and loads XDP programs; run it with sudo"
    );
    let names = if options.names.is_empty() { NAMES.to_vec() } else { options.experiments() };
    names.into_iter().map(|name| experiment(name, options)).collect()
}

fn experiment(name: Name, options: &Options) -> Result<Experiment> {
    let slower = |set| Rate::from_bits_per_second(SLOWER).map(|rate| options.with_defaults(rate, set));
    let several = || slower(&SEVERAL).context("not zero");
    match name {
        Name::SingleFlow => single_flow::run(options),
        Name::Loss => loss::run(options),
        Name::Fairness => fairness::run(&several()?),
        Name::Incast => incast::run(&several()?),
        Name::Plb => plb::run(&several()?),
        Name::Idle => idle::run(&several()?),
        Name::NicCongestion => nic_congestion::run(&slower(&WAITING).context("not zero")?),
        Name::Pacing => pacing::run(options),
        Name::Permutation => bail!("permutation needs 256 nodes, so leave out --live to simulate it"),
        Name::Paths => paths::run(options),
        Name::Failure => failure::run(options),
        Name::Profiles | Name::Tail => bail!("this experiment is only simulated, so leave out --live"),
    }
}
