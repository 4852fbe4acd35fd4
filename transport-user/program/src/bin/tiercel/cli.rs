//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use tiercel::quantity::{parse_duration, parse_size, parse_u32, whole};

use crate::conformance::Conformance;
use crate::connection_arguments::Conn;
use crate::up_arguments::Up;
use crate::values::{CopyPlace, ViaArgument, parse_copy_place};
use crate::verb_arguments::{AtomicCommand, DataArguments, Mr, PlaceArguments, Recv, Remote};

/// Exit codes, shown by `--help`.
const EXIT_CODES: &str = "\
Exit codes:
  0 success  1 the node failed  2 wrong usage or invalid request  3 an operation completed in error
  4 no connection, or it was lost  5 a file could not be read, written or verified  6 no node answers
  7 a peer violates a clause of the specification  130 interrupted

Environment:
  TIERCEL_SOCKET  control socket of the node to talk to; --socket and --node take precedence";

/// The Falcon transport on any Linux machine: runs a node, and sends commands to running nodes.
#[derive(Debug, Parser)]
#[command(name = "tiercel", version, max_term_width = 110, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Control socket of the node to talk to [default: /run/tiercel/NAME.sock].
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Name of the node to talk to [default: the only node that runs].
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "socket")]
    pub(crate) node: Option<String>,
    /// Print results and failures on stdout as JSON with stable field names.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Longest time to wait for the command, such as 5s. An operation that has not completed by then stays outstanding,
    /// and a copy is stopped [default: no limit].
    #[arg(long, global = true, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Log more to stderr: -v for information, -vv for debugging, -vvv for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
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
    /// Show the configuration and the state of a node.
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
        /// Also show counters that are zero; `--json` always shows them.
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
        /// Immediate data, 0 to 4294967295; consumes a receive that the peer has posted [default: none].
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
        /// Bytes to read, such as 64 or 1MiB; at most 256 KiB without --out or --region.
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        length: u64,
        #[command(flatten)]
        to: PlaceArguments,
    },
    /// SEND a message into a receive that the peer has posted.
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
        /// Immediate data, 0 to 4294967295; the peer gets it with the message [default: none].
        #[arg(long, value_name = "N", value_parser = parse_u32)]
        immediate: Option<u32>,
    },
    /// Receives: post receives, list the messages that arrived.
    #[command(
        subcommand,
        after_help = "\
Examples:
  tiercel recv post 5 --count 4 --length 64KiB
  tiercel recv list 5"
    )]
    Recv(Recv),
    /// Atomic operations on 8 aligned bytes of a peer's region.
    #[command(
        subcommand,
        after_help = "\
Examples:
  tiercel atomic fetch-add 5 --rkey 1 --address 64 --add 1
  tiercel atomic compare-swap 5 --rkey 1 --address 64 --compare 0 --swap 7"
    )]
    Atomic(AtomicCommand),
    /// Copy files to or from the node at the other end of a connection.
    ///
    /// Either the sources or the destination are `CID:` or `CID:NAME`. The peer keeps files in the directory that its
    /// `up --receive-dir` names, and its node file or its options limit what it takes. Falcon carries the content, and both
    /// ends verify it by SHA-256. A file gets its name when it is whole. It keeps its permission bits, except for the right
    /// of others to write, and its holes. Copies over the same connection wait for one another.
    #[command(after_help = "\
Examples:
  tiercel cp image.bin 5:
  tiercel cp image.bin 5:renamed.bin --via write --overwrite
  tiercel cp a.bin b.bin 5:
  tiercel cp -r results 5:
  tiercel cp 5:image.bin copy.bin --via read
  tiercel cp -r 5:results .")]
    Cp {
        /// The sources, and last the destination: paths on one side, CID:NAME on the other. As a destination, `CID:` keeps
        /// the names, and `CID:NAME/` names a directory.
        #[arg(required = true, num_args = 2.., value_name = "PLACE", value_parser = parse_copy_place)]
        places: Vec<CopyPlace>,
        /// The operation that carries the content.
        #[arg(long, value_enum, default_value = "send")]
        via: ViaArgument,
        /// Replace the destination if it exists. A peer must allow it by `up --receive-overwrite`.
        #[arg(long)]
        overwrite: bool,
        /// Copy directories with all that is in them, without symbolic links. From a peer, `CID:` stands for its whole
        /// receive directory.
        #[arg(short, long)]
        recursive: bool,
    },
    /// Record a trace of every run of the datapath, for `tiercel model replay`.
    ///
    /// Every packet takes longer while a trace is recorded. The first trace of a node takes some seconds to begin. The
    /// command says `recording` on stderr as soon as everything is recorded. A command behind `--` starts then, and the
    /// trace ends with it. Without one the trace ends at a limit or with Ctrl-C. `tiercel trace` returns when the file is
    /// complete. `tiercel status` shows a trace that is being recorded.
    #[command(after_help = "\
Examples:
  tiercel trace --out run.trace -- tiercel cp big.iso 1:
  tiercel trace --out run.trace
  tiercel trace --out run.trace --runs 1000000
  tiercel trace --out run.trace --duration 2s --json
  tiercel model replay run.trace --clock 1GHz --rate 200Gbps")]
    Trace {
        /// The file to write; it must not exist yet.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// End after this number of runs of the datapath, from 1; a run is a received packet or a service of the
        /// engine [default: no limit].
        #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX))]
        runs: Option<u64>,
        /// End after this time, such as 500ms or 2s [default: 10s without --runs and a command, else no limit].
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        duration: Option<Duration>,
        /// A command and its arguments: it starts when recording has begun, and the trace ends when it has ended. With
        /// `--json` its output goes to stderr.
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Show the fields of packets: from bytes in hexadecimal, or from a pcap or pcapng file.
    ///
    /// A capture on a node's own interface has no Falcon packets: the node receives and sends them in XDP, and
    /// tcpdump does not see packets there. Capture between the nodes, at a switch or a mirror port.
    #[command(after_help = "\
Examples:
  tiercel decode capture.pcap
  tiercel decode --hex '02 00 00 00 00 02 ...'
  tcpdump -xx -r capture.pcap -c 1 | tail -n +2 | tiercel decode --hex -
  tiercel decode --falcon --hex 10000005...")]
    Decode {
        /// A capture file, pcap or pcapng.
        #[arg(required_unless_present = "hex", conflicts_with = "hex")]
        file: Option<PathBuf>,
        /// One packet in hexadecimal; `-` reads it from stdin.
        #[arg(long, value_name = "BYTES")]
        hex: Option<String>,
        /// The bytes start at the Falcon header, not at the Ethernet header.
        #[arg(long, requires = "hex")]
        falcon: bool,
    },
    /// Test a Falcon peer on the wire, clause by clause of the specification.
    ///
    /// The tester is one end of a static connection, and the peer may be any Falcon device. It needs root, and an
    /// interface on which no node runs. It sends packets that it builds itself, and judges the answers. With
    /// --trigger it also judges the packets of the peer's own operations.
    #[command(after_help = "\
Examples:
  tiercel conformance --list
  tiercel conformance --peer 10.7.0.1 --config tester.toml
  tiercel conformance --peer 10.7.0.1 --config tester.toml --only F-7.7.1-3,F-9.2.2.4-1 --packets
  tiercel conformance --peer 10.7.0.1 --config tester.toml --json --pcap run.pcapng
  tiercel conformance --peer 10.7.0.1 --config tester.toml --trigger ./submit.sh --fcwnd 8 --ncwnd 6 --attempts 4
  tiercel conformance --peer 10.7.0.1 --config tester.toml --by-hand --role initiator --only F-9-7")]
    Conformance(Box<Conformance>),
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
    /// Run experiments with the hardware model: the network card, cycle by cycle. Starts `tiercel-model`.
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  tiercel model --help
  tiercel model experiment tonic-hardware --json"
    )]
    Model {
        /// The arguments of `tiercel-model`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
}
