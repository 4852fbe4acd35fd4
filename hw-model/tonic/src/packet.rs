//! What comes in and goes out: flows, control packets, segment addresses.

use core::fmt;

use serde::{Deserialize, Serialize};

/// A flow's number, below [`Parameters::flows`](super::Parameters::flows).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u16);

impl FlowId {
    /// Its context's address.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A segment's number in its flow. Wraps, hence no order: see [`Segment::after`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Segment(pub u32);

impl Segment {
    /// Segments from `base` to this one, modulo 2^32.
    #[inline(always)]
    #[must_use]
    pub const fn after(self, base: Self) -> u32 {
        self.0.wrapping_sub(base.0)
    }

    /// The segment `count` further on.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Kind of a control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Acknowledgment, cumulative and if need be selective.
    Ack,
    /// Negative acknowledgment; it carries a cumulative one too.
    Nack,
    /// Grant of one token; carries no acknowledgment.
    Pull,
    /// Congestion notification; carries no acknowledgment.
    Cnp,
}

/// A control packet for a flow's sender. At most one a cycle comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlPacket {
    /// The flow.
    pub flow: FlowId,
    /// What it is.
    pub kind: Kind,
    /// All segments before this one have arrived. Of [`Kind::Ack`] and [`Kind::Nack`] only.
    pub cumulative: Segment,
    /// A segment that has arrived. Of [`Kind::Ack`] and [`Kind::Nack`] only.
    pub selective: Option<Segment>,
    /// Bit `n`: the segment `n` behind `cumulative` has arrived. Of [`Kind::Ack`] and [`Kind::Nack`] without a selective
    /// acknowledgment only. The paper's packets have a single selective acknowledgment; this is what Falcon's EACK
    /// asks of the fixed stage.
    #[serde(default)]
    pub bitmap: [u64; 2],
    /// For user logic alone; the protocol defines it.
    pub data: u32,
}

/// The address of a segment: what a DMA engine needs to fetch and send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentAddress {
    /// The flow.
    pub flow: FlowId,
    /// The segment.
    pub segment: Segment,
    /// It was generated before.
    pub retransmission: bool,
}
