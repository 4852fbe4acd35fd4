//! `up`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tiercel::ScopedAddress;
use tiercel::quantity::{parse_duration, parse_size, parse_u32, whole};
use tiercel_node::Transmit;

/// The arguments of `up`. An option takes precedence over the node file.
#[derive(Debug, Default, Args)]
pub(crate) struct Up {
    /// Node file (TOML). Without it, --interface and --address are required.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Interface to attach to [default: from the node file].
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// The node's IP address, one of the interface's addresses; a link-local one may have the interface as its scope
    /// (fe80::1%eth0) [default: from the node file].
    #[arg(long, value_name = "IP")]
    pub(crate) address: Option<ScopedAddress>,
    /// Name of the node and of its socket: 1 to 64 letters, digits, dots, dashes and underscores, no dot first
    /// [default: from the node file, else the interface's name].
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// IP MTU in bytes, from 168 (IPv4) or 188 (IPv6) up to the interface's MTU, at most 3390; native mode needs an
    /// interface with an MTU of at most 3498 [default: from the node file, else the interface's MTU, at most 3390].
    #[arg(long, value_name = "BYTES", value_parser = parse_u32)]
    pub(crate) mtu: Option<u32>,
    /// Memory that the node's regions share, 256MiB to 64GiB, rounded up to 16 MiB; the kernel takes it from the machine when
    /// the node comes up [default: from the node file, else 256MiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,
    /// TCP port of the connection manager, 1 to 65535 [default: from the node file, else 4792].
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>(1..=u16::MAX.into()))]
    pub(crate) control_port: Option<u16>,
    /// The engine never sleeps: lowest latency, but it uses one CPU fully [default: from the node
    /// file, else the engine sleeps].
    #[arg(long, conflicts_with = "sleep")]
    pub(crate) busy: bool,
    /// The engine sleeps when it is idle, and a doorbell wakes it.
    #[arg(long)]
    pub(crate) sleep: bool,
    /// CPU that the engine is bound to, counted from 0 [default: from the node file, else not bound].
    #[arg(long, value_name = "N", value_parser = whole::<usize>(0..=u32::MAX.into()))]
    pub(crate) cpu: Option<usize>,
    /// Frames that the engine handles at a time, 1 to 256: more give higher throughput, fewer give lower latency
    /// [default: from the node file, else adapted to the load, 2 or 32].
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=256))]
    pub(crate) batch: Option<u32>,
    /// Time for which a sleeping engine looks for more work before it sleeps again, 0s to 1s [default:
    /// from the node file, else 100us].
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) spin: Option<Duration>,
    /// Attach in generic (SKB) mode, for drivers without native XDP; this is slower.
    #[arg(long)]
    pub(crate) generic: bool,
    /// Receive timestamps of the network card: with true the node does not come up without them, with false it
    /// does not use them [default: from the node file, else they are used if the driver has them and the card's
    /// clock can be compared with the machine's].
    #[arg(long, value_name = "BOOL")]
    pub(crate) hardware_timestamps: Option<bool>,
    /// Have frames leave in this way, whatever the driver takes (xdp_redirect, stack): for tests.
    #[arg(long, hide = true, value_parser = parse_transmit)]
    pub(crate) transmit: Option<Transmit>,
    /// Replace an XDP program that is already attached to the interface.
    #[arg(long)]
    pub(crate) force: bool,
    /// Log rare events of the XDP programs: refused packets and the reason, locks that could not be taken, and
    /// exchanges. This slows the node down and is meant for debugging. It needs a build with the cargo feature
    /// bpf-log.
    #[arg(long)]
    pub(crate) bpf_log: bool,
    /// Directory in which peers may store files, and from which they may fetch files with `cp` [default: from the node file,
    /// else none].
    #[arg(long, value_name = "DIR")]
    pub(crate) receive_dir: Option<PathBuf>,
    /// Let peers replace files in the receive directory (`cp --overwrite`).
    #[arg(long)]
    pub(crate) receive_overwrite: bool,
    /// Longest file that a peer may store, such as 10GiB [default: from the node file, else as long as there is space].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) receive_max_file: Option<u64>,
    /// Most bytes in the receive directory up to which peers may store files; each file and each directory counts as 4096 at
    /// least [default: from the node file, else as long as there is space].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) receive_max_total: Option<u64>,
}

fn parse_transmit(text: &str) -> Result<Transmit, String> {
    text.parse().map_err(|_| "a way is xdp_redirect or stack".to_owned())
}
