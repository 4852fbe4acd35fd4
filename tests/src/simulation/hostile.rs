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
    /// The frame as it was.
    Replay,
}

impl Forgery {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::OwnAddress, Self::WrongSpi, Self::Noise, Self::Cut, Self::OtherCid, Self::Replay];

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
                let at = layout.psp() + PSP + 1;
                frame[at + rng.random_range(0..3)] ^= rng.random_range(1..=255);
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
}

impl Layout {
    fn of(frame: &[u8]) -> Self {
        let network = if frame[12..14] == [0x81, 0] { ETHERNET + TAG } else { ETHERNET };
        Self { network, v6: frame[network] >> 4 == 6 }
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
            let field = self.network + IPV4_CHECKSUM;
            frame[field..field + 2].fill(0);
            let sum = checksum(sum_bytes(&frame[self.network..udp]));
            frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
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
