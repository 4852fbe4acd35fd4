//! What stands behind IPv4 options, behind an IPv6 extension header, or in a first fragment: as much as it takes to tell
//! whose frame it is (D-86). [`Ipv4::decode`] and [`Ipv6::decode`] refuse such frames.

use super::cursor::{Bytes, Cursor};
use super::ethernet::Ethernet;
use super::field::{get_array, get_u16};
use super::ipv4::{self, Ipv4};
use super::ipv6::{self, Ipv6};
use super::udp::IP_PROTOCOL_UDP;
use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

/// 32-bit words that are looked past: the longest IPv4 options.
const MOST_WORDS: usize = 10;
/// Bytes of the tag of a tagged frame.
const TAG: usize = Ethernet::TAGGED_LEN - Ethernet::LEN;
/// Bytes of an IPv6 extension header that are always there, and the unit of its length.
const EXTENSION: usize = 8;

/// Passes the Ethernet header; the destination's address.
#[inline(always)]
pub(crate) fn destination_mac<C: Cursor>(c: &mut C, tagged: bool) -> Option<[u8; 6]> {
    let ethernet = c.take::<{ Ethernet::LEN }>()?;
    let mac = get_array::<0, 6, _>(&ethernet);
    if tagged {
        c.take::<TAG>()?;
    }
    Some(mac)
}

/// Bytes that the IPv4 header of a frame says it has, options included.
#[inline(always)]
pub(crate) fn ipv4_header_len<C: Cursor>(c: &mut C, tagged: bool) -> Option<u32> {
    if tagged {
        c.take::<TAG>()?;
    }
    let [version_ihl] = c.take::<{ Ethernet::LEN + 1 }>()?.array::<{ Ethernet::LEN }, 1>();
    Some((version_ihl as u32 & 0xf) * 4)
}

/// Destination of an IPv4 packet with a UDP header, and the words of options in front of that.
#[inline(always)]
pub(crate) fn behind_ipv4<C: Cursor>(c: &mut C) -> Option<([u8; 4], usize)> {
    let ip = c.take::<{ Ipv4::LEN }>()?;
    let ip: &Ipv4Hdr = ip.header();
    let first = u16::from_be_bytes(ip.frags) & ipv4::OFFSET_MASK == 0;
    if ip.proto != IP_PROTOCOL_UDP || !first {
        return None;
    }
    Some((ip.dst_addr, (ip.ihl() as usize).saturating_sub(Ipv4::LEN) / 4))
}

/// Destination of an IPv6 packet with a UDP header behind one extension header, and the words of that behind its first 8
/// bytes.
#[inline(always)]
pub(crate) fn behind_ipv6<C: Cursor>(c: &mut C) -> Option<([u8; 16], usize)> {
    let ip = c.take::<{ Ipv6::LEN }>()?;
    let extension = c.take::<EXTENSION>()?;
    let ip: &Ipv6Hdr = ip.header();
    let fragment = ip.next_hdr == ipv6::NEXT_HEADER_FRAGMENT;
    let first = get_u16::<2, _>(&extension) & 0xfff8 == 0;
    let [protocol, length] = extension.array::<0, 2>();
    if protocol != IP_PROTOCOL_UDP || (fragment && !first) {
        return None;
    }
    // A fragment header has no length field: it is 8 bytes.
    Some((ip.dst_addr, if fragment { 0 } else { length as usize * (EXTENSION / 4) }))
}

/// Destination port of the UDP header that stands `words` 32-bit words behind the cursor; none if that is further than is
/// looked, or the frame is cut.
#[inline(always)]
pub(crate) fn udp_port<C: Cursor>(c: &mut C, words: usize) -> Option<u16> {
    let mut n = 0;
    while n < MOST_WORDS {
        if n < words {
            c.take::<4>()?;
        }
        n += 1;
    }
    let ports = c.take::<4>()?;
    (words <= MOST_WORDS).then(|| get_u16::<2, _>(&ports))
}
