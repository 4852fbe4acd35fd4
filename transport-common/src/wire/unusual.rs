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

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::super::cursor::SliceCursor;
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
    const PORTS: [u8; 4] = [0xc0, 0, 0x03, 0xe8];

    /// A frame of 14 or 18 bytes of Ethernet and `rest`.
    fn frame(tagged: bool, rest: &[u8]) -> Vec<u8> {
        let mut frame = MAC.to_vec();
        frame.extend([9; 6]);
        frame.extend(if tagged { &[0x81, 0, 0, 5, 8, 0][..] } else { &[8, 0] });
        frame.extend(rest);
        frame
    }

    fn ipv4(ihl: u8, protocol: u8, fragment: u16) -> Vec<u8> {
        let mut header = vec![0; 20];
        (header[0], header[9]) = (0x40 | ihl, protocol);
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header[16..20].copy_from_slice(&[10, 7, 0, 1]);
        header
    }

    fn ipv6(next_header: u8, extension: [u8; 8]) -> Vec<u8> {
        let mut header = vec![0; 40];
        (header[0], header[6], header[39]) = (0x60, next_header, 1);
        header.extend(extension);
        header
    }

    #[test]
    fn the_ethernet_header_is_skipped_with_its_tag() {
        for tagged in [false, true] {
            let whole = frame(tagged, &[0x4f]);
            let length = whole.len() - 1;
            let mut c = SliceCursor::new(&whole);
            assert_eq!(destination_mac(&mut c, tagged), Some(MAC));
            assert_eq!(c.remaining(), 1);
            assert_eq!(destination_mac(&mut SliceCursor::new(&whole[..length - 1]), tagged), None);
            let header = |bytes| ipv4_header_len(&mut SliceCursor::new(bytes), tagged);
            assert_eq!(header(&whole), Some(60));
            assert_eq!(header(&whole[..length]), None);
        }
        assert_eq!(ipv4_header_len(&mut SliceCursor::new(&frame(false, &[0x45])), false), Some(20));
    }

    /// F-7.1-3, D-86: only UDP, and only the fragment that has the UDP header.
    #[test]
    fn udp_behind_ipv4_options() {
        let behind = |bytes: &[u8]| behind_ipv4(&mut SliceCursor::new(bytes));
        for ihl in 5..16 {
            let words = usize::from(ihl) - 5;
            assert_eq!(behind(&ipv4(ihl, 17, 0)), Some(([10, 7, 0, 1], words)));
        }
        assert_eq!(behind(&ipv4(4, 17, 0)), Some(([10, 7, 0, 1], 0)), "too short: nothing is skipped");
        assert_eq!(behind(&ipv4(6, 6, 0)), None, "TCP");
        assert_eq!(behind(&ipv4(6, 17, 1)), None, "a later fragment");
        assert!(behind(&ipv4(6, 17, 0x2000)).is_some(), "the first fragment");
        assert!(behind(&ipv4(6, 17, 0x4000)).is_some(), "not to be fragmented");
        assert_eq!(behind(&ipv4(5, 17, 0)[..19]), None);
    }

    #[test]
    fn udp_behind_an_ipv6_extension_header() {
        let behind = |bytes: &[u8]| behind_ipv6(&mut SliceCursor::new(bytes));
        let address = {
            let mut a = [0; 16];
            a[15] = 1;
            a
        };
        const HOP_BY_HOP: u8 = 0;
        for units in [0, 1, 2, 255] {
            let options = ipv6(HOP_BY_HOP, [17, units, 0, 8, 0, 0, 0, 0]);
            assert_eq!(behind(&options), Some((address, usize::from(units) * 2)), "its bytes are no offset");
        }
        assert_eq!(behind(&ipv6(HOP_BY_HOP, [6, 0, 0, 0, 0, 0, 0, 0])), None, "TCP");
        let fragment = |protocol, offset: u16| {
            let [high, low] = offset.to_be_bytes();
            ipv6(ipv6::NEXT_HEADER_FRAGMENT, [protocol, 7, high, low, 0, 0, 0, 1])
        };
        assert_eq!(behind(&fragment(17, 0)), Some((address, 0)), "its second byte is no length");
        assert_eq!(behind(&fragment(17, 1)), Some((address, 0)), "the first of several");
        for offset in [8, 0x8000] {
            assert_eq!(behind(&fragment(17, offset)), None, "a later fragment");
        }
        assert_eq!(behind(&fragment(6, 0)), None, "TCP");
        assert_eq!(behind(&fragment(17, 0)[..47]), None);
    }

    #[test]
    fn the_port_behind_words_that_are_skipped() {
        let port = |bytes: &[u8], words| udp_port(&mut SliceCursor::new(bytes), words);
        for words in 0..12 {
            let mut bytes = vec![0xff; 4 * words];
            bytes.extend(PORTS);
            assert_eq!(port(&bytes, words), (words <= 10).then_some(0x03e8), "{words} words");
            assert_eq!(port(&bytes[..4 * words + 3], words), None);
        }
    }
}
