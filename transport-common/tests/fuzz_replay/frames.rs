//! The frames of the corpus: every packet type in every encapsulation, and truncated and invalid frames for every
//! reason.

use super::harness::{Ip, Packet, append, encode_frame};
use transport_common::ids::{Cid, Psn, RKey, Rsn, Spi};
use transport_common::ulp::rdma::{Aeth, AtomicEth, Bth, Opcode, Reth};
use transport_common::units::{FalconTime, Picoseconds};
use transport_common::wire::ack::{Ack, AckHeader, CongestionInfo, Eack};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::checksum::{checksum, sum_bytes};
use transport_common::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use transport_common::wire::inner::Inner;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::nack::{Nack, NackCode};
use transport_common::wire::psp::{CRYPT_OFFSET, CRYPT_OFFSET_VC, NEXT_HEADER_FALCON, Psp};
use transport_common::wire::pull_data::PullData;
use transport_common::wire::pull_request::PullRequest;
use transport_common::wire::push_data::PushData;
use transport_common::wire::resync::{Resync, ResyncCode};
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};
use transport_common::wire::{FalconHeader, PacketType, ProtocolType};

/// Encapsulation of a Falcon packet.
#[derive(Clone, Copy)]
pub(crate) struct Wrap {
    pub(crate) name: &'static str,
    v6: bool,
    vlan: Option<u16>,
    has_vc: bool,
    /// IP version of the inner packet in tunnel mode; 0 in transport mode (F-7.1.2-1).
    inner: u8,
}

const V4: Wrap = Wrap { name: "v4", v6: false, vlan: None, has_vc: false, inner: 0 };
const V6: Wrap = Wrap { name: "v6", v6: true, ..V4 };

/// IPv4 and IPv6, with and without a VLAN tag, with a virtualisation cookie, and tunnels of both versions.
pub(crate) const WRAPS: [Wrap; 11] = [
    V4,
    Wrap { name: "v4-vlan", vlan: Some(0x2064), ..V4 },
    V6,
    Wrap { name: "v6-vlan", vlan: Some(7), ..V6 },
    Wrap { name: "v6-vc", has_vc: true, ..V6 },
    Wrap { name: "v4-tunnel4", inner: 4, ..V4 },
    Wrap { name: "v4-tunnel6", inner: 6, ..V4 },
    Wrap { name: "v6-tunnel4", inner: 4, ..V6 },
    Wrap { name: "v6-tunnel6", inner: 6, ..V6 },
    Wrap { name: "v6-vlan-tunnel6", vlan: Some(7), inner: 6, ..V6 },
    Wrap { name: "v4-vc-tunnel6", has_vc: true, inner: 6, ..V4 },
];

/// Returns a frame with a Falcon header and its payload.
pub(crate) fn frame(wrap: Wrap, falcon: FalconHeader, payload: &[u8]) -> Vec<u8> {
    let (spi, iv) = (Spi(0x0000_1001), Picoseconds(0x0000_1234_5678_9abc));
    let psp = if wrap.inner == 0 { Psp::plaintext(spi, iv) } else { Psp::tunnel(wrap.inner, spi, iv) };
    let psp = if wrap.has_vc {
        let cookie = CRYPT_OFFSET_VC - CRYPT_OFFSET;
        Psp { has_vc: true, ext_len: 2, crypt_offset: psp.crypt_offset + cookie, vc: 0x00c0_ffee, ..psp }
    } else {
        psp
    };
    let falcon_length = (falcon.header_len() + payload.len()) as u16;
    let (inner, inner_length) = match wrap.inner {
        4 => (Some(Inner::V4(inner_ipv4(falcon_length))), Ipv4::LEN),
        6 => (Some(Inner::V6(inner_ipv6(falcon_length))), Ipv6::LEN),
        _ => (None, 0),
    };
    let udp_length = (Udp::LEN + psp.header_len() + inner_length) as u16 + falcon_length;
    let (ethertype, ip) = if wrap.v6 {
        (ETHERTYPE_IPV6, Ip::V6(ipv6(udp_length)))
    } else {
        (ETHERTYPE_IPV4, Ip::V4(ipv4(udp_length)))
    };
    let packet = Packet {
        ethernet: Ethernet { dst: [2, 0, 0, 0, 0, 2], src: [2, 0, 0, 0, 0, 1], vlan: wrap.vlan, ethertype },
        ip,
        udp: Udp { src_port: 0xc001, dst_port: FALCON_UDP_PORT, length: udp_length, checksum: 0 },
        psp,
        inner,
        falcon,
        operation: None,
        payload_len: payload.len(),
    };
    encode_frame(&packet, payload)
}

fn ipv4(udp_length: u16) -> Ipv4 {
    Ipv4 {
        dscp_ecn: 2,
        total_length: Ipv4::LEN as u16 + udp_length,
        identification: 0x1234,
        ttl: 255,
        protocol: IP_PROTOCOL_UDP,
        src: [10, 7, 0, 1],
        dst: [10, 7, 0, 2],
    }
}

fn inner_ipv4(length: u16) -> Ipv4 {
    Ipv4 { protocol: NEXT_HEADER_FALCON, src: [192, 168, 7, 1], dst: [192, 168, 7, 2], ..ipv4(length) }
}

fn inner_ipv6(length: u16) -> Ipv6 {
    let outer = ipv6(length);
    Ipv6 { next_header: NEXT_HEADER_FALCON, src: outer.dst, dst: outer.src, ..outer }
}

fn ipv6(udp_length: u16) -> Ipv6 {
    let address = |host| {
        let mut bytes = [0; 16];
        bytes[0] = 0xfd;
        bytes[15] = host;
        bytes
    };
    Ipv6 {
        traffic_class: 2,
        flow_label: 0x12345,
        payload_length: udp_length,
        next_header: IP_PROTOCOL_UDP,
        hop_limit: 255,
        src: address(1),
        dst: address(2),
    }
}

fn base(packet_type: PacketType) -> BaseHeader {
    BaseHeader {
        dest_cid: Cid(5),
        dest_function: 0,
        protocol: ProtocolType::Rdma as u8,
        packet_type,
        ack_request: true,
        data_base_psn: Psn(700),
        request_base_psn: Psn(0xffff_fffe),
        psn: Psn(300),
        rsn: Rsn(1),
    }
}

fn ack() -> AckHeader {
    AckHeader {
        dest_cid: Cid(10),
        data_base_psn: Psn(300),
        request_base_psn: Psn(100),
        t1: FalconTime(0x0001_0000),
        t2: FalconTime(0x0001_0100),
        cc: CongestionInfo { forward_hops: 2, rx_buffer_level: 5, ecn_count: 17, rue: 0x12345 },
        own_request: false,
        own_data: false,
    }
}

fn push(operation: Opcode, headers: &[u8], data: &[u8]) -> (FalconHeader, Vec<u8>) {
    let mut payload = Vec::new();
    append(&mut payload, |b| Bth::new(operation, 5, 0).encode(b));
    payload.extend(headers);
    payload.extend(data);
    let header = PushData { base: base(PacketType::PushData), request_length: payload.len() as u16 };
    (FalconHeader::PushData(header), payload)
}

fn pull(operation: Opcode, headers: &[u8], request_length: u16) -> (FalconHeader, Vec<u8>) {
    let mut payload = Vec::new();
    append(&mut payload, |b| Bth::new(operation, 5, 0).encode(b));
    payload.extend(headers);
    (FalconHeader::PullRequest(PullRequest { base: base(PacketType::PullRequest), request_length }), payload)
}

fn response(operation: Opcode, syndrome: u8, data: &[u8]) -> (FalconHeader, Vec<u8>) {
    let mut payload = Vec::new();
    append(&mut payload, |b| Bth::new(operation, 10, 0).encode(b));
    append(&mut payload, |b| Aeth { syndrome, msn: 1 }.encode(b));
    payload.extend(data);
    (FalconHeader::PullData(PullData { base: base(PacketType::PullData) }), payload)
}

fn reth(length: u32) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, |b| Reth { address: 0x1000, rkey: RKey(1), length }.encode(b));
    out
}

fn reth_immediate(length: u32) -> Vec<u8> {
    let mut out = reth(length);
    out.extend(0x2au32.to_be_bytes());
    out
}

fn atomic() -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, |b| AtomicEth { address: 64, rkey: RKey(1), swap_or_add: 1, compare: 2 }.encode(b));
    out
}

/// Returns every kind of Falcon packet with its payload, by name.
pub(crate) fn packets() -> Vec<(&'static str, FalconHeader, Vec<u8>)> {
    let data: Vec<u8> = (0..37).collect();
    let resync = |code, packet_type| {
        FalconHeader::Resync(Resync { base: base(PacketType::Resync), code, packet_type, vendor: 0 })
    };
    let h = ack();
    let nack = Nack {
        dest_cid: h.dest_cid,
        data_base_psn: h.data_base_psn,
        request_base_psn: h.request_base_psn,
        t1: h.t1,
        t2: h.t2,
        cc: h.cc,
        psn: Psn(301),
        code: NackCode::RNR,
        rnr_timeout_code: 1,
        request_window: false,
        ulp_code: 0,
    };
    let eack = Eack {
        header: AckHeader { own_data: true, ..h },
        data_ack: [0b1010, 1],
        data_received: [0b1110, 1],
        request: 4,
    };
    let with_payload = [
        ("write", push(Opcode::WRITE_ONLY, &reth(37), &data)),
        ("write-empty", push(Opcode::WRITE_ONLY, &reth(0), &[])),
        ("write-immediate", push(Opcode::WRITE_ONLY_IMMEDIATE, &reth_immediate(37), &data)),
        ("send-first", push(Opcode::SEND_FIRST, &[], &data)),
        ("send-middle", push(Opcode::SEND_MIDDLE, &[], &data)),
        ("send-last", push(Opcode::SEND_LAST, &[], &data)),
        ("send-last-immediate", push(Opcode::SEND_LAST_IMMEDIATE, &[0, 0, 0, 9], &data)),
        ("send-only", push(Opcode::SEND_ONLY, &[], &data)),
        ("send-only-immediate", push(Opcode::SEND_ONLY_IMMEDIATE, &[0, 0, 0, 9], &[])),
        ("read", pull(Opcode::READ_REQUEST, &reth(37), 16 + 37)),
        ("compare-swap", pull(Opcode::COMPARE_SWAP, &atomic(), 24)),
        ("fetch-add", pull(Opcode::FETCH_ADD, &atomic(), 24)),
        ("read-response", response(Opcode::READ_RESPONSE_ONLY, Aeth::SUCCESS, &data)),
        ("atomic-response", response(Opcode::ATOMIC_ACKNOWLEDGE, Aeth::SUCCESS, &[0, 0, 0, 0, 0, 0, 0, 2])),
        ("failed-response", response(Opcode::READ_RESPONSE_ONLY, Aeth::ERROR_BASE + 2, &[])),
    ];
    let without_payload = [
        ("resync-push", resync(ResyncCode::RETRANSMISSION_EXHAUSTED, PacketType::PushData)),
        ("resync-pull", resync(ResyncCode::TRANSACTION_TIMED_OUT, PacketType::PullRequest)),
        ("back", FalconHeader::Ack(Ack::Back(h))),
        ("eack", FalconHeader::Ack(Ack::Eack(eack))),
        ("nack", FalconHeader::Nack(nack)),
    ];
    with_payload
        .into_iter()
        .map(|(name, (header, payload))| (name, header, payload))
        .chain(without_payload.into_iter().map(|(name, header)| (name, header, Vec::new())))
        .collect()
}

/// Corrects the IPv4 checksum, so that the parser reaches an invalid field after it.
pub(crate) fn repair_ipv4(frame: &mut [u8]) {
    let at = if frame.get(12..14) == Some(&[0x81, 0]) { 18 } else { 14 };
    if let Some(header) = frame.get_mut(at..at + Ipv4::LEN) {
        header[10..12].fill(0);
        let checksum = checksum(sum_bytes(header));
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Offsets in an untagged frame without a cookie.
const IPV4: usize = Ethernet::LEN;
const UDP4: usize = IPV4 + Ipv4::LEN;
const PSP4: usize = UDP4 + Udp::LEN;
const FALCON4: usize = PSP4 + Psp::LEN;
const IPV6: usize = Ethernet::LEN;

/// Returns one invalid frame per reason, under the reason's name.
pub(crate) fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    let whole = |wrap: usize, name: &str| {
        let (_, header, payload) =
            packets().into_iter().find(|p| p.0 == name).expect("a packet of that name");
        frame(WRAPS[wrap], header, &payload)
    };
    let (v4, v6, write) = (whole(0, "write"), whole(2, "write"), FALCON4 + PushData::LEN);
    let broken = |from: &[u8], at: usize, byte: u8| {
        let mut bytes = from.to_vec();
        bytes[at] = byte;
        bytes
    };
    let repaired = |at, byte| {
        let mut bytes = broken(&v4, at, byte);
        repair_ipv4(&mut bytes);
        bytes
    };
    let with = |(falcon, payload): (FalconHeader, Vec<u8>)| frame(WRAPS[0], falcon, &payload);
    let shorter = |falcon_length: usize| {
        let mut bytes = v4[..FALCON4 + falcon_length].to_vec();
        bytes[IPV4 + 3] = (bytes.len() - IPV4) as u8;
        bytes[UDP4 + 5] = (bytes.len() - UDP4) as u8;
        repair_ipv4(&mut bytes);
        bytes
    };
    let mut psp_cut = v4[..PSP4 + 10].to_vec();
    psp_cut[IPV4 + 3] = (psp_cut.len() - IPV4) as u8;
    psp_cut[UDP4 + 5] = (psp_cut.len() - UDP4) as u8;
    repair_ipv4(&mut psp_cut);
    vec![
        ("ethernet_truncated", v4[..13].to_vec()),
        ("ipv4_truncated", v4[..IPV4 + 19].to_vec()),
        ("ipv4_version", broken(&v4, IPV4, 0x65)),
        ("ipv4_header_length", broken(&v4, IPV4, 0x44)),
        ("ipv4_options", broken(&v4, IPV4, 0x46)),
        ("ipv4_checksum", broken(&v4, IPV4 + 8, 254)),
        ("ipv4_total_length", repaired(IPV4 + 2, 0x70)),
        ("fragment", repaired(IPV4 + 6, 0x20)),
        ("ipv6_truncated", v6[..IPV6 + 39].to_vec()),
        ("ipv6_version", broken(&v6, IPV6, 0x40)),
        ("ipv6_payload_length", broken(&v6, IPV6 + 4, 0x70)),
        ("ipv6_extension", broken(&v6, IPV6 + 6, 43)),
        ("udp_truncated", {
            let mut bytes = repaired(IPV4 + 3, Ipv4::LEN as u8 + 7);
            bytes.truncate(UDP4 + 7);
            bytes
        }),
        ("udp_length", broken(&v4, UDP4 + 5, 7)),
        ("psp_truncated", psp_cut),
        ("psp_next_header", broken(&v4, PSP4, 43)),
        ("psp_ext_length", broken(&v4, PSP4 + 1, 2)),
        ("psp_crypt_offset", broken(&v4, PSP4 + 2, 6)),
        ("psp_version", broken(&v4, PSP4 + 3, 2 << 2 | 1)),
        ("psp_trailing_bit", broken(&v4, PSP4 + 3, 15 << 2)),
        // The tunnel's inner header takes the place of the Falcon header.
        ("inner_protocol", broken(&whole(8, "write"), IPV6 + Ipv6::LEN + Udp::LEN + Psp::LEN + 6, 17)),
        ("inner_length", broken(&whole(8, "write"), IPV6 + Ipv6::LEN + Udp::LEN + Psp::LEN + 5, 1)),
        ("falcon_truncated", shorter(PushData::LEN - 1)),
        ("falcon_version", broken(&v4, FALCON4, 0x20)),
        ("falcon_packet_type", broken(&v4, FALCON4 + 7, 2 << 5 | 7 << 1)),
        ("falcon_protocol", broken(&v4, FALCON4 + 7, 4 << 5 | 5 << 1)),
        ("falcon_length", broken(&v4, FALCON4 + 27, 1)),
        ("resync_packet_type", broken(&whole(0, "resync-push"), FALCON4 + 25, 0x60)),
        ("rdma_truncated", with(push(Opcode::WRITE_ONLY, &[0; 15], &[]))),
        ("rdma_version", broken(&v4, write + 1, 1)),
        ("rdma_opcode", broken(&v4, write, Opcode::READ_REQUEST.0)),
        ("rdma_length", with(push(Opcode::WRITE_ONLY, &reth(38), &[0; 37]))),
        ("rdma_alignment", broken(&whole(0, "fetch-add"), FALCON4 + PullRequest::LEN + 12 + 7, 1)),
        ("rdma_syndrome", with(response(Opcode::READ_RESPONSE_ONLY, 0x20, &[]))),
    ]
}

/// Returns frames that are complete and not Falcon.
pub(crate) fn foreign() -> Vec<(&'static str, Vec<u8>)> {
    let (_, header, payload) = packets().swap_remove(0);
    let v4 = frame(WRAPS[0], header, &payload);
    let v6 = frame(WRAPS[2], header, &payload);
    let changed = |from: &[u8], at: usize, byte: u8| {
        let mut bytes = from.to_vec();
        bytes[at] = byte;
        repair_ipv4(&mut bytes);
        bytes
    };
    vec![
        ("arp", [&v4[..12], &[8, 6], &[0; 28]].concat()),
        ("second-tag", [&v4[..12], &[0x81, 0, 0, 1, 0x81, 0, 0, 2, 8, 0], &v4[14..]].concat()),
        ("tcp", changed(&v4, IPV4 + 9, 6)),
        ("other-port", changed(&v4, UDP4 + 3, 0xe9)),
        ("icmpv6", {
            let mut bytes = v6;
            bytes[IPV6 + 6] = 58;
            bytes
        }),
    ]
}
