//! The arithmetic of user logic.

use clocked::RingBitmap;
use proptest::prelude::*;

use crate::logic::{Bitmap, Counting, Flag, Logic, Operation, Plain, Tape, Value, Word, packed_bytes};

fn bitmap(bits: &[u32]) -> RingBitmap<2> {
    let mut bitmap = RingBitmap::EMPTY;
    bits.iter().for_each(|bit| bitmap.set(*bit));
    bitmap
}

proptest! {
    #[test]
    fn bitmap_operations_against_a_walk(
        bits in prop::collection::vec(0..128u32, 0..128), first: u32, length in 0..140u64,
    ) {
        let bitmap = bitmap(&bits);
        let inside: Vec<bool> = (0..length.min(128) as u32)
            .map(|offset| bits.contains(&(first.wrapping_add(offset) % 128)))
            .collect();
        let (from, length) = (Value(first.into()), Value(length));
        let leading = inside.iter().take_while(|set| **set).count();
        let trailing = inside.iter().rev().take_while(|set| **set).count();
        let set = inside.iter().filter(|set| **set).count();
        prop_assert_eq!(Bitmap::count(bitmap, from, length).0, set as u64);
        prop_assert_eq!(bitmap.first_clear(from, length).0, leading as u64);
        prop_assert_eq!(bitmap.last_clear(from, length).0, trailing as u64);
        prop_assert_eq!(Bitmap::get(bitmap, from), bits.contains(&(first % 128)));
    }

    /// Compares the order of segment ids with the sign of their difference.
    #[test]
    fn segments_follow_one_another_modulo_32_bits(a: u32, distance in -(1i32 << 30)..(1 << 30)) {
        let b = a.wrapping_add_signed(distance);
        let (a, b) = (Value(a.into()), Value(b.into()));
        prop_assert_eq!(b.follows(a), distance > 0);
        prop_assert_eq!(a.follows(b), distance < 0);
        prop_assert_eq!(a.later_segment(b), if distance > 0 { b } else { a });
        prop_assert_eq!(b.offset_from(a).0, u64::from(distance as u32));
        prop_assert_eq!(a.segments_on(Value(u64::from(distance as u32))), b);
    }

    #[test]
    fn comparisons(a: u64, b: u64) {
        let (x, y) = (Value(a), Value(b));
        prop_assert_eq!((x.min(y).0, x.max(y).0), (a.min(b), a.max(b)));
        prop_assert_eq!((x.below(y), x.at_most(y), x.is(y)), (a < b, a <= b, a == b));
        prop_assert_eq!(x.bit(63), a >> 63 == 1);
        prop_assert_eq!((x.low(64).0, x.low(5).0), (a, a & 31));
    }
}

/// A function in both arithmetics: 2 additions, a comparison and a multiplexer, with a longest path of 3.
fn sample<L: Logic>(a: L::Word, b: L::Word) -> L::Word {
    let sum = a + b + L::word(1);
    sum.below(L::word(10)).choose(sum << 1, a)
}

#[test]
fn operations_and_depth_are_counted() {
    let tape = Tape::default();
    let counted = sample::<Counting<'_>>(tape.input(3), tape.input(4));
    assert_eq!(sample::<Plain<2>>(Value(3), Value(4)).0, counted.value);
    assert_eq!(counted.depth, 4, "a + b, + 1, compare, choose; the shift is a wire");
    let counts = Operation::ALL.map(|operation| tape.count(operation));
    assert_eq!(counts, [2, 0, 1, 0, 1, 0, 0]);
}

#[test]
fn a_function_of_the_core_is_one_operation() {
    fn boxed<L: Logic>(a: L::Word, b: L::Word) -> [L::Word; 2] {
        L::core([a, a + b], |[a, sum]| [a * sum, a ^ sum])
    }
    let tape = Tape::default();
    let [product, mixed] = boxed::<Counting<'_>>(tape.input(3), tape.input(4));
    assert_eq!(boxed::<Plain<2>>(Value(3), Value(4)).map(|word| word.0), [21, 4]);
    assert_eq!([product.value, mixed.value], [21, 4]);
    assert_eq!([product.depth, mixed.depth], [2, 2], "an addition and the box");
    assert_eq!(Operation::ALL.map(|operation| tape.count(operation)), [1, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn constants_cost_nothing() {
    let tape = Tape::default();
    let folded = sample::<Counting<'_>>(Counting::word(3), Counting::word(4));
    assert_eq!((folded.value, folded.depth), (16, 0));
    assert!(Operation::ALL.iter().all(|operation| tape.count(*operation) == 0));
    let bits = tape.bitmap(bitmap(&[3]));
    assert!(bits.get(tape.input(131)).value);
    assert_eq!(bits.get(tape.input(131)).depth, Operation::Bitmap.levels());
    assert!(!(!tape.flag(true) | tape.flag(false)).value);
    assert_eq!(tape.flag(true).word().value, 1);
}

#[test]
fn states_are_packed() {
    assert_eq!(packed_bytes(&[1, 1, 32, 6]), 5);
    assert_eq!(packed_bytes(&[1, 8]), 2);
    assert_eq!(packed_bytes(&[]), 0);
}
