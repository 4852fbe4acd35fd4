//! UDP.

use super::Malformed;
use super::cursor::{Bytes, Cursor};
use super::field::put_header;
use network_types::udp::UdpHdr;

/// UDP destination port of Falcon in PSP (D-10).
pub const FALCON_UDP_PORT: u16 = 1000;
/// IP protocol number of UDP.
pub const IP_PROTOCOL_UDP: u8 = 17;

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port: flow entropy of the connection (D-10).
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of header and payload, at least [`Udp::LEN`].
    pub length: u16,
    /// Checksum; 0 means that none was computed (D-10, D-91).
    pub checksum: u16,
}

impl Udp {
    /// Bytes of the header.
    pub const LEN: usize = UdpHdr::LEN;

    /// Reads a header inside an IP payload of `ip_payload_length` bytes, including the header.
    ///
    /// A length below that of the IP payload is accepted, as in RFC 768. The bytes after it are not part of the
    /// packet.
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

    /// Returns the fields without checks, for a caller that checks the port first.
    #[inline(always)]
    pub fn from_bytes(bytes: &impl Bytes) -> Self {
        let udp: &UdpHdr = bytes.header();
        Self {
            src_port: udp.src_port(),
            dst_port: udp.dst_port(),
            length: udp.len(),
            checksum: udp.checksum(),
        }
    }

    /// Returns the number of bytes after the header; 0 if `length` is below the header's own length.
    #[inline(always)]
    pub const fn payload_length(&self) -> u16 {
        self.length.saturating_sub(Self::LEN as u16)
    }

    /// Writes the header with the checksum of the field.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        let header = UdpHdr {
            src: self.src_port.to_be_bytes(),
            dst: self.dst_port.to_be_bytes(),
            len: self.length.to_be_bytes(),
            check: self.checksum.to_be_bytes(),
        };
        put_header(out, header);
    }
}
