//! Frames with IPv4 options, with an IPv6 extension header, or first fragments: as much parsing as is needed to
//! decide whether a frame is for this node (D-86). [`Ipv4::decode`] and [`Ipv6::decode`] refuse such frames.

use super::cursor::{Bytes, Cursor};
use super::ethernet::Ethernet;
use super::field::{get_array, get_u16};
use super::ipv4::{self, Ipv4};
use super::ipv6::{self, Ipv6};
use super::udp::IP_PROTOCOL_UDP;
use network_types::ip::{Ipv4Hdr, Ipv6Hdr};

/// Largest number of 32-bit words that are skipped: the longest IPv4 options.
const MOST_WORDS: usize = 10;
/// Length of the tag of a tagged frame, bytes.
const TAG: usize = Ethernet::TAGGED_LEN - Ethernet::LEN;
/// Length of the fixed part of an IPv6 extension header, bytes. Also the unit of its length field.
const EXTENSION: usize = 8;

/// Skips the Ethernet header. Returns the destination's address.
#[inline(always)]
pub(crate) fn destination_mac<C: Cursor>(c: &mut C, tagged: bool) -> Option<[u8; 6]> {
    let ethernet = c.take::<{ Ethernet::LEN }>()?;
    let mac = get_array::<0, 6, _>(&ethernet);
    if tagged {
        c.take::<TAG>()?;
    }
    Some(mac)
}

/// Returns the length of the IPv4 header of a frame, including options, as the header states it, bytes.
#[inline(always)]
pub(crate) fn ipv4_header_len<C: Cursor>(c: &mut C, tagged: bool) -> Option<u32> {
    if tagged {
        c.take::<TAG>()?;
    }
    let [version_ihl] = c.take::<{ Ethernet::LEN + 1 }>()?.array::<{ Ethernet::LEN }, 1>();
    Some((version_ihl as u32 & 0xf) * 4)
}

/// Returns the destination of an IPv4 packet with a UDP header, and the number of option words before the UDP
/// header.
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

/// Returns the destination of an IPv6 packet with a UDP header after one extension header, and the number of words
/// after the first 8 bytes of the extension header.
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

/// Returns the destination port of the UDP header that is `words` 32-bit words after the cursor. Returns `None` if
/// that is more than can be skipped, or if the frame is too short.
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
