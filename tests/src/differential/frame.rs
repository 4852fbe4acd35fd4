//! Frames as bytes: where the headers are, and sums made right again after bytes were changed.

use transport_common::wire::udp;

const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
const PSP: usize = 16;

/// Where the headers of a Falcon frame begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) ip: usize,
    pub(super) udp: usize,
    pub(super) psp: usize,
    pub(super) falcon: usize,
    pub(super) v6: bool,
}

impl Places {
    /// Of a frame that is long enough to have them.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let tagged = frame.get(12..14)? == [0x81, 0];
        let ip = if tagged { ETHERNET + TAG } else { ETHERNET };
        let v6 = frame.get(ip)? >> 4 == 6;
        let udp = ip + if v6 { IPV6 } else { IPV4 };
        let falcon = udp + UDP + PSP;
        (frame.len() >= falcon + 8).then_some(Self { ip, udp, psp: udp + UDP, falcon, v6 })
    }
}

/// A 32-bit field.
pub(super) fn word(frame: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

/// Changes a 32-bit field.
pub(super) fn put_word(frame: &mut [u8], at: usize, value: u32) {
    if let Some(bytes) = frame.get_mut(at..at + 4) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
}

/// Packet type as on the wire.
pub(super) fn packet_type(frame: &[u8], places: &Places) -> u8 {
    frame[places.falcon + 7] >> 1 & 0xf
}

/// Makes the lengths of IP and UDP fit the frame.
pub(super) fn fit_lengths(frame: &mut [u8]) {
    let Some(places) = Places::of(frame) else { return };
    let udp = (frame.len() - places.udp) as u16;
    let (at, length) = if places.v6 { (places.ip + 4, udp) } else { (places.ip + 2, udp + IPV4 as u16) };
    frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
    frame[places.udp + 4..places.udp + 6].copy_from_slice(&udp.to_be_bytes());
}

/// Makes the checksums of IPv4 and, unless it is absent, UDP right.
pub(super) fn fit_checksums(frame: &mut [u8]) {
    let Some(places) = Places::of(frame) else { return };
    let Places { ip, udp: at, v6, .. } = places;
    if !v6 {
        frame[ip + 10..ip + 12].copy_from_slice(&[0, 0]);
        let sum = !udp::fold(udp::sum_bytes(&frame[ip..at]));
        frame[ip + 10..ip + 12].copy_from_slice(&sum.to_be_bytes());
    }
    if frame[at + 6..at + 8] == [0, 0] {
        return;
    }
    frame[at + 6..at + 8].copy_from_slice(&[0, 0]);
    let addresses = if v6 { &frame[ip + 8..at] } else { &frame[ip + 12..at] };
    let length = u16::from_be_bytes([frame[at + 4], frame[at + 5]]);
    let end = frame.len().min(at + usize::from(length));
    let pseudo = udp::sum_bytes(addresses) + u64::from(udp::IP_PROTOCOL_UDP) + u64::from(length);
    let sum = udp::transmit_checksum(pseudo + udp::sum_bytes(&frame[at..end.max(at)]));
    frame[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
}
