//! The first stage of parsing: the headers that are not encrypted, up to PSP's.

use super::open::Sealed;
use super::parsed::{CONGESTION_EXPERIENCED, Parsed, counter_of, mac_word, words};
use crate::counters::Counter;
use crate::datapath::{Platform, Scratch};
use crate::wire::checksum::{checksum_holds, pseudo_header_v4, pseudo_header_v6, sum_length};
use crate::wire::cursor::Cursor;
use crate::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use crate::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP};
use crate::wire::{Malformed, ipv4, ipv6, psp, udp, unusual};

/// Length of the link layer header in a frame with an 802.1Q tag, bytes.
const TAGGED: u32 = Ethernet::TAGGED_LEN as u32;

/// Reads Ethernet, IP, UDP and PSP. What the connection needs of them is in the scratch then. `open` gets the rest.
#[inline(always)]
pub(super) fn read<P: Platform>(
    p: &mut P,
    s: &mut Scratch,
    cursor: &mut P::Cursor,
    open: impl FnOnce(&mut Scratch, &mut P::Cursor, Sealed) -> Parsed,
) -> Parsed {
    let verdict = network(p, s, cursor);
    if !matches!(verdict, Parsed::Falcon) {
        return verdict;
    }
    let Some(bytes) = cursor.take::<{ udp::Udp::LEN }>() else {
        return Parsed::Drop(Counter::DropUdpLength);
    };
    let udp = udp::Udp::from_bytes(&bytes);
    if udp.dst_port != FALCON_UDP_PORT {
        return Parsed::Pass(Counter::PassPort); // D-86
    }
    let length = udp.length as u32;
    if length != s.network.payload_length || length < (udp::Udp::LEN + psp::Psp::LEN) as u32 {
        return Parsed::Drop(Counter::DropUdpLength);
    }
    if udp.checksum == 0 {
        p.raise(Counter::ChecksumAbsent);
    } else {
        let offset = s.network.udp_offset;
        let Some(sum) = p.sum_frame(s, offset, length) else {
            return Parsed::Drop(Counter::DropUdpLength);
        };
        if !checksum_holds(s.network.pseudo_sum + sum_length(length as u16) + sum as u64) {
            return Parsed::Drop(Counter::DropUdpChecksum);
        }
    }
    let psp = match psp::Psp::decode(cursor) {
        Ok(psp) => psp,
        Err(malformed) => return Parsed::Drop(counter_of(malformed)),
    };
    let packet = &mut s.step.input.packet;
    packet.psp_version = psp.version;
    packet.spi = psp.spi.0;
    packet.iv = psp.iv;
    let overhead = (udp::Udp::LEN + psp::Psp::LEN) as u32;
    let sealed = Sealed {
        version: psp.version,
        has_vc: psp.has_vc,
        next_header: psp.next_header,
        offset: s.network.udp_offset + overhead,
        length: length.wrapping_sub(overhead),
    };
    open(s, cursor, sealed)
}

/// Parses Ethernet and IP into `s.network`.
#[inline(always)]
fn network<P: Platform>(p: &mut P, s: &mut Scratch, cursor: &mut P::Cursor) -> Parsed {
    let (mac, ethertype) = match Ethernet::decode(cursor) {
        Ok(frame) => {
            s.step.input.packet.vlan = frame.vlan.is_some() as u8;
            s.step.input.packet.vlan_tci = frame.vlan.unwrap_or(0);
            (mac_word(&frame.dst), frame.ethertype)
        }
        Err(malformed) => return Parsed::Drop(counter_of(malformed)),
    };
    let link = if s.step.input.packet.vlan != 0 { TAGGED } else { Ethernet::LEN as u32 };
    let protocol = match ethertype {
        ETHERTYPE_IPV4 => match ipv4::Ipv4::decode(cursor) {
            Ok(ip) => {
                if !p.owns_ipv4(mac, u32::from_ne_bytes(ip.dst)) {
                    return Parsed::Pass(Counter::PassAddress);
                }
                s.step.input.packet.hop_limit = ip.ttl;
                s.step.input.packet.congestion_experienced =
                    (ip.dscp_ecn & 3 == CONGESTION_EXPERIENCED) as u8;
                s.network.payload_length = (ip.total_length as u32).wrapping_sub(ipv4::Ipv4::LEN as u32);
                s.network.udp_offset = link + ipv4::Ipv4::LEN as u32;
                s.step.input.packet.source = [u32::from_ne_bytes(ip.src) as u64, 0];
                s.network.pseudo_sum = pseudo_header_v4(&ip.src, &ip.dst);
                ip.protocol
            }
            Err(malformed) => {
                if matches!(malformed, Malformed::Ipv4Options)
                    && let Some(fault) = fault_of_options(p, s, link)
                {
                    return Parsed::Drop(fault);
                }
                return unusual(p, malformed, link, false);
            }
        },
        ETHERTYPE_IPV6 => match ipv6::Ipv6::decode(cursor) {
            Ok(ip) => {
                if !p.owns_ipv6(mac, words(&ip.dst)) {
                    return Parsed::Pass(Counter::PassAddress);
                }
                s.step.input.packet.hop_limit = ip.hop_limit;
                s.step.input.packet.congestion_experienced =
                    (ip.traffic_class & 3 == CONGESTION_EXPERIENCED) as u8;
                s.network.payload_length = ip.payload_length as u32;
                s.network.udp_offset = link + ipv6::Ipv6::LEN as u32;
                s.step.input.packet.source = words(&ip.src);
                s.network.pseudo_sum = pseudo_header_v6(&ip.src, &ip.dst);
                ip.next_header
            }
            Err(malformed) => return unusual(p, malformed, link, true),
        },
        _ => return Parsed::Pass(Counter::PassEthertype),
    };
    if protocol == IP_PROTOCOL_UDP { Parsed::Falcon } else { Parsed::Pass(Counter::PassProtocol) }
}

/// Returns the fault of an IPv4 header that claims to have options, if it has one: the frame is too short for
/// them, or the checksum, which covers the options, is wrong. A header with damaged length claims options too.
/// With a fault it is dropped like a header without options.
#[inline(always)]
fn fault_of_options<P: Platform>(p: &mut P, s: &mut Scratch, link: u32) -> Option<Counter> {
    let mut cursor = p.cursor();
    let length = unusual::ipv4_header_len(&mut cursor, link == TAGGED)?;
    match p.sum_frame(s, link, length) {
        Some(sum) if checksum_holds(sum as u64) => None,
        Some(_) => Some(Counter::DropIpv4Checksum),
        None => Some(Counter::DropIpv4Header),
    }
}

/// Decides about a frame with IP options or extension headers, or a fragment. It is dropped if it is Falcon for
/// this node, otherwise passed on (D-86). Every other fault of the IP header drops the frame at once.
#[inline(always)]
fn unusual<P: Platform>(p: &mut P, malformed: Malformed, link: u32, v6: bool) -> Parsed {
    let special =
        matches!(malformed, Malformed::Ipv4Options | Malformed::Fragment | Malformed::Ipv6Extension);
    if !special || is_falcon(p, link, v6) {
        return Parsed::Drop(counter_of(malformed));
    }
    Parsed::Pass(Counter::PassProtocol)
}

/// Returns whether the frame is for this node and the UDP port after IPv4 options, or after one IPv6 extension
/// header, is Falcon's. Returns false for a fragment that does not carry the port.
#[inline(always)]
fn is_falcon<P: Platform>(p: &mut P, link: u32, v6: bool) -> bool {
    let mut cursor = p.cursor();
    let Some(mac) = unusual::destination_mac(&mut cursor, link == TAGGED) else { return false };
    let mac = mac_word(&mac);
    let words = if v6 {
        match unusual::behind_ipv6(&mut cursor) {
            Some((destination, words)) if p.owns_ipv6(mac, self::words(&destination)) => words,
            _ => return false,
        }
    } else {
        match unusual::behind_ipv4(&mut cursor) {
            Some((destination, words)) if p.owns_ipv4(mac, u32::from_ne_bytes(destination)) => words,
            _ => return false,
        }
    };
    unusual::udp_port(&mut cursor, words) == Some(FALCON_UDP_PORT)
}
