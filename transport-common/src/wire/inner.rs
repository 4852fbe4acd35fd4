//! The inner IP header of a packet in tunnel mode, between PSP and Falcon (F-7.1.2-1).

use super::Malformed;
use super::cursor::Cursor;
use super::ipv4::Ipv4;
use super::ipv6::Ipv6;
use super::psp::{NEXT_HEADER_FALCON, NEXT_HEADER_IPV6};

/// An inner IP header. It obeys the same rules as the outer one: no options, no extension headers, no fragments (D-86).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// IPv4.
    V4(Ipv4),
    /// IPv6.
    V6(Ipv6),
}

impl Inner {
    /// Reads the header of a packet that ends where the UDP payload ends, `room` bytes after the cursor. PSP's
    /// `next_header` says which version it is: [`NEXT_HEADER_IPV6`], otherwise IPv4.
    ///
    /// # Errors
    /// Those of [`Ipv4::decode`] or [`Ipv6::decode`], then `InnerLength`, then `InnerProtocol`.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C, next_header: u8, room: u32) -> Result<Self, Malformed> {
        let (inner, length, protocol) = if next_header == NEXT_HEADER_IPV6 {
            let ip = Ipv6::decode(c)?;
            (Self::V6(ip), ip.payload_length as u32 + Ipv6::LEN as u32, ip.next_header)
        } else {
            let ip = Ipv4::decode(c)?;
            (Self::V4(ip), ip.total_length as u32, ip.protocol)
        };
        if length != room {
            return Err(Malformed::InnerLength);
        }
        if protocol != NEXT_HEADER_FALCON {
            return Err(Malformed::InnerProtocol); // D-10
        }
        Ok(inner)
    }

    /// Returns the length of the header that PSP's `next_header` announces, bytes.
    #[inline(always)]
    pub const fn header_len(next_header: u8) -> u32 {
        if next_header == NEXT_HEADER_IPV6 { Ipv6::LEN as u32 } else { Ipv4::LEN as u32 }
    }
}
