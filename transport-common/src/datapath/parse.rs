//! Parses a frame into a [`Packet`]: all checks that need no connection (D-23 step 1).

use super::{Platform, Scratch};
use crate::bitmap::Bitmap128;
use crate::counters::Counter;
use crate::ids::Psn;
use crate::ulp::{Operation, OperationKind, Protocol};
use crate::units::FalconTime;
use crate::wire::ack::{Ack, AckHeader, CongestionInfo};
use crate::wire::base::{BaseHeader, FirstWords};
use crate::wire::checksum::{checksum_holds, pseudo_header_v4, pseudo_header_v6, sum_length};
use crate::wire::cursor::{Bytes, Cursor};
use crate::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use crate::wire::falcon::{FalconHeader, Reader};
use crate::wire::inner::Inner;
use crate::wire::packet::Packet;
use crate::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP};
use crate::wire::{Malformed, PacketType, ipv4, ipv6, psp, udp, unusual};

/// Result of parsing a frame.
enum Parsed {
    /// A Falcon packet, now in the scratch.
    Falcon,
    /// Not a packet for us.
    Pass(Counter),
    /// A packet for us that is unusable.
    Drop(Counter),
}

/// Returns the counter of a malformed header.
#[inline(always)]
const fn counter_of(malformed: Malformed) -> Counter {
    match malformed {
        Malformed::EthernetTruncated => Counter::DropEthernetTruncated,
        Malformed::Ipv4Checksum => Counter::DropIpv4Checksum,
        Malformed::Ipv4Truncated
        | Malformed::Ipv4Version
        | Malformed::Ipv4HeaderLength
        | Malformed::Ipv4TotalLength => Counter::DropIpv4Header,
        Malformed::Ipv4Options | Malformed::Ipv6Extension => Counter::DropIpOptions,
        Malformed::Fragment => Counter::DropFragment,
        Malformed::Ipv6Truncated | Malformed::Ipv6Version | Malformed::Ipv6PayloadLength => {
            Counter::DropIpv6Header
        }
        Malformed::UdpTruncated | Malformed::UdpLength => Counter::DropUdpLength,
        Malformed::InnerProtocol | Malformed::InnerLength => Counter::DropInnerHeader,
        Malformed::FalconVersion => Counter::DropFalconVersion,
        Malformed::FalconPacketType | Malformed::FalconProtocol | Malformed::ResyncPacketType => {
            Counter::DropFalconType
        }
        Malformed::FalconTruncated | Malformed::FalconLength => Counter::DropFalconLength,
        _ => Counter::DropPspHeader,
    }
}

const CONGESTION_EXPERIENCED: u8 = 3;
/// Length of the link layer header in a frame with an 802.1Q tag, bytes.
const TAGGED: u32 = Ethernet::TAGGED_LEN as u32;

/// Returns a MAC address as an integer. Its first byte is the lowest.
#[inline(always)]
pub const fn mac_word(mac: &[u8; 6]) -> u64 {
    let low = u32::from_le_bytes([mac[0], mac[1], mac[2], mac[3]]) as u64;
    low | (u16::from_le_bytes([mac[4], mac[5]]) as u64) << 32
}

/// Returns an IPv6 address as integers of its bytes in memory order.
#[inline(always)]
pub fn words(a: &[u8; 16]) -> [u64; 2] {
    [u64::from_ne_bytes(a.array::<0, 8>()), u64::from_ne_bytes(a.array::<8, 8>())]
}

/// Parses the frame into `s.step.input.packet`. Returns a [`Parsed`] in one word, because a function of the BPF
/// target returns no more.
#[inline(never)]
pub(super) fn parse<P: Platform>(p: &mut P, s: &mut Scratch) -> u32 {
    match parse_frame(p, s) {
        Parsed::Falcon => FALCON,
        Parsed::Pass(counter) => PASS | counter as u32,
        Parsed::Drop(counter) => DROP | counter as u32,
    }
}

/// Result of [`parse`]: a Falcon packet, now in the scratch.
pub(super) const FALCON: u32 = 0;
/// Result of [`parse`]: not a packet for us. The lower bits hold the counter.
pub(super) const PASS: u32 = 1 << 16;
/// Result of [`parse`]: a packet for us that is unusable. The lower bits hold the counter.
pub(super) const DROP: u32 = 2 << 16;

#[inline(always)]
fn parse_frame<P: Platform>(p: &mut P, s: &mut Scratch) -> Parsed {
    let mut cursor = p.cursor();
    let verdict = parse_network(p, s, &mut cursor);
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
    let next_header = match psp::Psp::decode(&mut cursor) {
        Ok(psp) => {
            if psp.has_vc || psp.version != psp::PLAINTEXT_VERSION {
                return Parsed::Drop(Counter::DropPspHeader);
            }
            s.step.input.packet.psp_version = psp.version;
            s.step.input.packet.spi = psp.spi.0;
            s.step.input.packet.iv = psp.iv;
            psp.next_header
        }
        Err(malformed) => return Parsed::Drop(counter_of(malformed)),
    };
    let overhead = (udp::Udp::LEN + psp::Psp::LEN) as u32;
    let mut offset = s.network.udp_offset + overhead;
    let mut length = length.wrapping_sub(overhead);
    s.step.input.packet.inner_version = 0;
    if next_header != psp::NEXT_HEADER_FALCON {
        if let Err(malformed) = parse_inner(s, &mut cursor, next_header, length) {
            return Parsed::Drop(counter_of(malformed));
        }
        offset += Inner::header_len(next_header);
        length = length.wrapping_sub(Inner::header_len(next_header));
    }
    parse_falcon(s, &mut cursor, offset, length)
}

/// Parses the inner IP header of a packet in tunnel mode (F-7.1.2-1). `room` is the number of bytes from there to the end
/// of the UDP payload.
#[inline(always)]
fn parse_inner<C: Cursor>(
    s: &mut Scratch,
    cursor: &mut C,
    next_header: u8,
    room: u32,
) -> Result<(), Malformed> {
    let packet = &mut s.step.input.packet;
    let experienced = match Inner::decode(cursor, next_header, room)? {
        Inner::V4(ip) => {
            packet.inner_version = 4;
            packet.inner_source = [u32::from_ne_bytes(ip.src) as u64, 0];
            packet.inner_destination = [u32::from_ne_bytes(ip.dst) as u64, 0];
            ip.dscp_ecn & 3
        }
        Inner::V6(ip) => {
            packet.inner_version = 6;
            packet.inner_source = words(&ip.src);
            packet.inner_destination = words(&ip.dst);
            ip.traffic_class & 3
        }
    };
    // RFC 6040: the mark of either header counts.
    packet.congestion_experienced |= (experienced == CONGESTION_EXPERIENCED) as u8;
    Ok(())
}

/// Parses Ethernet and IP into `s.network`.
#[inline(always)]
fn parse_network<P: Platform>(p: &mut P, s: &mut Scratch, cursor: &mut P::Cursor) -> Parsed {
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

/// Parses the Falcon and ULP headers into `s.step.input`. The Falcon packet has `length` bytes from
/// `falcon_offset` in the frame on.
#[inline(always)]
fn parse_falcon<C: Cursor>(s: &mut Scratch, cursor: &mut C, falcon_offset: u32, length: u32) -> Parsed {
    let falcon_length = length & 0xffff;
    let input = &mut s.step.input;
    let reader = IntoPacket { packet: &mut input.packet, operation: &mut input.operation, falcon_offset };
    let first = match FirstWords::decode_in(cursor, falcon_length as usize) {
        Ok(first) => first,
        Err(malformed) => return Parsed::Drop(counter_of(malformed)),
    };
    match FalconHeader::decode_after(first, cursor, falcon_length as usize, reader) {
        Ok(()) => Parsed::Falcon,
        Err(malformed) => Parsed::Drop(counter_of(malformed)),
    }
}

/// Writes a Falcon header, and the ULP header after it, into a packet.
struct IntoPacket<'a> {
    packet: &'a mut Packet,
    operation: &'a mut Operation,
    /// Offset of the Falcon header in the frame.
    falcon_offset: u32,
}

impl<C: Cursor> Reader<C> for IntoPacket<'_> {
    type Output = ();

    #[inline(always)]
    fn header(self, header: FalconHeader, payload: usize, cursor: &mut C) {
        let Self { packet, operation, falcon_offset } = self;
        packet.kind = header.packet_type();
        packet.dest_cid = header.dest_cid().0;
        packet.payload_offset = falcon_offset + header.header_len() as u32;
        packet.payload_length = payload as u32;
        packet.request_length = 0;
        operation.kind = OperationKind::None;
        operation.rkey = 0;
        match header {
            FalconHeader::PullRequest(p) => {
                base(packet, &p.base);
                packet.request_length = p.request_length as u32;
                let kind = PacketType::PullRequest;
                Protocol::of_wire(p.base.protocol).parse(cursor, kind, payload, p.request_length, operation);
            }
            FalconHeader::PushData(p) => {
                base(packet, &p.base);
                packet.request_length = p.request_length as u32;
                let kind = PacketType::PushData;
                Protocol::of_wire(p.base.protocol).parse(cursor, kind, payload, p.request_length, operation);
            }
            FalconHeader::PullData(p) => {
                base(packet, &p.base);
                Protocol::of_wire(p.base.protocol).parse(cursor, PacketType::PullData, payload, 0, operation);
            }
            FalconHeader::Resync(p) => {
                base(packet, &p.base);
                packet.resync_code = p.code;
                packet.resync_type = p.packet_type;
            }
            FalconHeader::Ack(ack) => acknowledgement(packet, &ack),
            FalconHeader::Nack(p) => {
                bases_only(packet, p.data_base_psn, p.request_base_psn);
                congestion_information(packet, &p.cc, (p.t1, p.t2));
                packet.cc_metadata = p.cc.rue; // D-07
                packet.psn = p.psn.0;
                packet.nack_code = p.code;
                packet.nack_window = p.request_window as u8;
                packet.rnr_timeout_code = p.rnr_timeout_code;
                packet.ulp_code = p.ulp_code;
            }
        }
    }
}

#[inline(always)]
fn base(packet: &mut Packet, base: &BaseHeader) {
    packet.dest_function = base.dest_function;
    packet.ack_request = base.ack_request as u8;
    packet.protocol = base.protocol;
    packet.psn = base.psn.0;
    packet.rsn = base.rsn.0;
    bases_only(packet, base.data_base_psn, base.request_base_psn);
}

/// Writes an acknowledgement without bitmaps. Plain stores clear the bitmaps of an earlier packet: a struct
/// literal would become a slow byte loop on the BPF target.
#[inline(always)]
fn bases_only(packet: &mut Packet, data: Psn, request: Psn) {
    let a = &mut packet.acknowledgement;
    a.data_base = data;
    a.request_base = request;
    a.selective = 0;
    a.own_data = 0;
    a.own_request = 0;
    a.data_acknowledged = Bitmap128::ZERO;
    a.data_received = Bitmap128::ZERO;
    a.request = Bitmap128::ZERO;
}

#[inline(always)]
fn acknowledgement(packet: &mut Packet, ack: &Ack) {
    let header: &AckHeader = ack.header();
    congestion_information(packet, &header.cc, (header.t1, header.t2));
    let own = (header.own_data as u32) << 1 | header.own_request as u32;
    packet.cc_metadata = header.cc.rue << 2 | own; // D-07
    bases_only(packet, header.data_base_psn, header.request_base_psn);
    if let Ack::Eack(eack) = ack {
        let a = &mut packet.acknowledgement;
        a.own_data = header.own_data as u8;
        a.own_request = header.own_request as u8;
        a.selective = 1;
        a.data_acknowledged = Bitmap128::from_words(eack.data_ack);
        a.data_received = Bitmap128::from_words(eack.data_received);
        a.request = Bitmap128::from_words([eack.request, 0]);
    }
}

/// Copies what an acknowledgement says about the forward path (F-7.7.1-5, F-7.8-2).
#[inline(always)]
fn congestion_information(packet: &mut Packet, cc: &CongestionInfo, (t1, t2): (FalconTime, FalconTime)) {
    packet.t1 = t1;
    packet.t2 = t2;
    packet.ecn_count = cc.ecn_count;
    packet.forward_hops = cc.forward_hops;
    packet.rx_buffer_level = cc.rx_buffer_level;
}
