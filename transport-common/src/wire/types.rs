//! The types of packets and the upper layer protocols, as the base header names them.

use bytemuck::{CheckedBitPattern, NoUninit, Zeroable};
use strum::FromRepr;

/// Falcon packet types that are not reserved (F-7.2-7, F-7.2-8, D-09).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromRepr, CheckedBitPattern, NoUninit, Zeroable,
)]
#[repr(u8)]
pub enum PacketType {
    /// Asks the target for data.
    #[default]
    PullRequest = 0,
    /// Answers a Pull Request.
    PullData = 3,
    /// Carries data to the target.
    PushData = 5,
    /// Replaces a packet that will never be sent again.
    Resync = 6,
    /// Negative acknowledgement of one packet.
    Nack = 8,
    /// Base acknowledgement.
    Back = 9,
    /// Extended acknowledgement, with bitmaps.
    Eack = 10,
}

impl PacketType {
    /// Converts the four bits on the wire. Returns `None` for a reserved value.
    #[inline(always)]
    pub const fn from_wire(bits: u8) -> Option<Self> {
        Self::from_repr(bits)
    }

    /// Returns whether it is an acknowledgement: BACK, EACK or NACK. These have no base header.
    #[inline(always)]
    pub const fn is_acknowledgement(self) -> bool {
        matches!(self, Self::Back | Self::Eack | Self::Nack)
    }
}

/// Upper layer protocols that are not reserved (F-7.2-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr)]
#[repr(u8)]
pub enum ProtocolType {
    /// RDMA, with the headers of D-84.
    Rdma = 2,
    /// NVMe.
    Nvme = 3,
}

impl ProtocolType {
    /// Converts the three bits on the wire. Returns `None` for a reserved value.
    #[inline(always)]
    pub const fn from_wire(bits: u8) -> Option<Self> {
        Self::from_repr(bits)
    }
}
