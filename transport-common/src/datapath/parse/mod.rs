//! Parses a frame into a [`Packet`](crate::wire::packet::Packet): all checks that need no connection (D-23 step 1).
//!
//! In two stages, with the opening of the packet between them: [`outer`] reads what anybody on the way may read and change,
//! `open` makes an [`Opened`](open::Opened) of it, and only with that [`inner`] reads the rest. So no
//! header that a cipher protects is read before it is authentic.

mod inner;
mod open;
mod outer;

use super::{Platform, Scratch};
use crate::counters::Counter;
use crate::wire::Malformed;
use crate::wire::cursor::Bytes;
use open::{Opener, Plaintext};

/// Result of parsing a frame.
enum Parsed {
    /// A Falcon packet, now in the scratch.
    Falcon,
    /// Not a packet for us.
    Pass(Counter),
    /// A packet for us that is unusable.
    Drop(Counter),
}

/// Returns the counter of a malformed header.
#[inline(always)]
const fn counter_of(malformed: Malformed) -> Counter {
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

const CONGESTION_EXPERIENCED: u8 = 3;

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

/// Parses the frame into `s.step.input.packet`. Returns a [`Parsed`] in one word, because a function of the BPF
/// target returns no more.
#[inline(never)]
pub(super) fn parse<P: Platform>(p: &mut P, s: &mut Scratch) -> u32 {
    match parse_frame(p, s) {
        Parsed::Falcon => FALCON,
        Parsed::Pass(counter) => PASS | counter as u32,
        Parsed::Drop(counter) => DROP | counter as u32,
    }
}

/// Result of [`parse`]: a Falcon packet, now in the scratch.
pub(super) const FALCON: u32 = 0;
/// Result of [`parse`]: not a packet for us. The lower bits hold the counter.
pub(super) const PASS: u32 = 1 << 16;
/// Result of [`parse`]: a packet for us that is unusable. The lower bits hold the counter.
pub(super) const DROP: u32 = 2 << 16;

/// Each stage takes what comes after it as a function, and does not return what it found: merged with every way to fail, that
/// would cost 60 instructions for each packet.
#[inline(always)]
fn parse_frame<P: Platform>(p: &mut P, s: &mut Scratch) -> Parsed {
    let mut cursor = p.cursor();
    outer::read(p, s, &mut cursor, |s, cursor, sealed| {
        Plaintext.open(sealed, |opened| inner::read(s, cursor, opened))
    })
}
