//! The inputs and outputs of Tonic: flows, control packets, segment addresses.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The number of a flow, less than [`Parameters::flows`](super::Parameters::flows).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowId(pub u16);

impl FlowId {
    /// Returns the address of the flow's context.
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

/// The number of a segment in its flow. It wraps, so segments have no order. Use [`Segment::after`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Segment(pub u32);

impl Segment {
    /// Returns the number of segments from `base` to this one, modulo 2^32.
    #[inline(always)]
    #[must_use]
    pub const fn after(self, base: Self) -> u32 {
        self.0.wrapping_sub(base.0)
    }

    /// Returns the segment `count` segments after this one.
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

/// The kind of a control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An acknowledgment: cumulative, and optionally selective.
    Ack,
    /// A negative acknowledgment. It also carries a cumulative acknowledgment.
    Nack,
    /// A grant of one token. It carries no acknowledgment.
    Pull,
    /// A congestion notification. It carries no acknowledgment.
    Cnp,
}

/// A control packet for the sender of a flow. At most one arrives per cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlPacket {
    /// The flow.
    pub flow: FlowId,
    /// The kind of the packet.
    pub kind: Kind,
    /// The cumulative acknowledgment: all segments before this one have arrived. Valid only for [`Kind::Ack`] and
    /// [`Kind::Nack`].
    pub cumulative: Segment,
    /// The selective acknowledgment: a segment that has arrived. Valid only for [`Kind::Ack`] and [`Kind::Nack`].
    pub selective: Option<Segment>,
    /// Bit `n` is set if the segment `n` after `cumulative` has arrived. Valid only for [`Kind::Ack`] and
    /// [`Kind::Nack`] without a selective acknowledgment. The packets of the paper have a single selective
    /// acknowledgment. Falcon's EACK needs the bitmap in the fixed stage.
    #[serde(default)]
    pub bitmap: [u64; 2],
    /// Data for user logic only. The protocol defines its meaning.
    pub data: u32,
}

/// The address of a segment, which a DMA engine needs to fetch and send the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentAddress {
    /// The flow.
    pub flow: FlowId,
    /// The segment.
    pub segment: Segment,
    /// True if the address was generated before.
    pub retransmission: bool,
}
