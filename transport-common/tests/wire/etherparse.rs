//! Ethernet, IPv4, IPv6 and UDP against an independent library.

use std::net::IpAddr;

use etherparse::{
    LaxIpSlice, LinkExtHeader, LinkHeader, NetHeaders, PacketBuilder, PacketHeaders, SingleVlanHeader,
    TransportHeader, VlanHeader, VlanId, VlanPcp,
};
use proptest::prelude::*;
use transport_common::wire::checksum::{
    checksum_holds, pseudo_header_v4, pseudo_header_v6, sum_bytes, sum_length, transmit_checksum,
};
use transport_common::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use transport_common::wire::inner::Inner;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::{NEXT_HEADER_FALCON, NEXT_HEADER_IPV4, NEXT_HEADER_IPV6};
use transport_common::wire::udp::{IP_PROTOCOL_UDP, Udp};
use transport_common::wire::{Cursor, Malformed, SliceCursor};

/// All chosen values of a frame.
#[derive(Clone, Debug)]
struct Chosen {
    macs: [[u8; 6]; 2],
    tag: Option<u16>,
    v6: bool,
    addresses: [[u8; 16]; 2],
    traffic_class: u8,
    flow_label: u32,
    identification: u16,
    hop_limit: u8,
    ports: [u16; 2],
    payload: Vec<u8>,
}

prop_compose! {
    fn chosen()(
        macs: [[u8; 6]; 2], tag: Option<u16>, v6: bool, addresses: [[u8; 16]; 2], traffic_class: u8,
        flow_label in 0u32..1 << 20, identification: u16, hop_limit: u8, ports: [u16; 2],
        payload in proptest::collection::vec(any::<u8>(), 0..120),
    ) -> Chosen {
        Chosen {
            macs, tag, v6, addresses, traffic_class, flow_label, identification, hop_limit, ports, payload,
        }
    }
}

fn v4(address: [u8; 16]) -> [u8; 4] {
    address[..4].try_into().expect("four bytes")
}

fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
    let mut out = [0xa5; N];
    encode(&mut out);
    out.to_vec()
}

impl Chosen {
    fn udp_length(&self) -> u16 {
        (Udp::LEN + self.payload.len()) as u16
    }

    fn ethernet(&self) -> Ethernet {
        let ethertype = if self.v6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
        Ethernet { src: self.macs[0], dst: self.macs[1], vlan: self.tag, ethertype }
    }

    fn ipv4(&self) -> Ipv4 {
        Ipv4 {
            dscp_ecn: self.traffic_class,
            total_length: Ipv4::LEN as u16 + self.udp_length(),
            identification: self.identification,
            ttl: self.hop_limit,
            protocol: IP_PROTOCOL_UDP,
            src: v4(self.addresses[0]),
            dst: v4(self.addresses[1]),
        }
    }

    fn ipv6(&self) -> Ipv6 {
        Ipv6 {
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
            payload_length: self.udp_length(),
            next_header: IP_PROTOCOL_UDP,
            hop_limit: self.hop_limit,
            src: self.addresses[0],
            dst: self.addresses[1],
        }
    }

    fn pseudo_header(&self) -> u64 {
        let [source, destination] = self.addresses;
        let addresses = if self.v6 {
            pseudo_header_v6(&source, &destination)
        } else {
            pseudo_header_v4(&v4(source), &v4(destination))
        };
        addresses + sum_length(self.udp_length())
    }

    /// Returns the frame as our encoders write it.
    fn ours(&self) -> Vec<u8> {
        let ethernet = self.ethernet();
        let mut frame = match self.tag {
            Some(tci) => encoded(|out| ethernet.encode_tagged(tci, out)),
            None => encoded(|out| ethernet.encode(out)),
        };
        frame.extend(if self.v6 {
            encoded(|out| self.ipv6().encode(out))
        } else {
            encoded(|out| self.ipv4().encode(out))
        });
        let [src_port, dst_port] = self.ports;
        let udp = Udp { src_port, dst_port, length: self.udp_length(), checksum: 0 };
        let header = encoded(|out| udp.encode(out));
        let sum = self.pseudo_header() + sum_bytes(&header) + sum_bytes(&self.payload);
        let udp = Udp { checksum: transmit_checksum(sum), ..udp };
        frame.extend(encoded(|out| udp.encode(out)));
        frame.extend(&self.payload);
        frame
    }

    /// Returns the frame as the library writes it.
    fn theirs(&self) -> Vec<u8> {
        let [source, destination] = self.addresses;
        let builder = PacketBuilder::ethernet2(self.macs[0], self.macs[1]);
        let mut ip = if self.v6 {
            let mut header = etherparse::Ipv6Header {
                flow_label: self.flow_label.try_into().expect("20 bits"),
                hop_limit: self.hop_limit,
                source,
                destination,
                ..Default::default()
            };
            header.set_dscp((self.traffic_class >> 2).try_into().expect("6 bits"));
            header.set_ecn((self.traffic_class & 3).try_into().expect("2 bits"));
            etherparse::IpHeaders::Ipv6(header, Default::default())
        } else {
            let mut header = etherparse::Ipv4Header::new(
                0,
                self.hop_limit,
                etherparse::IpNumber::UDP,
                v4(source),
                v4(destination),
            )
            .expect("an empty payload is short enough");
            header.identification = self.identification;
            header.dont_fragment = true;
            header.dscp = (self.traffic_class >> 2).try_into().expect("6 bits");
            header.ecn = (self.traffic_class & 3).try_into().expect("2 bits");
            etherparse::IpHeaders::Ipv4(header, Default::default())
        };
        ip.set_next_headers(etherparse::IpNumber::UDP);
        let [source, destination] = self.ports;
        let mut frame = Vec::new();
        let written = match self.tag {
            Some(tci) => {
                let tag = VlanHeader::Single(SingleVlanHeader {
                    pcp: VlanPcp::try_new((tci >> 13) as u8).expect("3 bits"),
                    drop_eligible_indicator: tci & 0x1000 != 0,
                    vlan_id: VlanId::try_new(tci & 0x0fff).expect("12 bits"),
                    ether_type: etherparse::EtherType(0),
                });
                builder.vlan(tag).ip(ip).udp(source, destination).write(&mut frame, &self.payload)
            }
            None => builder.ip(ip).udp(source, destination).write(&mut frame, &self.payload),
        };
        written.expect("a vector has enough space");
        frame
    }
}

proptest! {
    #[test]
    fn both_write_the_same_frame(chosen in chosen()) {
        prop_assert_eq!(chosen.ours(), chosen.theirs());
    }

    #[test]
    fn we_read_what_they_write(chosen in chosen()) {
        let frame = chosen.theirs();
        let mut cursor = SliceCursor::new(&frame);
        prop_assert_eq!(Ethernet::decode(&mut cursor), Ok(chosen.ethernet()));
        let length = if chosen.v6 {
            prop_assert_eq!(Ipv6::decode(&mut cursor), Ok(chosen.ipv6()));
            chosen.ipv6().payload_length
        } else {
            prop_assert_eq!(Ipv4::decode(&mut cursor), Ok(chosen.ipv4()));
            chosen.ipv4().payload_length()
        };
        let datagram = &frame[frame.len() - cursor.remaining()..];
        let udp = Udp::decode(&mut cursor, length).expect("a whole datagram");
        prop_assert_eq!([udp.src_port, udp.dst_port, udp.length], [
            chosen.ports[0], chosen.ports[1], chosen.udp_length(),
        ]);
        prop_assert!(udp.checksum != 0 && checksum_holds(chosen.pseudo_header() + sum_bytes(datagram)));
        prop_assert_eq!(cursor.rest(), &chosen.payload[..]);
    }

    #[test]
    fn they_read_what_we_write(chosen in chosen()) {
        let frame = chosen.ours();
        let packet = PacketHeaders::from_ethernet_slice(&frame).expect("a sound frame");
        let Some(LinkHeader::Ethernet2(ethernet)) = packet.link else { panic!("no Ethernet: {packet:?}") };
        prop_assert_eq!([ethernet.source, ethernet.destination], chosen.macs);
        let tag = packet.link_exts.first().map(|extension| match extension {
            LinkExtHeader::Vlan(tag) => u16::from_be_bytes([tag.to_bytes()[0], tag.to_bytes()[1]]),
            other => panic!("no tag: {other:?}"),
        });
        prop_assert_eq!(tag, chosen.tag);
        match packet.net {
            Some(NetHeaders::Ipv4(ip, _)) => {
                prop_assert!(!chosen.v6 && ip.calc_header_checksum() == ip.header_checksum);
                prop_assert_eq!([ip.source, ip.destination], chosen.addresses.map(v4));
                prop_assert_eq!((ip.time_to_live, ip.identification), (chosen.hop_limit, chosen.identification));
            }
            Some(NetHeaders::Ipv6(ip, _)) => {
                prop_assert!(chosen.v6);
                prop_assert_eq!([ip.source, ip.destination], chosen.addresses);
                prop_assert_eq!((ip.hop_limit, ip.flow_label.value()), (chosen.hop_limit, chosen.flow_label));
            }
            other => panic!("no IP: {other:?}"),
        }
        let Some(TransportHeader::Udp(udp)) = packet.transport else { panic!("no UDP") };
        prop_assert_eq!([udp.source_port, udp.destination_port], chosen.ports);
        prop_assert_eq!(udp.length, chosen.udp_length());
        prop_assert_eq!(packet.payload.slice(), &chosen.payload[..]);
    }

    /// F-7.1.2-1: the library writes an inner packet that we read, and reads one that we write.
    #[test]
    fn inner_packets_agree(chosen in chosen()) {
        let length = chosen.payload.len() as u16;
        let (next_header, ours, sound) = if chosen.v6 {
            let ip = Ipv6 { payload_length: length, next_header: NEXT_HEADER_FALCON, ..chosen.ipv6() };
            (NEXT_HEADER_IPV6, encoded(|out| ip.encode(out)), Inner::V6(ip))
        } else {
            let total_length = Ipv4::LEN as u16 + length;
            let ip = Ipv4 { total_length, protocol: NEXT_HEADER_FALCON, ..chosen.ipv4() };
            (NEXT_HEADER_IPV4, encoded(|out| ip.encode(out)), Inner::V4(ip))
        };
        let ours = [&ours[..], &chosen.payload].concat();
        let sliced = LaxIpSlice::from_slice(&ours).expect("a sound packet").0;
        prop_assert_eq!(sliced.payload().ip_number, etherparse::IpNumber(NEXT_HEADER_FALCON));
        prop_assert_eq!(sliced.payload().payload, &chosen.payload[..]);
        prop_assert_eq!(sliced.source_addr(), match sound {
            Inner::V4(ip) => IpAddr::from(ip.src),
            Inner::V6(ip) => IpAddr::from(ip.src),
        });
        let mut cursor = SliceCursor::new(&ours);
        prop_assert_eq!(Inner::decode(&mut cursor, next_header, ours.len() as u32), Ok(sound));
        prop_assert_eq!(cursor.rest(), &chosen.payload[..]);
        let mut theirs = Vec::new();
        let (headers, _) = etherparse::IpHeaders::from_slice(&ours).expect("a sound packet");
        headers.write(&mut theirs).expect("a vector has enough space");
        prop_assert_eq!(&theirs[..], &ours[..ours.len() - chosen.payload.len()]);
        prop_assert_eq!(
            Inner::decode(&mut SliceCursor::new(&ours), next_header, ours.len() as u32 + 1),
            Err(Malformed::InnerLength)
        );
    }
}
