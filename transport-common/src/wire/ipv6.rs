//! IPv6 without extension headers (D-86).

use super::Malformed;
use super::cursor::{Bytes, Cursor};
use super::field::put_header;
use network_types::ip::Ipv6Hdr;

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
    /// Number of bytes after this header.
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
    pub const LEN: usize = Ipv6Hdr::LEN;

    /// Reads a header. On success the whole payload is known to be in the frame.
    ///
    /// # Errors
    /// In this order: `Ipv6Truncated`, `Ipv6Version`, `Fragment`, `Ipv6Extension`, `Ipv6PayloadLength`.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, Malformed> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(Malformed::Ipv6Truncated)?;
        let ip: &Ipv6Hdr = bytes.header();
        let word0 = u32::from_be_bytes(ip.vcf);
        if word0 >> 28 != 6 {
            return Err(Malformed::Ipv6Version);
        }
        if ip.next_hdr == NEXT_HEADER_FRAGMENT {
            return Err(Malformed::Fragment); // D-86
        }
        if is_extension(ip.next_hdr) {
            return Err(Malformed::Ipv6Extension); // D-86
        }
        let payload_length = ip.payload_len();
        if payload_length as usize > c.remaining() {
            return Err(Malformed::Ipv6PayloadLength);
        }
        Ok(Self {
            traffic_class: (word0 >> TRAFFIC_CLASS_SHIFT) as u8,
            flow_label: word0 & FLOW_LABEL_MASK,
            payload_length,
            next_header: ip.next_hdr,
            hop_limit: ip.hop_limit,
            src: ip.src_addr,
            dst: ip.dst_addr,
        })
    }

    /// Writes the header.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        let class = (self.traffic_class as u32) << TRAFFIC_CLASS_SHIFT;
        let header = Ipv6Hdr {
            vcf: (6 << 28 | class | self.flow_label & FLOW_LABEL_MASK).to_be_bytes(),
            payload_len: self.payload_length.to_be_bytes(),
            next_hdr: self.next_header,
            hop_limit: self.hop_limit,
            src_addr: self.src,
            dst_addr: self.dst,
        };
        put_header(out, header);
    }
}

/// Returns whether a header is an IPv6 extension header other than the fragment header (IANA's list): hop-by-hop
/// options, routing, ESP, authentication, destination options, mobility, host identity, shim6, and the two for
/// experiments.
#[inline(always)]
const fn is_extension(next_header: u8) -> bool {
    matches!(next_header, 0 | 43 | 50 | 51 | 60 | 135 | 139 | 140 | 253 | 254)
}
