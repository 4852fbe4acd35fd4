//! Changes what a frame acknowledges, and keeps its lengths and checksums right.

use falcon_conformance::Parts;
use transport_common::bitmap::Bitmap128;
use transport_common::ids::Psn;
use transport_common::packet_delivery::Window;
use transport_common::wire::FalconHeader;
use transport_common::wire::ack::{Ack, AckHeader, Eack};
use transport_common::wire::checksum::{checksum, sum_bytes};
use transport_common::wire::ethernet::Ethernet;
use transport_common::wire::inner::Inner;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;
use transport_common::wire::psp::{NEXT_HEADER_FALCON, Psp};
use transport_common::wire::udp::Udp;

/// Offsets in every Falcon header: destination CID, and the bases by [`Window`].
const CID: usize = 0;
const BASES: [usize; 2] = [8, 12];
/// Offset and length of the bitmaps of each window in an EACK.
const BITMAPS: [(usize, usize); 2] = [(32, 32), (64, 8)];
/// Offsets in the UDP header.
const LENGTH: usize = 4;
const CHECKSUM: usize = 6;

/// Where the headers of a frame are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    ip: usize,
    udp: usize,
    inner: Option<usize>,
    falcon: usize,
    header: FalconHeader,
}

impl Packet {
    /// Finds the headers of a frame. Returns `None` if it has no Falcon packet.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let parts = Parts::of(frame)?;
        let header = parts.header?;
        let falcon = parts.falcon.as_ptr().addr() - frame.as_ptr().addr();
        let inner = match parts.psp.next_header {
            NEXT_HEADER_FALCON => None,
            version => Some(falcon - Inner::header_len(version) as usize),
        };
        debug_assert_eq!(parts.psp.header_len(), Psp::LEN);
        let udp = inner.unwrap_or(falcon) - Psp::LEN - Udp::LEN;
        let ip = if frame[12..14] == [0x81, 0] { Ethernet::TAGGED_LEN } else { Ethernet::LEN };
        Some(Self { ip, udp, inner, falcon, header })
    }

    fn word(&self, frame: &[u8], at: usize) -> [u8; 4] {
        frame[self.falcon + at..][..4].try_into().expect("4 bytes")
    }

    /// Returns the receiver's connection: its host, and the CID there.
    pub(super) fn connection(&self, frame: &[u8]) -> (u8, [u8; 4]) {
        (frame[5], self.word(frame, CID))
    }

    /// Returns the bases, by [`Window`].
    pub(super) fn bases(&self, frame: &[u8]) -> [u32; 2] {
        BASES.map(|at| u32::from_be_bytes(self.word(frame, at)))
    }

    /// Lets the frame acknowledge nothing of a window from `base` on.
    pub(super) fn hold_back(&self, frame: &mut Vec<u8>, window: Window, base: u32) {
        let w = window as usize;
        let has_bitmaps = matches!(self.header, FalconHeader::Ack(Ack::Eack(_)));
        self.change(frame, |frame| {
            frame[self.falcon + BASES[w]..][..4].copy_from_slice(&base.to_be_bytes());
            if has_bitmaps {
                let (at, length) = BITMAPS[w];
                frame[self.falcon + at..][..length].fill(0);
            }
        });
    }

    /// Lets the frame have its bases by so much less, and acknowledge all that it did but the oldest packets. A packet
    /// without bitmaps that is no BACK acknowledges less. Returns whether something behind an oldest packet is
    /// acknowledged.
    pub(super) fn leave_out_the_oldest(&self, frame: &mut Vec<u8>, behind: [u32; 2]) -> bool {
        if behind == [0; 2] {
            return false;
        }
        let bases = self.bases(frame);
        let bases: [u32; 2] = core::array::from_fn(|w| bases[w].wrapping_sub(behind[w]));
        let FalconHeader::Ack(ack) = &self.header else {
            self.hold_back(frame, Window::Data, bases[0]);
            self.hold_back(frame, Window::Request, bases[1]);
            return false;
        };
        let mut eack = [0; Eack::LEN];
        around_the_oldest(ack, bases, behind).encode(&mut eack);
        self.change(frame, |frame| {
            frame.truncate(self.falcon);
            frame.extend_from_slice(&eack);
            self.inner.into_iter().chain([self.ip]).for_each(|ip| set_length(frame, ip));
            let length = (frame.len() - self.udp) as u16;
            frame[self.udp + LENGTH..][..2].copy_from_slice(&length.to_be_bytes());
        });
        behind.iter().any(|behind| *behind > 1)
    }

    /// Changes the UDP datagram of a frame, and makes its checksum right (RFC 1624), if it has one.
    fn change(&self, frame: &mut Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) {
        let before = frame[self.udp..].to_vec();
        change(frame);
        let words = |datagram: &[u8]| {
            // The pseudo header has the length a second time. The last byte of an odd number stays the same.
            let all = datagram.chunks_exact(2).chain(datagram[LENGTH..][..2].chunks_exact(2));
            all.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).collect::<Vec<_>>()
        };
        let (old, new) = (words(&before), words(&frame[self.udp..]));
        let had = old[CHECKSUM / 2];
        if had == 0 {
            return;
        }
        let gone: u32 = old.iter().map(|word| !word & 0xffff).sum();
        let mut sum = (!had & 0xffff) + gone + new.iter().sum::<u32>();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let has = match !sum & 0xffff {
            0 => 0xffff,
            has => has,
        };
        frame[self.udp + CHECKSUM..][..2].copy_from_slice(&(has as u16).to_be_bytes());
    }
}

/// Returns the EACK that acknowledges what `ack` does, but not the packets at `bases`, which are so many before its own.
fn around_the_oldest(ack: &Ack, bases: [u32; 2], behind: [u32; 2]) -> Eack {
    let moved = |words: [u64; 2], behind: u32| {
        let all_but_the_oldest = Bitmap128::low_mask(behind).and_not(Bitmap128::bit(0));
        Bitmap128::from_words(words).shift_left(behind).or(all_but_the_oldest).words()
    };
    let (data_ack, data_received, request) = match ack {
        Ack::Back(_) => ([0; 2], [0; 2], 0),
        Ack::Eack(eack) => (eack.data_ack, eack.data_received, eack.request),
    };
    let [data, of_requests] = behind;
    Eack {
        header: AckHeader { data_base_psn: Psn(bases[0]), request_base_psn: Psn(bases[1]), ..*ack.header() },
        data_ack: moved(data_ack, data),
        data_received: moved(data_received, data),
        request: moved([request, 0], of_requests)[0],
    }
}

/// Writes the length of an IP packet that goes on to the end of the frame.
fn set_length(frame: &mut [u8], ip: usize) {
    let length = frame.len() - ip;
    if frame[ip] >> 4 == 4 {
        frame[ip + 2..][..2].copy_from_slice(&(length as u16).to_be_bytes());
        frame[ip + 10..][..2].fill(0);
        let checksum = checksum(sum_bytes(&frame[ip..][..Ipv4::LEN]));
        frame[ip + 10..][..2].copy_from_slice(&checksum.to_be_bytes());
    } else {
        frame[ip + 4..][..2].copy_from_slice(&((length - Ipv6::LEN) as u16).to_be_bytes());
    }
}
