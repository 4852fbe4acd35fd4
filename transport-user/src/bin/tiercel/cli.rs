//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use transport_user::quantity::{parse_duration, parse_size, parse_u32, whole};

use crate::connection_arguments::Conn;
use crate::up_arguments::Up;
use crate::values::{CopyPlace, ViaArgument, parse_copy_place};
use crate::verb_arguments::{AtomicCommand, DataArguments, Mr, PlaceArguments, Recv, Remote};

/// Exit codes, shown by `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0 done  1 the node could not  2 wrong usage or request  3 an operation completed in error
  4 no connection  5 a file could not be read, written or verified  6 no node answers

Environment:
  TIERCEL_SOCKET  control socket of the node to talk to, unless --socket or --node name one";

/// The Falcon transport on any Linux machine: runs a node, and talks to running ones.
#[derive(Debug, Parser)]
#[command(name = "tiercel", version, max_term_width = 110, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Control socket of the node to talk to.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Name of the node to talk to; not needed where only one runs.
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "socket")]
    pub(crate) node: Option<String>,
    /// Print JSON with stable field names; a failure too, on stdout.
    #[arg(long, global = true)]
    pub(crate) json: bool,
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
    Status,
    /// Show every counter that is not zero, and the delays of all acknowledgements (p50, p90, p99, max).
    #[command(after_help = "\
Examples:
  tiercel stats
  tiercel stats --all --json")]
    Stats {
        /// Also those that are zero; `--json` always has them.
        #[arg(long)]
        all: bool,
    },
    /// Connections: list, show, connect, congestion control (cc), watch, reset, close.
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
        #[arg(long, value_name = "N", value_parser = parse_u32)]
        immediate: Option<u32>,
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
        #[arg(value_parser = parse_u32)]
        cid: u32,
        #[command(flatten)]
        data: DataArguments,
        /// Immediate data, given to the peer with the message.
        #[arg(long, value_name = "N", value_parser = parse_u32)]
        immediate: Option<u32>,
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
    },
    /// Take a trace of all that the datapath does, for `tiercel model replay`.
    ///
    /// While it lasts every packet takes longer. It says on stderr when recording begins. It ends at a limit or with Ctrl-C, and
    /// comes back when the file is complete; `tiercel status` shows one that is being taken.
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
        /// End after so many runs of the datapath (packets received, services of the engine).
        #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
        runs: Option<u64>,
        /// End after so long [default: 10s without --runs].
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        duration: Option<Duration>,
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
    },
    /// Print the completion script of a shell.
    #[command(after_help = "\
Examples:
  tiercel completions bash > /etc/bash_completion.d/tiercel
  tiercel completions zsh > /usr/local/share/zsh/site-functions/_tiercel
  tiercel completions fish > ~/.config/fish/completions/tiercel.fish")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the manual pages, one for each command.
    #[command(after_help = "\
Examples:
  tiercel man /usr/local/share/man/man1
  man tiercel-up")]
    Man {
        /// Directory for the pages; it is created if it does not exist.
        directory: PathBuf,
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
