//! What the stages of parsing have in common.

use crate::counters::Counter;
use crate::wire::Malformed;
use crate::wire::cursor::Bytes;

/// Result of parsing a frame.
pub(super) enum Parsed {
    /// A Falcon packet, now in the scratch.
    Falcon,
    /// Not a packet for us.
    Pass(Counter),
    /// A packet for us that is unusable.
    Drop(Counter),
}

/// Returns the counter of a malformed header.
#[inline(always)]
pub(super) const fn counter_of(malformed: Malformed) -> Counter {
    match malformed {
        Malformed::EthernetTruncated => Counter::DropEthernetTruncated,
        Malformed::Ipv4Checksum => Counter::DropIpv4Checksum,
        Malformed::Ipv4Truncated
        | Malformed::Ipv4Version
        | Malformed::Ipv4HeaderLength
        | Malformed::Ipv4TotalLength => Counter::DropIpv4Header,
        Malformed::Ipv4Options | Malformed::Ipv6Extension => Counter::DropIpOptions,
        Malformed::Fragment => Counter::DropFragment,
        Malformed::Ipv6Truncated | Malformed::Ipv6Version | Malformed::Ipv6PayloadLength => {
            Counter::DropIpv6Header
        }
        Malformed::UdpTruncated | Malformed::UdpLength => Counter::DropUdpLength,
        Malformed::InnerProtocol | Malformed::InnerLength => Counter::DropInnerHeader,
        Malformed::FalconVersion => Counter::DropFalconVersion,
        Malformed::FalconPacketType | Malformed::FalconProtocol | Malformed::ResyncPacketType => {
            Counter::DropFalconType
        }
        Malformed::FalconTruncated | Malformed::FalconLength => Counter::DropFalconLength,
        _ => Counter::DropPspHeader,
    }
}

pub(super) const CONGESTION_EXPERIENCED: u8 = 3;

/// Returns a MAC address as an integer. Its first byte is the lowest.
#[inline(always)]
pub const fn mac_word(mac: &[u8; 6]) -> u64 {
    let low = u32::from_le_bytes([mac[0], mac[1], mac[2], mac[3]]) as u64;
    low | (u16::from_le_bytes([mac[4], mac[5]]) as u64) << 32
}

/// Returns an IPv6 address as integers of its bytes in memory order.
#[inline(always)]
pub fn words(a: &[u8; 16]) -> [u64; 2] {
    [u64::from_ne_bytes(a.array::<0, 8>()), u64::from_ne_bytes(a.array::<8, 8>())]
}
