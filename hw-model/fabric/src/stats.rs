//! What a fabric did, counted.

use serde::Serialize;

/// Counters of one direction: a link towards a host or another switch. At any instant
/// `offered + duplicated == delivered + dropped() + in_flight`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkStats {
    /// Frames that came to this link.
    pub offered: u64,
    /// Frames offered that were out of scope: they took no ordinal and were not impaired.
    pub spared: u64,
    /// Frames handed to the host or the next switch.
    pub delivered: u64,
    /// Bytes of the frames handed on.
    pub delivered_bytes: u64,
    /// Frames on their way: queued, on the wire, or held back.
    pub in_flight: u64,
    /// Dropped: independent loss.
    pub lost: u64,
    /// Dropped: loss in a burst.
    pub burst_lost: u64,
    /// Dropped: the queue was full.
    pub queue_dropped: u64,
    /// Dropped: the switch's shared memory had no room for this queue to grow.
    pub buffer_dropped: u64,
    /// Dropped: the hop limit would have reached zero.
    pub hop_limit_expired: u64,
    /// Dropped: the link was down at either end.
    pub link_down_dropped: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames held back to be reordered.
    pub held_back: u64,
    /// Frames delivered after one with a higher ordinal between the same two ports (RFC 4737, 3.3).
    pub reordered: u64,
    /// Frames with flipped bits put on the wire.
    pub corrupted: u64,
    /// Frames newly marked congestion experienced.
    pub ecn_marked: u64,
    /// Frames cut to their headers for lack of room; they count as delivered when these arrive, as dropped when there
    /// was no room for these either.
    pub trimmed: u64,
    /// Most bytes that ever stood in the queue, those of the frame on the wire included.
    pub queue_peak: u64,
}

impl LinkStats {
    /// Frames dropped, for all reasons.
    pub fn dropped(&self) -> u64 {
        let no_room = self.queue_dropped + self.buffer_dropped;
        self.lost + self.burst_lost + no_room + self.hop_limit_expired + self.link_down_dropped
    }
}

/// Counters of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FabricStats {
    /// By the port the link leads to.
    pub towards: Vec<LinkStats>,
    /// Between switches, by the number of the trunk.
    pub trunks: Vec<LinkStats>,
    /// By switch, most bytes that ever stood in its shared memory; 0 where queues have memory of their own.
    pub buffer_peaks: Vec<u64>,
    /// Frames too short for an Ethernet header, dropped on entry.
    pub runts: u64,
    /// Frames addressed to a host on the port they came from, dropped on entry.
    pub filtered: u64,
}

/// Where a bit was flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BitFlip {
    /// Byte in the frame, 14 or more.
    pub offset: usize,
    /// Bit in the byte, 0 the least significant.
    pub bit: u8,
}

/// One corrupted frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Corruption {
    /// Port the frame came from.
    pub ingress: u16,
    /// Ordinal of the frame between the two ports.
    pub ordinal: u64,
    /// 0 for the frame itself, 1 for its duplicate.
    pub copy: u8,
    /// The frame as it came, before any flip: enough bytes for Ethernet, IPv6 and UDP headers.
    pub header: Vec<u8>,
    /// Length of the frame in bytes.
    pub length: usize,
    /// The bits flipped.
    pub flips: Vec<BitFlip>,
}
