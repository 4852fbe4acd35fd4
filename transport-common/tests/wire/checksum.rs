//! The Internet checksum against a simple reference.

use proptest::prelude::*;
use transport_common::wire::checksum::{
    checksum, checksum_holds, fold, pseudo_header_v4, pseudo_header_v6, sum_bytes, sum_length,
    transmit_checksum,
};
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::{Malformed, SliceCursor};

/// RFC 1071 word by word, with the carry added at every step.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u16;
    for pair in bytes.chunks(2) {
        let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
        let (next, carry) = sum.overflowing_add(word);
        sum = next + u16::from(carry);
    }
    sum
}

/// Returns a folded sum in network byte order.
fn network(sum: u64) -> u16 {
    u16::from_be(fold(sum))
}

#[test]
fn udp_checksum_by_hand() {
    // 0a07 + 0001 + 0a07 + 0002 + 0011 + 0009, then c001 + 03e8 + 0009, then 4100: 1191d, folded 191e.
    let pseudo = pseudo_header_v4(&[10, 7, 0, 1], &[10, 7, 0, 2]) + sum_length(9);
    let sum = pseudo + sum_bytes(&[0xc0, 0x01, 0x03, 0xe8, 0, 9, 0, 0, b'A']);
    assert_eq!(network(sum), 0x191e);
    assert_eq!(checksum(sum), 0xe6e1);
    assert_eq!(transmit_checksum(sum), 0xe6e1);
    assert!(checksum_holds(sum + sum_length(0xe6e1)));
    assert!(!checksum_holds(sum + sum_length(0xe6e0)));
}

#[test]
fn a_computed_checksum_is_never_0() {
    assert_eq!(transmit_checksum(0xffff), 0xffff);
    assert_eq!(transmit_checksum(0x1_fffe), 0xffff);
}

#[test]
fn fold_keeps_extreme_sums() {
    for sum in [0, 1, 0xffff, 0x1_0000, 0xffff_ffff, 0x1_ffff_fffe, u64::MAX, u64::MAX - 1, 1 << 63] {
        let folded = u64::from(fold(sum));
        assert_eq!(folded % 0xffff, sum % 0xffff, "{sum:#x}");
        assert_eq!(folded == 0, sum == 0, "{sum:#x}");
    }
}

/// Carries at every place: sums of four halves that are about to overflow, or are not.
#[test]
fn fold_carries_from_every_half() {
    const HALVES: [u64; 6] = [0, 1, 2, 0xfffd, 0xfffe, 0xffff];
    for n in 0..6usize.pow(4) {
        let half = |place: u32| HALVES[n / 6usize.pow(place) % 6] << (16 * place);
        let sum = half(0) | half(1) | half(2) | half(3);
        // The one's complement sum of anything but 0 is not 0 (RFC 1071).
        let expected = if sum == 0 { 0 } else { (sum - 1) % 0xffff + 1 };
        assert_eq!(u64::from(fold(sum)), expected, "{sum:#x}");
    }
}

proptest! {
    #[test]
    fn sums_agree_with_the_naive_one(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(network(sum_bytes(&bytes)), naive(&bytes));
        // Partial sums can be added if the first one covers an even length.
        let cut = bytes.len() / 4 * 2;
        prop_assert_eq!(network(sum_bytes(&bytes[..cut]) + sum_bytes(&bytes[cut..])), naive(&bytes));
    }

    #[test]
    fn little_endian_sums_are_the_same_after_a_swap(words: [u16; 20]) {
        let big: u64 = words.iter().map(|w| u64::from(*w)).sum();
        let little: u64 = words.iter().map(|w| u64::from(w.swap_bytes())).sum();
        prop_assert_eq!(fold(big), fold(little).swap_bytes());
    }

    #[test]
    fn pseudo_headers(src: [u8; 16], dst: [u8; 16], length: u16) {
        let mut v6 = [src.as_slice(), &dst].concat();
        v6.extend([0, 0]);
        v6.extend(length.to_be_bytes());
        v6.extend([0, 0, 0, 17]);
        prop_assert_eq!(network(pseudo_header_v6(&src, &dst) + sum_length(length)), naive(&v6));
        let src: [u8; 4] = src[..4].try_into().unwrap();
        let dst: [u8; 4] = dst[..4].try_into().unwrap();
        let mut v4 = [src.as_slice(), &dst, &[0, 17]].concat();
        v4.extend(length.to_be_bytes());
        prop_assert_eq!(network(pseudo_header_v4(&src, &dst) + sum_length(length)), naive(&v4));
    }

    #[test]
    fn any_flipped_bit_of_an_ipv4_header_is_found(ttl: u8, src: [u8; 4], dst: [u8; 4], bit in 8usize..160) {
        let header = Ipv4 { dscp_ecn: 1, total_length: 20, identification: 7, ttl, protocol: 17, src, dst };
        let mut bytes = [0; Ipv4::LEN];
        header.encode(&mut bytes);
        prop_assert_eq!(Ipv4::decode(&mut SliceCursor::new(&bytes)), Ok(header));
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        prop_assert_eq!(Ipv4::decode(&mut SliceCursor::new(&bytes)), Err(Malformed::Ipv4Checksum));
    }
}
