//! The Ethernet and IP header fields that a switch reads and rewrites.

pub(super) use at::ETHERNET;

/// The frames that a full queue may mark congestion experienced (CE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMark {
    /// ECN-capable IP frames (RFC 3168).
    #[default]
    Ect,
    /// All IP frames.
    Always,
}

/// Length of an Ethernet address in bytes.
const ADDRESS: usize = 6;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// Offsets in the frame (RFC 791, RFC 8200).
mod at {
    /// Length of an Ethernet header in bytes: destination, source, type.
    pub(crate) const ETHERNET: usize = 14;
    pub(super) const ETHERTYPE: usize = 12;
    pub(super) const IPV4_VERSION: usize = ETHERNET;
    pub(super) const IPV4_TOS: usize = ETHERNET + 1;
    pub(super) const IPV4_LENGTH: usize = ETHERNET + 2;
    /// Flags and fragment offset.
    pub(super) const IPV4_FRAGMENT: usize = ETHERNET + 6;
    pub(super) const IPV4_TTL: usize = ETHERNET + 8;
    pub(super) const IPV4_PROTOCOL: usize = ETHERNET + 9;
    pub(super) const IPV4_CHECKSUM: usize = ETHERNET + 10;
    pub(super) const IPV4_SOURCE: usize = ETHERNET + 12;
    pub(super) const IPV4_DESTINATION: usize = ETHERNET + 16;
    pub(super) const IPV4_END: usize = ETHERNET + 20;
    /// Offset of the byte with the low half of the traffic class (with ECN) and the first four bits of the flow
    /// label.
    pub(super) const IPV6_CLASS: usize = ETHERNET + 1;
    pub(super) const IPV6_LENGTH: usize = ETHERNET + 4;
    pub(super) const IPV6_NEXT_HEADER: usize = ETHERNET + 6;
    pub(super) const IPV6_HOP_LIMIT: usize = ETHERNET + 7;
    pub(super) const IPV6_SOURCE: usize = ETHERNET + 8;
    pub(super) const IPV6_DESTINATION: usize = ETHERNET + 24;
    pub(super) const IPV6_END: usize = ETHERNET + 40;
}

const PROTOCOL_HOP_BY_HOP: u8 = 0;
const PROTOCOL_IGMP: u8 = 2;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMPV6: u8 = 58;
/// Neighbour discovery and group membership (RFC 4861, RFC 2710, RFC 3810).
const ICMPV6_LINK_LOCAL: [core::ops::RangeInclusive<u8>; 2] = [130..=137, 143..=143];

/// Minimum length of a trimmed frame: Ethernet and IPv6 headers.
pub(super) const LEAST_TRIMMED: usize = at::IPV6_END;

/// Returns true for an IP frame that is shorter than its length field says. A switch with
/// [`trim`](super::Impairments::trim) has cut such a frame. It does not change the headers, so the field still has
/// the original length.
#[must_use]
pub fn is_trimmed(frame: &[u8]) -> bool {
    let length = |offset| usize::from(u16::from_be_bytes(bytes(frame, offset)));
    match ip(frame) {
        None => false,
        Some(IpVersion::V4) => frame.len() < ETHERNET + length(at::IPV4_LENGTH),
        Some(IpVersion::V6) => frame.len() < at::IPV6_END + length(at::IPV6_LENGTH),
    }
}

/// An Ethernet address.
pub(super) type Address = [u8; ADDRESS];

/// Returns the destination and source of a frame, or `None` if it is too short for an Ethernet header.
pub(super) fn addresses(frame: &[u8]) -> Option<(Address, Address)> {
    let (&destination, rest) = frame.get(..ETHERNET)?.split_first_chunk::<ADDRESS>()?;
    Some((destination, *rest.first_chunk::<ADDRESS>()?))
}

/// Returns true for broadcast and multicast addresses.
pub(super) const fn is_group(address: Address) -> bool {
    address[0] & 1 != 0
}

/// The IP version of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IpVersion {
    V4,
    V6,
}

/// Returns the IP version, if the frame has the whole fixed header.
pub(super) fn ip(frame: &[u8]) -> Option<IpVersion> {
    match frame.get(at::ETHERTYPE..ETHERNET)?.try_into().ok()? {
        ETHERTYPE_IPV4 if frame.len() >= at::IPV4_END => Some(IpVersion::V4),
        ETHERTYPE_IPV6 if frame.len() >= at::IPV6_END => Some(IpVersion::V6),
        _ => None,
    }
}

/// Returns `N` bytes of a header. The caller has checked that the header is complete.
fn bytes<const N: usize>(frame: &[u8], offset: usize) -> [u8; N] {
    *frame[offset..].first_chunk().expect("the caller has checked the header")
}

/// Returns the source and destination of a frame with an IPv4 header.
pub(super) fn ipv4_addresses(frame: &[u8]) -> ([u8; 4], [u8; 4]) {
    (bytes(frame, at::IPV4_SOURCE), bytes(frame, at::IPV4_DESTINATION))
}

/// Returns the protocol of a frame with an IPv4 header.
pub(super) fn protocol(frame: &[u8]) -> u8 {
    frame[at::IPV4_PROTOCOL]
}

/// Returns the source and destination port of a frame with an IPv4 header. Returns zeros if the ports are not at
/// their usual offset: for protocols other than TCP and UDP, for headers with options, and for fragments, because
/// only the first fragment has ports.
pub(super) fn ports(frame: &[u8]) -> [u16; 2] {
    const NO_OPTIONS: u8 = 0x45;
    const DONT_FRAGMENT: u16 = 0x4000;
    let whole = u16::from_be_bytes(bytes(frame, at::IPV4_FRAGMENT)) & !DONT_FRAGMENT == 0;
    let has_ports = matches!(protocol(frame), PROTOCOL_TCP | PROTOCOL_UDP);
    match frame.get(at::IPV4_END..at::IPV4_END + 4) {
        Some(ports) if has_ports && whole && frame[at::IPV4_VERSION] == NO_OPTIONS => {
            [u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]])]
        }
        _ => [0; 2],
    }
}

/// Returns the source and destination of a frame with an IPv6 header.
pub(super) fn ipv6_addresses(frame: &[u8]) -> ([u8; 16], [u8; 16]) {
    (bytes(frame, at::IPV6_SOURCE), bytes(frame, at::IPV6_DESTINATION))
}

/// Returns the next header of a frame with an IPv6 header.
pub(super) fn next_header(frame: &[u8]) -> u8 {
    frame[at::IPV6_NEXT_HEADER]
}

/// Returns the flow label (20 bits) of a frame with an IPv6 header.
pub(super) fn flow_label(frame: &[u8]) -> u32 {
    u32::from_be_bytes(bytes(frame, ETHERNET)) & 0xf_ffff
}

/// The kind of traffic of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Control traffic between the hosts' network stacks, which comes at unpredictable times, and everything that
    /// is not IP.
    Housekeeping,
    /// UDP over IPv4 or IPv6.
    Udp,
    /// Other IP traffic.
    OtherIp,
}

/// Returns the kind of traffic of `frame`.
pub(super) fn classify(frame: &[u8]) -> Class {
    let protocol = match ip(frame) {
        None => return Class::Housekeeping,
        Some(IpVersion::V4) => frame[at::IPV4_PROTOCOL],
        Some(IpVersion::V6) => frame[at::IPV6_NEXT_HEADER],
    };
    let is_link_local = |kind: &u8| ICMPV6_LINK_LOCAL.iter().any(|kinds| kinds.contains(kind));
    match (ip(frame), protocol) {
        (_, PROTOCOL_UDP) => Class::Udp,
        (Some(IpVersion::V4), PROTOCOL_IGMP) => Class::Housekeeping,
        // Membership reports come after a router-alert option.
        (Some(IpVersion::V6), PROTOCOL_HOP_BY_HOP) => Class::Housekeeping,
        (Some(IpVersion::V6), PROTOCOL_ICMPV6) if frame.get(at::IPV6_END).is_some_and(is_link_local) => {
            Class::Housekeeping
        }
        _ => Class::OtherIp,
    }
}

/// Replaces the byte at `offset` of an IPv4 header and updates the header checksum incrementally (RFC 1624,
/// equation 3). It does not recompute the checksum, so the checksum of a damaged header stays wrong.
fn replace_ipv4_byte(frame: &mut [u8], offset: usize, byte: u8) {
    // Header and frame are both aligned to 16 bits, so the parity of the offset gives the half of the word.
    let shift = if offset.is_multiple_of(2) { 8 } else { 0 };
    let (old, new) = (u16::from(frame[offset]) << shift, u16::from(byte) << shift);
    let checksum = u16::from_be_bytes([frame[at::IPV4_CHECKSUM], frame[at::IPV4_CHECKSUM + 1]]);
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[at::IPV4_CHECKSUM..at::IPV4_CHECKSUM + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame[offset] = byte;
}

/// Lowers the hop limit of an IP frame by `hops`. Returns false if it would reach zero. Then the frame must be
/// dropped, and it is not changed. Frames that are not IP have no hop limit, and the function returns true.
pub(super) fn pass_hops(frame: &mut [u8], hops: u8) -> bool {
    let offset = match ip(frame) {
        None => return true,
        Some(IpVersion::V4) => at::IPV4_TTL,
        Some(IpVersion::V6) => at::IPV6_HOP_LIMIT,
    };
    if hops == 0 {
        return true;
    }
    match (ip(frame), frame[offset].checked_sub(hops)) {
        (_, None | Some(0)) => return false,
        (Some(IpVersion::V4), Some(left)) => replace_ipv4_byte(frame, offset, left),
        (_, Some(left)) => frame[offset] = left,
    }
    true
}

/// Congestion experienced: both bits of the ECN field (RFC 3168).
const CE: u8 = 0b11;

/// Marks an IP frame congestion experienced if `mark` allows it. Returns true if the frame was not marked before.
pub(super) fn mark_congestion(frame: &mut [u8], mark: EcnMark) -> bool {
    let (version, offset, shift) = match ip(frame) {
        None => return false,
        Some(IpVersion::V4) => (IpVersion::V4, at::IPV4_TOS, 0),
        Some(IpVersion::V6) => (IpVersion::V6, at::IPV6_CLASS, 4),
    };
    let field = (frame[offset] >> shift) & CE;
    if field == CE || (field == 0 && mark == EcnMark::Ect) {
        return false;
    }
    let marked = frame[offset] | (CE << shift);
    match version {
        IpVersion::V4 => replace_ipv4_byte(frame, offset, marked),
        IpVersion::V6 => frame[offset] = marked,
    }
    true
}
