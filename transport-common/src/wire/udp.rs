//! UDP and the Internet checksum.
//!
//! Partial sums add big-endian 16-bit words (or 32-bit words, which is the same modulo 2^16 - 1) in a `u64`: more
//! than 2^32 words may be added before [`fold`]. Whoever sums words in little-endian order, as `bpf_csum_diff`
//! does, gets the same result after swapping the bytes of the folded sum.

use super::Malformed;
use super::cursor::{Bytes, Cursor};
use super::field::{get_u16, put_u16};

/// UDP destination port of Falcon in PSP (D-10).
pub const FALCON_UDP_PORT: u16 = 1000;
/// IP protocol number of UDP.
pub const IP_PROTOCOL_UDP: u8 = 17;

const SRC_PORT: usize = 0;
const DST_PORT: usize = 2;
const LENGTH: usize = 4;
const CHECKSUM: usize = 6;

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port: flow entropy of the connection (D-10).
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of header and payload, at least [`Udp::LEN`].
    pub length: u16,
    /// Checksum; 0 means none was computed (D-10, D-91).
    pub checksum: u16,
}

impl Udp {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// Reads a header inside an IP payload of `ip_payload_length` bytes, header included.
    ///
    /// A length below the IP payload's is accepted, as RFC 768 does; what lies behind it is no part of the packet.
    ///
    /// # Errors
    /// [`Malformed::UdpTruncated`], [`Malformed::UdpLength`].
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C, ip_payload_length: u16) -> Result<Self, Malformed> {
        if (ip_payload_length as usize) < Self::LEN {
            return Err(Malformed::UdpTruncated);
        }
        let bytes = c.take::<{ Self::LEN }>().ok_or(Malformed::UdpTruncated)?;
        let udp = Self::from_bytes(&bytes);
        let length = udp.length;
        if (length as usize) < Self::LEN || length > ip_payload_length {
            return Err(Malformed::UdpLength);
        }
        if length as usize - Self::LEN > c.remaining() {
            return Err(Malformed::UdpLength);
        }
        Ok(udp)
    }

    /// The fields, unchecked: for a caller that looks at the port first.
    #[inline(always)]
    pub fn from_bytes(bytes: &impl Bytes) -> Self {
        Self {
            src_port: get_u16::<SRC_PORT, _>(bytes),
            dst_port: get_u16::<DST_PORT, _>(bytes),
            length: get_u16::<LENGTH, _>(bytes),
            checksum: get_u16::<CHECKSUM, _>(bytes),
        }
    }

    /// Bytes behind the header; 0 if `length` is below the header's own.
    #[inline(always)]
    pub const fn payload_length(&self) -> u16 {
        self.length.saturating_sub(Self::LEN as u16)
    }

    /// Writes the header, the checksum as it stands in the field.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        put_u16::<SRC_PORT, _>(out, self.src_port);
        put_u16::<DST_PORT, _>(out, self.dst_port);
        put_u16::<LENGTH, _>(out, self.length);
        put_u16::<CHECKSUM, _>(out, self.checksum);
    }

    /// The header's own contribution to its checksum, the checksum field included.
    #[inline(always)]
    pub const fn sum(&self) -> u64 {
        self.src_port as u64 + self.dst_port as u64 + self.length as u64 + self.checksum as u64
    }
}

/// Folds a partial sum to the 16-bit one's complement sum (not inverted).
#[inline(always)]
pub const fn fold(sum: u64) -> u16 {
    // Each step keeps the value modulo 2^16 - 1: 64 bits, 33, 18, 17, 16.
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16 & 0xffff) + (sum >> 32) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The checksum field to send for the sum over pseudo header, UDP header with checksum 0, and payload.
///
/// Never 0, which would mean that there is none (RFC 768).
#[inline(always)]
pub const fn transmit_checksum(sum: u64) -> u16 {
    let checksum = !fold(sum);
    if checksum == 0 { 0xffff } else { checksum }
}

/// True if the sum over pseudo header, UDP header as received, and payload proves the packet whole.
///
/// A received checksum field of 0 must be recognised before: there is nothing to verify then (D-10).
#[inline(always)]
pub const fn checksum_holds(sum: u64) -> bool {
    fold(sum) == 0xffff
}

/// Partial sum of the IPv4 pseudo header of a UDP datagram of `udp_length` bytes.
#[inline(always)]
pub const fn pseudo_header_sum_v4(src: &[u8; 4], dst: &[u8; 4], udp_length: u16) -> u64 {
    sum_array(src) + sum_array(dst) + IP_PROTOCOL_UDP as u64 + udp_length as u64
}

/// Partial sum of the IPv6 pseudo header of a UDP datagram of `udp_length` bytes.
#[inline(always)]
pub const fn pseudo_header_sum_v6(src: &[u8; 16], dst: &[u8; 16], udp_length: u16) -> u64 {
    sum_array(src) + sum_array(dst) + IP_PROTOCOL_UDP as u64 + udp_length as u64
}

/// Partial sum of a fixed array that starts at an even offset; an odd last byte counts as if a 0 followed.
#[inline(always)]
pub const fn sum_array<const N: usize>(bytes: &[u8; N]) -> u64 {
    let mut sum = 0;
    let mut i = 0;
    while i + 1 < N {
        sum += u16::from_be_bytes([bytes[i], bytes[i + 1]]) as u64;
        i += 2;
    }
    if i < N {
        sum += (bytes[i] as u64) << 8;
    }
    sum
}

/// Partial sum of a slice that starts at an even offset; an odd last byte counts as if a 0 followed. For hosts.
pub fn sum_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let body: u64 = words.iter().map(|w| u64::from(u32::from_be_bytes(*w))).sum();
    let mut tail = [0; 4];
    for (to, from) in tail.iter_mut().zip(rest) {
        *to = *from;
    }
    body + u64::from(u32::from_be_bytes(tail))
}
