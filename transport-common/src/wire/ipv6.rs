//! IPv6 without extension headers (D-86).

use super::Malformed;
use super::cursor::Cursor;
use super::field::{get_array, get_u8, get_u16, get_u32, put_array, put_u8, put_u16, put_u32};

const WORD0: usize = 0;
const PAYLOAD_LENGTH: usize = 4;
pub(super) const NEXT_HEADER: usize = 6;
const HOP_LIMIT: usize = 7;
const SRC: usize = 8;
pub(super) const DST: usize = 24;

const TRAFFIC_CLASS_SHIFT: u32 = 20;
const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

pub(super) const NEXT_HEADER_FRAGMENT: u8 = 44;

/// An IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// DSCP (upper 6 bits) and ECN (lower 2).
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes behind this header.
    pub payload_length: u16,
    /// Protocol number of the payload.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
}

impl Ipv6 {
    /// Bytes of the header.
    pub const LEN: usize = 40;

    /// Reads a header; on success the whole payload is known to be in the frame.
    ///
    /// # Errors
    /// In this order: `Ipv6Truncated`, `Ipv6Version`, `Fragment`, `Ipv6Extension`, `Ipv6PayloadLength`.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, Malformed> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(Malformed::Ipv6Truncated)?;
        let word0 = get_u32::<WORD0, _>(&bytes);
        if word0 >> 28 != 6 {
            return Err(Malformed::Ipv6Version);
        }
        let next_header = get_u8::<NEXT_HEADER, _>(&bytes);
        if next_header == NEXT_HEADER_FRAGMENT {
            return Err(Malformed::Fragment); // D-86
        }
        if is_extension(next_header) {
            return Err(Malformed::Ipv6Extension); // D-86
        }
        let payload_length = get_u16::<PAYLOAD_LENGTH, _>(&bytes);
        if payload_length as usize > c.remaining() {
            return Err(Malformed::Ipv6PayloadLength);
        }
        Ok(Self {
            traffic_class: (word0 >> TRAFFIC_CLASS_SHIFT) as u8,
            flow_label: word0 & FLOW_LABEL_MASK,
            payload_length,
            next_header,
            hop_limit: get_u8::<HOP_LIMIT, _>(&bytes),
            src: get_array::<SRC, 16, _>(&bytes),
            dst: get_array::<DST, 16, _>(&bytes),
        })
    }

    /// Writes the header.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        let class = (self.traffic_class as u32) << TRAFFIC_CLASS_SHIFT;
        put_u32::<WORD0, _>(out, 6 << 28 | class | self.flow_label & FLOW_LABEL_MASK);
        put_u16::<PAYLOAD_LENGTH, _>(out, self.payload_length);
        put_u8::<NEXT_HEADER, _>(out, self.next_header);
        put_u8::<HOP_LIMIT, _>(out, self.hop_limit);
        put_array::<SRC, 16, _>(out, self.src);
        put_array::<DST, 16, _>(out, self.dst);
    }
}

/// IPv6 extension headers other than the fragment header (IANA's list): hop-by-hop options, routing, ESP,
/// authentication, destination options, mobility, host identity, shim6, and the two for experiments.
#[inline(always)]
const fn is_extension(next_header: u8) -> bool {
    matches!(next_header, 0 | 43 | 50 | 51 | 60 | 135 | 139 | 140 | 253 | 254)
}
