//! `conn`, and `--cc` and its like.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use transport_user::congestion::{CongestionChange, Placement};
use transport_user::quantity::{parse_duration, parse_u32, whole};

use crate::values::{PeerAddress, parse_peer};

/// `conn`.
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
  tiercel conn connect 10.7.0.2 --cc dcqcn --placement kernel --profile rack")]
    Connect {
        /// ADDRESS or ADDRESS:PORT.
        #[arg(value_parser = parse_peer)]
        peer: PeerAddress,
        /// Requests may complete in any order.
        #[arg(long)]
        unordered: bool,
        #[command(flatten)]
        congestion: CongestionArguments,
    },
    /// Show or change a connection's congestion control, while traffic flows.
    ///
    /// Windows, timeout and smoothed delays go on from where they are, within the new limits. Without options it shows what is set.
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
    /// Watch a connection: windows, delays, goodput and retransmissions over time; with --json a line of JSON each time.
    #[command(after_help = "\
Examples:
  tiercel conn watch 5
  tiercel conn watch 5 --interval 100ms --count 50 --json | jq .fcwnd")]
    Watch(Watch),
    /// Set a static connection back to its beginning, after its peer was started anew; what is outstanding completes in
    /// error. The peer's packets look old to this end until then: it counts from the beginning.
    #[command(after_help = "Example:\n  tiercel conn reset 5")]
    Reset {
        /// Local CID.
        #[arg(value_parser = parse_u32)]
        cid: u32,
    },
    /// Close a connection; what is outstanding completes in error.
    #[command(after_help = "Example:\n  tiercel conn close 5")]
    Close {
        /// Local CID.
        #[arg(value_parser = parse_u32)]
        cid: u32,
    },
}

/// Congestion control by names; what is not named stays.
#[derive(Clone, Debug, Args)]
pub(crate) struct CongestionArguments {
    /// Algorithm: swift, dcqcn, newreno, fixed, or one that the node's own program brings along (`tiercel status`).
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,
    /// Where it runs: in the kernel, in the rate update engine in user space, or nowhere (constant windows).
    #[arg(long, value_name = "PLACE", value_parser = PossibleValuesParser::new(Placement::ALL.map(Placement::name)))]
    pub(crate) placement: Option<String>,
    /// All parameters from [profile.NAME] of the node file.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// One parameter, written as in the node file; may be repeated, comes after the profile.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) set: Vec<(String, String)>,
    /// Event queue, 0 to 3.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=3))]
    pub(crate) event_queue: Option<u32>,
}

impl From<CongestionArguments> for CongestionChange {
    fn from(arguments: CongestionArguments) -> Self {
        let CongestionArguments { cc, placement, profile, set, event_queue } = arguments;
        Self { algorithm: cc, placement, event_queue, profile, set }
    }
}

/// `conn watch`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Watch {
    /// Local CID.
    #[arg(value_parser = parse_u32)]
    pub(crate) cid: u32,
    /// Time between two lines, from 1 ms.
    #[arg(long, default_value = "1s", value_name = "DURATION", value_parser = parse_interval)]
    pub(crate) interval: Duration,
    /// Lines; until Ctrl-C unless given.
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
    pub(crate) count: Option<u64>,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval < Duration::from_millis(1) {
        Err("the shortest interval is 1ms".into())
    } else {
        Ok(interval)
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("\"{text}\" sets nothing: write NAME=VALUE, such as base_delay_target=40us");
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
