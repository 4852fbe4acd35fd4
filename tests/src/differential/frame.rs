//! Frames as bytes: the offsets of the headers, and the correction of checksums after bytes were changed.

use transport_common::wire::checksum::{checksum, sum_bytes, sum_length, transmit_checksum};
use transport_common::wire::ethernet::Ethernet;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::{NEXT_HEADER_IPV4, NEXT_HEADER_IPV6, Psp};
use transport_common::wire::udp::{IP_PROTOCOL_UDP, Udp};

/// The offsets of the headers of a Falcon frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) ip: usize,
    pub(super) udp: usize,
    pub(super) psp: usize,
    /// The inner IP header in tunnel mode (F-7.1.2-1), otherwise the Falcon header.
    pub(super) inner: usize,
    pub(super) falcon: usize,
    pub(super) v6: bool,
}

impl Places {
    /// Finds the headers of a frame that is long enough to have them.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let tagged = frame.get(12..14)? == [0x81, 0];
        let ip = if tagged { Ethernet::TAGGED_LEN } else { Ethernet::LEN };
        let v6 = frame.get(ip)? >> 4 == 6;
        let udp = ip + if v6 { Ipv6::LEN } else { Ipv4::LEN };
        let (psp, inner) = (udp + Udp::LEN, udp + Udp::LEN + Psp::LEN);
        let falcon = match *frame.get(psp)? {
            NEXT_HEADER_IPV4 => inner + Ipv4::LEN,
            NEXT_HEADER_IPV6 => inner + Ipv6::LEN,
            _ => inner,
        };
        (frame.len() >= falcon + 8).then_some(Self { ip, udp, psp, inner, falcon, v6 })
    }
}

/// Returns a 32-bit field.
pub(super) fn word(frame: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

/// Changes a 32-bit field.
pub(super) fn put_word(frame: &mut [u8], at: usize, value: u32) {
    if let Some(bytes) = frame.get_mut(at..at + 4) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
}

/// Returns the packet type as on the wire.
pub(super) fn packet_type(frame: &[u8], places: &Places) -> u8 {
    frame[places.falcon + 7] >> 1 & 0xf
}

/// Sets the lengths of IP, of UDP and of the inner IP header to those of the frame.
pub(super) fn fit_lengths(frame: &mut [u8]) {
    let Some(places) = Places::of(frame) else { return };
    let udp = (frame.len() - places.udp) as u16;
    let (at, length) = if places.v6 { (places.ip + 4, udp) } else { (places.ip + 2, udp + Ipv4::LEN as u16) };
    frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
    frame[places.udp + 4..places.udp + 6].copy_from_slice(&udp.to_be_bytes());
    let inner = frame.len() - places.inner;
    let (at, length) = match places.falcon - places.inner {
        Ipv4::LEN => (places.inner + 2, inner),
        Ipv6::LEN => (places.inner + 4, inner - Ipv6::LEN),
        _ => return,
    };
    frame[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
}

/// Corrects the checksums of IPv4, also of an inner header, and, unless it is absent, of UDP.
pub(super) fn fit_checksums(frame: &mut [u8]) {
    let Some(places) = Places::of(frame) else { return };
    let Places { ip, udp: at, inner, falcon, v6, .. } = places;
    if falcon - inner == Ipv4::LEN {
        fit_ipv4(&mut frame[inner..falcon]);
    }
    if !v6 {
        fit_ipv4(&mut frame[ip..at]);
    }
    if frame[at + 6..at + 8] == [0, 0] {
        return;
    }
    frame[at + 6..at + 8].copy_from_slice(&[0, 0]);
    let addresses = if v6 { &frame[ip + 8..at] } else { &frame[ip + 12..at] };
    let length = u16::from_be_bytes([frame[at + 4], frame[at + 5]]);
    let end = frame.len().min(at + usize::from(length));
    let pseudo = sum_bytes(addresses) + sum_length(IP_PROTOCOL_UDP.into()) + sum_length(length);
    let sum = transmit_checksum(pseudo + sum_bytes(&frame[at..end.max(at)]));
    frame[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
}

fn fit_ipv4(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = checksum(sum_bytes(header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}
