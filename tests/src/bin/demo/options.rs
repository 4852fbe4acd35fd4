//! The options of the command line.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;
use fabric_model::{FabricConfig, Impairments, Probability, Scope, Span};
use tiercel::Tuning;
use tiercel::quantity::{parse_integer, parse_number, whole};
use tiercel_tests::nodes::Setup;

/// Moves a file between two hosts by Falcon, through a fabric that loses, reorders, duplicates and corrupts
/// packets: by WRITE, back by READ, and by SEND. Compares hashes. Then measures 64-byte operations on a direct
/// link, and shows what happened to every packet.
///
/// The hosts are network namespaces, which are removed when the program ends. Needs root.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask run",
    bin_name = "cargo xtask run",
    after_help = "Examples:
  cargo xtask run
  cargo xtask run --file /boot/vmlinuz --json report.json
  cargo xtask run --loss 5% --reorder 10% --seed 42
  cargo xtask run --link delay=1ms,rate=200Mbps --rto 50ms --ipv6

The exit code is 0 if all hashes agree, every pool is empty at the end and every packet is accounted for, else 1."
)]
pub(crate) struct Options {
    /// The file to move, of any size; without this option, a generated file
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    pub(crate) file: Option<PathBuf>,

    /// Size of the generated file, in MiB
    #[arg(long, value_name = "MiB", default_value_t = 64, value_parser = whole::<u64>(1..=1 << 20))]
    pub(crate) size: u64,

    /// Share of the packets that are lost, in each direction
    #[arg(long, value_name = "P", default_value = "1%")]
    pub(crate) loss: Probability,

    /// Share of the packets that are overtaken by others
    #[arg(long, value_name = "P", default_value = "1%")]
    pub(crate) reorder: Probability,

    /// Share of the packets that arrive twice
    #[arg(long, value_name = "P", default_value = "0.1%")]
    pub(crate) duplicate: Probability,

    /// Share of the packets in which one bit is flipped
    #[arg(long, value_name = "P", default_value = "0.1%")]
    pub(crate) corrupt: Probability,

    /// Other settings of the links, such as delay=50us,jitter=5us,rate=1Gbps,queue=256KiB,burst=0.1%/25%/100%
    #[arg(long, value_name = "KEY=VALUE,...", default_value = "")]
    pub(crate) link: Impairments,

    /// Seed; decides which packets are impaired
    #[arg(long, default_value_t = 1, value_parser = parse_integer)]
    pub(crate) seed: u64,

    /// Fabric window, in packets, 1 to 128. It is constant: the demo runs without congestion control on
    /// purpose, so that only the fabric decides what is lost
    #[arg(long, value_name = "PACKETS", default_value_t = 64.0, value_parser = parse_window)]
    pub(crate) fcwnd: f64,

    /// Retransmission timeout; must exceed the time that a full window takes through the fabric on a busy machine
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    pub(crate) rto: Span,

    /// Use IPv6 instead of IPv4
    #[arg(long)]
    pub(crate) ipv6: bool,

    /// Number of 64-byte operations of each kind whose latency is measured on the direct link
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole::<u64>(1..=u64::MAX))]
    pub(crate) operations: u64,

    /// Also write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Parses a window in packets. The sliding windows hold 128 packets.
fn parse_window(text: &str) -> Result<f64, String> {
    let packets = parse_number(text).ok().filter(|packets| (1.0..=128.0).contains(packets));
    packets.ok_or_else(|| format!("\"{text}\" is none: a window has 1 to 128 packets"))
}

impl Options {
    /// Checks what the types of the options cannot express.
    pub(crate) fn check(&self) -> Result<()> {
        let link = &self.link;
        let own = [link.loss, link.reorder, link.duplicate, link.corrupt] == [Probability::NEVER; 4];
        ensure!(
            own,
            "--link: loss, reorder, duplicate and corrupt cannot be set here; use --loss, --reorder, --duplicate \
             or --corrupt"
        );
        // Two flips may cancel in the checksum, and the balance could not detect this.
        ensure!(
            link.corrupt_bits.get() == 1,
            "--link: corrupt_bits must be 1, so that each corruption can be found; leave it out"
        );
        Ok(())
    }

    /// Returns the configuration of the fabric. It impairs only UDP, so that each injected fault affects Falcon.
    pub(crate) fn fabric(&self) -> FabricConfig {
        let (loss, reorder) = (self.loss, self.reorder);
        let (duplicate, corrupt) = (self.duplicate, self.corrupt);
        let common =
            Impairments { loss, reorder, duplicate, corrupt, scope: Scope::Udp, ..self.link.clone() };
        FabricConfig { seed: self.seed, common, ..FabricConfig::default() }
    }

    /// Returns the tuning of both ends of both connections.
    pub(crate) fn tuning(&self) -> Tuning {
        Tuning { fcwnd: self.fcwnd, ncwnd: 128, rto: self.rto.into(), ..Setup::CONSTANT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_defaults_are_the_promised_impairments() {
        Options::command().debug_assert();
        let options = Options::parse_from(["demo"]);
        let fabric = "seed=1,loss=1%,reorder=1%,duplicate=0.1%,corrupt=0.1%,scope=udp".parse();
        assert_eq!(Ok(options.fabric()), fabric);
        assert_eq!((options.size, options.ipv6), (64, false));
    }

    #[test]
    fn numbers_may_be_hexadecimal() {
        let words = ["demo", "--size", "0x10", "--seed", "0xff", "--operations", "0x20", "--fcwnd", "0x40"];
        let options = Options::parse_from(words);
        assert_eq!((options.size, options.seed, options.operations, options.fcwnd), (16, 255, 32, 64.0));
        for wrong in [["--size", "0x0"], ["--operations", "0"], ["--fcwnd", "0x81"], ["--seed", "x1"]] {
            assert!(Options::try_parse_from(["demo"].into_iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn more_of_the_link_can_be_set() {
        let options = Options::parse_from(["demo", "--link", "delay=50us,rate=1Gbps", "--loss", "0"]);
        let fabric = "seed=1,reorder=1%,duplicate=0.1%,corrupt=0.1%,delay=50us,rate=1Gbps,scope=udp".parse();
        assert_eq!(Ok(options.fabric()), fabric);
        assert!(options.check().is_ok());
    }

    #[test]
    fn windows_are_what_the_connection_can_hold() {
        for window in ["1", "64.5", "128"] {
            assert!(Options::try_parse_from(["demo", "--fcwnd", window]).is_ok(), "{window}");
        }
        for window in ["0", "0.5", "129", "NaN", "-1", "many"] {
            let error = Options::try_parse_from(["demo", &format!("--fcwnd={window}")]).expect_err(window);
            assert!(error.to_string().contains("packets"), "{error}");
        }
    }

    #[test]
    fn what_the_balance_cannot_follow_is_refused() {
        for link in ["loss=5%", "corrupt_bits=2"] {
            let error = Options::parse_from(["demo", "--link", link]).check().expect_err(link);
            assert!(error.to_string().starts_with("--link: "), "{error}");
        }
    }
}
