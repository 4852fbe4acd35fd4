//! Wire formats: one module a format, offsets and widths written once.
//!
//! Every decoder reads through a [`Cursor`], of which there are two: a host slice and, in the BPF
//! crate, the verifier's pair of packet pointers. Decoders check what the format itself promises and nothing that
//! needs a connection; reserved bits are ignored on receipt and sent as 0 (D-09). Encoders write every byte of
//! their array, so a recycled frame leaks nothing; a field wider than its place on the wire is cut to it.

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
pub mod psp;
pub mod pull_data;
pub mod pull_request;
pub mod push_data;
pub mod resync;
pub mod udp;
pub(crate) mod unusual;

pub use cursor::{Cursor, SliceCursor};
pub use falcon::FalconHeader;

/// Declares [`Malformed`] with the list of all reasons and their names, so that the three cannot drift apart.
macro_rules! malformed {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Why bytes are not a packet of the format; one meaning each, so that each can be a drop counter.
        ///
        /// The numeric values count from 0 without gaps and are stable within one build only.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Malformed { $($(#[$doc])* $variant,)* }

        impl Malformed {
            /// Every reason, in the order of its numeric value.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name of the reason's counter.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

malformed! {
    /// Fewer than 14 bytes, or fewer than 18 with an 802.1Q tag.
    EthernetTruncated = "ethernet_truncated",
    /// Fewer than 20 bytes of IPv4 header.
    Ipv4Truncated = "ipv4_truncated",
    /// The version nibble is not 4.
    Ipv4Version = "ipv4_version",
    /// The header length field is below 5 words.
    Ipv4HeaderLength = "ipv4_header_length",
    /// The header carries options (D-86).
    Ipv4Options = "ipv4_options",
    /// The header checksum does not match.
    Ipv4Checksum = "ipv4_checksum",
    /// The total length is below 20 or beyond the frame.
    Ipv4TotalLength = "ipv4_total_length",
    /// A fragment, IPv4 or IPv6 (D-86).
    Fragment = "fragment",
    /// Fewer than 40 bytes of IPv6 header.
    Ipv6Truncated = "ipv6_truncated",
    /// The version nibble is not 6.
    Ipv6Version = "ipv6_version",
    /// The payload length is beyond the frame.
    Ipv6PayloadLength = "ipv6_payload_length",
    /// An extension header follows (D-86).
    Ipv6Extension = "ipv6_extension",
    /// Fewer than 8 bytes of UDP header.
    UdpTruncated = "udp_truncated",
    /// The UDP length is below 8 or beyond the IP payload.
    UdpLength = "udp_length",
    /// Fewer than 16 bytes of PSP header, or fewer than 24 with a virtualisation cookie.
    PspTruncated = "psp_truncated",
    /// The next header is not Falcon (252, F-7.1-1).
    PspNextHeader = "psp_next_header",
    /// The header extension length contradicts the V bit.
    PspExtLength = "psp_ext_length",
    /// The crypt offset does not leave exactly the first Falcon word in clear (F-7.1-3).
    PspCryptOffset = "psp_crypt_offset",
    /// A version other than 0, 1 or the plaintext version (D-10, D-83).
    PspVersion = "psp_version",
    /// The bit that is always 1 is 0.
    PspTrailingBit = "psp_trailing_bit",
    /// The Falcon packet is shorter than the header of its type, or the frame shorter than the Falcon packet.
    FalconTruncated = "falcon_truncated",
    /// The version is not 1 (F-7.2-2, D-09).
    FalconVersion = "falcon_version",
    /// A reserved packet type (F-7.2-7).
    FalconPacketType = "falcon_packet_type",
    /// A reserved protocol type on a Pull Request, Push Data or Pull Data (F-7.2-6).
    FalconProtocol = "falcon_protocol",
    /// Push Data whose payload is not of Request Length (D-16), or bytes behind a packet without payload.
    FalconLength = "falcon_length",
    /// A Resync whose original packet type is not 0, 3 or 5 (D-24).
    ResyncPacketType = "resync_packet_type",
    /// Fewer bytes than the RDMA operation's headers.
    RdmaTruncated = "rdma_truncated",
    /// A BTH transport version other than 0.
    RdmaVersion = "rdma_version",
    /// An RDMA opcode that this Falcon packet type does not carry.
    RdmaOpcode = "rdma_opcode",
    /// Lengths that disagree, or a pad count (D-84).
    RdmaLength = "rdma_length",
    /// An atomic on an address that is no multiple of 8 (D-84).
    RdmaAlignment = "rdma_alignment",
    /// An AETH syndrome that is neither success nor an error code (D-84).
    RdmaSyndrome = "rdma_syndrome",
}

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Malformed {}

/// Falcon packet types that are not reserved (F-7.2-7, F-7.2-8, D-09).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// From the four bits on the wire; `None` for a reserved value.
    #[inline(always)]
    pub const fn from_wire(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::PullRequest),
            3 => Some(Self::PullData),
            5 => Some(Self::PushData),
            6 => Some(Self::Resync),
            8 => Some(Self::Nack),
            9 => Some(Self::Back),
            10 => Some(Self::Eack),
            _ => None,
        }
    }

    /// Bytes of the Falcon header of this type; the ULP header or payload follows.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ProtocolType {
    /// RDMA, its headers as D-84 lays them.
    Rdma = 2,
    /// NVMe.
    Nvme = 3,
}

impl ProtocolType {
    /// From the three bits on the wire; `None` for a reserved value.
    #[inline(always)]
    pub const fn from_wire(bits: u8) -> Option<Self> {
        match bits {
            2 => Some(Self::Rdma),
            3 => Some(Self::Nvme),
            _ => None,
        }
    }
}
