//! Bitmaps against a simple reference, a vector of booleans, at every position and distance.

use proptest::prelude::*;
use transport_common::bitmap::{Bitmap64, Bitmap128};

/// Typical words of a window: empty, full, filled in order up to some point, nearly full, or random.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        (0..64u32).prop_map(|n| (1 << n) - 1),
        (0..64u32).prop_map(|n| 1 << n),
        (0..64u32).prop_map(|n| !(1 << n)),
        any::<u64>(),
    ]
}

fn words<const COUNT: usize>() -> impl Strategy<Value = [u64; COUNT]> {
    prop::collection::vec(word(), COUNT).prop_map(|v| v.try_into().expect("the vector has COUNT words"))
}

fn bits_of(words: &[u64]) -> Vec<bool> {
    words.iter().flat_map(|w| (0..64).map(move |n| (w >> n) & 1 == 1)).collect()
}

/// Returns bit `n + by` of `bits` for each `n`. Bits that are shifted out are lost; bits that are shifted in are
/// 0.
fn moved(bits: &[bool], by: i64) -> Vec<bool> {
    (0..bits.len() as i64)
        .map(|n| usize::try_from(n + by).ok().and_then(|i| bits.get(i)).copied().unwrap_or(false))
        .collect()
}

fn hole(bits: &[bool]) -> bool {
    bits.iter().enumerate().any(|(i, &one)| one && bits[..i].contains(&false))
}

macro_rules! oracle_tests {
    ($module:ident, $bitmap:ty, $words:literal, $from:expr, $to:expr) => {
        mod $module {
            use super::*;

            const WIDTH: u32 = 64 * $words;

            fn bitmap(words: [u64; $words]) -> $bitmap {
                $from(words)
            }

            fn bits(map: $bitmap) -> Vec<bool> {
                bits_of(&$to(map))
            }

            /// All positions inside, the edges, and some far outside. Miri, which is slow, tries a part.
            fn positions() -> impl Iterator<Item = u32> {
                (0..=WIDTH + 65).step_by(if cfg!(miri) { 21 } else { 1 }).chain([u32::MAX - 63, u32::MAX])
            }

            #[test]
            fn constants() {
                assert_eq!(<$bitmap>::WIDTH, WIDTH);
                assert_eq!(size_of::<$bitmap>(), WIDTH as usize / 8);
                assert_eq!(<$bitmap>::default(), <$bitmap>::ZERO);
                assert!(bits(<$bitmap>::ZERO).iter().all(|&one| !one));
                for n in positions() {
                    let index = n as usize;
                    let only_n: Vec<bool> = (0..WIDTH as usize).map(|i| i == index).collect();
                    let below_n: Vec<bool> = (0..WIDTH as usize).map(|i| i < index).collect();
                    assert_eq!(bits(<$bitmap>::bit(n)), only_n, "bit({n})");
                    assert_eq!(bits(<$bitmap>::low_mask(n)), below_n, "low_mask({n})");
                }
            }

            proptest! {
                #[test]
                fn single_bits(words in words::<$words>()) {
                    let map = bitmap(words);
                    let naive = bits(map);
                    for n in positions() {
                        let inside = naive.get(n as usize);
                        prop_assert_eq!(map.get(n), inside.copied().unwrap_or(false), "get({})", n);
                        let (mut with_set, mut with_clear) = (naive.clone(), naive.clone());
                        if inside.is_some() {
                            with_set[n as usize] = true;
                            with_clear[n as usize] = false;
                        }
                        let (mut set, mut clear) = (map, map);
                        set.set(n);
                        clear.clear(n);
                        prop_assert_eq!(bits(set), with_set, "set({})", n);
                        prop_assert_eq!(map.with(n), set, "with({})", n);
                        prop_assert_eq!(bits(clear), with_clear, "clear({})", n);
                    }
                }

                /// F-9.2.2.4-7: an advance of the base shifts the map, by any distance up to its width.
                #[test]
                fn shifts(words in words::<$words>()) {
                    let map = bitmap(words);
                    for n in positions() {
                        prop_assert_eq!(bits(map.shift_right(n)), moved(&bits(map), i64::from(n)), ">> {}", n);
                        prop_assert_eq!(bits(map.shift_left(n)), moved(&bits(map), -i64::from(n)), "<< {}", n);
                    }
                }

                #[test]
                fn logic(a in words::<$words>(), b in words::<$words>()) {
                    let (a, b) = (bitmap(a), bitmap(b));
                    let pairwise = |f: fn(bool, bool) -> bool| -> Vec<bool> {
                        bits(a).into_iter().zip(bits(b)).map(|(x, y)| f(x, y)).collect()
                    };
                    prop_assert_eq!(bits(a.and(b)), pairwise(|x, y| x && y));
                    prop_assert_eq!(bits(a.or(b)), pairwise(|x, y| x || y));
                    prop_assert_eq!(bits(a.and_not(b)), pairwise(|x, y| x && !y));
                    prop_assert_eq!(bits(a.not()), pairwise(|x, _| !x));
                }

                /// D-33 for `has_hole`.
                #[test]
                fn scans(words in words::<$words>()) {
                    let map = bitmap(words);
                    let naive = bits(map);
                    let first = |wanted| naive.iter().position(|&b| b == wanted).unwrap_or(naive.len()) as u32;
                    prop_assert_eq!(map.trailing_zeros(), first(true));
                    prop_assert_eq!(map.trailing_ones(), first(false));
                    let top = naive.iter().rposition(|&b| b).map_or(0, |n| n + 1);
                    prop_assert_eq!(map.top(), top as u32);
                    prop_assert_eq!(map.count_ones() as usize, naive.iter().filter(|&&b| b).count());
                    prop_assert_eq!(map.is_zero(), !naive.contains(&true));
                    prop_assert_eq!(map.has_hole(), hole(&naive));
                }

                #[test]
                fn take_lowest_drains_in_ascending_order(words in words::<$words>()) {
                    let mut map = bitmap(words);
                    let ones: Vec<u32> = (0..WIDTH).filter(|&n| map.get(n)).collect();
                    let taken: Vec<u32> = core::iter::from_fn(|| map.take_lowest()).collect();
                    prop_assert_eq!(taken, ones);
                    prop_assert!(map.is_zero());
                }
            }
        }
    };
}

oracle_tests!(bitmap64, Bitmap64, 1, |w: [u64; 1]| Bitmap64(w[0]), |m: Bitmap64| [m.0]);
oracle_tests!(bitmap128, Bitmap128, 2, Bitmap128::from_words, Bitmap128::words);

#[test]
fn only_a_one_above_a_zero_is_a_hole() {
    assert!(!Bitmap128::ZERO.has_hole());
    assert!(!Bitmap128::low_mask(3).has_hole()); // the example of D-33
    assert!(Bitmap64(0b1110).has_hole()); // F-6.6.6-1: 301..303 received, 300 not
    assert!(!Bitmap128::low_mask(64).has_hole());
    assert!(Bitmap128::bit(64).has_hole());
    assert!(!Bitmap128::low_mask(128).has_hole());
}
