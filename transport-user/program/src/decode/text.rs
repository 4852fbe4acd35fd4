//! Texts for the numbers on the wire.

use std::fmt::Write;
use transport_common::ids::Psn;
use transport_common::ulp::UlpCode;
use transport_common::ulp::rdma::Opcode;
use transport_common::units::{FalconTime, Picoseconds};
use transport_common::wire::nack::NackCode;
use transport_common::wire::resync::ResyncCode;
use transport_common::wire::{Malformed, PacketType, ProtocolType, ethernet, psp, udp};

/// Picoseconds in a second.
const PS_PER_SECOND: u64 = 1_000_000_000_000;
/// Picoseconds in a tick (D-12).
const PS_PER_TICK: u64 = 1 << 17;

/// Returns "1 byte", "2 bytes" and so on.
pub(super) fn bytes(count: usize) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

pub(super) fn mac(address: [u8; 6]) -> String {
    let octets: Vec<String> = address.iter().map(|b| format!("{b:02x}")).collect();
    octets.join(":")
}

/// Returns picoseconds as seconds with all digits.
pub(super) fn picoseconds(time: Picoseconds) -> String {
    let ps = time.0;
    format!("{}.{:012} s", ps / PS_PER_SECOND, ps % PS_PER_SECOND)
}

/// Returns ticks of 131.072 ns as seconds.
pub(super) fn falcon_time(time: FalconTime) -> String {
    let nanos = u64::from(time.0) * PS_PER_TICK / 1000;
    format!("{} ticks = {}.{:09} s", time.0, nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// Returns the PSNs whose bits are set as ranges, such as "300-302, 305". Bit n stands for base + n (D-08).
pub(super) fn psns(base: Psn, bitmap: &[u64]) -> String {
    let is_set = |n: u32| bitmap[(n / 64) as usize] >> (n % 64) & 1 == 1;
    let bits = bitmap.len() as u32 * 64;
    let mut out = String::new();
    let mut n = 0;
    while n < bits {
        if !is_set(n) {
            n += 1;
            continue;
        }
        let first = n;
        while n < bits && is_set(n) {
            n += 1;
        }
        let separator = if out.is_empty() { "" } else { ", " };
        let (from, to) = (base.add(first).0, base.add(n - 1).0);
        // Writing to a String cannot fail.
        let _ =
            if from == to { write!(out, "{separator}{from}") } else { write!(out, "{separator}{from}-{to}") };
    }
    if out.is_empty() { "none".into() } else { out }
}

pub(super) fn ethertype(value: u16) -> &'static str {
    match value {
        ethernet::ETHERTYPE_IPV4 => "IPv4",
        ethernet::ETHERTYPE_IPV6 => "IPv6",
        ethernet::TPID_8021Q => "802.1Q",
        0x0806 => "ARP",
        _ => "unknown",
    }
}

pub(super) fn ip_protocol(value: u8) -> &'static str {
    match value {
        udp::IP_PROTOCOL_UDP => "UDP",
        1 => "ICMP",
        6 => "TCP",
        58 => "ICMPv6",
        psp::NEXT_HEADER_IPV4 => "IPv4",
        psp::NEXT_HEADER_IPV6 => "IPv6",
        psp::NEXT_HEADER_FALCON => "Falcon",
        _ => "unknown",
    }
}

pub(super) fn ecn(dscp_ecn: u8) -> &'static str {
    match dscp_ecn & 3 {
        0 => "not ECN-capable",
        1 => "ECT(1)",
        2 => "ECT(0)",
        _ => "congestion experienced",
    }
}

pub(super) fn psp_version(version: u8) -> &'static str {
    match version {
        psp::VERSION_AES_GCM_128 => "AES-GCM-128",
        psp::VERSION_AES_GCM_256 => "AES-GCM-256",
        psp::PLAINTEXT_VERSION => "plaintext lab mode",
        _ => "reserved",
    }
}

pub(super) fn packet_type(packet_type: PacketType) -> &'static str {
    match packet_type {
        PacketType::PullRequest => "Pull Request",
        PacketType::PullData => "Pull Data",
        PacketType::PushData => "Push Data",
        PacketType::Resync => "Resync",
        PacketType::Nack => "NACK",
        PacketType::Back => "BACK",
        PacketType::Eack => "EACK",
    }
}

pub(super) fn protocol(bits: u8) -> &'static str {
    match ProtocolType::from_wire(bits) {
        Some(ProtocolType::Rdma) => "RDMA",
        Some(ProtocolType::Nvme) => "NVMe",
        None => "reserved",
    }
}

pub(super) fn resync_code(code: ResyncCode) -> &'static str {
    match code {
        ResyncCode::TARGET_ULP_COMPLETE_IN_ERROR => "target ULP completed in error",
        ResyncCode::LOCAL_XLR => "local xLR",
        ResyncCode::RETRANSMISSION_EXHAUSTED => "retransmission exhausted",
        ResyncCode::TRANSACTION_TIMED_OUT => "transaction timed out",
        ResyncCode::REMOTE_XLR => "remote xLR",
        ResyncCode::TARGET_ULP_NON_RECOVERABLE => "target ULP non-recoverable error",
        ResyncCode::TARGET_ULP_INVALID_CID => "target ULP invalid CID",
        _ => "reserved",
    }
}

pub(super) fn nack_code(code: NackCode) -> &'static str {
    match code {
        NackCode::INSUFFICIENT_RESOURCES => "insufficient receiver resources",
        NackCode::RNR => "receiver not ready",
        NackCode::XLR_DROP => "xLR drop",
        NackCode::COMPLETE_IN_ERROR => "ULP completed in error",
        NackCode::NON_RECOVERABLE => "ULP non-recoverable error",
        NackCode::INVALID_CID => "invalid CID",
        _ => "reserved",
    }
}

pub(super) fn ulp_code(code: UlpCode) -> &'static str {
    match code {
        UlpCode::NONE => "none",
        UlpCode::INVALID_REQUEST => "invalid request",
        UlpCode::ACCESS => "access error",
        UlpCode::OPERATIONAL => "operational error",
        _ => "unknown",
    }
}

pub(super) fn rdma_opcode(code: Opcode) -> &'static str {
    match code {
        Opcode::SEND_FIRST => "SEND First",
        Opcode::SEND_MIDDLE => "SEND Middle",
        Opcode::SEND_LAST => "SEND Last",
        Opcode::SEND_LAST_IMMEDIATE => "SEND Last with immediate",
        Opcode::SEND_ONLY => "SEND Only",
        Opcode::SEND_ONLY_IMMEDIATE => "SEND Only with immediate",
        Opcode::WRITE_ONLY => "RDMA WRITE Only",
        Opcode::WRITE_ONLY_IMMEDIATE => "RDMA WRITE Only with immediate",
        Opcode::READ_REQUEST => "RDMA READ Request",
        Opcode::READ_RESPONSE_ONLY => "RDMA READ response Only",
        Opcode::ATOMIC_ACKNOWLEDGE => "Atomic Acknowledge",
        Opcode::COMPARE_SWAP => "Compare and Swap",
        Opcode::FETCH_ADD => "Fetch and Add",
        _ => "not used on Falcon",
    }
}

/// Returns the text of a reason.
pub(super) fn malformed(reason: Malformed) -> &'static str {
    match reason {
        Malformed::EthernetTruncated => "the frame ends within the Ethernet header",
        Malformed::Ipv4Truncated => "the frame ends within the IPv4 header",
        Malformed::Ipv4Version => "the EtherType says IPv4, the version field does not",
        Malformed::Ipv4HeaderLength => "the header length is below 20 bytes",
        Malformed::Ipv4Options => "IPv4 options are not accepted",
        Malformed::Ipv4Checksum => "the header checksum is wrong",
        Malformed::Ipv4TotalLength => "the total length is below the header length or exceeds the frame",
        Malformed::Fragment => "fragments are not accepted",
        Malformed::Ipv6Truncated => "the frame ends within the IPv6 header",
        Malformed::Ipv6Version => "the EtherType says IPv6, the version field does not",
        Malformed::Ipv6PayloadLength => "the payload length exceeds the frame",
        Malformed::Ipv6Extension => "IPv6 extension headers are not accepted",
        Malformed::UdpTruncated => "the IP payload ends within the UDP header",
        Malformed::UdpLength => "the UDP length is below 8 or exceeds the IP payload",
        Malformed::PspTruncated => "the datagram ends within the PSP header",
        Malformed::PspNextHeader => {
            "the next header is neither Falcon (252) nor an inner IPv4 (4) or IPv6 (41) packet"
        }
        Malformed::PspExtLength => "the header extension length contradicts the V bit",
        Malformed::PspCryptOffset => {
            "the crypt offset does not leave exactly the inner IP header, if there is one, and the first Falcon word in clear"
        }
        Malformed::PspVersion => "the version is not AES-GCM-128 (0), AES-GCM-256 (1) or plaintext (15)",
        Malformed::InnerProtocol => "the inner IP header's protocol is not 252, Falcon",
        Malformed::InnerLength => "the inner packet does not end where the UDP payload ends",
        Malformed::PspTrailingBit => "the last bit of the first word, always 1, is 0",
        Malformed::FalconTruncated => "the Falcon packet is shorter than the header of its type",
        Malformed::FalconVersion => "the Falcon version is not 1",
        Malformed::FalconPacketType => "the packet type is reserved",
        Malformed::FalconProtocol => "the protocol type is reserved",
        Malformed::FalconLength => "the length of the packet does not match its header or its type",
        Malformed::ResyncPacketType => "the replaced packet type is not Pull Request, Pull Data or Push Data",
        Malformed::RdmaTruncated => "the payload ends within the headers of the RDMA operation",
        Malformed::RdmaVersion => "the BTH transport version is not 0",
        Malformed::RdmaOpcode => "this Falcon packet type cannot carry the opcode",
        Malformed::RdmaLength => "the lengths do not match, or a pad count is set",
        Malformed::RdmaAlignment => "the address of an atomic is not a multiple of 8",
        Malformed::RdmaSyndrome => "the AETH syndrome is neither success nor an error code",
    }
}
