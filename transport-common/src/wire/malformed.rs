//! The reasons why bytes are not a packet.

use strum::{IntoStaticStr, VariantArray};

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
    /// The next header is neither Falcon (252, F-7.1-1) nor an inner IPv4 or IPv6 packet (4, 41, F-7.1.2-1).
    PspNextHeader,
    /// The header extension length contradicts the V bit.
    PspExtLength,
    /// The crypt offset does not leave exactly the inner IP header, if there is one, and the first Falcon word
    /// unencrypted (F-7.1-3, F-7.1.2-1).
    PspCryptOffset,
    /// A version other than 0, 1 or the plaintext version (D-10, D-83).
    PspVersion,
    /// The bit that is always 1 is 0.
    PspTrailingBit,
    /// The protocol of an inner IP header is not Falcon (252, F-7.1.2-1).
    InnerProtocol,
    /// The inner packet does not end where the UDP payload ends (F-7.1.2-1).
    InnerLength,
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
