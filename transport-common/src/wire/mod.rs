//! Wire formats: one module per format. Offsets and widths are written only once.
//!
//! Every decoder reads through a [`Cursor`]. There are two kinds: a slice on the host and, in the BPF crate, a
//! pair of packet pointers for the verifier. Decoders check what the format itself requires, and nothing that
//! needs a connection. Reserved bits are ignored on receipt and sent as 0 (D-09). Encoders write every byte of
//! their array, so a recycled frame leaks nothing. A value that is wider than its field on the wire is cut to the
//! field.

pub mod ack;
pub mod base;
pub mod checksum;
pub mod cursor;
pub mod ethernet;
pub mod falcon;
pub(crate) mod field;
pub mod ipv4;
pub mod ipv6;
pub mod nack;
pub mod packet;
pub mod psp;
pub mod pull_data;
pub mod pull_request;
pub mod push_data;
pub mod resync;
pub mod udp;
pub(crate) mod unusual;

pub use cursor::{Cursor, SliceCursor};
pub use falcon::FalconHeader;

use strum::{FromRepr, IntoStaticStr, VariantArray};

/// Reasons why bytes are not a packet of the format. Each has exactly one meaning, so that each can be a drop
/// counter.
///
/// The numeric values count from 0 without gaps. They are stable only within one build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[repr(u8)]
pub enum Malformed {
    /// Fewer than 14 bytes, or fewer than 18 with an 802.1Q tag.
    EthernetTruncated,
    /// Fewer than 20 bytes of IPv4 header.
    Ipv4Truncated,
    /// The version nibble is not 4.
    Ipv4Version,
    /// The header length field is below 5 words.
    Ipv4HeaderLength,
    /// The header carries options (D-86).
    Ipv4Options,
    /// The header checksum does not match.
    Ipv4Checksum,
    /// The total length is below 20 or beyond the frame.
    Ipv4TotalLength,
    /// A fragment, IPv4 or IPv6 (D-86).
    Fragment,
    /// Fewer than 40 bytes of IPv6 header.
    Ipv6Truncated,
    /// The version nibble is not 6.
    Ipv6Version,
    /// The payload length is beyond the frame.
    Ipv6PayloadLength,
    /// An extension header follows (D-86).
    Ipv6Extension,
    /// Fewer than 8 bytes of UDP header.
    UdpTruncated,
    /// The UDP length is below 8 or beyond the IP payload.
    UdpLength,
    /// Fewer than 16 bytes of PSP header, or fewer than 24 with a virtualisation cookie.
    PspTruncated,
    /// The next header is not Falcon (252, F-7.1-1).
    PspNextHeader,
    /// The header extension length contradicts the V bit.
    PspExtLength,
    /// The crypt offset does not leave exactly the first Falcon word unencrypted (F-7.1-3).
    PspCryptOffset,
    /// A version other than 0, 1 or the plaintext version (D-10, D-83).
    PspVersion,
    /// The bit that is always 1 is 0.
    PspTrailingBit,
    /// The Falcon packet is shorter than the header of its type, or the frame shorter than the Falcon packet.
    FalconTruncated,
    /// The version is not 1 (F-7.2-2, D-09).
    FalconVersion,
    /// A reserved packet type (F-7.2-7).
    FalconPacketType,
    /// A reserved protocol type on a Pull Request, Push Data or Pull Data (F-7.2-6).
    FalconProtocol,
    /// Push Data whose payload length differs from Request Length (D-16), or bytes after a packet without payload.
    FalconLength,
    /// A Resync whose original packet type is not 0, 3 or 5 (D-24).
    ResyncPacketType,
    /// Fewer bytes than the RDMA operation's headers.
    RdmaTruncated,
    /// A BTH transport version other than 0.
    RdmaVersion,
    /// An RDMA opcode that this Falcon packet type does not carry.
    RdmaOpcode,
    /// Lengths that contradict each other, or a pad count (D-84).
    RdmaLength,
    /// An atomic operation on an address that is not a multiple of 8 (D-84).
    RdmaAlignment,
    /// An AETH syndrome that is neither success nor an error code (D-84).
    RdmaSyndrome,
}

impl Malformed {
    /// All reasons, in the order of their numeric values.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the name of the reason's counter.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Malformed {}

/// Falcon packet types that are not reserved (F-7.2-7, F-7.2-8, D-09).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromRepr)]
#[repr(u8)]
pub enum PacketType {
    /// Asks the target for data.
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

    /// Returns the length of the Falcon header of this type in bytes. The ULP header or payload follows.
    #[inline(always)]
    pub const fn header_len(self) -> usize {
        match self {
            Self::PullRequest => pull_request::PullRequest::LEN,
            Self::PullData => pull_data::PullData::LEN,
            Self::PushData => push_data::PushData::LEN,
            Self::Resync => resync::Resync::LEN,
            Self::Nack => nack::Nack::LEN,
            Self::Back => ack::AckHeader::LEN,
            Self::Eack => ack::Eack::LEN,
        }
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
