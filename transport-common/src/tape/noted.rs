//! Values in the notes of calls, as words of 32 bits.

use bytemuck::{NoUninit, Zeroable};

use crate::datapath::Atomic;
use crate::ids::{CellId, WorkPosition};
use crate::memory::{AccessFlags, LKey, ProtectionDomain, Region};
use crate::queues::{Command, Published, Readiness, ReceiveRequest, Verb};
use crate::units::{Picoseconds, Ticks};

/// Takes the words of a note, in order.
pub trait Words {
    /// Appends a word.
    fn word(&self, word: u32);
}

/// A value that a note can have: an argument of a call, or its answer.
pub trait Noted: Copy {
    /// Number of words.
    const WORDS: usize;
    /// Appends the words.
    fn write(self, to: &impl Words);
}

/// An answer of a call, which a replay reads.
pub trait Answer: Noted {
    /// The answer if the tape has none.
    const ABSENT: Self;
    /// Reads an answer from its words. Words that are missing count as 0.
    fn read(words: &[u32]) -> Self;
}

/// Returns the number of words of the answer of a call. It does not make the call.
#[inline(always)]
pub(super) const fn words_of_answer<T: Noted>(_: &impl FnOnce() -> T) -> usize {
    T::WORDS
}

/// Returns the number of words of a value.
#[inline(always)]
pub const fn words_of<T: Noted>(_: &T) -> usize {
    T::WORDS
}

/// Appends a plain struct.
#[inline(always)]
pub(super) fn write_struct<T: NoUninit>(value: &T, to: &impl Words) {
    const { assert!(size_of::<T>().is_multiple_of(4) && size_of::<T>() < 1024 && align_of::<T>() >= 4) };
    let words = core::ptr::from_ref(value).cast::<u32>();
    let mut n = 0;
    while n < size_of::<T>() / 4 {
        // SAFETY: the address is within the value by the bound of the loop. It is aligned, as the assertion shows.
        to.word(unsafe { words.add(n).read_volatile() });
        n += 1;
    }
}

/// Returns word `n`, or 0 beyond the end.
fn at(words: &[u32], n: usize) -> u32 {
    words.get(n).copied().unwrap_or(0)
}

/// Returns words `n` and `n + 1` as one number.
fn wide(words: &[u32], n: usize) -> u64 {
    at(words, n) as u64 | (at(words, n + 1) as u64) << 32
}

/// Implements both traits for values of one word.
macro_rules! one_word {
    ($($of:ty, $absent:expr, |$value:ident| $write:expr, |$word:ident| $read:expr;)*) => { $(
        impl Noted for $of {
            const WORDS: usize = 1;

            #[inline(always)]
            fn write(self, to: &impl Words) {
                let $value = self;
                to.word($write);
            }
        }

        impl Answer for $of {
            const ABSENT: Self = $absent;

            fn read(words: &[u32]) -> Self {
                let $word = at(words, 0);
                $read
            }
        }
    )* };
}

one_word! {
    CellId, Self::NONE, |value| value.0, |word| Self(word);
    bool, false, |value| value as u32, |word| word != 0;
    WorkPosition, Self(0), |value| value.0, |word| Self(word);
    Verb, Self(0), |value| value.0 as u32, |word| Self(word as u8);
    Command, Self::NONE, |value| value.0, |word| Self(word);
    Readiness, Self::NoReceive, |value| value as u32, |word| match word {
        1 => Self::NoPlace,
        2 => Self::Ready,
        _ => Self::NoReceive,
    };
}

/// Implements [`Noted`] for values that are only arguments.
macro_rules! argument {
    ($($of:ty, |$value:ident| $write:expr;)*) => { $(
        impl Noted for $of {
            const WORDS: usize = 1;

            #[inline(always)]
            fn write(self, to: &impl Words) {
                let $value = self;
                to.word($write);
            }
        }
    )* };
}

argument! {
    u32, |value| value;
    Ticks, |value| value.0;
    Atomic, |value| value as u32;
    Published, |value| value as u32;
}

impl Noted for () {
    const WORDS: usize = 0;

    #[inline(always)]
    fn write(self, _: &impl Words) {}
}

impl Answer for () {
    const ABSENT: Self = ();

    fn read(_: &[u32]) -> Self {}
}

impl Noted for u64 {
    const WORDS: usize = 2;

    #[inline(always)]
    fn write(self, to: &impl Words) {
        to.word(self as u32);
        to.word((self >> 32) as u32);
    }
}

impl Answer for u64 {
    const ABSENT: Self = 0;

    fn read(words: &[u32]) -> Self {
        wide(words, 0)
    }
}

impl Noted for Picoseconds {
    const WORDS: usize = u64::WORDS;

    #[inline(always)]
    fn write(self, to: &impl Words) {
        self.0.write(to);
    }
}

impl Answer for Picoseconds {
    /// Not 0, which means that the clock was not read.
    const ABSENT: Self = Self(1);

    fn read(words: &[u32]) -> Self {
        Self(u64::read(words))
    }
}

impl Noted for Option<u32> {
    const WORDS: usize = 2;

    #[inline(always)]
    fn write(self, to: &impl Words) {
        // In two branches: the BPF target may read the payload of an absent option, and the verifier rejects that.
        match self {
            Some(word) => {
                to.word(1);
                to.word(word);
            }
            None => {
                to.word(0);
                to.word(0);
            }
        }
    }
}

impl Answer for Option<u32> {
    const ABSENT: Self = None;

    fn read(words: &[u32]) -> Self {
        (at(words, 0) != 0).then(|| at(words, 1))
    }
}

impl Noted for Option<Picoseconds> {
    const WORDS: usize = 3;

    #[inline(always)]
    fn write(self, to: &impl Words) {
        to.word(self.is_some() as u32);
        self.unwrap_or(Picoseconds(0)).write(to);
    }
}

impl Noted for Region {
    const WORDS: usize = 7;

    #[inline(always)]
    fn write(self, to: &impl Words) {
        self.offset.write(to);
        self.length.write(to);
        to.word(self.key);
        to.word(self.access.bits());
        to.word(self.domain.0);
    }
}

impl Answer for Region {
    const ABSENT: Self = Self::FREE;

    fn read(words: &[u32]) -> Self {
        Self {
            offset: wide(words, 0),
            length: wide(words, 2),
            key: at(words, 4),
            access: AccessFlags::from_bits_retain(at(words, 5)),
            domain: ProtectionDomain(at(words, 6)),
            reserved: 0,
        }
    }
}

impl Noted for ReceiveRequest {
    const WORDS: usize = size_of::<Self>() / 4;

    #[inline(always)]
    fn write(self, to: &impl Words) {
        write_struct(&self, to);
    }
}

impl Answer for ReceiveRequest {
    const ABSENT: Self = Self { local_offset: 0, wr_id: 0, length: 0, lkey: LKey::OWN };

    fn read(words: &[u32]) -> Self {
        let mut request = Self::zeroed();
        request.local_offset = wide(words, 0);
        request.wr_id = wide(words, 2);
        request.length = at(words, 4);
        request.lkey = LKey(at(words, 5));
        request
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use core::cell::RefCell;
    use core::fmt::Debug;
    use std::vec::Vec;

    impl Words for RefCell<Vec<u32>> {
        fn word(&self, word: u32) {
            self.borrow_mut().push(word);
        }
    }

    fn survives<T: Answer + PartialEq + Debug>(values: &[T]) {
        for value in values {
            let words = RefCell::new(Vec::new());
            value.write(&words);
            let words = words.into_inner();
            assert_eq!((words.len(), words_of(value)), (T::WORDS, T::WORDS));
            assert_eq!(T::read(&words), *value);
        }
    }

    #[test]
    fn answers_survive_the_tape() {
        let wide = 0x0123_4567_89ab_cdef;
        survives(&[0, 7, u32::MAX].map(CellId));
        survives(&[0, wide, u64::MAX]);
        survives(&[true, false]);
        survives(&[()]);
        survives(&[Picoseconds(1), Picoseconds(wide)]);
        survives(&[None, Some(0), Some(u32::MAX)]);
        survives(&[WorkPosition(3), WorkPosition(u32::MAX)]);
        survives(&[Verb(0), Verb(255)]);
        survives(&[Command(0), Command(u32::MAX)]);
        survives(&[Readiness::NoReceive, Readiness::NoPlace, Readiness::Ready]);
        let access = AccessFlags::from_bits_retain(u32::MAX);
        let domain = ProtectionDomain(10);
        let region = Region { offset: wide, length: u64::MAX - 1, key: 9, access, domain, reserved: 0 };
        survives(&[Region::default(), region]);
        survives(&[ReceiveRequest { local_offset: wide, wr_id: wide + 1, length: 7, lkey: LKey(8) }]);
    }

    /// A replay may meet a tape that was damaged.
    #[test]
    fn words_that_are_missing_count_as_0() {
        assert_eq!(
            (u64::read(&[7]), CellId::read(&[]), Option::<u32>::read(&[1])),
            (7, CellId::NONE, Some(0))
        );
        assert_eq!(Region::read(&[]), Region::default());
        assert_eq!(
            ReceiveRequest::read(&[1]),
            ReceiveRequest { local_offset: 1, ..ReceiveRequest::default() }
        );
    }
}
