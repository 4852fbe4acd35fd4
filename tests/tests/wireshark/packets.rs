//! Packets made with the project's encoders: one of each kind, and any number of random ones.

use std::net::IpAddr;

use falcon_conformance::{Flow, encoded};
use rand::Rng;
use rand::rngs::StdRng;
use transport_common::ids::{Cid, Psn, RKey, Rsn, Spi};
use transport_common::ulp::rdma::{Aeth, AtomicEth, Bth, Opcode, Reth};
use transport_common::units::FalconTime;
use transport_common::units::Picoseconds;
use transport_common::wire::PacketType;
use transport_common::wire::ack::{AckHeader, CongestionInfo, Eack};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::checksum::{checksum, sum_bytes};
use transport_common::wire::falcon::header_len;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::nack::{Nack, NackCode};
use transport_common::wire::psp::{CRYPT_OFFSET, CRYPT_OFFSET_VC, NEXT_HEADER_FALCON, NEXT_HEADER_IPV4, Psp};
use transport_common::wire::pull_data::PullData;
use transport_common::wire::pull_request::PullRequest;
use transport_common::wire::push_data::PushData;
use transport_common::wire::resync::{Resync, ResyncCode};
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};

use crate::capture::Frame;

/// Packet types, as on the wire.
pub(crate) const TYPES: [PacketType; 7] = [
    PacketType::PullRequest,
    PacketType::PullData,
    PacketType::PushData,
    PacketType::Resync,
    PacketType::Nack,
    PacketType::Back,
    PacketType::Eack,
];
const PUSHES: [Opcode; 8] = [
    Opcode::SEND_FIRST,
    Opcode::SEND_MIDDLE,
    Opcode::SEND_LAST,
    Opcode::SEND_LAST_IMMEDIATE,
    Opcode::SEND_ONLY,
    Opcode::SEND_ONLY_IMMEDIATE,
    Opcode::WRITE_ONLY,
    Opcode::WRITE_ONLY_IMMEDIATE,
];
const PULLS: [Opcode; 3] = [Opcode::READ_REQUEST, Opcode::COMPARE_SWAP, Opcode::FETCH_ADD];
const RESPONSES: [Opcode; 2] = [Opcode::READ_RESPONSE_ONLY, Opcode::ATOMIC_ACKNOWLEDGE];

/// Returns the flow from host 1 to host 2.
fn flow() -> Flow {
    Flow {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: None,
        source: IpAddr::from([10, 7, 0, 1]),
        destination: IpAddr::from([10, 7, 0, 2]),
        source_port: 49_153,
        inner: None,
    }
}

/// Returns a flow with IPv6 addresses and a tag.
fn tagged_flow() -> Flow {
    let address = |last| IpAddr::from([0xfd00, 7, 0, 0, 0, 0, 0, last]);
    Flow { vlan: Some(0x2007), source: address(1), destination: address(2), ..flow() }
}

fn base(rng: &mut StdRng, packet_type: PacketType) -> BaseHeader {
    BaseHeader {
        dest_cid: Cid(rng.random_range(0..1 << 24)),
        dest_function: rng.random_range(0..1 << 24),
        protocol: if rng.random_bool(0.9) { 2 } else { rng.random_range(0..8) },
        packet_type,
        ack_request: rng.random(),
        data_base_psn: Psn(rng.random()),
        request_base_psn: Psn(rng.random()),
        psn: Psn(rng.random()),
        rsn: Rsn(rng.random()),
    }
}

fn congestion(rng: &mut StdRng) -> CongestionInfo {
    CongestionInfo {
        forward_hops: rng.random_range(0..16),
        rx_buffer_level: rng.random_range(0..32),
        ecn_count: rng.random_range(0..1 << 14),
        rue: rng.random_range(0..1 << 24),
    }
}

fn ack(rng: &mut StdRng) -> AckHeader {
    AckHeader {
        dest_cid: Cid(rng.random_range(0..1 << 24)),
        data_base_psn: Psn(rng.random()),
        request_base_psn: Psn(rng.random()),
        t1: FalconTime(rng.random()),
        t2: FalconTime(rng.random()),
        cc: congestion(rng),
        own_request: rng.random(),
        own_data: rng.random(),
    }
}

fn nack(rng: &mut StdRng) -> Nack {
    let header = ack(rng);
    Nack {
        dest_cid: header.dest_cid,
        data_base_psn: header.data_base_psn,
        request_base_psn: header.request_base_psn,
        t1: header.t1,
        t2: header.t2,
        cc: header.cc,
        psn: Psn(rng.random()),
        code: NackCode(rng.random_range(0..12)),
        rnr_timeout_code: rng.random_range(0..32),
        request_window: rng.random(),
        ulp_code: rng.random_range(0..6),
    }
}

fn nack_bytes(nack: &Nack) -> Vec<u8> {
    encoded::<{ Nack::LEN }>(|out| nack.encode(out)).to_vec()
}

fn resync(rng: &mut StdRng, code: u8) -> Vec<u8> {
    let replaced =
        [PacketType::PullRequest, PacketType::PullData, PacketType::PushData][rng.random_range(0..3)];
    let base = base(rng, PacketType::Resync);
    let resync = Resync { base, code: ResyncCode(code), packet_type: replaced, vendor: rng.random() };
    encoded::<{ Resync::LEN }>(|out| resync.encode(out)).to_vec()
}

fn bth(rng: &mut StdRng, opcode: Opcode) -> Vec<u8> {
    let mut bth = Bth::new(opcode, rng.random_range(0..1 << 24), rng.random_range(0..1 << 24));
    bth.solicited = rng.random_bool(0.2);
    bth.migration = rng.random_bool(0.2);
    bth.ack_request = rng.random_bool(0.2);
    encoded::<{ Bth::LEN }>(|out| bth.encode(out)).to_vec()
}

fn reth(rng: &mut StdRng, length: u32) -> [u8; Reth::LEN] {
    let reth = Reth { address: rng.random(), rkey: RKey(rng.random()), length };
    encoded::<{ Reth::LEN }>(|out| reth.encode(out))
}

/// Returns Push Data with an operation and `length` bytes of data.
fn push(rng: &mut StdRng, opcode: Opcode, length: usize) -> Vec<u8> {
    let mut payload = bth(rng, opcode);
    if [Opcode::WRITE_ONLY, Opcode::WRITE_ONLY_IMMEDIATE].contains(&opcode) {
        payload.extend(reth(rng, length as u32));
    }
    let immediates = [Opcode::WRITE_ONLY_IMMEDIATE, Opcode::SEND_LAST_IMMEDIATE, Opcode::SEND_ONLY_IMMEDIATE];
    if immediates.contains(&opcode) {
        payload.extend(rng.random::<u32>().to_be_bytes());
    }
    payload.extend((0..length).map(|_| rng.random::<u8>()));
    let header = PushData { base: base(rng, PacketType::PushData), request_length: payload.len() as u16 };
    [&encoded::<{ PushData::LEN }>(|out| header.encode(out))[..], &payload].concat()
}

fn pull(rng: &mut StdRng, opcode: Opcode) -> Vec<u8> {
    let mut payload = bth(rng, opcode);
    let request_length = if opcode == Opcode::READ_REQUEST {
        let length = rng.random_range(0..4000);
        payload.extend(reth(rng, length));
        16 + length as u16
    } else {
        let atomic = AtomicEth {
            address: rng.random::<u64>() & !7,
            rkey: RKey(rng.random()),
            swap_or_add: rng.random(),
            compare: rng.random(),
        };
        payload.extend(encoded::<{ AtomicEth::LEN }>(|out| atomic.encode(out)));
        24
    };
    let header = PullRequest { base: base(rng, PacketType::PullRequest), request_length };
    [&encoded::<{ PullRequest::LEN }>(|out| header.encode(out))[..], &payload].concat()
}

fn response(rng: &mut StdRng, opcode: Opcode, syndrome: u8, length: usize) -> Vec<u8> {
    let header = PullData { base: base(rng, PacketType::PullData) };
    let aeth = Aeth { syndrome, msn: rng.random_range(0..1 << 24) };
    let data = match (syndrome, opcode) {
        (Aeth::SUCCESS, Opcode::ATOMIC_ACKNOWLEDGE) => 8,
        (Aeth::SUCCESS, _) => length,
        _ => 0,
    };
    let mut packet = encoded::<{ PullData::LEN }>(|out| header.encode(out)).to_vec();
    packet.extend(bth(rng, opcode));
    packet.extend(encoded::<{ Aeth::LEN }>(|out| aeth.encode(out)));
    packet.extend((0..data).map(|_| rng.random::<u8>()));
    packet
}

fn eack(rng: &mut StdRng) -> Vec<u8> {
    // All bits, some, few, or none are set.
    let mut word = || match rng.random_range(0..4) {
        0 => 0,
        1 => u64::MAX,
        2 => rng.random::<u64>() & rng.random::<u64>() & rng.random::<u64>(),
        _ => rng.random(),
    };
    let (data_ack, data_received, request) = ([word(), word()], [word(), word()], word());
    let eack = Eack { header: ack(rng), data_ack, data_received, request };
    encoded::<{ Eack::LEN }>(|out| eack.encode(out)).to_vec()
}

fn one_of<T: Copy>(rng: &mut StdRng, list: &[T]) -> T {
    list[rng.random_range(0..list.len())]
}

/// Returns a random Falcon packet that a node accepts, except for some protocol types.
fn falcon(rng: &mut StdRng, packet_type: PacketType) -> Vec<u8> {
    let length = rng.random_range(0..80);
    match packet_type {
        PacketType::PullRequest => {
            let opcode = one_of(rng, &PULLS);
            pull(rng, opcode)
        }
        PacketType::PullData => {
            let opcode = one_of(rng, &RESPONSES);
            let syndrome = if rng.random() { 0 } else { 0x60 + rng.random_range(0..32) };
            response(rng, opcode, syndrome, length)
        }
        PacketType::PushData => {
            let opcode = one_of(rng, &PUSHES);
            push(rng, opcode, length)
        }
        PacketType::Resync => {
            let code = rng.random_range(0..10);
            resync(rng, code)
        }
        PacketType::Nack => nack_bytes(&nack(rng)),
        PacketType::Back => {
            let back = ack(rng);
            encoded::<{ AckHeader::LEN }>(|out| back.encode(out)).to_vec()
        }
        PacketType::Eack => eack(rng),
    }
}

/// Returns PSP in plaintext lab mode, with a packet in it.
fn in_psp(iv: u64, falcon: &[u8]) -> Vec<u8> {
    let psp = Psp::plaintext(Spi(0x1001), Picoseconds(iv));
    [&encoded::<{ Psp::LEN }>(|out| psp.encode(out))[..], falcon].concat()
}

/// Returns PSP in tunnel mode: an inner IP header before the Falcon packet, with any field that a node accepts (F-7.1.2-1).
fn in_tunnel(rng: &mut StdRng, inner_version: u8, cookie: bool, falcon: &[u8]) -> Vec<u8> {
    let psp = Psp::tunnel(inner_version, Spi(rng.random()), Picoseconds(rng.random()));
    let (class, life, length) = (rng.random(), rng.random(), falcon.len() as u16);
    let inner = if inner_version == 4 {
        let (src, dst) = (rng.random(), rng.random());
        let ip = Ipv4 {
            dscp_ecn: class,
            total_length: Ipv4::LEN as u16 + length,
            identification: rng.random(),
            ttl: life,
            protocol: NEXT_HEADER_FALCON,
            src,
            dst,
        };
        encoded::<{ Ipv4::LEN }>(|out| ip.encode(out)).to_vec()
    } else {
        let (src, dst) = (rng.random(), rng.random());
        let ip = Ipv6 {
            traffic_class: class,
            flow_label: rng.random(),
            payload_length: length,
            next_header: NEXT_HEADER_FALCON,
            hop_limit: life,
            src,
            dst,
        };
        encoded::<{ Ipv6::LEN }>(|out| ip.encode(out)).to_vec()
    };
    let header = if cookie {
        let cookie = CRYPT_OFFSET_VC - CRYPT_OFFSET;
        let psp = Psp { vc: rng.random(), crypt_offset: psp.crypt_offset + cookie, ..psp };
        encoded::<{ Psp::VC_LEN }>(|out| psp.encode_with_vc(out)).to_vec()
    } else {
        encoded::<{ Psp::LEN }>(|out| psp.encode(out)).to_vec()
    };
    [&header[..], &inner, falcon].concat()
}

/// Damages one field of the inner header of a tunnel, and mostly fits its IPv4 checksum.
fn bend_inner(rng: &mut StdRng, datagram: &mut Vec<u8>) {
    let start = if datagram[3] & 2 != 0 { Psp::VC_LEN } else { Psp::LEN };
    let v4 = datagram[0] == NEXT_HEADER_IPV4;
    let header = if v4 { Ipv4::LEN } else { Ipv6::LEN };
    match rng.random_range(0..8) {
        0 => datagram.truncate(rng.random_range(start..start + header)),
        1 => datagram[start] ^= 1 << rng.random_range(4..8),
        2 => datagram[start] = datagram[start] & 0xf0 | rng.random_range(0..16),
        3 if v4 => datagram[start + 6] = rng.random(),
        3 => datagram[start + 6] = one_of(rng, &[0, 43, 44, 60]),
        4 => {
            let at = start + if v4 { 2 } else { 4 };
            datagram[at] ^= one_of(rng, &[0, 0x40]);
            datagram[at + 1] ^= 1 << rng.random_range(0..8);
        }
        5 => datagram[start + if v4 { 9 } else { 6 }] = one_of(rng, &[6, 17, 58]),
        6 => datagram.push(0),
        _ => datagram[start + rng.random_range(0..header)] ^= 1 << rng.random_range(0..8),
    }
    if v4
        && rng.random_bool(0.7)
        && let Some(header) = datagram.get_mut(start..start + Ipv4::LEN)
    {
        header[10..12].fill(0);
        let sum = checksum(sum_bytes(header));
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn in_psp_with_cookie(rng: &mut StdRng, falcon: &[u8]) -> Vec<u8> {
    let psp = Psp {
        vc: rng.random(),
        crypt_offset: CRYPT_OFFSET_VC,
        ..Psp::plaintext(Spi(rng.random()), Picoseconds(rng.random()))
    };
    [&encoded::<{ Psp::VC_LEN }>(|out| psp.encode_with_vc(out))[..], falcon].concat()
}

/// Returns the frame of a datagram without a checksum.
fn without_checksum(flow: &Flow, payload: &[u8]) -> Vec<u8> {
    let udp = Udp {
        src_port: flow.source_port,
        dst_port: FALCON_UDP_PORT,
        length: (Udp::LEN + payload.len()) as u16,
        checksum: 0,
    };
    flow.ip(IP_PROTOCOL_UDP, &[&encoded::<{ Udp::LEN }>(|out| udp.encode(out))[..], payload].concat())
}

fn with_checksum(flow: &Flow, payload: &[u8]) -> Vec<u8> {
    flow.ip(IP_PROTOCOL_UDP, &flow.udp(FALCON_UDP_PORT, payload))
}

fn numbered(packets: Vec<Vec<u8>>) -> Vec<Frame> {
    packets.into_iter().enumerate().map(|(number, bytes)| Frame::whole(number, bytes)).collect()
}

/// Returns one packet of each type and operation, in different encapsulations.
pub(crate) fn each_kind(rng: &mut StdRng) -> Vec<Frame> {
    let mut packets: Vec<Vec<u8>> = vec![];
    packets.extend(PULLS.map(|opcode| pull(rng, opcode)));
    packets.extend(PUSHES.map(|opcode| push(rng, opcode, 5)));
    packets.push(response(rng, Opcode::READ_RESPONSE_ONLY, 0, 5));
    packets.push(response(rng, Opcode::ATOMIC_ACKNOWLEDGE, 0, 0));
    packets.push(response(rng, Opcode::READ_RESPONSE_ONLY, 0x62, 0));
    packets.push(resync(rng, 3));
    packets.push(nack_bytes(&nack(rng)));
    packets.push(falcon(rng, PacketType::Back));
    packets.push(eack(rng));
    for packet in &mut packets {
        if packet[7] >> 1 & 0xf < PacketType::Nack as u8 {
            packet[7] = packet[7] & 0x1f | 2 << 5; // RDMA
        }
    }
    let mut frames: Vec<Vec<u8>> = (1..)
        .zip(&packets)
        .map(|(n, packet)| with_checksum(&flow(), &in_psp(n * 1_000_000_000_001, packet)))
        .collect();
    frames.push(with_checksum(&tagged_flow(), &in_psp_with_cookie(rng, &packets[4])));
    for version in [0, 1] {
        let mut datagram = in_psp(77, &packets[4]);
        datagram[3] = datagram[3] & !0x3c | version << 2;
        datagram.extend([0xcc; 16]);
        frames.push(without_checksum(&flow(), &datagram));
    }
    let mut nvme = packets[4].clone();
    nvme[7] = nvme[7] & 0x1f | 3 << 5;
    frames.push(without_checksum(&flow(), &in_psp(99, &nvme)));
    for (inner_version, cookie) in [(4, false), (6, false), (4, true), (6, true)] {
        frames.push(with_checksum(&flow(), &in_tunnel(rng, inner_version, cookie, &packets[4])));
    }
    let mut encrypted = in_tunnel(rng, 6, false, &packets[4]);
    encrypted[3] &= !0x3c;
    frames.push(without_checksum(&flow(), &encrypted));
    numbered(frames)
}

/// Returns packets with every code, and packets that are malformed in every way.
pub(crate) fn each_code(rng: &mut StdRng) -> Vec<Frame> {
    let mut packets: Vec<Vec<u8>> = vec![];
    let nacks = (0..10).map(|code| (code, 0)).chain((0..32).map(|rnr| (2, rnr)));
    for (code, rnr_timeout_code) in nacks {
        packets.push(nack_bytes(&Nack { code: NackCode(code), rnr_timeout_code, ..nack(rng) }));
    }
    packets.extend((0..9).map(|code| resync(rng, code)));
    packets.extend(
        [0x60, 0x61, 0x63, 0x64, 0x7f, 0x20].map(|syndrome| response(rng, RESPONSES[1], syndrome, 0)),
    );
    let mut datagrams: Vec<Vec<u8>> =
        (1..).zip(&packets).map(|(n, packet)| in_psp(n * 1_000_000_000, packet)).collect();
    datagrams.extend(malformed(rng));
    numbered(datagrams.iter().map(|datagram| without_checksum(&flow(), datagram)).collect())
}

/// Returns datagrams with one fault each: a byte of PSP, Falcon or RDMA header is replaced, or the end is missing.
fn malformed(rng: &mut StdRng) -> Vec<Vec<u8>> {
    const FALCON: usize = Psp::LEN;
    let mut out = vec![];
    let mut whole = in_psp(5, &push(rng, Opcode::WRITE_ONLY, 4));
    whole[FALCON + 7] = 2 << 5 | 5 << 1;
    let rdma = FALCON + PushData::LEN;
    let faults = [
        (0, 17),
        (1, 2),
        (2, 2),
        (3, 0x3c),
        (3, 0x15),
        (FALCON, 0x20),
        (FALCON + 7, 0x4e),
        (FALCON + 7, 0x0a),
        (FALCON + 27, 1),
        (rdma, 0x30),
        (rdma + 1, 0x01),
        (rdma + 1, 0x10),
        (rdma + 27, 9),
    ];
    for (at, value) in faults {
        let mut datagram = whole.clone();
        datagram[at] = value;
        out.push(datagram);
    }
    out.extend([10, FALCON + 3, FALCON + 20].map(|length| whole[..length].to_vec()));
    let mut cut = whole[..rdma + 20].to_vec();
    cut[FALCON + 27] = 20; // the length of what is left
    out.push(cut);
    let mut odd = in_psp(6, &pull(rng, Opcode::FETCH_ADD));
    odd[FALCON + 7] = 2 << 5;
    odd[FALCON + PullRequest::LEN + Bth::LEN + 7] |= 1;
    out.push(odd);
    let mut replaced = in_psp(7, &resync(rng, 1));
    replaced[FALCON + 25] = 0x80;
    out.push(replaced);
    out
}

/// Returns random packets. Of about half, some bytes are replaced, removed or added.
pub(crate) fn random(rng: &mut StdRng, count: usize) -> Vec<Frame> {
    (0..count).map(|number| Frame::whole(number, random_packet(rng))).collect()
}

fn random_packet(rng: &mut StdRng) -> Vec<u8> {
    let packet_type = one_of(rng, &TYPES);
    let mut falcon = falcon(rng, packet_type);
    let bends_operation = rng.random_bool(0.3);
    if bends_operation {
        bend_operation(rng, &mut falcon);
    }
    let tunnel = rng.random_bool(0.3);
    let mut datagram = if tunnel {
        let (version, cookie) = (one_of(rng, &[4, 6]), rng.random_bool(0.2));
        in_tunnel(rng, version, cookie, &falcon)
    } else if rng.random_bool(0.8) {
        in_psp(rng.random(), &falcon)
    } else {
        in_psp_with_cookie(rng, &falcon)
    };
    if !bends_operation && rng.random_bool(0.6) {
        if tunnel && rng.random_bool(0.7) {
            bend_inner(rng, &mut datagram);
        } else {
            bend(rng, &mut datagram);
        }
    }
    let flow = if rng.random_bool(0.7) { flow() } else { tagged_flow() };
    let mut frame =
        if rng.random() { with_checksum(&flow, &datagram) } else { without_checksum(&flow, &datagram) };
    if rng.random_bool(0.1) {
        // Bytes after the datagram, as Ethernet adds them to short frames.
        frame.extend((0..rng.random_range(1..40)).map(|_| rng.random::<u8>()));
    }
    frame
}

/// Damages the headers of the RDMA operation, or what a Resync replaces. The rest of the Falcon header stays right, so
/// that the fault is this one.
fn bend_operation(rng: &mut StdRng, falcon: &mut Vec<u8>) {
    let packet_type = PacketType::from_wire(falcon[7] >> 1 & 0xf).expect("made by an encoder");
    let start = header_len(packet_type);
    if packet_type == PacketType::Resync {
        falcon[25] = rng.random(); // the type of the replaced packet
    }
    if packet_type.is_acknowledgement() || packet_type == PacketType::Resync {
        return;
    }
    falcon[7] = falcon[7] & 0x1f | 2 << 5; // RDMA
    let headers = start..falcon.len().min(start + Bth::LEN + AtomicEth::LEN);
    match rng.random_range(0..3) {
        0 => falcon.truncate(rng.random_range(headers)),
        // A syndrome, in Pull Data. A SEND may be nothing but a BTH.
        1 if falcon.len() > start + Bth::LEN => falcon[start + Bth::LEN] = rng.random(),
        _ => {
            let at = rng.random_range(headers);
            falcon[at] = rng.random();
        }
    }
    if packet_type == PacketType::PullRequest && rng.random() {
        let low_byte_of_address = start + Bth::LEN + 7;
        if let Some(byte) = falcon.get_mut(low_byte_of_address) {
            *byte = rng.random();
        }
    }
    if packet_type == PacketType::PushData {
        let length = (falcon.len() - start) as u16;
        falcon[26..28].copy_from_slice(&length.to_be_bytes());
    }
}

fn bend(rng: &mut StdRng, datagram: &mut Vec<u8>) {
    for _ in 0..rng.random_range(0..3) {
        // Often a bit of the headers, which decide how the packet is read.
        let at = rng.random_range(0..datagram.len().min(80));
        datagram[at] ^= 1 << rng.random_range(0..8);
    }
    match rng.random_range(0..5) {
        // The last bit of the first word, which is always 1.
        3 if datagram.len() > 3 => datagram[3] &= !1,
        0 => datagram.truncate(rng.random_range(1..=datagram.len())),
        1 => datagram.extend((0..rng.random_range(1..30)).map(|_| rng.random::<u8>())),
        2 => {
            let at = rng.random_range(0..datagram.len().min(64));
            datagram[at] = rng.random();
        }
        _ => {}
    }
}
