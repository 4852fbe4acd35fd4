//! The arguments of `mr`, `recv` and `atomic`, and of the data that operations read and write.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tiercel::control::request::Right;
use tiercel::quantity::{parse_integer, parse_size, parse_u32, whole};

use crate::values::{RegionSpan, parse_region_place, parse_region_span, parse_right};

/// A place in a peer's region.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Remote {
    /// Local CID of the connection.
    #[arg(value_parser = parse_u32)]
    pub(crate) cid: u32,
    /// R_Key of the peer's region (`tiercel conn show` lists the regions that the peer offers).
    #[arg(long, value_name = "KEY", value_parser = parse_u32)]
    pub(crate) rkey: u32,
    /// Address: offset of the first byte within the region; a multiple of 8 for atomics.
    #[arg(long, default_value = "0", value_name = "SIZE", value_parser = parse_size)]
    pub(crate) address: u64,
}

/// The subcommands of `mr`.
#[derive(Debug, Subcommand)]
pub(crate) enum Mr {
    /// Register a region, and print its R_Key.
    #[command(after_help = "\
Examples:
  tiercel mr register 64MiB
  tiercel mr register 4096 --access read,write --name table
  tiercel mr register 1MiB --rkey 0x10")]
    Register {
        /// Bytes, such as 4096 or 64MiB; from 1. All regions of a node share almost 256 MiB.
        #[arg(value_parser = parse_size)]
        length: u64,
        /// Rights of the peers: read, write and atomic, or none.
        #[arg(long, value_delimiter = ',', default_value = "read,write,atomic", value_parser = parse_right)]
        access: Vec<Option<Right>>,
        /// A name that peers see, up to 64 bytes [default: none].
        #[arg(long)]
        name: Option<String>,
        /// R_Key of the region, 1 to 4294967295 [default: the next free one, from 1].
        #[arg(long, value_name = "KEY", value_parser = whole::<u32>(1..=u32::MAX.into()))]
        rkey: Option<u32>,
    },
    /// Deregister a region, and free its memory.
    #[command(after_help = "Example:\n  tiercel mr deregister 1")]
    Deregister {
        /// R_Key of the region.
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
        /// R_Key of the region.
        #[arg(value_parser = parse_u32)]
        rkey: u32,
        /// Offset of the first byte.
        #[arg(long, default_value = "0", value_name = "SIZE", value_parser = parse_size)]
        offset: u64,
        /// Bytes to read; at most 256 KiB without --out or --region [default: to the end of the region].
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
        /// R_Key of the region.
        #[arg(value_parser = parse_u32)]
        rkey: u32,
        /// Offset of the first byte.
        #[arg(long, default_value = "0", value_name = "SIZE", value_parser = parse_size)]
        offset: u64,
        #[command(flatten)]
        data: DataArguments,
    },
}

/// The subcommands of `recv`.
#[derive(Debug, Subcommand)]
pub(crate) enum Recv {
    /// Post receives. The node collects their completions in the background.
    #[command(after_help = "\
Examples:
  tiercel recv post 5 --count 4 --length 64KiB
  tiercel recv post 5 --wait")]
    Post {
        /// Local CID of the connection.
        #[arg(value_parser = parse_u32)]
        cid: u32,
        /// Bytes of each receive buffer, from 1; the buffers share the node's memory of 256 MiB.
        #[arg(long, default_value = "4096", value_name = "SIZE", value_parser = parse_size)]
        length: u64,
        /// Number of receives to post, 1 to 256.
        #[arg(long, default_value = "1", value_name = "N", value_parser = whole::<u32>(1..=256))]
        count: u32,
        /// Wait until all of them have completed.
        #[arg(long)]
        wait: bool,
    },
    /// List receives and their messages: the first 64 bytes of each message, with --json whole messages.
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

/// The subcommands of `atomic`.
#[derive(Debug, Subcommand)]
pub(crate) enum AtomicCommand {
    /// Add to the 8 bytes, modulo 2^64, and print the previous value.
    #[command(after_help = "Example:\n  tiercel atomic fetch-add 5 --rkey 1 --address 64 --add 1")]
    FetchAdd {
        #[command(flatten)]
        remote: Remote,
        /// The number to add, 64 bits.
        #[arg(long, value_name = "N", value_parser = parse_integer)]
        add: u64,
    },
    /// Store a value if the 8 bytes have an expected value, and print the previous value.
    #[command(
        after_help = "Example:\n  tiercel atomic compare-swap 5 --rkey 1 --address 64 --compare 0 --swap 7"
    )]
    CompareSwap {
        #[command(flatten)]
        remote: Remote,
        /// The expected value, 64 bits.
        #[arg(long, value_name = "N", value_parser = parse_integer)]
        compare: u64,
        /// The value to store, 64 bits.
        #[arg(long, value_name = "N", value_parser = parse_integer)]
        swap: u64,
    },
}

/// The source of the bytes of an operation: exactly one option.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct DataArguments {
    /// The data as text, up to 256 KiB.
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,
    /// The data in hexadecimal, up to 256 KiB.
    #[arg(long, value_name = "BYTES")]
    pub(crate) hex: Option<String>,
    /// A whole file, or `-` for stdin (up to 256 KiB).
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Part of a region of this node, offset and length in bytes: RKEY:OFFSET:LENGTH.
    #[arg(long, value_name = "SPAN", value_parser = parse_region_span)]
    pub(crate) region: Option<RegionSpan>,
}

/// The destination of the bytes of an operation. Without an option, they go to stdout as a hex dump.
#[derive(Debug, Args)]
pub(crate) struct PlaceArguments {
    /// Write the bytes to this file, which must not exist yet [default: a hex dump on stdout].
    #[arg(long, value_name = "PATH", group = "place")]
    pub(crate) out: Option<PathBuf>,
    /// Write the bytes to a region of this node, from this offset in bytes on.
    #[arg(long, value_name = "RKEY:OFFSET", value_parser = parse_region_place, group = "place")]
    pub(crate) region: Option<(u32, u64)>,
    /// Write the bytes to stdout without conversion (up to 256 KiB).
    #[arg(long, group = "place")]
    pub(crate) raw: bool,
}
