//! Frames of somebody who is no end of a connection. They have seen frames on their way, but have no key and no SPI.

use rand::Rng;
use rand::rngs::StdRng;
use transport_common::wire::checksum::{
    checksum, pseudo_header_v4, pseudo_header_v6, sum_bytes, sum_length, transmit_checksum,
};

const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
const PSP: usize = 16;
/// Offsets in the headers.
const SOURCE_MAC: usize = 6;
const IPV4_CHECKSUM: usize = 10;
const IPV4_SOURCE: usize = 12;
const IPV6_SOURCE: usize = 8;
const UDP_CHECKSUM: usize = 6;
const PSP_SPI: usize = 4;
const PSP_CRYPT_OFFSET: usize = 2;
/// Values of PSP's Next Header, and the protocol of an inner packet (F-7.1.2-1).
const INNER_IPV4: u8 = 4;
const INNER_IPV6: u8 = 41;
const FALCON: u8 = 252;

/// A kind of hostile frame. Each is made from a frame that was on its way to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// The sender's own addresses.
    OwnAddress,
    /// The peer's address and another SPI.
    WrongSpi,
    /// The peer's address and random bytes after the UDP header.
    Noise,
    /// The frame without its end.
    Cut,
    /// The frame for another connection, which may be none.
    OtherCid,
    /// The frame in another tunnel: with another inner address, or in a tunnel where the connection has none (F-7.1.2-1).
    OtherTunnel,
    /// The frame as it was.
    Replay,
}

impl Forgery {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::OwnAddress,
        Self::WrongSpi,
        Self::Noise,
        Self::Cut,
        Self::OtherCid,
        Self::OtherTunnel,
        Self::Replay,
    ];

    /// Whether the frame must change no connection at all (D-23). A replay may be refused late, by its PSN.
    #[must_use]
    pub const fn is_without_effect(self) -> bool {
        !matches!(self, Self::Replay)
    }

    /// Makes a hostile frame from one that was seen.
    pub(super) fn forge(self, seen: &[u8], rng: &mut StdRng) -> Vec<u8> {
        let mut frame = seen.to_vec();
        let layout = Layout::of(&frame);
        match self {
            Self::OwnAddress => {
                frame[SOURCE_MAC + 5] = 0x66;
                let (at, bytes) = layout.source_address();
                frame[at + bytes - 1] ^= rng.random_range(1..=255);
            }
            Self::WrongSpi => {
                let at = layout.psp() + PSP_SPI;
                frame[at + rng.random_range(0..4)] ^= rng.random_range(1..=255);
            }
            Self::Noise => rng.fill(&mut frame[layout.psp()..]),
            Self::Cut => frame.truncate(rng.random_range(ETHERNET..frame.len())),
            Self::OtherCid => {
                // The CID is in the last three bytes of the first word. Its lowest byte chooses the slot.
                let at = layout.psp() + PSP + layout.inner + 1;
                frame[at + rng.random_range(0..3)] ^= rng.random_range(1..=255);
            }
            Self::OtherTunnel if layout.inner == 0 => layout.wrap(&mut frame),
            Self::OtherTunnel => {
                // The addresses are the last fields of either header.
                let (inner, addresses) = (layout.psp() + PSP, if layout.inner == IPV4 { 8 } else { 32 });
                let end = inner + layout.inner;
                frame[rng.random_range(end - addresses..end)] ^= rng.random_range(1..=255);
                if layout.inner == IPV4 {
                    refresh_ipv4(&mut frame[inner..end]);
                }
            }
            Self::Replay => {}
        }
        if !matches!(self, Self::Cut | Self::Replay) {
            layout.refresh(&mut frame);
        }
        frame
    }
}

/// Where the headers of a frame begin.
struct Layout {
    network: usize,
    v6: bool,
    /// Bytes of the inner IP header; 0 in transport mode.
    inner: usize,
}

impl Layout {
    fn of(frame: &[u8]) -> Self {
        let network = if frame[12..14] == [0x81, 0] { ETHERNET + TAG } else { ETHERNET };
        let layout = Self { network, v6: frame[network] >> 4 == 6, inner: 0 };
        let inner = match frame[layout.psp()] {
            INNER_IPV4 => IPV4,
            INNER_IPV6 => IPV6,
            _ => 0,
        };
        Self { inner, ..layout }
    }

    /// Puts a frame of transport mode into a tunnel with inner IPv4 addresses.
    fn wrap(&self, frame: &mut Vec<u8>) {
        const CRYPT_OFFSET: u8 = 6;
        let (psp, udp) = (self.psp(), self.udp());
        let inner = (frame.len() - psp - PSP + IPV4) as u16;
        let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 255, FALCON, 0, 0, 192, 168, 0, 1, 192, 168, 0, 2];
        header[2..4].copy_from_slice(&inner.to_be_bytes());
        refresh_ipv4(&mut header);
        (frame[psp], frame[psp + PSP_CRYPT_OFFSET]) = (INNER_IPV4, CRYPT_OFFSET);
        frame.splice(psp + PSP..psp + PSP, header);
        let datagram = (frame.len() - udp) as u16;
        let (at, length) =
            if self.v6 { (self.network + 4, datagram) } else { (self.network + 2, datagram + IPV4 as u16) };
        frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
        frame[udp + 4..udp + 6].copy_from_slice(&datagram.to_be_bytes());
    }

    const fn udp(&self) -> usize {
        self.network + if self.v6 { IPV6 } else { IPV4 }
    }

    const fn psp(&self) -> usize {
        self.udp() + UDP
    }

    /// Returns offset and length of the source address.
    const fn source_address(&self) -> (usize, usize) {
        if self.v6 { (self.network + IPV6_SOURCE, 16) } else { (self.network + IPV4_SOURCE, 4) }
    }

    /// Makes the checksums fit the bytes. A datagram without checksum stays without.
    fn refresh(&self, frame: &mut [u8]) {
        let (udp, at) = (self.udp(), self.udp() + UDP_CHECKSUM);
        let (source, bytes) = self.source_address();
        if !self.v6 {
            refresh_ipv4(&mut frame[self.network..udp]);
        }
        if frame[at..at + 2] == [0, 0] {
            return;
        }
        frame[at..at + 2].fill(0);
        let addresses = &frame[source..source + 2 * bytes];
        let sum = match <&[u8; 8]>::try_from(addresses) {
            Ok([a, b, c, d, e, f, g, h]) => pseudo_header_v4(&[*a, *b, *c, *d], &[*e, *f, *g, *h]),
            Err(_) => {
                let (from, to) = addresses.split_at(16);
                pseudo_header_v6(from.try_into().expect("16 bytes"), to.try_into().expect("16 bytes"))
            }
        };
        let length = (frame.len() - udp) as u16;
        let sum = transmit_checksum(sum + sum_length(length) + sum_bytes(&frame[udp..]));
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Makes the checksum of an IPv4 header fit its bytes.
fn refresh_ipv4(header: &mut [u8]) {
    header[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].fill(0);
    let sum = checksum(sum_bytes(header));
    header[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}
