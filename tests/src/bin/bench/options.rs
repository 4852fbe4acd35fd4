//! The options of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use tiercel::quantity::whole;
use tiercel_node::Transmit;

use crate::figures::{Baseline, FIGURES, Figure};

/// Name of the time that congestion control adds to an acknowledgement. It is not a figure of an operation.
const ACKNOWLEDGEMENT: &str = "acknowledgement";

/// Measures Tiercel between two hosts connected by a veth with MTU 3498, and in the same run the raw limit of
/// this machine: the same engine and the same cable without a protocol.
///
/// There is one busy engine on CPU 1, the application on CPU 0, and a sleeping engine at the peer. Raw limit
/// and Tiercel are measured in turn, and the figures are medians over the rounds. The bench never fails because
/// of a number. It needs root and two CPUs.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    bin_name = "cargo xtask bench",
    after_help = "Examples:
  cargo xtask bench
  cargo xtask bench --quick
  cargo xtask bench --rounds 15 --json bench.json
  cargo xtask bench --batch 1      every engine with this batch, whatever the load
  cargo xtask bench --only write_64_rate,read_64_latency
  cargo xtask bench --only read_64_latency,tcp,ucx  and beside it TCP, and UCX if it is installed"
)]
pub(crate) struct Options {
    /// Make fewer and shorter measurements, for a first impression
    #[arg(long)]
    pub(crate) quick: bool,

    /// Number of rounds of raw limit and Tiercel in turn [default: 7, quick: 3]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1000))]
    rounds: Option<u32>,

    /// Milliseconds of each measurement [default: 200, quick: 50]
    #[arg(long, value_name = "MS", value_parser = whole::<u64>(10..=60_000))]
    milliseconds: Option<u64>,

    /// Number of frames that the kernel hands an engine at a time [default: adapted to the load]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=256))]
    pub(crate) batch: Option<u32>,

    /// Have frames leave in this way, whatever the driver takes
    #[arg(long, value_name = "WAY", value_parser = ["xdp_redirect", "stack"])]
    transmit: Option<String>,

    /// Measure only these figures, and the raw limits they are compared with
    #[arg(long, value_name = "FIGURE", value_delimiter = ',', value_parser = names())]
    only: Vec<String>,

    /// Also write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Name of the figures of TCP that belong to figures of Tiercel.
pub(crate) const TCP: &str = "tcp";

/// Name of those of UCX.
pub(crate) const UCX: &str = "ucx";

/// Name of what other connections keep of their rate under a storm on one.
const STORM: &str = "storm";

impl Options {
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 3 } else { 7 })
    }

    /// Returns the length of one measurement.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_millis(self.milliseconds.unwrap_or(if self.quick { 50 } else { 200 }))
    }

    /// How frames are to leave, if not as the driver has it.
    pub(crate) fn transmit(&self) -> Option<Transmit> {
        self.transmit.as_deref().map(|way| way.parse().expect("one of the ways"))
    }

    /// Returns whether a figure is to be measured.
    pub(crate) fn wants(&self, figure: &Figure) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == figure.name)
    }

    /// Returns whether a figure of a baseline ([`TCP`], [`UCX`]) is to be measured: with the one of Tiercel beside it,
    /// so that they are from the same rounds.
    pub(crate) fn wants_beside(&self, baseline: &str, figure: &Baseline) -> bool {
        let named = |name: &str| self.only.iter().any(|only| only == name);
        self.only.is_empty() || (named(baseline) && named(figure.instead_of))
    }

    /// Returns whether the handling of an acknowledgement is to be measured.
    pub(crate) fn wants_acknowledgement(&self) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == ACKNOWLEDGEMENT)
    }

    /// Returns whether storms are to be measured.
    pub(crate) fn wants_storm(&self) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == STORM)
    }
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(FIGURES.map(|figure| figure.name).into_iter().chain([
        ACKNOWLEDGEMENT,
        STORM,
        TCP,
        UCX,
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn numbers_may_be_hexadecimal() {
        let words = ["bench", "--rounds", "0x3", "--milliseconds", "0x10", "--batch", "0x100"];
        let options = Options::parse_from(words);
        assert_eq!((options.rounds, options.milliseconds, options.batch), (Some(3), Some(16), Some(256)));
        for wrong in [["--rounds", "0x0"], ["--milliseconds", "0x9"], ["--batch", "0x101"]] {
            assert!(Options::try_parse_from(["bench"].into_iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn quick_is_shorter_and_numbers_given_prevail() {
        Options::command().debug_assert();
        let full = Options::parse_from(["bench"]);
        let quick = Options::parse_from(["bench", "--quick"]);
        assert!(quick.rounds() < full.rounds() && quick.duration() < full.duration());
        assert_eq!(full.transmit(), None);
        assert_eq!(Options::parse_from(["bench", "--transmit", "stack"]).transmit(), Some(Transmit::Stack));
        let given = Options::parse_from(["bench", "--quick", "--rounds", "9"]);
        assert_eq!((given.rounds(), given.duration()), (9, quick.duration()));
    }

    #[test]
    fn single_figures_can_be_asked_for_by_name() {
        let some = Options::parse_from(["bench", "--only", "write_64_rate,read_64_latency"]);
        let wanted: Vec<_> = FIGURES.iter().filter(|figure| some.wants(figure)).map(|f| f.name).collect();
        assert_eq!(wanted, ["write_64_rate", "read_64_latency"]);
        assert!(!some.wants_acknowledgement() && !some.wants_storm());
        assert!(FIGURES.iter().all(|figure| Options::parse_from(["bench"]).wants(figure)));
        let acknowledgement = Options::parse_from(["bench", "--only", ACKNOWLEDGEMENT]);
        assert!(acknowledgement.wants_acknowledgement() && !FIGURES.iter().any(|f| acknowledgement.wants(f)));
        assert!(Options::try_parse_from(["bench", "--only", "write_65_rate"]).is_err());
        let beside = Options::parse_from(["bench", "--only", "read_64_latency,tcp"]);
        let wanted = crate::tcp::TCP.iter().filter(|figure| beside.wants_beside(TCP, figure));
        assert_eq!(wanted.map(|figure| figure.instead_of).collect::<Vec<_>>(), ["read_64_latency"]);
        assert!(!crate::ucx::UCX.iter().any(|figure| beside.wants_beside(UCX, figure)));
    }
}
