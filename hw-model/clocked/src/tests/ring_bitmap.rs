//! Bitmaps, compared with a bit-by-bit search.

use proptest::prelude::*;

use crate::RingBitmap;

fn bitmap<const WORDS: usize>(bits: &[u32]) -> RingBitmap<WORDS> {
    let mut bitmap = RingBitmap::EMPTY;
    bits.iter().for_each(|bit| bitmap.set(*bit));
    bitmap
}

fn naive_first<const WORDS: usize>(bitmap: &RingBitmap<WORDS>, head: u32) -> Option<u32> {
    let size = RingBitmap::<WORDS>::BITS;
    (0..size).map(|step| (head + step) % size).find(|index| bitmap.get(*index))
}

fn naive_last<const WORDS: usize>(bitmap: &RingBitmap<WORDS>, end: u32) -> Option<u32> {
    let size = RingBitmap::<WORDS>::BITS;
    (1..=size).map(|step| (end + size - step) % size).find(|index| bitmap.get(*index))
}

fn agrees_for_all_heads<const WORDS: usize>(bitmap: &RingBitmap<WORDS>) {
    for head in 0..RingBitmap::<WORDS>::BITS {
        assert_eq!(bitmap.find_first(head), naive_first(bitmap, head), "head {head} of {bitmap:?}");
        assert_eq!(bitmap.find_last(head), naive_last(bitmap, head), "end {head} of {bitmap:?}");
    }
}

/// The example of Tonic, appendix C: bit 5 is before the head 6, although both are in the same part [4..8).
#[test]
fn the_papers_example() {
    assert_eq!(bitmap::<1>(&[5, 30]).find_first(6), Some(30));
    assert_eq!(bitmap::<2>(&[5, 30]).find_first(6), Some(30));
    assert_eq!(bitmap::<4>(&[5, 30]).find_first(6), Some(30));
    assert_eq!(bitmap::<2>(&[5, 30]).find_first(31), Some(5), "around the ring");
}

#[test]
fn every_pair_of_bits_and_every_head() {
    agrees_for_all_heads(&RingBitmap::<2>::EMPTY);
    agrees_for_all_heads(&RingBitmap::<4>::EMPTY);
    for first in 0..128 {
        for second in first..128 {
            agrees_for_all_heads(&bitmap::<2>(&[first, second]));
        }
    }
    for first in 0..256 {
        agrees_for_all_heads(&bitmap::<4>(&[first, (first * 7 + 3) % 256]));
    }
}

#[test]
fn unrolled_and_placed_are_each_others_inverse() {
    let bits = [0x8000_0000_0000_0001, 0xfedc_ba98_7654_3210];
    let bit = |n: u32| bits[n as usize / 64] >> (n % 64) & 1 != 0;
    for head in (0..300).chain([u32::MAX - 70, u32::MAX]) {
        let (small, large) = (RingBitmap::<2>::placed(head, bits), RingBitmap::<4>::placed(head, bits));
        assert_eq!((small.unrolled(head), large.unrolled(head)), (bits, bits), "head {head}");
        assert_eq!((small.count(), large.count()), (34, 34));
        for n in 0..128 {
            let index = head.wrapping_add(n);
            assert_eq!((small.get(index), large.get(index)), (bit(n), bit(n)), "bit {n} from {head}");
        }
    }
}

#[test]
fn ranges_for_all_heads_and_lengths() {
    for head in 0..128 {
        for length in 0..=130 {
            let range = RingBitmap::<2>::range(head, length);
            for index in 0..128 {
                let inside = (index + 128 - head) % 128 < length;
                assert_eq!(range.get(index), inside, "bit {index} of {length} from {head}");
            }
        }
    }
}

proptest! {
    #[test]
    fn random_bitmaps_of_both_sizes(bits in prop::collection::vec(0..256u32, 0..256)) {
        agrees_for_all_heads(&bitmap::<4>(&bits));
        agrees_for_all_heads(&bitmap::<2>(&bits));
    }

    #[test]
    fn set_operations(left in prop::collection::vec(0..128u32, 0..128), right in prop::collection::vec(0..128u32, 0..128)) {
        let (a, b) = (bitmap::<2>(&left), bitmap::<2>(&right));
        for index in 0..128 {
            let (in_a, in_b) = (left.contains(&index), right.contains(&index));
            prop_assert_eq!(a.and(&b).get(index), in_a && in_b);
            prop_assert_eq!(a.or(&b).get(index), in_a || in_b);
            prop_assert_eq!(a.and_not(&b).get(index), in_a && !in_b);
            prop_assert_eq!(a.not().get(index), !in_a);
            let mut cleared = a;
            cleared.clear(index);
            prop_assert_eq!(cleared.count(), a.count() - u32::from(in_a));
        }
        prop_assert_eq!(a.count() as usize, (0..128).filter(|index| left.contains(index)).count());
        prop_assert_eq!(a.is_empty(), left.is_empty());
    }
}
