//! IPv4 without options or fragments (D-86).

use super::Malformed;
use super::checksum::{checksum_holds, fold};
use super::cursor::Cursor;
use super::field::{get_array, get_u8, get_u16, get_word, put_array, put_u8, put_u16};

pub(super) const VERSION_IHL: usize = 0;
const DSCP_ECN: usize = 1;
const TOTAL_LENGTH: usize = 2;
const IDENTIFICATION: usize = 4;
pub(super) const FLAGS_OFFSET: usize = 6;
const TTL: usize = 8;
pub(super) const PROTOCOL: usize = 9;
const CHECKSUM: usize = 10;
const SRC: usize = 12;
pub(super) const DST: usize = 16;

/// Header length in 32-bit words when there are no options.
pub(super) const IHL_WORDS: u8 = 5;
const DONT_FRAGMENT: u16 = 0x4000;
/// More Fragments and the fragment offset: any of them set makes a fragment.
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
    pub const LEN: usize = 20;

    /// Reads and verifies a header; on success the whole payload is known to be in the frame.
    ///
    /// The checksum is verified before any field but version and header length is believed.
    ///
    /// # Errors
    /// In this order: `Ipv4Truncated`, `Ipv4Version`, `Ipv4HeaderLength`, `Ipv4Options`, `Ipv4Checksum`, `Fragment`,
    /// `Ipv4TotalLength`.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, Malformed> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(Malformed::Ipv4Truncated)?;
        let version_ihl = get_u8::<VERSION_IHL, _>(&bytes);
        if version_ihl >> 4 != 4 {
            return Err(Malformed::Ipv4Version);
        }
        let ihl = version_ihl & 0xf;
        if ihl < IHL_WORDS {
            return Err(Malformed::Ipv4HeaderLength);
        }
        if ihl > IHL_WORDS {
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
        if get_u16::<FLAGS_OFFSET, _>(&bytes) & FRAGMENT_MASK != 0 {
            return Err(Malformed::Fragment); // D-86
        }
        let total_length = get_u16::<TOTAL_LENGTH, _>(&bytes);
        match (total_length as usize).checked_sub(Self::LEN) {
            Some(payload) if payload <= c.remaining() => {}
            _ => return Err(Malformed::Ipv4TotalLength),
        }
        Ok(Self {
            dscp_ecn: get_u8::<DSCP_ECN, _>(&bytes),
            total_length,
            identification: get_u16::<IDENTIFICATION, _>(&bytes),
            ttl: get_u8::<TTL, _>(&bytes),
            protocol: get_u8::<PROTOCOL, _>(&bytes),
            src: get_array::<SRC, 4, _>(&bytes),
            dst: get_array::<DST, 4, _>(&bytes),
        })
    }

    /// Bytes behind the header; 0 if `total_length` is below the header's own.
    #[inline(always)]
    pub const fn payload_length(&self) -> u16 {
        self.total_length.saturating_sub(Self::LEN as u16)
    }

    /// Writes the header with Don't Fragment set and its checksum computed.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        put_u8::<VERSION_IHL, _>(out, 4 << 4 | IHL_WORDS);
        put_u8::<DSCP_ECN, _>(out, self.dscp_ecn);
        put_u16::<TOTAL_LENGTH, _>(out, self.total_length);
        put_u16::<IDENTIFICATION, _>(out, self.identification);
        put_u16::<FLAGS_OFFSET, _>(out, DONT_FRAGMENT);
        put_u8::<TTL, _>(out, self.ttl);
        put_u8::<PROTOCOL, _>(out, self.protocol);
        put_u16::<CHECKSUM, _>(out, !fold(self.sum()));
        put_array::<SRC, 4, _>(out, self.src);
        put_array::<DST, 4, _>(out, self.dst);
    }

    /// Sum of the header that [`encode`](Self::encode) writes, its checksum aside, in network byte order: from the fields,
    /// because what was just written in small pieces is slow to read back in large ones.
    #[inline(always)]
    const fn sum(&self) -> u64 {
        let first = ((4 << 4 | IHL_WORDS) as u64) << 8 | self.dscp_ecn as u64;
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
