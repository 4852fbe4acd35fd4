//! The working memory of one frame.
//!
//! In the kernel one lives in each CPU's scratch map, because the stack is 512 bytes. Every field is written before it is read
//! by the same frame's processing; nothing survives from frame to frame.

use crate::congestion::entry::Entry;
use crate::connection::Step;

/// What the IP layer says about the UDP datagram.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Bytes behind the IP header.
    pub payload_length: u32,
    /// Where the UDP header starts in the frame.
    pub udp_offset: u32,
    /// Sum of the pseudo header without its length, words in memory order.
    pub pseudo_sum: u64,
}

/// Which connection the engine services, and why.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serviced {
    /// When, picoseconds.
    pub now: u64,
    /// Connection slot.
    pub slot: u32,
    /// 1: because its deadline has come.
    pub fired: u32,
}

/// Lengths of the headers in a frame being built, bytes.
///
/// Each comes of one branch for every kind of packet. Read back from here it is unknown to the kernel's verifier, which else
/// walks all that follows once for each.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderLengths {
    /// Falcon and ULP.
    pub falcon: u32,
    /// Ethernet and IP.
    pub network: u32,
}

/// Bytes of the header buffer.
pub const HEADER_BYTES: usize = 256;
/// Bytes of the payload staging buffer: a frame, and slack for padding a checksum.
pub const STAGING_BYTES: usize = 4096 + 64;

/// The working memory of one frame, by who writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// The parser: the IP layer of what came in.
    pub network: Network,
    /// The datapath before a step of the connection, and the step.
    pub step: Step,
    /// The platform: an entry of a congestion queue.
    pub entry: Entry,
    /// The engine: whom it services.
    pub serviced: Serviced,
    /// The builder: how long the headers are.
    pub lengths: HeaderLengths,
    /// The builder: headers of the frame being built; the Falcon header stands at [`super::FALCON_AT`].
    pub header: [u8; HEADER_BYTES],
    /// The platform: staging for checksums and cells.
    pub staging: [u8; STAGING_BYTES],
}
