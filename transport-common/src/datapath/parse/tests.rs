//! The two stages of the parser, each alone.

extern crate std;

use std::vec;
use std::vec::Vec;

use super::*;
use crate::datapath::PREFIX_BYTES;
use crate::ids::{Cid, Rsn, Spi};
use crate::ulp::block::{Command, READ, STATUS_LEN};
use crate::units::Picoseconds;
use crate::wire::checksum::transmit_checksum;
use crate::wire::ipv4::Ipv4;
use crate::wire::ipv6::Ipv6;
use crate::wire::psp::{CRYPT_OFFSET_VC, NEXT_HEADER_FALCON, Psp, VERSION_AES_GCM_128, VERSION_AES_GCM_256};
use crate::wire::pull_request::PullRequest;
use crate::wire::udp::Udp;
use crate::wire::{ProtocolType, SliceCursor};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
const HERE_V4: [u8; 4] = [10, 7, 0, 1];
const THERE_V4: [u8; 4] = [10, 7, 0, 2];
const HERE_V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const THERE_V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
/// Offset of the first byte after PSP in an untagged IPv4 frame.
const CONTENT: usize = Ethernet::LEN + Ipv4::LEN + Udp::LEN + Psp::LEN;
/// Something after PSP that is no header.
const NOISE: [u8; 21] = [0xff; 21];

/// A frame that arrives at a node. It offers no more than the first stage needs.
struct Arrived<'a> {
    frame: &'a [u8],
    counted: Vec<u32>,
}

impl Host for Arrived<'_> {
    fn now(&mut self) -> Picoseconds {
        unreachable!("a parser does not read the clock");
    }

    fn owns_ipv4(&self, mac: u64, address: u32) -> bool {
        mac == mac_word(&MAC) && address == u32::from_ne_bytes(HERE_V4)
    }

    fn owns_ipv6(&self, mac: u64, address: [u64; 2]) -> bool {
        mac == mac_word(&MAC) && address == words(&HERE_V6)
    }

    fn count(&mut self, index: u32) {
        self.counted.push(index);
    }
}

impl<'a> Frames for Arrived<'a> {
    type Cursor = SliceCursor<'a>;

    fn cursor(&mut self) -> SliceCursor<'a> {
        SliceCursor::new(self.frame)
    }

    fn sum_frame(&mut self, _: &mut Scratch, offset: u32, length: u32) -> Option<u32> {
        Some(sum(self.frame.get(offset as usize..)?.get(..length as usize)?))
    }

    fn frame_length(&self) -> u32 {
        unreachable!("a parser reads by its cursor");
    }

    fn peek(&mut self, _: &mut [u8; PREFIX_BYTES]) {
        unreachable!("a parser reads by its cursor");
    }

    fn resize(&mut self, _: u32) -> bool {
        unreachable!("a parser changes nothing");
    }

    fn store_header(&mut self, _: &Scratch, _: u32, _: u32) -> bool {
        unreachable!("a parser changes nothing");
    }

    fn sum_header(&mut self, _: &Scratch, _: u32, _: u32) -> u32 {
        unreachable!("a parser builds nothing");
    }

    fn build(&mut self, _: &mut Scratch) -> bool {
        unreachable!("a parser builds nothing");
    }
}

fn sum(bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks(2).map(|pair| [pair[0], pair.get(1).copied().unwrap_or(0)]);
    pairs.map(|pair| u32::from(u16::from_ne_bytes(pair))).sum()
}

fn scratch() -> Scratch {
    let mut s: Scratch = bytemuck::Zeroable::zeroed();
    s.poison();
    s
}

fn encoded<const N: usize>(encode: impl FnOnce(&mut [u8; N])) -> Vec<u8> {
    let mut bytes = [0; N];
    encode(&mut bytes);
    bytes.to_vec()
}

fn psp_header(psp: &Psp) -> Vec<u8> {
    if psp.has_vc {
        encoded::<{ Psp::VC_LEN }>(|out| psp.encode_with_vc(out))
    } else {
        encoded::<{ Psp::LEN }>(|out| psp.encode(out))
    }
}

fn ip_v4(protocol: u8, payload: usize, dscp_ecn: u8) -> Vec<u8> {
    let total_length = (Ipv4::LEN + payload) as u16;
    let (src, dst) = (THERE_V4, HERE_V4);
    let ip = Ipv4 { dscp_ecn, total_length, identification: 0, ttl: 254, protocol, src, dst };
    encoded(|out| ip.encode(out))
}

fn ip_v6(next_header: u8, payload: usize, traffic_class: u8) -> Vec<u8> {
    let payload_length = payload as u16;
    let (src, dst) = (THERE_V6, HERE_V6);
    let ip = Ipv6 { traffic_class, flow_label: 0, payload_length, next_header, hop_limit: 254, src, dst };
    encoded(|out| ip.encode(out))
}

/// A frame to this node without a UDP checksum.
fn frame(v6: bool, tag: Option<u16>, psp: &Psp, content: &[u8]) -> Vec<u8> {
    let datagram = [&psp_header(psp), content].concat();
    let length = Udp::LEN + datagram.len();
    let udp = Udp { src_port: 0xc000, dst_port: FALCON_UDP_PORT, length: length as u16, checksum: 0 };
    let ethertype = if v6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
    let link = Ethernet { dst: MAC, src: [2; 6], vlan: tag, ethertype };
    let link = match tag {
        Some(tci) => encoded::<{ Ethernet::TAGGED_LEN }>(|out| link.encode_tagged(tci, out)),
        None => encoded::<{ Ethernet::LEN }>(|out| link.encode(out)),
    };
    let ip = if v6 { ip_v6(IP_PROTOCOL_UDP, length, 0) } else { ip_v4(IP_PROTOCOL_UDP, length, 0) };
    [link, ip, encoded(|out| udp.encode(out)), datagram].concat()
}

fn plaintext() -> Psp {
    Psp::plaintext(Spi(0x1001), Picoseconds(77))
}

/// What the first stage says of a frame, and what it counts.
fn outer_of(frame: &[u8], s: &mut Scratch) -> (Result<Outer, Refused>, Vec<u32>) {
    let mut p = Arrived { frame, counted: vec![] };
    let sealed = parse_outer(&mut p, s);
    (sealed.map(|sealed| sealed.outer()), p.counted)
}

#[test]
fn the_first_stage_says_where_the_content_is_and_does_not_read_it() {
    let versions = [VERSION_AES_GCM_128, VERSION_AES_GCM_256].map(|version| Psp { version, ..plaintext() });
    let tunnels = [4, 6].map(|version| Psp::tunnel(version, Spi(0x1001), Picoseconds(77)));
    for psp in [&[plaintext()][..], &versions, &tunnels].concat() {
        for (v6, tag) in [(false, None), (false, Some(5)), (true, None), (true, Some(5))] {
            let frame = frame(v6, tag, &psp, &NOISE);
            let mut s = scratch();
            let before = s.step.input.packet;
            let (outer, counted) = outer_of(&frame, &mut s);
            let expected = Outer {
                iv: psp.iv,
                spi: psp.spi,
                offset: (frame.len() - NOISE.len()) as u32,
                length: NOISE.len() as u32,
                version: psp.version,
                next_header: psp.next_header,
                crypt_offset: psp.crypt_offset,
            };
            assert_eq!(outer, Ok(expected));
            assert_eq!(counted, [Counter::ChecksumAbsent as u32]);
            let after = s.step.input.packet;
            assert_eq!((after.vlan_tci, after.hop_limit), (tag.unwrap_or(0), 254));
            assert_eq!((after.psp_version, after.spi, after.iv), (before.psp_version, before.spi, before.iv));
        }
    }
}

#[test]
fn the_first_stage_verifies_the_checksum_of_what_it_does_not_read() {
    let mut frame = frame(false, None, &plaintext(), &NOISE);
    let udp = Ethernet::LEN + Ipv4::LEN;
    let length = (frame.len() - udp) as u16;
    let pseudo = pseudo_header_v4(&THERE_V4, &HERE_V4) + sum_length(length);
    let checksum = transmit_checksum(pseudo + u64::from(sum(&frame[udp..])));
    frame[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
    let (outer, counted) = outer_of(&frame, &mut scratch());
    assert_eq!(outer.map(|outer| outer.length), Ok(NOISE.len() as u32));
    assert!(counted.is_empty(), "there is a checksum");
    frame[CONTENT + 20] ^= 1;
    assert_eq!(outer_of(&frame, &mut scratch()).0, Err(Refused::Drop(Counter::DropUdpChecksum)));
}

#[test]
fn the_first_stage_seals_nothing_that_is_cut_or_foreign() {
    let whole = frame(false, None, &plaintext(), &NOISE);
    let verdict = |frame: &[u8]| outer_of(frame, &mut scratch()).0;
    for length in 0..whole.len() {
        assert!(matches!(verdict(&whole[..length]), Err(Refused::Drop(_))), "{length} bytes");
    }
    let with = |at: usize, value: u8| {
        let mut frame = whole.clone();
        frame[at] = value;
        verdict(&frame)
    };
    let (udp, psp) = (Ethernet::LEN + Ipv4::LEN, CONTENT - Psp::LEN);
    assert_eq!(with(0, 3), Err(Refused::Pass(Counter::PassAddress)));
    assert_eq!(with(12, 9), Err(Refused::Pass(Counter::PassEthertype)));
    assert_eq!(with(udp + 3, 0), Err(Refused::Pass(Counter::PassPort)));
    assert_eq!(with(udp + 5, 44), Err(Refused::Drop(Counter::DropUdpLength)), "45 bytes are there");
    assert_eq!(with(psp, 6), Err(Refused::Drop(Counter::DropPspHeader)), "TCP");
    assert_eq!(with(psp + 3, 2 << 2 | 1), Err(Refused::Drop(Counter::DropPspHeader)), "version 2");
    let cookie = Psp { has_vc: true, crypt_offset: CRYPT_OFFSET_VC, ..plaintext() };
    let cookie = frame(false, None, &cookie, &NOISE);
    assert_eq!(verdict(&cookie), Err(Refused::Drop(Counter::DropPspHeader)), "a virtualisation cookie");
}

/// The content of a packet: a Pull Request with a command of the block protocol.
fn read_request() -> Vec<u8> {
    let base = BaseHeader {
        dest_cid: Cid(0x12_3456),
        dest_function: 7,
        protocol: ProtocolType::Nvme as u8,
        packet_type: PacketType::PullRequest,
        ack_request: true,
        data_base_psn: Psn(1),
        request_base_psn: Psn(2),
        psn: Psn(3),
        rsn: Rsn(4),
    };
    let pull = PullRequest { base, request_length: STATUS_LEN as u16 + 512 };
    let command = Command { opcode: READ, blocks: 1, namespace: 9, first: 1 };
    [encoded(|out| pull.encode(out)), encoded(|out| command.encode(out))].concat()
}

/// Opens a packet that is in plaintext, and parses its inner headers.
fn parse_inside(psp: &Psp, content: &[u8], s: &mut Scratch) -> Result<(), Refused> {
    let outer = Outer {
        iv: psp.iv,
        spi: psp.spi,
        offset: CONTENT as u32,
        length: content.len() as u32,
        version: psp.version,
        next_header: psp.next_header,
        crypt_offset: psp.crypt_offset,
    };
    let sealed = Sealed::new(outer, SliceCursor::new(content));
    parse_opened(s, Plaintext.open(sealed).expect("it is in plaintext"))
}

#[test]
fn the_second_stage_reads_falcon_and_the_ulp() {
    let mut s = scratch();
    assert_eq!(parse_inside(&plaintext(), &read_request(), &mut s), Ok(()));
    let (packet, operation) = (&s.step.input.packet, &s.step.input.operation);
    assert_eq!((packet.psp_version, packet.spi, packet.iv), (15, 0x1001, Picoseconds(77)));
    assert_eq!((packet.inner_version, packet.kind), (0, PacketType::PullRequest));
    assert_eq!((packet.dest_cid, packet.dest_function, packet.psn, packet.rsn), (0x12_3456, 7, 3, 4));
    let payload = (CONTENT + PullRequest::LEN) as u32;
    assert_eq!((packet.payload_offset, packet.payload_length), (payload, 16));
    assert_eq!((operation.kind, operation.rkey, operation.length), (OperationKind::Read, 9, 512));
}

#[test]
fn the_second_stage_reads_the_header_of_a_tunnel() {
    let falcon = read_request();
    let v4 = |ecn| (4, ip_v4(NEXT_HEADER_FALCON, falcon.len(), ecn));
    let v6 = |ecn| (6, ip_v6(NEXT_HEADER_FALCON, falcon.len(), ecn));
    let addresses = |version| match version {
        4 => [THERE_V4, HERE_V4].map(|address| [u64::from(u32::from_ne_bytes(address)), 0]),
        _ => [words(&THERE_V6), words(&HERE_V6)],
    };
    for ((version, header), marked) in [(v4(2), 0), (v4(3), 1), (v6(2), 0), (v6(3), 1)] {
        let psp = Psp::tunnel(version, Spi(0x1001), Picoseconds(77));
        let mut s = scratch();
        s.step.input.packet.congestion_experienced = 0;
        assert_eq!(parse_inside(&psp, &[&header[..], &falcon].concat(), &mut s), Ok(()));
        let packet = &s.step.input.packet;
        assert_eq!((packet.inner_version, packet.congestion_experienced), (version, marked));
        assert_eq!([packet.inner_source, packet.inner_destination], addresses(version));
        let payload = (CONTENT + header.len() + PullRequest::LEN) as u32;
        assert_eq!((packet.payload_offset, packet.payload_length), (payload, 16));
        assert_eq!(s.step.input.operation.kind, OperationKind::Read);
    }
}

#[test]
fn the_second_stage_names_the_fault_of_an_inner_header() {
    let falcon = read_request();
    let refused = |psp: &Psp, content: &[u8]| parse_inside(psp, content, &mut scratch());
    assert_eq!(refused(&plaintext(), &falcon[..31]), Err(Refused::Drop(Counter::DropFalconLength)));
    assert_eq!(refused(&plaintext(), &NOISE), Err(Refused::Drop(Counter::DropFalconVersion)));
    let mut reserved = falcon.clone();
    reserved[7] = 15 << 1;
    assert_eq!(refused(&plaintext(), &reserved), Err(Refused::Drop(Counter::DropFalconType)));
    let tunnel = Psp::tunnel(4, Spi(0x1001), Picoseconds(77));
    for header in [ip_v4(IP_PROTOCOL_UDP, falcon.len(), 0), ip_v4(NEXT_HEADER_FALCON, falcon.len() - 1, 0)] {
        let content = [&header[..], &falcon].concat();
        assert_eq!(refused(&tunnel, &content), Err(Refused::Drop(Counter::DropInnerHeader)));
    }
    assert_eq!(refused(&tunnel, &falcon), Err(Refused::Drop(Counter::DropIpv4Header)), "version 1");
}
