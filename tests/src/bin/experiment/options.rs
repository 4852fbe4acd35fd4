//! What can be asked for on the command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use hw_model::datacentre::Tuning;
use hw_model::network::{Rate, Span};
use transport_common::units::{Fcwnd, Ticks};

/// Runs experiments in a data centre on virtual time, whose hosts run the very datapath of the XDP programs; computes
/// what was promised of them, and writes JSON, plots (SVG) and a report (HTML).
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask experiment",
    bin_name = "cargo xtask experiment",
    after_help = "Examples:
  cargo xtask experiment
  cargo xtask experiment single-flow fairness --seed 7
  cargo xtask experiment incast --rate 200Gbps --json incast.json

The exit code is 0 if everything promised holds, else 1."
)]
pub(crate) struct Options {
    /// Which experiments; without a name, all
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<Name>,

    /// Decides everything that is random
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Congestion control of every connection
    #[arg(long, value_name = "ALGORITHM", default_value = "fixed")]
    pub(crate) cc: CongestionControl,

    /// Initial fabric window, packets
    #[arg(long, value_name = "PACKETS", default_value_t = 32.0, value_parser = fcwnd)]
    pub(crate) fcwnd: f64,

    /// Initial NIC window, packets
    #[arg(long, value_name = "PACKETS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ncwnd: u32,

    /// Initial retransmission timeout
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub(crate) rto: Span,

    /// Rate of the bottleneck
    #[arg(long, value_name = "RATE", default_value = "100Gbps")]
    pub(crate) rate: Rate,

    /// Directory for plots and report, made if it is not there
    #[arg(long, value_name = "DIR", default_value = "target/experiment")]
    pub(crate) out: PathBuf,

    /// Write the report there as well, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// One flow through a bottleneck: ramp and steady state
    SingleFlow,
    /// 2, 8 and 64 flows share a bottleneck, and another one joins
    Fairness,
    /// 5, 50 and 500 hosts write 1 MB each to one
    Incast,
    /// Random loss from 0.01 % to 5 %, beside go-back-N
    Loss,
    /// Flows that an unlucky hash has put on one of two paths
    Plb,
    /// A ULP that takes data more slowly than it comes
    NicCongestion,
    /// Flows that pause and resume
    Idle,
    /// 256 hosts in pairs, over a fabric of leaf and spine switches
    Permutation,
}

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CongestionControl {
    /// Windows stay what they are at first
    Fixed,
}

fn fcwnd(text: &str) -> Result<f64, String> {
    let packets: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    // D-79: one step of the 11.10 fixed point, and its largest whole number.
    let range = 1.0 / 1024.0..=2047.0;
    if range.contains(&packets) { Ok(packets) } else { Err("from 1/1024 to 2047 packets".to_owned()) }
}

impl Options {
    /// How connections are opened.
    pub(crate) fn tuning(&self) -> Tuning {
        let fraction = f64::from(1u32 << Fcwnd::FRACTION_BITS);
        Tuning {
            fcwnd: Fcwnd((self.fcwnd * fraction).round() as u32),
            ncwnd: self.ncwnd,
            rto: Ticks::from_nanos(self.rto.0 / 1000),
            ..Tuning::default()
        }
    }

    /// Those asked for, in the order of the list.
    pub(crate) fn experiments(&self) -> Vec<Name> {
        let asked = |name: &Name| self.names.is_empty() || self.names.contains(name);
        Name::value_variants().iter().copied().filter(asked).collect()
    }

    /// Name of the algorithm.
    pub(crate) fn algorithm(&self) -> String {
        self.cc.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_defaults_are_those_of_the_specification() {
        Options::command().debug_assert();
        let options = Options::parse_from(["experiment"]);
        // D-78: fcwnd 32, ncwnd 64, RTO 1 ms.
        assert_eq!(options.tuning(), Tuning::default());
        assert_eq!(options.experiments().len(), 8);
        assert_eq!(options.algorithm(), "fixed");
    }

    #[test]
    fn names_choose_and_ranges_are_checked() {
        let options = Options::parse_from(["experiment", "loss", "single-flow", "--fcwnd", "0.5"]);
        assert_eq!(options.experiments(), [Name::SingleFlow, Name::Loss]);
        assert_eq!(options.tuning().fcwnd, Fcwnd(512));
        for wrong in [["--fcwnd", "0"], ["--fcwnd", "2048"], ["--rate", "0Gbps"], ["--cc", "none"]] {
            let arguments = ["experiment"].into_iter().chain(wrong);
            assert!(Options::try_parse_from(arguments).is_err(), "{wrong:?}");
        }
    }
}
