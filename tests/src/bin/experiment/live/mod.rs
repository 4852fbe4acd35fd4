//! The experiments on real packets: hosts in network namespaces, the XDP programs, and between them the live
//! fabric at a rate that the machine can carry.

mod nodes;
mod pacing;
mod pacing_load;
mod pacing_report;
mod receiver;
mod tcp;

use anyhow::{Context, Result, bail, ensure};
use fabric_model::Rate;
use lab_report::{Experiment, World as Kind};

use crate::described::described;
use crate::options::{Name, Options};
use crate::run::Run;
use crate::world::{Description, Sender, World};

/// The experiments on real packets.
pub(crate) const NAMES: [Name; 10] = [
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
/// level, because a retransmission would reduce the fabric window. No pause reaches the delay target, because the fabric
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
    let mut world = Live { next_cid: FIRST_CID };
    names.into_iter().map(|name| experiment(name, options, &mut world)).collect()
}

fn experiment(name: Name, options: &Options, world: &mut Live) -> Result<Experiment> {
    if let Some(described) = described(name) {
        return described(&options_of(name, options)?, world);
    }
    match name {
        Name::Pacing => pacing::run(options),
        Name::Permutation => bail!("permutation needs 256 nodes, so leave out --live to simulate it"),
        _ => bail!("this experiment is only simulated, so leave out --live"),
    }
}

/// Returns the options of an experiment: rate and parameters that suit real packets, unless the command line sets others.
pub(crate) fn options_of(name: Name, options: &Options) -> Result<Options> {
    let slower = |set| Rate::from_bits_per_second(SLOWER).map(|rate| options.with_defaults(rate, set));
    match name {
        Name::Fairness | Name::Incast | Name::Plb | Name::Idle => slower(&SEVERAL).context("not zero"),
        Name::NicCongestion => slower(&WAITING).context("not zero"),
        _ => Ok(options.clone()),
    }
}

/// The first CID.
const FIRST_CID: u32 = 100;

/// Real packets. Each run has hosts, a fabric and nodes of its own.
struct Live {
    /// CIDs are not used twice, because they decide the paths.
    next_cid: u32,
}

impl World for Live {
    fn kind(&self) -> Kind {
        Kind::Live
    }

    fn run(&mut self, what: &str, described: Description) -> Result<Run> {
        eprintln!("{what}");
        let run = match described.sender {
            Sender::Falcon => nodes::run(&described, &mut self.next_cid),
            Sender::Tcp(algorithm) => tcp::run(&described, algorithm),
        };
        run.with_context(|| what.to_owned())
    }
}
