//! What a switch reads and rewrites in a frame's Ethernet and IP headers.

use super::config::EcnMark;

/// Length of an Ethernet header in bytes: destination, source, type.
pub(super) const ETHERNET: usize = 14;
/// Length of an Ethernet address in bytes.
const ADDRESS: usize = 6;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// Offsets in the frame (RFC 791, RFC 8200).
mod at {
    use super::ETHERNET;
    pub(super) const ETHERTYPE: usize = 12;
    pub(super) const IPV4_TOS: usize = ETHERNET + 1;
    pub(super) const IPV4_TTL: usize = ETHERNET + 8;
    pub(super) const IPV4_PROTOCOL: usize = ETHERNET + 9;
    pub(super) const IPV4_CHECKSUM: usize = ETHERNET + 10;
    pub(super) const IPV4_END: usize = ETHERNET + 20;
    /// Low half of the traffic class (with ECN), high half of the flow label's first byte.
    pub(super) const IPV6_CLASS: usize = ETHERNET + 1;
    pub(super) const IPV6_NEXT_HEADER: usize = ETHERNET + 6;
    pub(super) const IPV6_HOP_LIMIT: usize = ETHERNET + 7;
    pub(super) const IPV6_END: usize = ETHERNET + 40;
}

const PROTOCOL_HOP_BY_HOP: u8 = 0;
const PROTOCOL_IGMP: u8 = 2;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ICMPV6: u8 = 58;
/// Neighbour discovery and group membership (RFC 4861, RFC 2710, RFC 3810).
const ICMPV6_LINK_LOCAL: [core::ops::RangeInclusive<u8>; 2] = [130..=137, 143..=143];

/// An Ethernet address.
pub(super) type Address = [u8; ADDRESS];

/// Destination and source of a frame; `None` if it is too short for an Ethernet header.
pub(super) fn addresses(frame: &[u8]) -> Option<(Address, Address)> {
    let (&destination, rest) = frame.get(..ETHERNET)?.split_first_chunk::<ADDRESS>()?;
    Some((destination, *rest.first_chunk::<ADDRESS>()?))
}

/// True of broadcast and multicast addresses.
pub(super) const fn is_group(address: Address) -> bool {
    address[0] & 1 != 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ip {
    V4,
    V6,
}

/// The IP version, if the whole fixed header is there.
fn ip(frame: &[u8]) -> Option<Ip> {
    match frame.get(at::ETHERTYPE..ETHERNET)?.try_into().ok()? {
        ETHERTYPE_IPV4 if frame.len() >= at::IPV4_END => Some(Ip::V4),
        ETHERTYPE_IPV6 if frame.len() >= at::IPV6_END => Some(Ip::V6),
        _ => None,
    }
}

/// What kind of traffic a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The hosts' network stacks among themselves, at times of their own, and all that is not IP.
    Housekeeping,
    /// UDP over IPv4 or IPv6.
    Udp,
    /// Other IP.
    OtherIp,
}

/// The kind of traffic `frame` is.
pub(super) fn classify(frame: &[u8]) -> Class {
    let protocol = match ip(frame) {
        None => return Class::Housekeeping,
        Some(Ip::V4) => frame[at::IPV4_PROTOCOL],
        Some(Ip::V6) => frame[at::IPV6_NEXT_HEADER],
    };
    let is_link_local = |kind: &u8| ICMPV6_LINK_LOCAL.iter().any(|kinds| kinds.contains(kind));
    match (ip(frame), protocol) {
        (_, PROTOCOL_UDP) => Class::Udp,
        (Some(Ip::V4), PROTOCOL_IGMP) => Class::Housekeeping,
        // Membership reports come behind a router alert.
        (Some(Ip::V6), PROTOCOL_HOP_BY_HOP) => Class::Housekeeping,
        (Some(Ip::V6), PROTOCOL_ICMPV6) if frame.get(at::IPV6_END).is_some_and(is_link_local) => {
            Class::Housekeeping
        }
        _ => Class::OtherIp,
    }
}

/// Replaces the byte at `offset` of an IPv4 header and updates the header checksum with it, without summing
/// the header anew: a header that was damaged stays so (RFC 1624, equation 3).
fn replace_ipv4_byte(frame: &mut [u8], offset: usize, byte: u8) {
    // Header and frame are both aligned to 16 bits, so the parity of the offset tells the half of the word.
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

/// Lowers the hop limit of an IP frame by `hops`. False if it would reach zero: the frame must be dropped
/// and is left as it was. Frames that are not IP have no hop limit and pass.
pub(super) fn pass_hops(frame: &mut [u8], hops: u8) -> bool {
    let offset = match ip(frame) {
        None => return true,
        Some(Ip::V4) => at::IPV4_TTL,
        Some(Ip::V6) => at::IPV6_HOP_LIMIT,
    };
    if hops == 0 {
        return true;
    }
    match (ip(frame), frame[offset].checked_sub(hops)) {
        (_, None | Some(0)) => return false,
        (Some(Ip::V4), Some(left)) => replace_ipv4_byte(frame, offset, left),
        (_, Some(left)) => frame[offset] = left,
    }
    true
}

/// Congestion experienced, in both bits of the ECN field (RFC 3168).
const CE: u8 = 0b11;

/// Marks an IP frame congestion experienced if `mark` allows. True if it was not so before.
pub(super) fn mark_congestion(frame: &mut [u8], mark: EcnMark) -> bool {
    let (version, offset, shift) = match ip(frame) {
        None => return false,
        Some(Ip::V4) => (Ip::V4, at::IPV4_TOS, 0),
        Some(Ip::V6) => (Ip::V6, at::IPV6_CLASS, 4),
    };
    let field = (frame[offset] >> shift) & CE;
    if field == CE || (field == 0 && mark == EcnMark::Ect) {
        return false;
    }
    let marked = frame[offset] | (CE << shift);
    match version {
        Ip::V4 => replace_ipv4_byte(frame, offset, marked),
        Ip::V6 => frame[offset] = marked,
    }
    true
}
