//! The command line.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use transport_user::config::{parse_duration, parse_integer, parse_size};
use transport_user::control::Right;

use crate::connection_arguments::Conn;
use crate::values::{CopyPlace, RegionSpan, ViaArgument, parse_copy_place};
use crate::values::{Remote, parse_hex_or_decimal_u32, parse_region_span, parse_right};

/// Exit codes, shown by `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0 done  1 the node could not  2 wrong usage or request  3 an operation completed in error
  4 no connection  5 a file could not be read, written or verified  6 no node answers";

/// The Falcon transport on any Linux machine: runs a node, and talks to running ones.
#[derive(Debug, Parser)]
#[command(name = "tiercel", version, max_term_width = 110, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Control socket of the node to talk to.
    #[arg(long, global = true, value_name = "PATH", env = "TIERCEL_SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    /// Name of the node to talk to; not needed where only one runs.
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "socket")]
    pub(crate) node: Option<String>,
    /// Log more to stderr: -v what happens, -vv in detail.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node in the foreground until Ctrl-C or `tiercel down`.
    #[command(after_help = "\
Examples:
  tiercel up --config node.toml
  tiercel up --interface veth0 --address 10.7.0.1
  tiercel up --interface eth1 --address fd00::1 --busy --cpu 3 --receive-dir /srv/inbox")]
    Up(Box<Up>),
    /// Bring a node down.
    #[command(after_help = "\
Examples:
  tiercel down
  tiercel --node veth0 down")]
    Down,
    /// Show what a node is and how it fares.
    #[command(after_help = "\
Examples:
  tiercel status
  tiercel status --json | jq .rate_update.state")]
    Status(Json),
    /// Show every counter that is not zero, and the delays of all acknowledgements (p50, p90, p99, max).
    #[command(after_help = "\
Examples:
  tiercel stats
  tiercel stats --all --json")]
    Stats {
        /// Also those that are zero.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Connections: list, show, connect, congestion control (cc), watch, close.
    #[command(
        subcommand,
        after_help = "\
Examples:
  tiercel conn connect 10.7.0.2
  tiercel conn list
  tiercel conn cc 5 --cc dcqcn
  tiercel conn watch 5
  tiercel conn close 5"
    )]
    Conn(Conn),
    /// Memory regions: register, deregister, list, read, write.
    #[command(
        subcommand,
        after_help = "\
Examples:
  tiercel mr register 64MiB --name table
  tiercel mr list
  tiercel mr write 1 --data hello
  tiercel mr read 1 --length 64
  tiercel mr deregister 1"
    )]
    Mr(Mr),
    /// RDMA WRITE into a peer's region.
    #[command(after_help = "\
Examples:
  tiercel write 5 --rkey 1 --data hello
  tiercel write 5 --rkey 1 --address 0x1000 --file image.bin
  tiercel write 5 --rkey 1 --region 2:0:4096 --immediate 7")]
    Write {
        #[command(flatten)]
        remote: Remote,
        #[command(flatten)]
        data: DataArguments,
        /// Immediate data; consumes a receive the peer has posted.
        #[arg(long, value_name = "N", value_parser = parse_hex_or_decimal_u32)]
        immediate: Option<u32>,
        #[command(flatten)]
        json: Json,
    },
    /// RDMA READ from a peer's region.
    #[command(after_help = "\
Examples:
  tiercel read 5 --rkey 1 --length 64
  tiercel read 5 --rkey 1 --address 4096 --length 1MiB --out copy.bin")]
    Read {
        #[command(flatten)]
        remote: Remote,
        /// Bytes to read.
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        length: u64,
        #[command(flatten)]
        to: PlaceArguments,
    },
    /// SEND a message into a receive the peer has posted.
    #[command(after_help = "\
Examples:
  tiercel send 5 --data hello
  tiercel send 5 --file message.bin --immediate 0x2a")]
    Send {
        /// Local CID of the connection.
        cid: u32,
        #[command(flatten)]
        data: DataArguments,
        /// Immediate data, given to the peer with the message.
        #[arg(long, value_name = "N", value_parser = parse_hex_or_decimal_u32)]
        immediate: Option<u32>,
        #[command(flatten)]
        json: Json,
    },
    /// Receives: post some, list what arrived.
    #[command(
        subcommand,
        after_help = "\
Examples:
  tiercel recv post 5 --count 4 --length 64KiB
  tiercel recv list 5"
    )]
    Recv(Recv),
    /// Atomic operations on 8 bytes of a peer's region.
    #[command(
        subcommand,
        after_help = "\
Examples:
  tiercel atomic fetch-add 5 --rkey 1 --address 64 --add 1
  tiercel atomic compare-swap 5 --rkey 1 --address 64 --compare 0 --swap 7"
    )]
    Atomic(AtomicCommand),
    /// Copy a file to or from the node at the other end of a connection.
    ///
    /// One of the two places is `CID:` or `CID:NAME`. The peer keeps files in the directory of its `up --receive-dir`. The content
    /// crosses by Falcon and is verified by SHA-256 end to end.
    #[command(after_help = "\
Examples:
  tiercel cp image.bin 5:
  tiercel cp image.bin 5:renamed.bin --via write --overwrite
  tiercel cp 5:image.bin copy.bin --via read")]
    Cp {
        /// Where from: a path, or CID:NAME.
        #[arg(value_parser = parse_copy_place)]
        from: CopyPlace,
        /// Where to: a path, `CID:` or `CID:NAME`.
        #[arg(value_parser = parse_copy_place)]
        to: CopyPlace,
        /// How the content crosses.
        #[arg(long, value_enum, default_value = "send")]
        via: ViaArgument,
        /// Replace a file of that name.
        #[arg(long)]
        overwrite: bool,
        #[command(flatten)]
        json: Json,
    },
    /// Take a trace of all that the datapath does, for `tiercel model replay`.
    ///
    /// While it lasts every packet takes longer. It ends at a limit or with Ctrl-C; the file is complete either way.
    #[command(after_help = "\
Examples:
  tiercel trace --out run.trace
  tiercel trace --out run.trace --runs 1000000
  tiercel trace --out run.trace --duration 2s --json
  tiercel model replay run.trace --clock 1GHz --rate 200Gbps")]
    Trace {
        /// The file to write; it must not be there yet.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// End after so many runs of the datapath (packets received, turns of the engine).
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        runs: Option<u64>,
        /// End after so long [default: 10s without --runs].
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        duration: Option<Duration>,
        #[command(flatten)]
        json: Json,
    },
    /// Show what packets say: bytes in hexadecimal, or a pcap or pcapng file.
    ///
    /// A capture taken on a node's own interface holds no Falcon packet: the node takes and sends them in XDP, which comes before
    /// the taps of tcpdump. Capture on the way, at a switch or a mirror port.
    #[command(after_help = "\
Examples:
  tiercel decode capture.pcap
  tiercel decode --hex '02 00 00 00 00 02 ...'
  tcpdump -xx -r capture.pcap -c 1 | tail -n +2 | tiercel decode --hex -
  tiercel decode --falcon --hex 10000005...")]
    Decode {
        /// A capture file.
        #[arg(required_unless_present = "hex", conflicts_with = "hex")]
        file: Option<PathBuf>,
        /// Bytes in hexadecimal; `-` reads them from stdin.
        #[arg(long, value_name = "BYTES")]
        hex: Option<String>,
        /// The bytes start at the Falcon header, not at the Ethernet header.
        #[arg(long, requires = "hex")]
        falcon: bool,
        #[command(flatten)]
        json: Json,
    },
    /// The network card in cycles: experiments with the hardware model. Runs `tiercel-model`.
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  tiercel model --help
  tiercel model experiment tonic-hardware --json"
    )]
    Model {
        /// What `tiercel-model` is told.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
}

/// `--json`, wherever something is listed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Json {
    /// Print JSON with stable field names.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Node file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["interface", "address"])]
    pub(crate) config: Option<PathBuf>,
    /// Interface to attach to.
    #[arg(long, value_name = "IF", required_unless_present = "config", requires = "address")]
    pub(crate) interface: Option<String>,
    /// The node's own address, one of the interface's.
    #[arg(long, value_name = "IP", requires = "interface")]
    pub(crate) address: Option<IpAddr>,
    /// Name of the node and its socket; the interface's name unless given.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// IP MTU in bytes; the interface's unless given.
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u32>,
    /// TCP port of the connection manager.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) control_port: Option<u16>,
    /// Engine: one CPU in full use, lowest latency.
    #[arg(long, conflicts_with = "sleep")]
    pub(crate) busy: bool,
    /// Engine: sleep when idle, woken by a doorbell (the default).
    #[arg(long)]
    pub(crate) sleep: bool,
    /// CPU of the engine.
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<usize>,
    /// Frames the engine handles at a time: more is faster, fewer have less latency; adapted to the load unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
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

/// `mr`.
#[derive(Debug, Subcommand)]
pub(crate) enum Mr {
    /// Register a region; prints its R_Key.
    #[command(after_help = "\
Examples:
  tiercel mr register 64MiB
  tiercel mr register 4096 --access read,write --name table")]
    Register {
        /// Bytes, such as 4096 or 64MiB.
        #[arg(value_parser = parse_size)]
        length: u64,
        /// What peers may do: read, write, atomic, or none.
        #[arg(long, value_delimiter = ',', default_value = "read,write,atomic", value_parser = parse_right)]
        access: Vec<Option<Right>>,
        /// A name that peers see.
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        json: Json,
    },
    /// Give a region back.
    #[command(after_help = "Example:\n  tiercel mr deregister 1")]
    Deregister {
        /// Its R_Key.
        rkey: u32,
    },
    /// List all regions.
    #[command(after_help = "Example:\n  tiercel mr list --json")]
    List(Json),
    /// Read a region of this node.
    #[command(after_help = "\
Examples:
  tiercel mr read 1 --length 64
  tiercel mr read 1 --offset 1MiB --length 1MiB --out part.bin")]
    Read {
        /// Its R_Key.
        rkey: u32,
        /// Offset of the first byte.
        #[arg(long, default_value = "0", value_name = "SIZE", value_parser = parse_address)]
        offset: u64,
        /// Bytes; to the end unless given.
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        length: Option<u64>,
        #[command(flatten)]
        to: PlaceArguments,
    },
    /// Write a region of this node.
    #[command(after_help = "\
Examples:
  tiercel mr write 1 --data hello
  tiercel mr write 1 --offset 0x1000 --file image.bin")]
    Write {
        /// Its R_Key.
        rkey: u32,
        /// Offset of the first byte.
        #[arg(long, default_value = "0", value_name = "SIZE", value_parser = parse_address)]
        offset: u64,
        #[command(flatten)]
        data: DataArguments,
    },
}

/// `recv`.
#[derive(Debug, Subcommand)]
pub(crate) enum Recv {
    /// Post receives; they are collected in the background.
    #[command(after_help = "\
Examples:
  tiercel recv post 5 --count 4 --length 64KiB
  tiercel recv post 5 --wait")]
    Post {
        /// Local CID of the connection.
        cid: u32,
        /// Bytes of each buffer.
        #[arg(long, default_value = "4096", value_name = "SIZE", value_parser = parse_size)]
        length: u64,
        /// How many.
        #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
        count: u32,
        /// Wait until all of them have completed.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        json: Json,
    },
    /// List receives and what arrived in them.
    #[command(after_help = "Example:\n  tiercel recv list 5 --json")]
    List {
        /// Local CID of the connection.
        cid: u32,
        #[command(flatten)]
        json: Json,
    },
}

/// `atomic`.
#[derive(Debug, Subcommand)]
pub(crate) enum AtomicCommand {
    /// Add to the 8 bytes, modulo 2^64; prints the value before.
    #[command(after_help = "Example:\n  tiercel atomic fetch-add 5 --rkey 1 --address 64 --add 1")]
    FetchAdd {
        #[command(flatten)]
        remote: Remote,
        /// What to add.
        #[arg(long, value_name = "N", value_parser = parse_integer)]
        add: u64,
        #[command(flatten)]
        json: Json,
    },
    /// Store a value if the 8 bytes hold another; prints the value before.
    #[command(
        after_help = "Example:\n  tiercel atomic compare-swap 5 --rkey 1 --address 64 --compare 0 --swap 7"
    )]
    CompareSwap {
        #[command(flatten)]
        remote: Remote,
        /// What the 8 bytes must hold.
        #[arg(long, value_name = "N", value_parser = parse_integer)]
        compare: u64,
        /// What to store.
        #[arg(long, value_name = "N", value_parser = parse_integer)]
        swap: u64,
        #[command(flatten)]
        json: Json,
    },
}

/// Where the bytes of an operation come from: exactly one.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct DataArguments {
    /// The text itself.
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,
    /// Bytes in hexadecimal.
    #[arg(long, value_name = "BYTES")]
    pub(crate) hex: Option<String>,
    /// A whole file; `-` for stdin (up to 256 KiB).
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Part of a region of this node: RKEY:OFFSET:LENGTH.
    #[arg(long, value_name = "SPAN", value_parser = parse_region_span)]
    pub(crate) region: Option<RegionSpan>,
}

/// Where bytes go; unless given, to stdout as a hex dump.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// A new file.
    #[arg(long, value_name = "PATH", group = "place")]
    pub(crate) out: Option<PathBuf>,
    /// A region of this node: RKEY:OFFSET.
    #[arg(long, value_name = "RKEY:OFFSET", value_parser = crate::values::parse_region_place, group = "place")]
    pub(crate) region: Option<(u32, u64)>,
    /// Stdout, as the bytes they are (up to 256 KiB).
    #[arg(long, group = "place")]
    pub(crate) raw: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A number, or a size with its unit.
pub(crate) fn parse_address(text: &str) -> Result<u64, String> {
    parse_integer(text).or_else(|_| parse_size(text))
}
