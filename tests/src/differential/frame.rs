//! Frames as bytes: the offsets of the headers, and the correction of checksums after bytes were changed.

use transport_common::wire::checksum::{checksum, sum_bytes, sum_length, transmit_checksum};
use transport_common::wire::ethernet::Ethernet;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::Psp;
use transport_common::wire::udp::{IP_PROTOCOL_UDP, Udp};

/// The offsets of the headers of a Falcon frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) ip: usize,
    pub(super) udp: usize,
    pub(super) psp: usize,
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
        let falcon = udp + Udp::LEN + Psp::LEN;
        (frame.len() >= falcon + 8).then_some(Self { ip, udp, psp: udp + Udp::LEN, falcon, v6 })
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

/// Sets the lengths of IP and UDP to those of the frame.
pub(super) fn fit_lengths(frame: &mut [u8]) {
    let Some(places) = Places::of(frame) else { return };
    let udp = (frame.len() - places.udp) as u16;
    let (at, length) = if places.v6 { (places.ip + 4, udp) } else { (places.ip + 2, udp + Ipv4::LEN as u16) };
    frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
    frame[places.udp + 4..places.udp + 6].copy_from_slice(&udp.to_be_bytes());
}

/// Corrects the checksums of IPv4 and, unless it is absent, of UDP.
pub(super) fn fit_checksums(frame: &mut [u8]) {
    let Some(places) = Places::of(frame) else { return };
    let Places { ip, udp: at, v6, .. } = places;
    if !v6 {
        frame[ip + 10..ip + 12].copy_from_slice(&[0, 0]);
        let sum = checksum(sum_bytes(&frame[ip..at]));
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
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
