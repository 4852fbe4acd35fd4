//! Frames from their parts, and the parts of a frame.

use std::net::IpAddr;

use transport_common::ids::Spi;
use transport_common::units::Picoseconds;
use transport_common::wire::checksum::{
    pseudo_header_v4, pseudo_header_v6, sum_bytes, sum_length, transmit_checksum,
};
use transport_common::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet, TPID_8021Q};
use transport_common::wire::inner::Inner;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::{NEXT_HEADER_FALCON, Psp};
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};
use transport_common::wire::{FalconHeader, SliceCursor};

/// Addresses and ports of the tester's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The tester's MAC address.
    pub source_mac: [u8; 6],
    /// The peer's MAC address, or the next hop's.
    pub destination_mac: [u8; 6],
    /// 802.1Q tag control information, if the frames have a tag.
    pub vlan: Option<u16>,
    /// The tester's address.
    pub source: IpAddr,
    /// The peer's address, of the same IP version.
    pub destination: IpAddr,
    /// UDP source port.
    pub source_port: u16,
    /// Inner source and destination in tunnel mode, of one IP version (F-7.1.2-1).
    pub inner: Option<(IpAddr, IpAddr)>,
}

/// The parts of a frame with a Falcon packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'f> {
    /// The PSP header.
    pub psp: Psp,
    /// Inner source and destination in tunnel mode.
    pub inner: Option<(IpAddr, IpAddr)>,
    /// The bytes of the Falcon packet: header and payload.
    pub falcon: &'f [u8],
    /// The Falcon header. `None` if it is malformed.
    pub header: Option<FalconHeader>,
}

/// Returns the bytes that an encoder writes.
pub fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> [u8; N] {
    // A byte that the encoder leaves out is noticed.
    let mut bytes = [0xa5; N];
    encode(&mut bytes);
    bytes
}

/// Returns the number of bytes before the IP header of a frame.
pub(crate) fn link_length(frame: &[u8]) -> usize {
    let is_tagged = frame.get(12..14) == Some(&TPID_8021Q.to_be_bytes()[..]);
    if is_tagged { Ethernet::TAGGED_LEN } else { Ethernet::LEN }
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
                identification: 0,
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
        // The node file refuses such a connection.
        _ => panic!("both addresses are of one version"),
    }
}

impl Flow {
    /// Returns the number of bytes of the IP header.
    pub(crate) const fn ip_length(&self) -> usize {
        if self.source.is_ipv4() { Ipv4::LEN } else { Ipv6::LEN }
    }

    /// Returns the number of bytes before the UDP header.
    pub const fn udp_offset(&self) -> usize {
        self.ip_length() + if self.vlan.is_some() { Ethernet::TAGGED_LEN } else { Ethernet::LEN }
    }

    /// Returns a PSP header in plaintext lab mode (D-83), of the flow's tunnel if it has one (F-7.1.2-1).
    pub const fn psp(&self, spi: Spi, iv: Picoseconds) -> Psp {
        match self.inner {
            None => Psp::plaintext(spi, iv),
            Some((IpAddr::V4(_), _)) => Psp::tunnel(4, spi, iv),
            Some((IpAddr::V6(_), _)) => Psp::tunnel(6, spi, iv),
        }
    }

    /// Returns a frame with a Falcon packet in PSP and its UDP checksum, behind an inner IP header in tunnel mode.
    pub fn frame(&self, psp: &Psp, falcon: &[u8]) -> Vec<u8> {
        match self.inner {
            None => self.in_psp(psp, falcon),
            Some(addresses) => self.in_psp(psp, &ip_packet(addresses, NEXT_HEADER_FALCON, falcon)),
        }
    }

    /// Returns a frame with PSP and what follows it.
    pub fn in_psp(&self, psp: &Psp, content: &[u8]) -> Vec<u8> {
        let header = encoded::<{ Psp::LEN }>(|out| psp.encode(out));
        self.ip(IP_PROTOCOL_UDP, &self.udp(FALCON_UDP_PORT, &[&header, content].concat()))
    }

    /// Returns a frame with an IP packet.
    pub fn ip(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let ethertype = if self.source.is_ipv4() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 };
        let link = Ethernet { dst: self.destination_mac, src: self.source_mac, vlan: self.vlan, ethertype };
        let link = match self.vlan {
            None => encoded::<{ Ethernet::LEN }>(|out| link.encode(out)).to_vec(),
            Some(tci) => encoded::<{ Ethernet::TAGGED_LEN }>(|out| link.encode_tagged(tci, out)).to_vec(),
        };
        [link, ip_packet((self.source, self.destination), protocol, payload)].concat()
    }

    /// Returns a UDP datagram with its checksum.
    pub fn udp(&self, port: u16, payload: &[u8]) -> Vec<u8> {
        let length = (Udp::LEN + payload.len()) as u16;
        let udp = Udp { src_port: self.source_port, dst_port: port, length, checksum: 0 };
        let header = encoded::<{ Udp::LEN }>(|out| udp.encode(out));
        let mut datagram = [&header[..], payload].concat();
        self.put_checksum(&mut datagram);
        datagram
    }

    /// Computes the UDP checksum of a frame again. The length is that of the actual bytes.
    pub fn refresh_udp(&self, frame: &mut [u8]) {
        self.put_checksum(&mut frame[self.udp_offset()..]);
    }

    fn put_checksum(&self, datagram: &mut [u8]) {
        let addresses = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                pseudo_header_v4(&source.octets(), &destination.octets())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                pseudo_header_v6(&source.octets(), &destination.octets())
            }
            _ => panic!("both addresses are of one version"),
        };
        datagram[6..8].fill(0);
        let sum = addresses + sum_length(datagram.len() as u16) + sum_bytes(datagram);
        datagram[6..8].copy_from_slice(&transmit_checksum(sum).to_be_bytes());
    }
}

impl<'f> Parts<'f> {
    /// Returns the parts of a frame. Returns `None` if it is not a UDP datagram to Falcon's port with a PSP
    /// header, and in tunnel mode with an inner IP header.
    pub fn of(frame: &'f [u8]) -> Option<Self> {
        let mut cursor = SliceCursor::new(frame);
        let length = match Ethernet::decode(&mut cursor).ok()?.ethertype {
            ETHERTYPE_IPV4 => Ipv4::decode(&mut cursor).ok()?.payload_length(),
            ETHERTYPE_IPV6 => Ipv6::decode(&mut cursor).ok()?.payload_length,
            _ => return None,
        };
        let udp = Udp::decode(&mut cursor, length).ok().filter(|udp| udp.dst_port == FALCON_UDP_PORT)?;
        let psp = Psp::decode(&mut cursor).ok()?;
        let mut length = usize::from(udp.payload_length()).checked_sub(psp.header_len())?;
        let mut inner = None;
        if psp.next_header != NEXT_HEADER_FALCON {
            inner = Some(match Inner::decode(&mut cursor, psp.next_header, length as u32).ok()? {
                Inner::V4(ip) => (ip.src.into(), ip.dst.into()),
                Inner::V6(ip) => (ip.src.into(), ip.dst.into()),
            });
            length -= Inner::header_len(psp.next_header) as usize;
        }
        let falcon = cursor.rest().get(..length)?;
        let header = FalconHeader::decode(&mut SliceCursor::new(falcon), falcon.len()).ok();
        Some(Self { psp, inner, falcon, header })
    }

    /// Returns the bytes after the Falcon header. Empty if the header is malformed.
    pub fn payload(&self) -> &'f [u8] {
        self.header.map_or(&[], |header| &self.falcon[header.header_len()..])
    }
}
