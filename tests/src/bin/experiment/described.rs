//! The descriptions of the experiments that run in both worlds.

use anyhow::Result;
use lab_report::Experiment;

use crate::options::{Name, Options};
use crate::world::World;
use crate::{failure, fairness, idle, incast, loss, nic_congestion, paths, plb, single_flow};

/// Runs an experiment in a world.
pub(crate) type Described = fn(&Options, &mut dyn World) -> Result<Experiment>;

/// Returns the description of an experiment, which is the same in both worlds; none for an experiment of one world, and for
/// one whose worlds have nothing but its name in common.
pub(crate) fn described(name: Name) -> Option<Described> {
    match name {
        Name::SingleFlow => Some(single_flow::run),
        Name::Fairness => Some(fairness::run),
        Name::Incast => Some(incast::run),
        Name::Loss => Some(loss::run),
        Name::Plb => Some(plb::run),
        Name::NicCongestion => Some(nic_congestion::run),
        Name::Idle => Some(idle::run),
        Name::Paths => Some(paths::run),
        Name::Failure => Some(failure::run),
        Name::Permutation | Name::Pacing | Name::Profiles | Name::Tail => None,
    }
}
