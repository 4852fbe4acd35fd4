//! `up`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use transport_user::Transmit;
use transport_user::quantity::{parse_duration, parse_u32, whole};

/// `up`. What a node file says too, an option outranks.
#[derive(Debug, Default, Args)]
pub(crate) struct Up {
    /// Node file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Interface to attach to.
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// The node's own address, one of the interface's.
    #[arg(long, value_name = "IP")]
    pub(crate) address: Option<IpAddr>,
    /// Name of the node and its socket; the interface's name unless given.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// IP MTU in bytes; the interface's unless given.
    #[arg(long, value_name = "BYTES", value_parser = parse_u32)]
    pub(crate) mtu: Option<u32>,
    /// TCP port of the connection manager.
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>(1..=u16::MAX.into()))]
    pub(crate) control_port: Option<u16>,
    /// Engine: one CPU in full use, lowest latency.
    #[arg(long, conflicts_with = "sleep")]
    pub(crate) busy: bool,
    /// Engine: sleep when idle, woken by a doorbell (the default).
    #[arg(long)]
    pub(crate) sleep: bool,
    /// CPU of the engine.
    #[arg(long, value_name = "N", value_parser = whole::<usize>(0..=u32::MAX.into()))]
    pub(crate) cpu: Option<usize>,
    /// Frames the engine handles at a time: more is faster, fewer have less latency; adapted to the load unless given.
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=256))]
    pub(crate) batch: Option<u32>,
    /// How long a sleeping engine looks for more work before it sleeps.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) spin: Option<Duration>,
    /// Attach in generic (SKB) mode, for drivers without native XDP: slower.
    #[arg(long)]
    pub(crate) generic: bool,
    /// The card's receive timestamps: true asks the driver for them and refuses to come up if it has none, false does not
    /// ask; unless given, they are used where the driver has them and the card's clock can be compared with ours.
    #[arg(long, value_name = "BOOL")]
    pub(crate) hardware_timestamps: Option<bool>,
    /// Have frames leave in this way, whatever the driver takes (xdp_redirect, stack): for tests.
    #[arg(long, hide = true, value_parser = parse_transmit)]
    pub(crate) transmit: Option<Transmit>,
    /// Replace an XDP program that is attached already.
    #[arg(long)]
    pub(crate) force: bool,
    /// Log rare events of the XDP programs: refused packets and why, locks not had, exchanges. Costs speed; for finding
    /// faults. Needs a build with the cargo feature bpf-log.
    #[arg(long)]
    pub(crate) bpf_log: bool,
    /// Directory in which peers may store files, and from which they may fetch them (`cp`).
    #[arg(long, value_name = "DIR")]
    pub(crate) receive_dir: Option<PathBuf>,
}

fn parse_transmit(text: &str) -> Result<Transmit, String> {
    text.parse().map_err(|_| "a way is xdp_redirect or stack".to_owned())
}
