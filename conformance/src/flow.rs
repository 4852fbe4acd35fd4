//! Frames from their parts, and the parts of a frame.

use std::net::IpAddr;

use transport_common::wire::checksum::{
    pseudo_header_v4, pseudo_header_v6, sum_bytes, sum_length, transmit_checksum,
};
use transport_common::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::Psp;
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};
use transport_common::wire::{FalconHeader, SliceCursor};

/// Addresses and ports of the tester's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The tester's MAC address.
    pub source_mac: [u8; 6],
    /// The peer's MAC address, or the next hop's.
    pub destination_mac: [u8; 6],
    /// The tester's address.
    pub source: IpAddr,
    /// The peer's address, of the same IP version.
    pub destination: IpAddr,
    /// UDP source port.
    pub source_port: u16,
}

/// The parts of a frame with a Falcon packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Source address of the IP header.
    pub source: IpAddr,
    /// The PSP header.
    pub psp: Psp,
    /// The bytes of the Falcon packet: header and payload.
    pub falcon: Vec<u8>,
    /// The Falcon header. `None` if it is malformed.
    pub header: Option<FalconHeader>,
}

/// Returns the bytes that an encoder writes.
pub fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> [u8; N] {
    let mut bytes = [0; N];
    encode(&mut bytes);
    bytes
}

impl Flow {
    /// Returns the number of bytes before the UDP header.
    pub const fn udp_offset(&self) -> usize {
        Ethernet::LEN + if self.source.is_ipv4() { Ipv4::LEN } else { Ipv6::LEN }
    }

    /// Returns the number of bytes before the Falcon header.
    pub const fn falcon_offset(&self) -> usize {
        self.udp_offset() + Udp::LEN + Psp::LEN
    }

    /// Returns a frame with a Falcon packet in PSP and its UDP checksum.
    pub fn frame(&self, psp: &Psp, falcon: &[u8]) -> Vec<u8> {
        let psp = encoded::<{ Psp::LEN }>(|out| psp.encode(out));
        let datagram = self.udp(&[&psp, falcon].concat());
        self.ip(&datagram)
    }

    /// Recomputes the UDP length and checksum of a frame that [`frame`](Self::frame) built and that was
    /// changed.
    pub fn seal(&self, frame: &mut Vec<u8>) {
        let payload = frame.split_off(self.udp_offset() + Udp::LEN);
        let datagram = self.udp(&payload);
        *frame = self.ip(&datagram);
    }

    fn ip(&self, payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u16;
        let (ethertype, ip) = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let ip = Ipv4 {
                    dscp_ecn: 0,
                    total_length: Ipv4::LEN as u16 + length,
                    identification: 0,
                    ttl: 255,
                    protocol: IP_PROTOCOL_UDP,
                    src: source.octets(),
                    dst: destination.octets(),
                };
                (ETHERTYPE_IPV4, encoded::<{ Ipv4::LEN }>(|out| ip.encode(out)).to_vec())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ip = Ipv6 {
                    traffic_class: 0,
                    flow_label: 0,
                    payload_length: length,
                    next_header: IP_PROTOCOL_UDP,
                    hop_limit: 255,
                    src: source.octets(),
                    dst: destination.octets(),
                };
                (ETHERTYPE_IPV6, encoded::<{ Ipv6::LEN }>(|out| ip.encode(out)).to_vec())
            }
            // The node file refuses such a connection.
            _ => return Vec::new(),
        };
        let link = Ethernet { dst: self.destination_mac, src: self.source_mac, vlan: None, ethertype };
        let link = encoded::<{ Ethernet::LEN }>(|out| link.encode(out));
        [&link[..], &ip, payload].concat()
    }

    fn udp(&self, payload: &[u8]) -> Vec<u8> {
        let length = (Udp::LEN + payload.len()) as u16;
        let udp = Udp { src_port: self.source_port, dst_port: FALCON_UDP_PORT, length, checksum: 0 };
        let header = encoded::<{ Udp::LEN }>(|out| udp.encode(out));
        let addresses = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                pseudo_header_v4(&source.octets(), &destination.octets())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                pseudo_header_v6(&source.octets(), &destination.octets())
            }
            _ => 0,
        };
        let sum = addresses + sum_length(length) + sum_bytes(&header) + sum_bytes(payload);
        let udp = Udp { checksum: transmit_checksum(sum), ..udp };
        [&encoded::<{ Udp::LEN }>(|out| udp.encode(out))[..], payload].concat()
    }
}

impl Parts {
    /// Returns the parts of a frame. Returns `None` if it is not a UDP datagram to Falcon's port with a PSP
    /// header.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let mut cursor = SliceCursor::new(frame);
        let (source, length) = match Ethernet::decode(&mut cursor).ok()?.ethertype {
            ETHERTYPE_IPV4 => {
                let ip = Ipv4::decode(&mut cursor).ok()?;
                (IpAddr::from(ip.src), ip.payload_length())
            }
            ETHERTYPE_IPV6 => {
                let ip = Ipv6::decode(&mut cursor).ok()?;
                (IpAddr::from(ip.src), ip.payload_length)
            }
            _ => return None,
        };
        let udp = Udp::decode(&mut cursor, length).ok().filter(|udp| udp.dst_port == FALCON_UDP_PORT)?;
        let psp = Psp::decode(&mut cursor).ok()?;
        let length = usize::from(udp.payload_length()).checked_sub(psp.header_len())?;
        let falcon = cursor.rest().get(..length)?.to_vec();
        let header = FalconHeader::decode(&mut SliceCursor::new(&falcon), falcon.len()).ok();
        Some(Self { source, psp, falcon, header })
    }

    /// Returns the bytes after the Falcon header. Empty if the header is malformed.
    pub fn payload(&self) -> &[u8] {
        self.header.map_or(&[], |header| &self.falcon[header.header_len()..])
    }
}
