//! The Internet checksum (RFC 1071): one set of functions for the datapath and for hosts.
//!
//! Sums add words as they are in memory, in this machine's byte order. RFC 1071 allows this: the sum of
//! byte-swapped words is the byte-swapped sum. So the results of the kernel's `bpf_csum_diff`, of wide loads from
//! a packet and of a walk over a slice can be added without swapping. Only the field that is sent is swapped. A
//! word of 32 bits counts as its two halves, modulo 2^16 - 1. A `u64` holds more than 2^32 such words before
//! [`fold`] is needed.

use super::cursor::Bytes;
use super::udp::IP_PROTOCOL_UDP;

/// Folds a sum to the 16-bit one's complement sum, not inverted.
#[inline(always)]
pub const fn fold(sum: u64) -> u16 {
    // Each step keeps the value modulo 2^16 - 1. Its size goes from 64 bits to 33, 18, 17, 16.
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// Returns the IPv4 checksum field to send, for the sum of a header whose checksum field is 0.
#[inline(always)]
pub const fn checksum(sum: u64) -> u16 {
    u16::from_be(!fold(sum))
}

/// Returns the UDP checksum field to send, for the sum over pseudo header, UDP header with checksum 0, and
/// payload.
///
/// Never returns 0, which would mean that there is no checksum (RFC 768).
#[inline(always)]
pub const fn transmit_checksum(sum: u64) -> u16 {
    let checksum = checksum(sum);
    if checksum == 0 { 0xffff } else { checksum }
}

/// Returns true if a checksum is correct. `sum` covers all that the checksum covers, including the received
/// checksum field.
///
/// The caller has to handle a received UDP checksum field of 0 before: then there is nothing to verify (D-10).
#[inline(always)]
pub const fn checksum_holds(sum: u64) -> bool {
    fold(sum) == 0xffff
}

/// Returns the sum of 4 bytes.
#[inline(always)]
pub const fn sum_word(bytes: [u8; 4]) -> u64 {
    u32::from_ne_bytes(bytes) as u64
}

/// Returns the part of a pseudo header's sum that a length adds.
#[inline(always)]
pub const fn sum_length(length: u16) -> u64 {
    length.to_be() as u64
}

#[inline(always)]
fn sum_address(address: &[u8; 16]) -> u64 {
    sum_word(address.array::<0, 4>())
        + sum_word(address.array::<4, 4>())
        + sum_word(address.array::<8, 4>())
        + sum_word(address.array::<12, 4>())
}

/// Returns the sum of the pseudo header of a UDP datagram over IPv4, without its length.
#[inline(always)]
pub const fn pseudo_header_v4(source: &[u8; 4], destination: &[u8; 4]) -> u64 {
    sum_word(*source) + sum_word(*destination) + (IP_PROTOCOL_UDP as u16).to_be() as u64
}

/// Returns the sum of the pseudo header of a UDP datagram over IPv6, without its length.
#[inline(always)]
pub fn pseudo_header_v6(source: &[u8; 16], destination: &[u8; 16]) -> u64 {
    sum_address(source) + sum_address(destination) + (IP_PROTOCOL_UDP as u16).to_be() as u64
}

/// Returns the sum of a slice that starts at an even offset. An odd last byte counts as if a 0 followed. For
/// hosts.
pub fn sum_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let body: u64 = words.iter().map(|word| sum_word(*word)).sum();
    let mut tail = [0; 4];
    for (to, from) in tail.iter_mut().zip(rest) {
        *to = *from;
    }
    body + sum_word(tail)
}
