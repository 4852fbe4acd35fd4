//! Bytes written by hand from the figures: encoders must write them, and decoders must read them back.

use transport_common::ids::{Cid, Psn, RKey, Rsn, Spi};
use transport_common::ulp::UlpCode;
use transport_common::ulp::rdma::{
    self, Aeth, AtomicEth, Bth, Opcode, Position, RdmaPull, RdmaPush, RdmaResponse, Reth,
};
use transport_common::units::{FalconTime, Picoseconds, Ticks};
use transport_common::wire::ack::{Ack, AckHeader, CongestionInfo, Eack};
use transport_common::wire::base::BaseHeader;
use transport_common::wire::checksum::{checksum, sum_bytes};
use transport_common::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use transport_common::wire::inner::Inner;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::nack::{Nack, NackCode, RNR_TIMEOUT_NANOS, rnr_timeout};
use transport_common::wire::psp::{self, Psp};
use transport_common::wire::pull_data::PullData;
use transport_common::wire::pull_request::PullRequest;
use transport_common::wire::push_data::PushData;
use transport_common::wire::resync::{Resync, ResyncCode};
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};
use transport_common::wire::{Cursor, FalconHeader, Malformed, PacketType, ProtocolType, SliceCursor};

/// Returns bytes from groups of hex digits.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(core::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

/// Returns a filled buffer, in which a byte that the encoder forgot is visible.
fn dirty<const N: usize>() -> [u8; N] {
    [0xa5; N]
}

/// Decodes a Falcon packet that fills the slice. The header must end at `header_len`.
fn decode(bytes: &[u8], header_len: usize) -> Result<FalconHeader, Malformed> {
    let mut cursor = SliceCursor::new(bytes);
    let header = FalconHeader::decode(&mut cursor, bytes.len())?;
    assert_eq!(bytes.len() - cursor.remaining(), header_len);
    assert_eq!(header.header_len(), header_len);
    Ok(header)
}

fn base(packet_type: PacketType, ack_request: bool) -> BaseHeader {
    BaseHeader {
        dest_cid: Cid(0x00_000a),
        dest_function: 0x01_0203,
        protocol: ProtocolType::Rdma as u8,
        packet_type,
        ack_request,
        data_base_psn: Psn(300),
        request_base_psn: Psn(200),
        psn: Psn(0xffff_fff0),
        rsn: Rsn(7),
    }
}

const BASE_WORDS_2_TO_5: &str = "0000012c 000000c8 fffffff0 00000007";

#[test]
fn ethernet_untagged() {
    let header =
        Ethernet { dst: [2, 0, 0, 0, 0, 2], src: [2, 0, 0, 0, 0, 1], vlan: None, ethertype: ETHERTYPE_IPV4 };
    let bytes = hex("02 00 00 00 00 02  02 00 00 00 00 01  0800");
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    assert_eq!(Ethernet::decode(&mut SliceCursor::new(&bytes)), Ok(header));
}

#[test]
fn ethernet_with_one_802_1q_tag() {
    // D-86
    let header = Ethernet {
        dst: [2, 0, 0, 0, 0, 2],
        src: [2, 0, 0, 0, 0, 1],
        vlan: Some(0x6007),
        ethertype: ETHERTYPE_IPV6,
    };
    let bytes = hex("02 00 00 00 00 02  02 00 00 00 00 01  8100 6007 86dd");
    let mut out = dirty();
    header.encode_tagged(0x6007, &mut out);
    assert_eq!(out[..], bytes);
    assert_eq!(Ethernet::decode(&mut SliceCursor::new(&bytes)), Ok(header));
    assert_eq!(header.header_len(), 18);
}

#[test]
fn ipv4_with_its_checksum() {
    let header = Ipv4 {
        dscp_ecn: 0,
        total_length: 0x73,
        identification: 0,
        ttl: 0x40,
        protocol: IP_PROTOCOL_UDP,
        src: [192, 168, 0, 1],
        dst: [192, 168, 0, 199],
    };
    let mut bytes = hex("4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7");
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    bytes.resize(0x73, 0);
    assert_eq!(Ipv4::decode(&mut SliceCursor::new(&bytes)), Ok(header));
}

#[test]
fn ipv6() {
    let mut src = [0; 16];
    src[..2].copy_from_slice(&[0xfd, 7]);
    let mut dst = src;
    src[15] = 1;
    dst[15] = 2;
    let header = Ipv6 {
        traffic_class: 0xb9,
        flow_label: 0xabcde,
        payload_length: 8,
        next_header: IP_PROTOCOL_UDP,
        hop_limit: 255,
        src,
        dst,
    };
    let mut bytes =
        hex("6b9abcde 0008 11 ff fd070000 00000000 00000000 00000001 fd070000 00000000 00000000 00000002");
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    bytes.resize(Ipv6::LEN + 8, 0);
    assert_eq!(Ipv6::decode(&mut SliceCursor::new(&bytes)), Ok(header));
}

#[test]
fn udp_to_the_falcon_port() {
    // D-10
    let header = Udp { src_port: 0xc001, dst_port: FALCON_UDP_PORT, length: 9, checksum: 0x1234 };
    let bytes = hex("c001 03e8 0009 1234 41");
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes[..8]);
    assert_eq!(Udp::decode(&mut SliceCursor::new(&bytes), 9), Ok(header));
}

#[test]
fn psp_plaintext() {
    // F-7.1-1, F-7.1-3, D-83: flags are S 0, D 0, version 1111, V 0, 1.
    let header = Psp::plaintext(Spi(0x0102_0304), Picoseconds(0x1122_3344_5566_7788));
    let bytes = hex("fc 01 01 3d 01020304 11223344 55667788");
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    assert_eq!(Psp::decode(&mut SliceCursor::new(&bytes)), Ok(header));
}

#[test]
fn psp_of_a_tunnel() {
    // F-7.1.2-1, D-10: Next Header 4 with crypt offset 6, Next Header 41 with crypt offset 11.
    for (version, text) in [(4, "04 01 06 3d"), (6, "29 01 0b 3d")] {
        let header = Psp::tunnel(version, Spi(0x0102_0304), Picoseconds(0x1122_3344_5566_7788));
        let bytes = hex(&format!("{text} 01020304 11223344 55667788"));
        let mut out = dirty();
        header.encode(&mut out);
        assert_eq!(out[..], bytes);
        assert_eq!(Psp::decode(&mut SliceCursor::new(&bytes)), Ok(header));
    }
    // With a virtualisation cookie: 8 and 13.
    for (text, next_header, crypt_offset) in [("04 02 08 3f", 4, 8), ("29 02 0d 3f", 41, 13)] {
        let bytes = hex(&format!("{text} 01020304 11223344 55667788 00000000 00000009"));
        let header = Psp::decode(&mut SliceCursor::new(&bytes)).expect("sound");
        assert_eq!((header.next_header, header.crypt_offset, header.vc), (next_header, crypt_offset, 9));
    }
    for (text, reason) in [
        ("04 01 01 3d", Malformed::PspCryptOffset),
        ("04 01 0b 3d", Malformed::PspCryptOffset),
        ("29 01 06 3d", Malformed::PspCryptOffset),
        ("29 02 0b 3f", Malformed::PspCryptOffset),
        ("fc 01 06 3d", Malformed::PspCryptOffset),
        ("11 01 01 3d", Malformed::PspNextHeader),
    ] {
        let bytes = hex(&format!("{text} 01020304 11223344 55667788 00000000 00000009"));
        assert_eq!(Psp::decode(&mut SliceCursor::new(&bytes)), Err(reason), "{text}");
    }
}

/// The headers of an inner packet that carries a BACK of 32 bytes.
const INNER_IPV4: &str = "4502 0034 0000 4000 ff fc eb77 c0a80701 c0a80702";
const INNER_IPV6: &str =
    "60200000 0020 fc ff fd010000000000000000000000000001 fd010000000000000000000000000002";

/// Returns an inner packet with a payload, after a change of one byte. The IPv4 checksum is corrected if `fits`.
fn inner(text: &str, payload: usize, (at, value): (usize, u8), fits: bool) -> Vec<u8> {
    let mut bytes = hex(text);
    bytes[at] = value;
    if fits {
        bytes[10..12].fill(0);
        let sum = checksum(sum_bytes(&bytes));
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    bytes.resize(bytes.len() + payload, 0);
    bytes
}

/// F-7.1.2-1: the inner header, and every reason to refuse it.
#[test]
fn inner_headers() {
    let v4 = |change, fits| inner(INNER_IPV4, 32, change, fits);
    let v6 = |change| inner(INNER_IPV6, 32, change, false);
    let decode =
        |bytes: &[u8], next_header, room| Inner::decode(&mut SliceCursor::new(bytes), next_header, room);
    let (sound_v4, sound_v6) = (v4((0, 0x45), false), v6((0, 0x60)));
    let Ok(Inner::V4(ip)) = decode(&sound_v4, psp::NEXT_HEADER_IPV4, 52) else { panic!("sound") };
    assert_eq!((ip.src, ip.dst, ip.protocol), ([192, 168, 7, 1], [192, 168, 7, 2], 252));
    let Ok(Inner::V6(ip)) = decode(&sound_v6, psp::NEXT_HEADER_IPV6, 72) else { panic!("sound") };
    assert_eq!((ip.src[15], ip.dst[15], ip.next_header, ip.payload_length), (1, 2, 252, 32));
    assert_eq!((Inner::header_len(4), Inner::header_len(41)), (20, 40));

    for (bytes, reason) in [
        (sound_v4[..19].to_vec(), Malformed::Ipv4Truncated),
        (sound_v6[..].to_vec(), Malformed::Ipv4Version),
        (v4((0, 0x44), true), Malformed::Ipv4HeaderLength),
        (v4((0, 0x46), true), Malformed::Ipv4Options),
        (v4((10, 0), false), Malformed::Ipv4Checksum),
        (v4((6, 0x20), true), Malformed::Fragment),
        (v4((3, 19), true), Malformed::Ipv4TotalLength),
        (v4((2, 1), true), Malformed::Ipv4TotalLength),
        (v4((3, 51), true), Malformed::InnerLength),
        (v4((9, 17), true), Malformed::InnerProtocol),
    ] {
        assert_eq!(decode(&bytes, psp::NEXT_HEADER_IPV4, 52), Err(reason));
    }
    for (bytes, reason) in [
        (sound_v6[..39].to_vec(), Malformed::Ipv6Truncated),
        (sound_v4[..].to_vec(), Malformed::Ipv6Version),
        (v6((0, 0x40)), Malformed::Ipv6Version),
        (v6((6, 44)), Malformed::Fragment),
        (v6((6, 43)), Malformed::Ipv6Extension),
        (v6((4, 1)), Malformed::Ipv6PayloadLength),
        (v6((5, 31)), Malformed::InnerLength),
        (v6((6, 58)), Malformed::InnerProtocol),
    ] {
        let room = if reason == Malformed::Ipv6Truncated { 52 } else { 72 };
        assert_eq!(decode(&bytes, psp::NEXT_HEADER_IPV6, room), Err(reason));
    }
    // The packet must also not end before the UDP payload does, which may be longer than the frame's rest says.
    for room in [0, 51, 53, u32::MAX] {
        assert_eq!(decode(&sound_v4, psp::NEXT_HEADER_IPV4, room), Err(Malformed::InnerLength));
    }
}

#[test]
fn psp_with_a_virtualisation_cookie() {
    // D-10: crypt offset 3 with VC; flags are S 1, D 0, version 0000, V 1, 1.
    let header = Psp {
        ext_len: 2,
        crypt_offset: psp::CRYPT_OFFSET_VC,
        version: psp::VERSION_AES_GCM_128,
        has_vc: true,
        sample: true,
        vc: 0x8877_6655_4433_2211,
        ..Psp::plaintext(Spi(1), Picoseconds(2))
    };
    let bytes = hex("fc 02 03 83 00000001 00000000 00000002 88776655 44332211");
    let mut out = dirty();
    header.encode_with_vc(&mut out);
    assert_eq!(out[..], bytes);
    assert_eq!(Psp::decode(&mut SliceCursor::new(&bytes)), Ok(header));
}

#[test]
fn base_header() {
    // F-7.2-2..13: byte 0 is version 0001 and reserved 0000, byte 7 is protocol 010, type 0101, AR 1.
    let bytes = hex(&format!("1000000a 0102034b {BASE_WORDS_2_TO_5}"));
    let mut out = dirty();
    base(PacketType::PushData, true).encode(&mut out);
    assert_eq!(out[..], bytes);
}

#[test]
fn pull_request() {
    // F-7.2-1, F-7.3-2, F-7.3-4, D-01
    let header = PullRequest { base: base(PacketType::PullRequest, false), request_length: 0x0410 };
    let mut bytes = hex(&format!("1000000a 01020340 {BASE_WORDS_2_TO_5} 0000 0410 00000000"));
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    bytes.extend([0xee; 28]); // the ULP header
    assert_eq!(decode(&bytes, 32), Ok(FalconHeader::PullRequest(header)));
}

#[test]
fn pull_data() {
    // F-7.2-1, F-7.4-1, D-03
    let header = PullData { base: base(PacketType::PullData, false) };
    let mut bytes = hex(&format!("1000000a 01020346 {BASE_WORDS_2_TO_5}"));
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    bytes.extend([0xee; 16]);
    assert_eq!(decode(&bytes, 24), Ok(FalconHeader::PullData(header)));
}

#[test]
fn push_data() {
    // F-7.2-1, F-7.5-1, F-7.5-2, D-02, D-16
    let header = PushData { base: base(PacketType::PushData, true), request_length: 0x20 };
    let mut bytes = hex(&format!("1000000a 0102034b {BASE_WORDS_2_TO_5} 0000 0020"));
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    bytes.extend([0xee; 0x20]);
    assert_eq!(decode(&bytes, 28), Ok(FalconHeader::PushData(header)));
    bytes.push(0xee);
    assert_eq!(decode(&bytes, 28), Err(Malformed::FalconLength));
    bytes.truncate(28 + 0x1f);
    assert_eq!(decode(&bytes, 28), Err(Malformed::FalconLength));
}

#[test]
fn resync() {
    // F-7.2-1, F-7.6-1, F-7.6-5, D-04
    let header = Resync {
        base: base(PacketType::Resync, false),
        code: ResyncCode::RETRANSMISSION_EXHAUSTED,
        packet_type: PacketType::PushData,
        vendor: 0xdead_beef,
    };
    let mut bytes = hex(&format!("1000000a 0102034c {BASE_WORDS_2_TO_5} 03 50 0000 deadbeef"));
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    assert_eq!(decode(&bytes, 32), Ok(FalconHeader::Resync(header)));
    assert!(!header.in_request_window());
    // D-24: a Resync of a Pull Request belongs to the request window. A Resync of an acknowledgement is malformed.
    bytes[25] = 0x00;
    let Ok(FalconHeader::Resync(of_request)) = decode(&bytes, 32) else { panic!("a Resync") };
    assert!(of_request.in_request_window());
    bytes[25] = 0x80;
    assert_eq!(decode(&bytes, 32), Err(Malformed::ResyncPacketType));
}

fn ack_header() -> AckHeader {
    AckHeader {
        dest_cid: Cid(0xfe_dcba),
        data_base_psn: Psn(0x1111_1111),
        request_base_psn: Psn(0x2222_2222),
        t1: FalconTime(0x3333_3333),
        t2: FalconTime(0x4444_4444),
        cc: CongestionInfo { forward_hops: 3, rx_buffer_level: 17, ecn_count: 0x1234, rue: 0x2a_bcde },
        own_request: true,
        own_data: false,
    }
}

#[test]
fn back() {
    // F-7.2-8, F-7.7.1-1..6, F-9.1.3.1-3 (AR is 0), D-05, D-06. Word 6: 3 << 28 | 17 << 23 | 0x1234 << 9. Word 7: RUE << 2 | 1.
    let header = ack_header();
    let mut bytes = hex("10fedcba 00000012 11111111 22222222 33333333 44444444 38a46800 00aaf379");
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    assert_eq!(decode(&bytes, 32), Ok(FalconHeader::Ack(Ack::Back(header))));
    assert_eq!(header.cc_metadata(), 0x00aa_f379); // D-07
    bytes.push(0);
    assert_eq!(decode(&bytes, 32), Err(Malformed::FalconLength));
}

#[test]
fn eack() {
    // F-7.2-8, F-7.7.2-1..4, F-9.1.3.1-3, D-08: received 301..303 but not 300 makes word 15 0x0000000e.
    let header = Eack {
        header: AckHeader {
            cc: CongestionInfo::default(),
            own_request: false,
            own_data: true,
            data_base_psn: Psn(300),
            ..ack_header()
        },
        data_ack: [0, 1 << 63],
        data_received: [0b1110, 0],
        request: 1 << 63 | 1,
    };
    let bytes = hex("10fedcba 00000014 0000012c 22222222 33333333 44444444 00000000 00000002
         80000000 00000000 00000000 00000000
         00000000 00000000 00000000 0000000e
         80000000 00000001");
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    assert_eq!(decode(&bytes, 72), Ok(FalconHeader::Ack(Ack::Eack(header))));
}

#[test]
fn nack() {
    // F-7.2-8, F-7.8-1..4, F-7.8-6..7, F-9.1.3.1-3, D-05: all 24 bits of RUE, no OWN. Byte 37: RNR code 14, byte 38: W.
    let h = ack_header();
    let header = Nack {
        dest_cid: h.dest_cid,
        data_base_psn: h.data_base_psn,
        request_base_psn: h.request_base_psn,
        t1: h.t1,
        t2: h.t2,
        cc: CongestionInfo { rue: 0xab_cdef, ..h.cc },
        psn: Psn(0x5555_5555),
        code: NackCode::RNR,
        rnr_timeout_code: 14,
        request_window: true,
        ulp_code: 0x5a,
    };
    let bytes = hex("10fedcba 00000010 11111111 22222222 33333333 44444444 38a46800 00abcdef
         55555555 02 0e 80 5a");
    let mut out = dirty();
    header.encode(&mut out);
    assert_eq!(out[..], bytes);
    assert_eq!(decode(&bytes, 40), Ok(FalconHeader::Nack(header)));
}

#[test]
fn rnr_timeouts() {
    // F-7.8-9..12: from code 2 on, two interleaved geometric sequences, each of which doubles.
    assert_eq!(RNR_TIMEOUT_NANOS[..4], [655_360_000, 10_000, 20_000, 30_000]);
    for code in 4..32 {
        assert_eq!(RNR_TIMEOUT_NANOS[code], 2 * RNR_TIMEOUT_NANOS[code - 2], "code {code}");
    }
    assert_eq!(RNR_TIMEOUT_NANOS[31], 491_520_000);
    assert_eq!(rnr_timeout(0), Ticks(5_000_000)); // 655.36 ms / 131.072 ns
    assert_eq!(rnr_timeout(1), Ticks(76));
    assert_eq!(rnr_timeout(32 | 1), rnr_timeout(1)); // the upper bits are reserved
}

#[test]
fn reserved_types_and_versions_are_refused() {
    // D-09, F-7.2-2, F-7.2-6, F-7.2-7
    let mut good = [0; 32];
    PullRequest { base: base(PacketType::PullRequest, false), request_length: 9 }.encode(&mut good);
    for version in (0..16).filter(|v| *v != 1) {
        let mut bytes = good;
        bytes[0] = version << 4;
        assert_eq!(decode(&bytes, 32), Err(Malformed::FalconVersion));
    }
    for reserved in [1, 2, 4, 7, 11, 12, 13, 14, 15] {
        let mut bytes = good;
        bytes[7] = 2 << 5 | reserved << 1;
        assert_eq!(decode(&bytes, 32), Err(Malformed::FalconPacketType));
    }
    for reserved in [0, 1, 4, 5, 6, 7] {
        for packet_type in [PacketType::PullRequest, PacketType::PullData, PacketType::PushData] {
            let mut bytes = good;
            bytes[7] = reserved << 5 | (packet_type as u8) << 1;
            assert_eq!(decode(&bytes, 32), Err(Malformed::FalconProtocol));
        }
        // D-09: ignored in a Resync.
        let mut bytes = good;
        bytes[7] = reserved << 5 | (PacketType::Resync as u8) << 1;
        assert!(decode(&bytes, 32).is_ok());
    }
}

#[test]
fn rdma_write_with_immediate() {
    // D-84: SE set, P_Key 0xffff, QP 10, segment 2, RETH, immediate, three bytes of data without padding.
    let bytes = hex("0b 80 ffff 00 00000a 00 000002  0000000000001000 00000007 00000003  cafef00d  aabbcc");
    let mut out: Vec<u8> = Vec::new();
    let mut bth = dirty();
    Bth { solicited: true, ..Bth::new(Opcode::WRITE_ONLY_IMMEDIATE, 10, 2) }.encode(&mut bth);
    let reth = Reth { address: 0x1000, rkey: RKey(7), length: 3 };
    let mut reth_bytes = dirty();
    reth.encode(&mut reth_bytes);
    out.extend(bth);
    out.extend(reth_bytes);
    out.extend(0xcafe_f00d_u32.to_be_bytes());
    out.extend([0xaa, 0xbb, 0xcc]);
    assert_eq!(out, bytes);
    let push = rdma::decode_push(&mut SliceCursor::new(&bytes), bytes.len());
    assert_eq!(push, Ok((RdmaPush::Write { reth, immediate: Some(0xcafe_f00d) }, 32)));
    let short = rdma::decode_push(&mut SliceCursor::new(&bytes), bytes.len() - 1);
    assert_eq!(short, Err(rdma::RdmaError::Length));
}

#[test]
fn rdma_send() {
    let only = hex("04 00 ffff 00000001 00000000 61");
    let push = rdma::decode_push(&mut SliceCursor::new(&only), only.len());
    assert_eq!(push, Ok((RdmaPush::Send { position: Position::Only, immediate: None }, 12)));
    let last = hex("03 00 ffff 00000001 00000000 00000009 61");
    let push = rdma::decode_push(&mut SliceCursor::new(&last), last.len());
    assert_eq!(push, Ok((RdmaPush::Send { position: Position::Last, immediate: Some(9) }, 16)));
}

#[test]
fn rdma_read() {
    // D-84: Request Length = 16 + length.
    let request = hex("0c 00 ffff 00000001 00000000  0000000000000005 00000001 00000400");
    let reth = Reth { address: 5, rkey: RKey(1), length: 1024 };
    let pull = |request_length| rdma::decode_pull(&mut SliceCursor::new(&request), 28, request_length);
    assert_eq!(pull(1040), Ok(RdmaPull::Read { reth }));
    assert_eq!(pull(1039), Err(rdma::RdmaError::Length));
    let response = hex("10 00 ffff 00000001 00000000  00 000003");
    let read = rdma::decode_response(&mut SliceCursor::new(&response), 1040);
    assert_eq!(read, Ok((RdmaResponse::Read, 16)));
    let mut aeth = dirty();
    Aeth { syndrome: Aeth::SUCCESS, msn: 3 }.encode(&mut aeth);
    assert_eq!(aeth[..], response[12..]);
}

#[test]
fn rdma_atomics() {
    // D-84: Request Length = 24, addresses are multiples of 8.
    let atomic = AtomicEth { address: 8, rkey: RKey(1), swap_or_add: 0x0102_0304_0506_0708, compare: 9 };
    let mut request = hex("13 00 ffff 00000001 00000000
         0000000000000008 00000001 0102030405060708 0000000000000009");
    let mut out = dirty();
    atomic.encode(&mut out);
    assert_eq!(out[..], request[12..]);
    let pull = |bytes: &[u8], length| rdma::decode_pull(&mut SliceCursor::new(bytes), bytes.len(), length);
    assert_eq!(pull(&request, 24), Ok(RdmaPull::CompareSwap { atomic }));
    assert_eq!(pull(&request, 23), Err(rdma::RdmaError::Length));
    request[0] = Opcode::FETCH_ADD.0;
    assert_eq!(pull(&request, 24), Ok(RdmaPull::FetchAdd { atomic }));
    request[19] = 4;
    assert_eq!(pull(&request, 24), Err(rdma::RdmaError::Alignment));
    let response = hex("12 00 ffff 00000001 00000000  00 000001  1122334455667788");
    let answer = rdma::decode_response(&mut SliceCursor::new(&response), response.len());
    assert_eq!(answer, Ok((RdmaResponse::Atomic { original: 0x1122_3344_5566_7788 }, 24)));
}

#[test]
fn rdma_failed_pull() {
    // D-84: only BTH and AETH, syndrome 0x60 plus the code.
    for code in [UlpCode::INVALID_REQUEST, UlpCode::ACCESS, UlpCode::OPERATIONAL] {
        for op in [Opcode::READ_RESPONSE_ONLY, Opcode::ATOMIC_ACKNOWLEDGE] {
            let mut response = hex("10 00 ffff 00000001 00000000  60 000001");
            response[0] = op.0;
            response[12] += code.0;
            let answer = |len| rdma::decode_response(&mut SliceCursor::new(&response), len);
            assert_eq!(answer(16), Ok((RdmaResponse::Failed { code }, 16)));
            assert_eq!(answer(17), Err(rdma::RdmaError::Length));
        }
    }
    let strange = hex("10 00 ffff 00000001 00000000  20 000001");
    let answer = rdma::decode_response(&mut SliceCursor::new(&strange), 16);
    assert_eq!(answer, Err(rdma::RdmaError::Syndrome));
}

#[test]
fn rdma_opcodes_belong_to_one_falcon_packet_type_each() {
    // D-84: exactly these opcodes; pad count and transport version are 0.
    let mut by_type = [Vec::new(), Vec::new(), Vec::new()];
    for code in 0..=255u8 {
        let mut bytes = [0; 64];
        Bth::new(Opcode(code), 1, 0).encode(bytes.first_chunk_mut().unwrap());
        let push = rdma::decode_push(&mut SliceCursor::new(&bytes), 64).err();
        let pull = rdma::decode_pull(&mut SliceCursor::new(&bytes), 64, 0).err();
        let response = rdma::decode_response(&mut SliceCursor::new(&bytes), 64).err();
        for (codes, error) in by_type.iter_mut().zip([push, pull, response]) {
            if error != Some(rdma::RdmaError::Opcode) {
                codes.push(code);
            }
        }
    }
    assert_eq!(by_type[0], [0, 1, 2, 3, 4, 5, 0x0a, 0x0b]);
    assert_eq!(by_type[1], [0x0c, 0x13, 0x14]);
    assert_eq!(by_type[2], [0x10, 0x12]);
    let padded = hex("04 10 ffff 00000001 00000000");
    assert_eq!(Bth::decode(&mut SliceCursor::new(&padded)), Err(rdma::RdmaError::Length));
    let other_version = hex("04 01 ffff 00000001 00000000");
    assert_eq!(Bth::decode(&mut SliceCursor::new(&other_version)), Err(rdma::RdmaError::Version));
}
