//! `mr`, `recv`, `atomic`, and where the bytes of operations come from and go.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use transport_user::control::request::Right;
use transport_user::quantity::{parse_integer, parse_size, parse_u32, whole};

use crate::values::{RegionSpan, parse_region_place, parse_region_span, parse_right};

/// A place in a peer's region.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Remote {
    /// Local CID of the connection.
    #[arg(value_parser = parse_u32)]
    pub(crate) cid: u32,
    /// The peer's R_Key (`tiercel conn show` lists what the peer offers).
    #[arg(long, value_name = "KEY", value_parser = parse_u32)]
    pub(crate) rkey: u32,
    /// Address within the region.
    #[arg(long, default_value = "0", value_name = "SIZE", value_parser = parse_size)]
    pub(crate) address: u64,
}

/// `mr`.
#[derive(Debug, Subcommand)]
pub(crate) enum Mr {
    /// Register a region; prints its R_Key.
    #[command(after_help = "\
Examples:
  tiercel mr register 64MiB
  tiercel mr register 4096 --access read,write --name table
  tiercel mr register 1MiB --rkey 0x10")]
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
        /// Its R_Key; the next free one, from 1, unless given.
        #[arg(long, value_name = "KEY", value_parser = whole::<u32>(1..=u32::MAX.into()))]
        rkey: Option<u32>,
    },
    /// Give a region back.
    #[command(after_help = "Example:\n  tiercel mr deregister 1")]
    Deregister {
        /// Its R_Key.
        #[arg(value_parser = parse_u32)]
        rkey: u32,
    },
    /// List all regions.
    #[command(after_help = "Example:\n  tiercel mr list --json")]
    List,
    /// Read a region of this node.
    #[command(after_help = "\
Examples:
  tiercel mr read 1 --length 64
  tiercel mr read 1 --offset 1MiB --length 1MiB --out part.bin")]
    Read {
        /// Its R_Key.
        #[arg(value_parser = parse_u32)]
        rkey: u32,
        /// Offset of the first byte.
        #[arg(long, default_value = "0", value_name = "SIZE", value_parser = parse_size)]
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
        #[arg(value_parser = parse_u32)]
        rkey: u32,
        /// Offset of the first byte.
        #[arg(long, default_value = "0", value_name = "SIZE", value_parser = parse_size)]
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
        #[arg(value_parser = parse_u32)]
        cid: u32,
        /// Bytes of each buffer.
        #[arg(long, default_value = "4096", value_name = "SIZE", value_parser = parse_size)]
        length: u64,
        /// How many.
        #[arg(long, default_value = "1", value_name = "N", value_parser = whole::<u32>(1..=256))]
        count: u32,
        /// Wait until all of them have completed.
        #[arg(long)]
        wait: bool,
    },
    /// List receives and what arrived in them: how messages begin, with --json whole messages.
    #[command(after_help = "\
Examples:
  tiercel recv list 5
  tiercel recv list 5 --json | jq -r '.[0].hex' | xxd -r -p")]
    List {
        /// Local CID of the connection.
        #[arg(value_parser = parse_u32)]
        cid: u32,
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
    #[arg(long, value_name = "RKEY:OFFSET", value_parser = parse_region_place, group = "place")]
    pub(crate) region: Option<(u32, u64)>,
    /// Stdout, as the bytes they are (up to 256 KiB).
    #[arg(long, group = "place")]
    pub(crate) raw: bool,
}
