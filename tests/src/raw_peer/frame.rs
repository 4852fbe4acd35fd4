//! Builds frames from parts, and extracts parts from frames.

use std::net::IpAddr;

use transport_common::wire::checksum::{
    checksum, pseudo_header_v4, pseudo_header_v6, sum_bytes, sum_length, transmit_checksum,
};
use transport_common::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use transport_common::wire::inner::Inner;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::{NEXT_HEADER_FALCON, Psp};
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};
use transport_common::wire::{FalconHeader, SliceCursor};

/// Returns the bytes that an encoder writes.
pub fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> [u8; N] {
    let mut bytes = [0xa5; N];
    encode(&mut bytes);
    bytes
}

/// Addresses and ports of frames.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// Destination MAC address.
    pub destination_mac: [u8; 6],
    /// 802.1Q tag control information, if the frame has a tag.
    pub vlan: Option<u16>,
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same version.
    pub destination: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// Inner source and destination in tunnel mode, of one version (F-7.1.2-1).
    pub inner: Option<(IpAddr, IpAddr)>,
}

impl Flow {
    /// Returns the number of bytes before the IP header.
    pub fn link_length(&self) -> usize {
        if self.vlan.is_some() { Ethernet::TAGGED_LEN } else { Ethernet::LEN }
    }

    /// Returns the number of bytes before the UDP header.
    pub fn udp_offset(&self) -> usize {
        self.link_length() + if self.source.is_ipv4() { Ipv4::LEN } else { Ipv6::LEN }
    }

    /// Returns an Ethernet frame.
    pub fn ethernet(&self, ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let header = Ethernet { dst: self.destination_mac, src: self.source_mac, vlan: self.vlan, ethertype };
        let mut frame = match self.vlan {
            None => encoded::<{ Ethernet::LEN }>(|out| header.encode(out)).to_vec(),
            Some(tci) => encoded::<{ Ethernet::TAGGED_LEN }>(|out| header.encode_tagged(tci, out)).to_vec(),
        };
        frame.extend_from_slice(payload);
        frame
    }

    /// Returns a frame with an IP packet.
    pub fn ip(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let ethertype = if self.source.is_ipv4() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
        self.ethernet(ethertype, &ip_packet((self.source, self.destination), protocol, payload))
    }

    /// Returns a UDP datagram with its checksum.
    pub fn udp(&self, port: u16, payload: &[u8]) -> Vec<u8> {
        let length = (Udp::LEN + payload.len()) as u16;
        let udp = Udp { src_port: self.source_port, dst_port: port, length, checksum: 0 };
        let header = encoded::<{ Udp::LEN }>(|out| udp.encode(out));
        let sum = self.pseudo_sum(length) + sum_bytes(&header) + sum_bytes(payload);
        let udp = Udp { checksum: transmit_checksum(sum), ..udp };
        [&encoded::<{ Udp::LEN }>(|out| udp.encode(out))[..], payload].concat()
    }

    fn pseudo_sum(&self, length: u16) -> u64 {
        let addresses = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                pseudo_header_v4(&source.octets(), &destination.octets())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                pseudo_header_v6(&source.octets(), &destination.octets())
            }
            _ => panic!("both addresses are of one version"),
        };
        addresses + sum_length(length)
    }

    /// Returns a frame with a Falcon packet in PSP, behind an inner IP header in tunnel mode.
    pub fn falcon(&self, psp: &Psp, falcon: &[u8]) -> Vec<u8> {
        match self.inner {
            None => self.psp(psp, falcon),
            Some(addresses) => self.psp(psp, &ip_packet(addresses, NEXT_HEADER_FALCON, falcon)),
        }
    }

    /// Returns a frame with PSP and what follows it.
    pub fn psp(&self, psp: &Psp, content: &[u8]) -> Vec<u8> {
        let header = encoded::<{ Psp::LEN }>(|out| psp.encode(out));
        self.ip(IP_PROTOCOL_UDP, &self.udp(FALCON_UDP_PORT, &[&header, content].concat()))
    }
}

/// Returns an IP packet without an Ethernet header.
///
/// # Panics
/// If the addresses are of different versions.
pub fn ip_packet(addresses: (IpAddr, IpAddr), protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    match addresses {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ip = Ipv4 {
                dscp_ecn: 0,
                total_length: Ipv4::LEN as u16 + length,
                identification: 7,
                ttl: 255,
                protocol,
                src: source.octets(),
                dst: destination.octets(),
            };
            [&encoded::<{ Ipv4::LEN }>(|out| ip.encode(out))[..], payload].concat()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = Ipv6 {
                traffic_class: 0,
                flow_label: 0,
                payload_length: length,
                next_header: protocol,
                hop_limit: 255,
                src: source.octets(),
                dst: destination.octets(),
            };
            [&encoded::<{ Ipv6::LEN }>(|out| ip.encode(out))[..], payload].concat()
        }
        _ => panic!("both addresses are of one version"),
    }
}

/// Recomputes the checksum of an untagged frame's IPv4 header, with options.
pub fn refresh_ipv4(frame: &mut [u8]) {
    let header = Ethernet::LEN..Ethernet::LEN + usize::from(frame[Ethernet::LEN] & 0xf) * 4;
    let at = header.start + 10;
    frame[at..at + 2].fill(0);
    let sum = sum_bytes(&frame[header]);
    frame[at..at + 2].copy_from_slice(&checksum(sum).to_be_bytes());
}

/// Recomputes the checksum of a frame's UDP datagram. The length is that of the actual bytes.
pub fn refresh_udp(flow: &Flow, frame: &mut [u8]) {
    let udp = flow.udp_offset();
    let checksum = udp + 6;
    frame[checksum..checksum + 2].fill(0);
    let sum = flow.pseudo_sum((frame.len() - udp) as u16) + sum_bytes(&frame[udp..]);
    frame[checksum..checksum + 2].copy_from_slice(&transmit_checksum(sum).to_be_bytes());
}

/// The parts of a frame with a Falcon packet.
#[derive(Clone, Copy, Debug)]
pub struct FalconParts<'f> {
    /// The PSP header.
    pub psp: Psp,
    /// The inner IP header in tunnel mode.
    pub inner: Option<Inner>,
    /// The Falcon header.
    pub header: FalconHeader,
    /// The payload.
    pub payload: &'f [u8],
}

/// Returns the parts of a frame, if it contains a Falcon packet.
pub fn packet_of(frame: &[u8]) -> Option<FalconParts<'_>> {
    let mut cursor = SliceCursor::new(frame);
    let length = match Ethernet::decode(&mut cursor).ok()?.ethertype {
        ETHERTYPE_IPV4 => Ipv4::decode(&mut cursor).ok()?.payload_length(),
        ETHERTYPE_IPV6 => Ipv6::decode(&mut cursor).ok()?.payload_length,
        _ => return None,
    };
    let udp = Udp::decode(&mut cursor, length).ok().filter(|udp| udp.dst_port == FALCON_UDP_PORT)?;
    let psp = Psp::decode(&mut cursor).ok()?;
    let mut falcon = usize::from(udp.payload_length()).checked_sub(psp.header_len())?;
    let mut inner = None;
    if psp.next_header != NEXT_HEADER_FALCON {
        inner = Some(Inner::decode(&mut cursor, psp.next_header, falcon as u32).ok()?);
        falcon -= Inner::header_len(psp.next_header) as usize;
    }
    let header = FalconHeader::decode(&mut cursor, falcon).ok()?;
    let payload = &cursor.rest()[..falcon - header.header_len()];
    Some(FalconParts { psp, inner, header, payload })
}

/// Returns source and destination of an inner IP header.
pub fn addresses_of(inner: &Inner) -> (IpAddr, IpAddr) {
    match inner {
        Inner::V4(ip) => (ip.src.into(), ip.dst.into()),
        Inner::V6(ip) => (ip.src.into(), ip.dst.into()),
    }
}
