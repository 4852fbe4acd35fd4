//! The counters of a fabric.

use serde::Serialize;

/// The counters of one link direction, towards a host or another switch. At any time
/// `offered + duplicated == delivered + dropped() + in_flight`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkStats {
    /// Frames that came to this link.
    pub offered: u64,
    /// Offered frames that were out of scope. They took no ordinal and were not impaired.
    pub spared: u64,
    /// Frames delivered to the host or the next switch.
    pub delivered: u64,
    /// Bytes of the delivered frames.
    pub delivered_bytes: u64,
    /// Frames in transit: queued, on the wire, or held back.
    pub in_flight: u64,
    /// Frames dropped by independent loss.
    pub lost: u64,
    /// Frames dropped by loss in a burst.
    pub burst_lost: u64,
    /// Frames dropped because the queue was full.
    pub queue_dropped: u64,
    /// Frames dropped because the switch's shared memory had no space for this queue to grow.
    pub buffer_dropped: u64,
    /// Frames dropped because the hop limit would have reached zero.
    pub hop_limit_expired: u64,
    /// Frames dropped because the link was down at either end.
    pub link_down_dropped: u64,
    /// Copies made by duplication.
    pub duplicated: u64,
    /// Frames held back to be reordered.
    pub held_back: u64,
    /// Frames delivered after one with a higher ordinal between the same two ports (RFC 4737, 3.3).
    pub reordered: u64,
    /// Frames sent with flipped bits.
    pub corrupted: u64,
    /// Frames newly marked congestion experienced.
    pub ecn_marked: u64,
    /// Frames cut to their headers because the queue or memory was full. They also count as delivered when the
    /// headers arrive, or as dropped when there was no space for the headers either.
    pub trimmed: u64,
    /// The largest number of bytes in the queue at one time, including the frame on the wire.
    pub queue_peak: u64,
}

impl LinkStats {
    /// Returns the number of dropped frames, for all reasons.
    pub fn dropped(&self) -> u64 {
        let no_room = self.queue_dropped + self.buffer_dropped;
        self.lost + self.burst_lost + no_room + self.hop_limit_expired + self.link_down_dropped
    }
}

/// Counters of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FabricStats {
    /// The links towards hosts, by port.
    pub towards: Vec<LinkStats>,
    /// The links between switches, by trunk number.
    pub trunks: Vec<LinkStats>,
    /// The largest number of bytes in the shared memory of each switch at one time. 0 if queues have their own
    /// memory.
    pub buffer_peaks: Vec<u64>,
    /// Frames dropped on entry because they were too short for an Ethernet header.
    pub runts: u64,
    /// Frames dropped on entry because their destination is on the port that they came from.
    pub filtered: u64,
}

/// The position of a flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BitFlip {
    /// Offset of the byte in the frame, 14 or more.
    pub offset: usize,
    /// Bit in the byte. 0 is the least significant bit.
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
    /// The first 62 bytes of the frame before any flip: enough for Ethernet, IPv6 and UDP headers.
    pub header: Vec<u8>,
    /// Length of the frame in bytes.
    pub length: usize,
    /// The flipped bits.
    pub flips: Vec<BitFlip>,
}
