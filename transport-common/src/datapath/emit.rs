//! Builds a frame from [`Outgoing`]: headers in the scratch, data from memory, checksum.

use super::{HEADER_BYTES, Platform, Scratch};
use crate::connection::{INITIAL_HOP_LIMIT, Outgoing, Path};
use crate::counters::Counter;
use crate::ids::{Cid, Psn, Rsn, Spi};
use crate::ulp::Protocol;
use crate::verifier::forget;
use crate::wire::PacketType;
use crate::wire::ack::{AckHeader, CongestionInfo, Eack};
use crate::wire::base::BaseHeader;
use crate::wire::checksum::{pseudo_header_v4, pseudo_header_v6, sum_length, transmit_checksum};
use crate::wire::cursor::Bytes;
use crate::wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, Ethernet};
use crate::wire::field::part_mut;
use crate::wire::ipv4::Ipv4;
use crate::wire::ipv6::Ipv6;
use crate::wire::nack::Nack;
use crate::wire::psp::{NEXT_HEADER_FALCON, Psp};
use crate::wire::pull_data::PullData;
use crate::wire::pull_request::PullRequest;
use crate::wire::push_data::PushData;
use crate::wire::resync::Resync;
use crate::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP, Udp};
use core::mem::offset_of;

/// Offset of the UDP header in the header buffer. Ethernet and IP headers end here, whatever their length.
pub const UDP_AT: usize = 72;
const PSP_AT: usize = UDP_AT + Udp::LEN;
/// Offset of the Falcon header in the header buffer.
pub const FALCON_AT: usize = PSP_AT + Psp::LEN;
/// Offset of the checksum field in the header buffer.
const CHECKSUM_AT: usize = UDP_AT + 6;
/// Length of the longest Falcon and ULP headers: an EACK, or a request with the longest headers of a ULP.
const LONGEST_FALCON: usize = 72;
const _: () = {
    assert!(LONGEST_FALCON >= Eack::LEN);
    assert!(LONGEST_FALCON >= PullRequest::LEN + Protocol::LONGEST_HEADERS);
    assert!(LONGEST_FALCON >= PushData::LEN + Protocol::LONGEST_HEADERS);
};
/// Longest frame that the engine can send: the space in a live frame.
pub const MAX_FRAME_BYTES: u32 = 3408;

/// ECN-capable transport, codepoint ECT(0): switches mark the packet instead of dropping it.
const ECT_0: u8 = 2;

/// Returns `LEN` bytes of the buffer at the constant `AT`.
#[inline(always)]
fn at<const AT: usize, const LEN: usize>(header: &mut [u8; HEADER_BYTES]) -> &mut [u8; LEN] {
    part_mut::<AT, 0, LEN, HEADER_BYTES>(header)
}

/// Builds the frame of `s.step.output.packet`, whose data was found under the lock. Returns false if the frame is too small or the memory is out of
/// bounds.
#[inline(always)]
pub fn build<P: Platform>(p: &mut P, s: &mut Scratch) -> bool {
    s.lengths.falcon = put_falcon(s);
    let data_length = s.step.output.packet.ulp.data_length;
    if data_length > MAX_FRAME_BYTES {
        return false;
    }
    if s.step.output.packet.path.inner_version == 0 {
        put_psp(s);
    } else {
        put_tunnel(s);
    }
    let header_length = forget(&s.lengths.falcon);
    let udp_length = (FALCON_AT - UDP_AT) as u32 + header_length + data_length;
    *at::<UDP_AT, { Udp::LEN }>(&mut s.header) = [0; Udp::LEN];
    let path = &s.step.output.packet.path;
    let udp =
        Udp { src_port: path.source_port, dst_port: FALCON_UDP_PORT, length: udp_length as u16, checksum: 0 };
    udp.encode(at::<UDP_AT, { Udp::LEN }>(&mut s.header));
    if s.step.output.packet.checksum != 0 {
        put_checksum(p, s, udp_length, header_length, data_length);
    }
    s.lengths.network = put_network(&s.step.output.packet.path, udp_length, &mut s.header);
    let network = forget(&s.lengths.network);
    let headers = network + udp_length - data_length;
    let start = UDP_AT as u32 - network;
    p.put_frame(s, start, headers, data_length)
}

#[inline(always)]
fn put_psp(s: &mut Scratch) {
    let psp = Psp::plaintext(Spi(s.step.output.packet.spi), s.step.output.packet.iv);
    psp.encode(at::<PSP_AT, { Psp::LEN }>(&mut s.header));
}

/// Writes the PSP header of a tunnel and the inner IP header, and moves the Falcon header behind it (F-7.1.2-1). What
/// follows counts the inner header as part of the Falcon header.
#[inline(never)]
fn put_tunnel(s: &mut Scratch) {
    let t = &s.step.output.packet;
    let version = t.path.inner_version;
    let psp = Psp::tunnel(version, Spi(t.spi), t.iv);
    let length = s.lengths.falcon + t.ulp.data_length;
    let (source, destination) = (bytes_of(&t.tunnel.local), bytes_of(&t.tunnel.peer));
    psp.encode(at::<PSP_AT, { Psp::LEN }>(&mut s.header));
    if version == 6 {
        move_falcon::<{ Ipv6::LEN }>(s);
        let ip = Ipv6 {
            traffic_class: ECT_0,
            flow_label: 0,
            payload_length: length as u16,
            next_header: NEXT_HEADER_FALCON,
            hop_limit: INITIAL_HOP_LIMIT,
            src: source,
            dst: destination,
        };
        ip.encode(at::<FALCON_AT, { Ipv6::LEN }>(&mut s.header));
        s.lengths.falcon += Ipv6::LEN as u32;
    } else {
        move_falcon::<{ Ipv4::LEN }>(s);
        let ip = Ipv4 {
            dscp_ecn: ECT_0,
            total_length: (length as usize + Ipv4::LEN) as u16,
            identification: 0,
            ttl: INITIAL_HOP_LIMIT,
            protocol: NEXT_HEADER_FALCON,
            src: source.array::<0, 4>(),
            dst: destination.array::<0, 4>(),
        };
        ip.encode(at::<FALCON_AT, { Ipv4::LEN }>(&mut s.header));
        s.lengths.falcon += Ipv4::LEN as u32;
    }
}

/// Returns the bytes of an address from words in memory order.
#[inline(always)]
fn bytes_of(address: &[u64; 2]) -> [u8; 16] {
    bytemuck::cast(*address)
}

/// Moves the longest Falcon and ULP headers by `BY` bytes towards the end of the buffer, one word at a time: the two ranges
/// overlap.
#[inline(always)]
fn move_falcon<const BY: usize>(s: &mut Scratch) {
    const { assert!(BY.is_multiple_of(4) && FALCON_AT + LONGEST_FALCON + BY <= HEADER_BYTES) };
    const { assert!(FALCON_AT.is_multiple_of(4) && offset_of!(Scratch, header).is_multiple_of(4)) };
    let words = s.header.as_mut_ptr().cast::<u32>();
    let mut at = (FALCON_AT + LONGEST_FALCON) / 4;
    while at != FALCON_AT / 4 {
        at -= 1;
        // SAFETY: the assertions above prove that both words are inside the buffer, and aligned.
        unsafe { words.add(at + BY / 4).write_volatile(words.add(at).read_volatile()) };
    }
}

#[inline(always)]
fn put_checksum<P: Platform>(
    p: &mut P,
    s: &mut Scratch,
    udp_length: u32,
    header_length: u32,
    data_length: u32,
) {
    // First, because it may be a call, and what is live then needs the BPF target's stack.
    let headers = (FALCON_AT - UDP_AT) as u32 + header_length;
    let packet = p.sum_packet(s, headers, data_length);
    let path = &s.step.output.packet.path;
    let (source, destination) = (&path.source, &path.destination);
    let pseudo = if path.ip_version == 6 {
        pseudo_header_v6(source, destination)
    } else {
        pseudo_header_v4(&source.array::<0, 4>(), &destination.array::<0, 4>())
    };
    let sum = pseudo + sum_length(udp_length as u16) + packet;
    *at::<CHECKSUM_AT, 2>(&mut s.header) = transmit_checksum(sum).to_be_bytes();
}

/// Writes the Ethernet and IP headers in front of [`UDP_AT`]. Returns their length.
#[inline(always)]
fn put_network(path: &Path, udp_length: u32, header: &mut [u8; HEADER_BYTES]) -> u32 {
    let v6 = path.ip_version == 6;
    let ethertype = if v6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
    let ethernet = Ethernet { dst: path.destination_mac, src: path.source_mac, vlan: None, ethertype };
    let tagged = path.vlan != 0;
    if v6 {
        let ip = Ipv6 {
            traffic_class: ECT_0,
            flow_label: path.flow_label,
            payload_length: udp_length as u16,
            next_header: IP_PROTOCOL_UDP,
            hop_limit: INITIAL_HOP_LIMIT,
            src: path.source,
            dst: path.destination,
        };
        ip.encode(at::<{ UDP_AT - Ipv6::LEN }, { Ipv6::LEN }>(header));
        if tagged {
            ethernet.encode_tagged(path.vlan_tci, at::<{ UDP_AT - Ipv6::LEN - 18 }, 18>(header));
        } else {
            ethernet.encode(at::<{ UDP_AT - Ipv6::LEN - 14 }, 14>(header));
        }
    } else {
        let (source, destination) = (&path.source, &path.destination);
        let ip = Ipv4 {
            dscp_ecn: ECT_0,
            total_length: (udp_length as usize + Ipv4::LEN) as u16,
            identification: 0,
            ttl: INITIAL_HOP_LIMIT,
            protocol: IP_PROTOCOL_UDP,
            src: [source[0], source[1], source[2], source[3]],
            dst: [destination[0], destination[1], destination[2], destination[3]],
        };
        ip.encode(at::<{ UDP_AT - Ipv4::LEN }, { Ipv4::LEN }>(header));
        if tagged {
            ethernet.encode_tagged(path.vlan_tci, at::<{ UDP_AT - Ipv4::LEN - 18 }, 18>(header));
        } else {
            ethernet.encode(at::<{ UDP_AT - Ipv4::LEN - 14 }, 14>(header));
        }
    }
    let link = if tagged { 18 } else { 14 };
    link + if v6 { Ipv6::LEN as u32 } else { Ipv4::LEN as u32 }
}

/// Writes the Falcon header and the ULP headers after it. Returns their length.
#[inline(always)]
fn put_falcon(s: &mut Scratch) -> u32 {
    let t = &s.step.output.packet;
    let header = &mut s.header;
    if t.kind == PacketType::PushData {
        let packet =
            PushData { base: base(t, PacketType::PushData), request_length: t.request_length as u16 };
        packet.encode(at::<FALCON_AT, { PushData::LEN }>(header));
        PushData::LEN as u32
            + t.protocol.encode::<{ FALCON_AT + PushData::LEN }, HEADER_BYTES>(&t.ulp, header)
    } else if t.kind == PacketType::PullRequest {
        let packet =
            PullRequest { base: base(t, PacketType::PullRequest), request_length: t.request_length as u16 };
        packet.encode(at::<FALCON_AT, { PullRequest::LEN }>(header));
        PullRequest::LEN as u32
            + t.protocol.encode::<{ FALCON_AT + PullRequest::LEN }, HEADER_BYTES>(&t.ulp, header)
    } else if t.kind == PacketType::PullData {
        PullData { base: base(t, PacketType::PullData) }.encode(at::<FALCON_AT, { PullData::LEN }>(header));
        PullData::LEN as u32
            + t.protocol.encode::<{ FALCON_AT + PullData::LEN }, HEADER_BYTES>(&t.ulp, header)
    } else if t.kind == PacketType::Resync {
        put_resync(t, header);
        Resync::LEN as u32
    } else {
        put_acknowledgement(t, header)
    }
}

#[inline(always)]
fn base(t: &Outgoing, packet_type: PacketType) -> BaseHeader {
    BaseHeader {
        dest_cid: Cid(t.dest_cid),
        dest_function: t.dest_function,
        protocol: t.protocol.number(),
        packet_type,
        ack_request: t.ack_request != 0,
        data_base_psn: Psn(t.data_base),
        request_base_psn: Psn(t.request_base),
        psn: Psn(t.psn),
        rsn: Rsn(t.rsn),
    }
}

#[inline(always)]
fn put_resync(t: &Outgoing, header: &mut [u8; HEADER_BYTES]) {
    let packet = Resync {
        base: base(t, PacketType::Resync),
        code: t.resync_code,
        packet_type: t.resync_type,
        vendor: 0,
    };
    packet.encode(at::<FALCON_AT, { Resync::LEN }>(header));
}

#[inline(always)]
fn put_acknowledgement(t: &Outgoing, header: &mut [u8; HEADER_BYTES]) -> u32 {
    let cc = CongestionInfo {
        forward_hops: t.forward_hops,
        rx_buffer_level: t.rx_buffer_level,
        ecn_count: t.ecn_count as u16,
        rue: if t.kind == PacketType::Nack { t.cc_metadata } else { t.cc_metadata >> 2 }, // D-07
    };
    let ack = AckHeader {
        dest_cid: Cid(t.dest_cid),
        data_base_psn: Psn(t.data_base),
        request_base_psn: Psn(t.request_base),
        t1: t.t1,
        t2: t.t2,
        cc,
        own_request: t.own_request != 0,
        own_data: t.own_data != 0,
    };
    if t.kind == PacketType::Back {
        ack.encode(at::<FALCON_AT, { AckHeader::LEN }>(header));
        return AckHeader::LEN as u32;
    }
    if t.kind == PacketType::Eack {
        let eack = Eack {
            header: ack,
            data_ack: t.data_acknowledged,
            data_received: t.data_received,
            request: t.request,
        };
        eack.encode(at::<FALCON_AT, { Eack::LEN }>(header));
        return Eack::LEN as u32;
    }
    let nack = Nack {
        dest_cid: ack.dest_cid,
        data_base_psn: ack.data_base_psn,
        request_base_psn: ack.request_base_psn,
        t1: ack.t1,
        t2: ack.t2,
        cc,
        psn: Psn(t.psn),
        code: t.nack_code,
        rnr_timeout_code: t.rnr_timeout_code,
        request_window: t.nack_window != 0,
        ulp_code: t.ulp_code,
    };
    nack.encode(at::<FALCON_AT, { Nack::LEN }>(header));
    Nack::LEN as u32
}

/// Raises the counter of a frame that could not be built.
#[inline(always)]
pub(super) fn fault<P: Platform>(p: &mut P) {
    p.raise(Counter::PlatformFault);
}
