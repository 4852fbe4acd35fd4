//! IPv4 without options or fragments (D-86).

use super::Malformed;
use super::checksum::{checksum_holds, fold};
use super::cursor::{Bytes, Cursor};
use super::field::{get_word, put_header};
use network_types::ip::Ipv4Hdr;

/// Version 4, and a header of five 32-bit words, so without options.
const VERSION_IHL: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
/// More Fragments and the fragment offset: the packet is a fragment if any of these bits is set.
const FRAGMENT_MASK: u16 = 0x3fff;
/// The fragment offset: 0 in a first fragment.
pub(super) const OFFSET_MASK: u16 = 0x1fff;

/// An IPv4 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// DSCP (upper 6 bits) and ECN (lower 2).
    pub dscp_ecn: u8,
    /// Bytes of header and payload, at least [`Ipv4::LEN`].
    pub total_length: u16,
    /// Identification.
    pub identification: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol number of the payload.
    pub protocol: u8,
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
}

impl Ipv4 {
    /// Bytes of the header.
    pub const LEN: usize = Ipv4Hdr::LEN;

    /// Reads and verifies a header. On success the whole payload is known to be in the frame.
    ///
    /// The checksum is verified before any field is used, except version and header length.
    ///
    /// # Errors
    /// In this order: `Ipv4Truncated`, `Ipv4Version`, `Ipv4HeaderLength`, `Ipv4Options`, `Ipv4Checksum`, `Fragment`,
    /// `Ipv4TotalLength`.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, Malformed> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(Malformed::Ipv4Truncated)?;
        let ip: &Ipv4Hdr = bytes.header();
        if ip.version() != 4 {
            return Err(Malformed::Ipv4Version);
        }
        if ip.ihl() < Self::LEN as u8 {
            return Err(Malformed::Ipv4HeaderLength);
        }
        if ip.ihl() > Self::LEN as u8 {
            return Err(Malformed::Ipv4Options); // D-86
        }
        let sum = get_word::<0, _>(&bytes)
            + get_word::<4, _>(&bytes)
            + get_word::<8, _>(&bytes)
            + get_word::<12, _>(&bytes)
            + get_word::<16, _>(&bytes);
        if !checksum_holds(sum) {
            return Err(Malformed::Ipv4Checksum);
        }
        if u16::from_be_bytes(ip.frags) & FRAGMENT_MASK != 0 {
            return Err(Malformed::Fragment); // D-86
        }
        let total_length = ip.tot_len();
        match (total_length as usize).checked_sub(Self::LEN) {
            Some(payload) if payload <= c.remaining() => {}
            _ => return Err(Malformed::Ipv4TotalLength),
        }
        Ok(Self {
            dscp_ecn: ip.tos,
            total_length,
            identification: ip.id(),
            ttl: ip.ttl,
            protocol: ip.proto,
            src: ip.src_addr,
            dst: ip.dst_addr,
        })
    }

    /// Returns the number of bytes after the header; 0 if `total_length` is below the header's own length.
    #[inline(always)]
    pub const fn payload_length(&self) -> u16 {
        self.total_length.saturating_sub(Self::LEN as u16)
    }

    /// Writes the header with Don't Fragment set and its checksum computed.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        let header = Ipv4Hdr {
            vihl: VERSION_IHL,
            tos: self.dscp_ecn,
            tot_len: self.total_length.to_be_bytes(),
            id: self.identification.to_be_bytes(),
            frags: DONT_FRAGMENT.to_be_bytes(),
            ttl: self.ttl,
            proto: self.protocol,
            check: (!fold(self.sum())).to_be_bytes(),
            src_addr: self.src,
            dst_addr: self.dst,
        };
        put_header(out, header);
    }

    /// Returns the sum of the header that [`encode`](Self::encode) writes, without its checksum, in network byte
    /// order. It is computed from the fields, because reading back in large pieces what was just written in small
    /// ones is slow.
    #[inline(always)]
    const fn sum(&self) -> u64 {
        let first = (VERSION_IHL as u64) << 8 | self.dscp_ecn as u64;
        let life = (self.ttl as u64) << 8 | self.protocol as u64;
        let addresses = u32::from_be_bytes(self.src) as u64 + u32::from_be_bytes(self.dst) as u64;
        first
            + self.total_length as u64
            + self.identification as u64
            + DONT_FRAGMENT as u64
            + life
            + addresses
    }
}
