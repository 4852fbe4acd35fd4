//! The experiments on real packets: two hosts in network namespaces, the XDP programs, and between them the live fabric
//! at a rate that the machine carries honestly.

mod course;
mod loss;
mod single_flow;

use anyhow::{Result, bail, ensure};
use lab_report::Experiment;

use crate::options::{Name, Options};

/// All experiments asked for that there are on real packets.
///
/// # Errors
/// Without root, for an experiment that is only simulated, or if hosts and nodes cannot be set up.
pub(crate) fn run(options: &Options) -> Result<Vec<Experiment>> {
    // SAFETY: a system call without arguments.
    let root = unsafe { libc::geteuid() } == 0;
    ensure!(root, "--live needs root: it makes network namespaces and loads XDP programs; run it with sudo");
    let names =
        if options.names.is_empty() { vec![Name::SingleFlow, Name::Loss] } else { options.experiments() };
    names.into_iter().map(|name| experiment(name, options)).collect()
}

fn experiment(name: Name, options: &Options) -> Result<Experiment> {
    match name {
        Name::SingleFlow => single_flow::run(options),
        Name::Loss => loss::run(options),
        _ => bail!("on real packets there are single-flow and loss; the others are simulated only"),
    }
}
