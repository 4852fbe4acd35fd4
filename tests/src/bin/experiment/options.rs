//! The options of the command line.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{Parser, ValueEnum};
use fabric_model::{Rate, Span};
use tiercel::Tuning;
use tiercel::congestion::{AlgorithmChoice, CongestionControl as Control, CongestionParameters};
use tiercel::quantity::{parse_integer, parse_number, whole};
use transport_common::congestion::algorithm::AlgorithmId;
use transport_common::congestion::parameters::{Parameters, Prepared};
use transport_common::congestion::settings::Placement;

/// Runs experiments in a data centre on virtual time, whose hosts run the same datapath as the XDP programs, or
/// on real packets. Checks their promises, and writes JSON, plots (SVG) and a report (HTML).
#[derive(Clone, Debug, Parser)]
#[command(
    name = "cargo xtask experiment",
    bin_name = "cargo xtask experiment",
    after_help = "Examples:
  cargo xtask experiment
  cargo xtask experiment single-flow fairness --seed 7
  cargo xtask experiment incast --rate 200Gbps --json incast.json
  cargo xtask experiment --live single-flow --rate 200Mbps

The exit code is 0 if all promises are kept, else 1."
)]
pub(crate) struct Options {
    /// The experiments to run; without a name, all
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<Name>,

    /// Seed; decides everything that is random
    #[arg(long, default_value_t = 1, value_parser = parse_integer)]
    pub(crate) seed: u64,

    /// Congestion control of every connection
    #[arg(long, value_name = "ALGORITHM", default_value = "swift")]
    pub(crate) cc: CongestionControl,

    /// Set a parameter of congestion control by the specification's name; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,

    /// Initial fabric window, packets
    #[arg(long, value_name = "PACKETS", default_value_t = 32.0, value_parser = fcwnd)]
    pub(crate) fcwnd: f64,

    /// Initial NIC window, packets
    #[arg(long, value_name = "PACKETS", default_value_t = 64, value_parser = whole::<u32>(1..=1024))]
    pub(crate) ncwnd: u32,

    /// Initial retransmission timeout
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub(crate) rto: Span,

    /// Have every connection use the RACK-TLP extension; `tail` compares both in any case
    #[arg(long)]
    pub(crate) rack_tlp: bool,

    /// Rate of the bottleneck [default: 100Gbps; with --live 150Mbps, and 60Mbps for several flows]
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// Use real packets between hosts in network namespaces (needs root), for all experiments except
    /// permutation, profiles and tail. The base delay target is 2 ms and the least retransmission timeout 10 ms, for several flows
    /// 10 ms and 50 ms, unless set otherwise
    #[arg(long)]
    pub(crate) live: bool,

    /// Directory for plots and report, made if it does not exist
    #[arg(long, value_name = "DIR", default_value = "target/experiment")]
    pub(crate) out: PathBuf,

    /// Also write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// The parameters for real packets. The machine often pauses a thread for a part of a millisecond, and
/// sometimes for several milliseconds.
const LIVE: [&str; 2] = ["base_delay_target=2ms", "min_rto=10ms"];
/// A pause of the machine up to this time ends no connection on real packets.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(120);

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// One flow through a bottleneck: ramp and steady state
    SingleFlow,
    /// 2, 8 and 64 flows share a bottleneck, and one more joins
    Fairness,
    /// 5, 50 and 500 hosts write 1 MB each to one host
    Incast,
    /// Random loss from 0.01 % to 5 %, compared with go-back-N
    Loss,
    /// Flows that an unlucky hash puts on one of two paths
    Plb,
    /// A ULP that takes data more slowly than they arrive
    NicCongestion,
    /// Flows that pause and resume
    Idle,
    /// 256 hosts in pairs, over a fabric of leaf and spine switches
    Permutation,
    /// Connections whose packets the timing wheel paces, at gaps up to that of 800 kb/s
    Pacing,
    /// Round trips of 5 us to 100 ms at 10 Mb/s to 100 Gb/s: profile auto beside profile datacenter
    Paths,
    /// Flows with profile auto and with profile datacenter on one bottleneck
    Profiles,
    /// One of four paths is cut, loses packets, or becomes slow
    Failure,
    /// The last packets of a burst are lost: with RACK-TLP and without
    Tail,
}

/// A congestion control algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CongestionControl {
    /// Swift with PLB, on delay
    Swift,
    /// DCQCN, on ECN marks
    Dcqcn,
    /// NewReno, on loss
    Newreno,
    /// A fixed fabric window, `--fcwnd`; the NIC window follows the peer's buffer level
    Fixed,
    /// No algorithm: both windows keep their initial values
    Constant,
}

fn fcwnd(text: &str) -> Result<f64, String> {
    let packets = parse_number(text)?;
    // D-79: one step of the 11.10 fixed point, and its largest whole number.
    let range = 1.0 / 1024.0..=2047.0;
    if range.contains(&packets) { Ok(packets) } else { Err("from 1/1024 to 2047 packets".to_owned()) }
}

impl Options {
    /// Checks that all settings are in range.
    ///
    /// # Errors
    /// The first parameter that is not in range.
    pub(crate) fn check(&self) -> Result<()> {
        self.prepared().map(|_| ())
    }

    /// Returns the parameters: D-78's defaults with the changes of the options.
    fn human_parameters(&self) -> Result<CongestionParameters> {
        let mut parameters = CongestionParameters::DEFAULT;
        if self.cc == CongestionControl::Fixed {
            parameters.fixed_window = self.fcwnd;
        }
        for (name, value) in self.assignments() {
            let value = value.context("--set needs NAME=VALUE, such as base_delay_target=10us")?;
            parameters.set(name, value).map_err(|error| anyhow!("{name}: {error}"))?;
        }
        Ok(parameters)
    }

    /// Returns names and values set. Those that real packets need come first. If a name has several values, the
    /// last one counts.
    fn assignments(&self) -> Vec<(&str, Option<&str>)> {
        let needed: &[&str] = if self.live { &LIVE } else { &[] };
        let all = needed.iter().copied().chain(self.set.iter().map(String::as_str));
        let mut assignments: Vec<(&str, Option<&str>)> = vec![];
        for text in all {
            let (name, value) =
                text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            assignments.retain(|(other, _)| *other != name);
            assignments.push((name, value));
        }
        assignments
    }

    /// Returns these options with `rate` and `set` as defaults for what the command line does not set.
    pub(crate) fn with_defaults(&self, rate: Rate, set: &[&str]) -> Self {
        let set = set.iter().map(|text| (*text).to_owned()).chain(self.set.iter().cloned()).collect();
        Self { rate: Some(self.rate.unwrap_or(rate)), set, ..self.clone() }
    }

    /// Returns the differences from D-78's parameters as text.
    pub(crate) fn changes(&self) -> String {
        let changes: Vec<String> = self
            .assignments()
            .into_iter()
            .map(|(name, value)| format!(", {name}={}", value.unwrap_or_default()))
            .collect();
        format!("D-78{}", changes.concat())
    }

    fn prepared(&self) -> Result<Prepared> {
        self.human_parameters()?.prepare().map_err(|error| anyhow!("{error}"))
    }

    /// Returns the rate of the bottleneck.
    pub(crate) fn rate(&self) -> Rate {
        let bits = if self.live { 150_000_000 } else { 100_000_000_000 };
        self.rate.unwrap_or_else(|| Rate::from_bits_per_second(bits).expect("not zero"))
    }

    fn placement(&self) -> Placement {
        if self.cc == CongestionControl::Constant { Placement::Constant } else { Placement::Kernel }
    }

    fn algorithm_id(&self) -> AlgorithmId {
        match self.cc {
            CongestionControl::Swift => AlgorithmId::Swift,
            CongestionControl::Dcqcn => AlgorithmId::Dcqcn,
            CongestionControl::Newreno => AlgorithmId::NewReno,
            CongestionControl::Fixed => AlgorithmId::Fixed,
            CongestionControl::Constant => AlgorithmId::default(),
        }
    }

    /// Returns the congestion control of every connection.
    ///
    /// # Errors
    /// A setting that cannot be parsed.
    pub(crate) fn control(&self) -> Result<Control> {
        Ok(Control {
            algorithm: AlgorithmChoice::BuiltIn(self.algorithm_id()),
            placement: self.placement(),
            parameters: self.human_parameters()?,
            ..Control::SWIFT
        })
    }

    /// Returns the parameters of the algorithm.
    pub(crate) fn parameters(&self) -> Parameters {
        *self.prepared().unwrap_or_default().parameters()
    }

    /// Returns the first retransmission timeout. On real packets it is twice the least one, because the machine sometimes
    /// pauses a thread for milliseconds.
    pub(crate) fn initial_rto(&self) -> Span {
        let least = Span::from(self.human_parameters().unwrap_or_default().min_rto);
        if self.live { least + least } else { self.rto }
    }

    /// Returns how connections are opened.
    ///
    /// # Errors
    /// A setting that cannot be parsed.
    pub(crate) fn tuning(&self) -> Result<Tuning> {
        Ok(Tuning {
            fcwnd: self.fcwnd,
            ncwnd: self.ncwnd,
            rto: self.initial_rto().into(),
            rack_tlp: self.rack_tlp,
            transaction_timeout: TRANSACTION_TIMEOUT,
            congestion: self.control()?,
            ..Tuning::DEFAULT
        })
    }

    /// Returns the selected experiments, in the order of the list.
    pub(crate) fn experiments(&self) -> Vec<Name> {
        let asked = |name: &Name| self.names.is_empty() || self.names.contains(name);
        Name::value_variants().iter().copied().filter(asked).collect()
    }

    /// Returns the name of the algorithm.
    pub(crate) fn algorithm(&self) -> String {
        self.cc.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use transport_common::units::{Fcwnd, Ticks};

    #[test]
    fn the_defaults_are_those_of_the_specification() {
        Options::command().debug_assert();
        let options = Options::parse_from(["experiment"]);
        // D-78: fcwnd 32, ncwnd 64, RTO 1 ms.
        let default = Tuning {
            transaction_timeout: TRANSACTION_TIMEOUT,
            congestion: Control::SWIFT,
            ..Tuning::DEFAULT
        };
        let tuning = |options: &Options| options.tuning().expect("in range");
        assert_eq!(tuning(&options), default);
        assert_eq!(options.experiments().len(), 13);
        assert_eq!(options.algorithm(), "swift");
        let constant = Options::parse_from(["experiment", "--cc", "constant"]);
        let of_constant = tuning(&constant);
        assert_eq!(of_constant.congestion.placement, Placement::Constant);
        let rack_tlp = Options::parse_from(["experiment", "--cc", "constant", "--rack-tlp"]);
        assert_eq!(tuning(&rack_tlp), Tuning { rack_tlp: true, ..of_constant });
    }

    #[test]
    fn parameters_are_set_and_checked() {
        let options = |arguments: &[&str]| Options::parse_from(["experiment"].iter().chain(arguments));
        let set = options(&["--set", "base_delay_target=10us", "--set", "retransmit_limit=5"]);
        assert!(set.check().is_ok());
        assert_eq!(set.parameters().base_delay_target, Ticks::from_nanos(10_000));
        assert_eq!(set.parameters().retransmit_limit, 5);
        let error = options(&["--set", "retransmit_limit=8"]).check().expect_err("3 bits");
        assert_eq!(format!("{error}"), "retransmit_limit must be 1 to 7 retransmissions");
        let fixed = options(&["--cc", "fixed", "--fcwnd", "20"]);
        assert_eq!(fixed.parameters().fixed_window, Fcwnd::from_packets(20));
        assert!(options(&["--cc", "fixed", "--fcwnd", "300"]).check().is_err(), "above max_fcwnd");
    }

    #[test]
    fn real_packets_have_a_rate_and_a_target_of_their_own() {
        let options =
            |arguments: &[&str]| Options::parse_from(["experiment", "--live"].iter().chain(arguments));
        let live = options(&[]);
        assert_eq!(live.rate().bits_per_second(), 150_000_000);
        assert_eq!(live.parameters().base_delay_target, Ticks::from_nanos(2_000_000));
        assert_eq!(live.changes(), "D-78, base_delay_target=2ms, min_rto=10ms");
        assert_eq!(live.control().map(|control| control.placement).ok(), Some(Placement::Kernel));
        let rate = Rate::from_bits_per_second(60_000_000).expect("not zero");
        let slower = |live: &Options| live.with_defaults(rate, &["base_delay_target=10ms"]);
        assert_eq!(slower(&live).changes(), "D-78, min_rto=10ms, base_delay_target=10ms");
        assert_eq!(slower(&live).rate(), rate);
        let other = options(&["--set", "base_delay_target=3ms", "--rate", "1Gbps"]);
        assert_eq!(slower(&other).parameters(), other.parameters());
        assert_eq!(slower(&other).rate(), other.rate());
        assert_eq!(other.rate().bits_per_second(), 1_000_000_000);
        assert_eq!(other.parameters().base_delay_target, Ticks::from_nanos(3_000_000));
    }

    #[test]
    fn numbers_may_be_hexadecimal() {
        let words = ["experiment", "--seed", "0xff", "--fcwnd", "0x10", "--ncwnd", "0x20"];
        let options = Options::parse_from(words);
        assert_eq!((options.seed, options.fcwnd, options.ncwnd), (255, 16.0, 32));
        for wrong in [["--seed", "0x"], ["--fcwnd", "0x0"], ["--ncwnd", "0x401"]] {
            assert!(Options::try_parse_from(["experiment"].into_iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_choose_and_ranges_are_checked() {
        let options = Options::parse_from(["experiment", "loss", "single-flow", "--fcwnd", "0.5"]);
        assert_eq!(options.experiments(), [Name::SingleFlow, Name::Loss]);
        assert_eq!(options.tuning().map(|tuning| tuning.fcwnd).ok(), Some(0.5));
        for wrong in [["--fcwnd", "0"], ["--fcwnd", "2048"], ["--rate", "0Gbps"], ["--cc", "none"]] {
            let arguments = ["experiment"].into_iter().chain(wrong);
            assert!(Options::try_parse_from(arguments).is_err(), "{wrong:?}");
        }
    }
}
