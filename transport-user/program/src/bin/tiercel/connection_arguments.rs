//! The arguments of `conn`, and the options of congestion control.

use std::net::IpAddr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use tiercel::congestion::{CongestionChange, Placement};
use tiercel::quantity::{parse_duration, parse_u32, whole};
use tiercel_node::connection_manager::PATIENCE;

use crate::values::{PeerAddress, ResetStep, UlpArgument, parse_peer};

/// The subcommands of `conn`.
#[derive(Debug, Subcommand)]
pub(crate) enum Conn {
    /// List all connections.
    #[command(after_help = "Example:\n  tiercel conn list --json")]
    List,
    /// Show one connection in full: windows, sequence numbers, counters, the peer's regions.
    #[command(after_help = "Example:\n  tiercel conn show 5")]
    Show {
        /// Local CID.
        #[arg(value_parser = parse_u32)]
        cid: u32,
    },
    /// Connect to the connection manager of another node.
    #[command(after_help = "\
Examples:
  tiercel conn connect 10.7.0.2
  tiercel conn connect '[fd00::2]:4792' --unordered
  tiercel conn connect 10.7.0.2 --patience 20s --reconnect
  tiercel conn connect 10.7.0.2 --rack-tlp
  tiercel conn connect 10.7.0.2 --rack-tlp=false
  tiercel conn connect 10.7.0.2 --ulp block
  tiercel conn connect 10.7.0.2 --inner-local fd01::1 --inner-peer fd01::2
  tiercel conn connect 10.7.0.2 --cc dcqcn --placement kernel --profile rack")]
    Connect {
        /// ADDRESS or ADDRESS:PORT, for IPv6 `[ADDRESS]:PORT` [default port: 4792].
        #[arg(value_parser = parse_peer)]
        peer: PeerAddress,
        /// Requests may complete in any order [default: ordered].
        #[arg(long)]
        unordered: bool,
        /// Offer the RACK-TLP extension, which finds loss by time and probes the last packet of a burst, or with
        /// `=false` do not offer it. It is on if the peer offers it too: its node file needs `rack_tlp = true` in
        /// [node.tuning] [default: from the node file, else off].
        // Without the equals sign, the peer's address after the option would be taken for its value.
        #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
        rack_tlp: Option<bool>,
        /// Time after which the peer counts as dead if nothing of it arrives, for both ends, 100ms to 1h [default: from the
        /// node file, else 5s].
        #[arg(long, value_name = "DURATION", value_parser = parse_patience)]
        patience: Option<Duration>,
        /// Set the connection up again when it is lost: another connection takes its place, with another CID. Operations
        /// that were outstanding complete in error. `tiercel conn close CID` gives it up [default: it stays lost].
        #[arg(long)]
        reconnect: bool,
        /// The upper layer protocol.
        #[arg(long, value_enum, default_value = "rdma")]
        ulp: UlpArgument,
        /// Tunnel mode: this end's address in an inner IP header, IPv4 or IPv6. No interface needs to have it
        /// [default: transport mode, without an inner IP header].
        #[arg(long, value_name = "ADDRESS", requires = "inner_peer")]
        inner_local: Option<IpAddr>,
        /// Tunnel mode: the peer's address in the inner IP header, of the same IP version. The peer takes what this end
        /// names.
        #[arg(long, value_name = "ADDRESS", requires = "inner_local")]
        inner_peer: Option<IpAddr>,
        #[command(flatten)]
        congestion: CongestionArguments,
    },
    /// Show or change the congestion control of a connection, while traffic flows.
    ///
    /// The windows, the timeout and the smoothed delays keep their values, within the new limits. Without options,
    /// the command shows the current settings. With options, a setting that no option names stays as it is.
    #[command(after_help = "\
Examples:
  tiercel conn cc 5
  tiercel conn cc 5 --cc newreno
  tiercel conn cc 5 --placement user --event-queue 1
  tiercel conn cc 5 --profile rack --set base_delay_target=40us --set max_fcwnd=64
  tiercel conn cc 5 --placement constant")]
    Cc {
        /// Local CID.
        #[arg(value_parser = parse_u32)]
        cid: u32,
        #[command(flatten)]
        congestion: CongestionArguments,
    },
    /// Watch a connection: windows, delays, goodput and retransmissions over time; with --json, one JSON object
    /// per line.
    #[command(after_help = "\
Examples:
  tiercel conn watch 5
  tiercel conn watch 5 --interval 100ms --count 50 --json | jq .fcwnd")]
    Watch(Watch),
    /// Reset a static connection to its initial state, after its peer was restarted. Outstanding operations
    /// complete in error. A restarted peer starts its sequence numbers again, so its packets look old to this end
    /// until the reset.
    #[command(after_help = "Example:\n  tiercel conn reset 5")]
    Reset {
        /// Local CID.
        #[arg(value_parser = parse_u32)]
        cid: u32,
    },
    /// Drop new requests while the host function behind a connection is being reset (xLR), or take them again.
    ///
    /// Operations of this node complete with kCmplLocalXlr, and those of the peer with kCmplRemoteErr. What was accepted
    /// before goes on.
    #[command(after_help = "Examples:\n  tiercel conn xlr 5 begin\n  tiercel conn xlr 5 end")]
    Xlr {
        /// Local CID.
        #[arg(value_parser = parse_u32)]
        cid: u32,
        /// Whether the reset begins or ends.
        #[arg(value_enum)]
        step: ResetStep,
    },
    /// Close a connection. Outstanding operations complete in error.
    #[command(after_help = "Example:\n  tiercel conn close 5")]
    Close {
        /// Local CID.
        #[arg(value_parser = parse_u32)]
        cid: u32,
    },
}

/// Congestion control by names. A setting that is not named stays as it is.
#[derive(Clone, Debug, Args)]
pub(crate) struct CongestionArguments {
    /// Algorithm: swift, dcqcn, newreno, fixed, or a custom algorithm of the node (`tiercel status` lists them),
    /// which runs in user space only [default of a new connection: from the node file, else swift].
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,
    /// Where the algorithm runs: in the kernel, in user space (rate update engine), or nowhere (constant windows)
    /// [default of a new connection: from the node file, else kernel].
    #[arg(long, value_name = "PLACE", value_parser = placements())]
    pub(crate) placement: Option<Placement>,
    /// Take all parameters from [profile.NAME] of the node file [default: no profile].
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Set one parameter, with its unit as in the node file; may be repeated; applied after --profile.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) set: Vec<(String, String)>,
    /// Event queue of the rate update engine, 0 to 3 [default of a new connection: from the node file, else 0].
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=3))]
    pub(crate) event_queue: Option<u32>,
}

impl From<CongestionArguments> for CongestionChange {
    fn from(arguments: CongestionArguments) -> Self {
        let CongestionArguments { cc, placement, profile, set, event_queue } = arguments;
        Self { algorithm: cc, placement, event_queue, profile, set }
    }
}

/// The arguments of `conn watch`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Watch {
    /// Local CID.
    #[arg(value_parser = parse_u32)]
    pub(crate) cid: u32,
    /// Time between two lines, from 1ms.
    #[arg(long, default_value = "1s", value_name = "DURATION", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// Number of lines, from 1 [default: lines until Ctrl-C].
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub(crate) count: Option<u64>,
}

/// Reads the name of a placement.
fn placements() -> impl TypedValueParser<Value = Placement> {
    let names = PossibleValuesParser::new(Placement::ALL.map(Placement::name));
    names.try_map(|name| Placement::from_name(&name).ok_or("unknown placement"))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < Duration::from_millis(1) {
        Err("the interval is too short: write at least 1ms".into())
    } else {
        Ok(interval)
    }
}

fn parse_patience(text: &str) -> Result<Duration, String> {
    let patience = parse_duration(text)?;
    if PATIENCE.contains(&patience) { Ok(patience) } else { Err("a patience is 100ms to 1h".into()) }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("\"{text}\" is not a setting: write NAME=VALUE, such as base_delay_target=40us");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_names_and_values() {
        assert_eq!(parse_setting("max_fcwnd = 64"), Ok(("max_fcwnd".into(), "64".into())));
        assert!(parse_setting("max_fcwnd").is_err());
        assert!(parse_interval("0s").is_err() && parse_interval("1ms").is_ok());
    }
}
