//! The tape: what a run of the datapath asked its platform and what it was told, word by word.
//!
//! A run is one frame of [`receive`](crate::datapath::receive) or of [`engine`](crate::datapath::engine). All that it
//! does follows from the context of its connection and from the answers of the platform. [`Recorded`] stands between the
//! two and writes both down: with the contexts at the start and the tapes of all runs, every decision can be made
//! again, elsewhere and later, and compared ([`mod@file`] says how they are kept).
//!
//! Steps of one connection are numbered under its lock, because runs on several CPUs interleave.

pub mod file;
mod note;
mod recorded;
mod recorder;

pub use crate::datapath::PREFIX_BYTES;
pub use note::{Note, Notes, Tag, Unreadable};
pub use recorded::{Ending, Outcome, Recorded, finish};
pub use recorder::Recorder;

use crate::queues::Completion;
use bytemuck::{NoUninit, Zeroable};
use core::cell::{Cell, UnsafeCell};

/// Words a tape can hold. The longest run completes and reports every transaction of a connection.
pub const TAPE_WORDS: usize = 4096;
/// Bytes of tapes that wait in the kernel for whoever takes the trace; a power of two.
pub const TRACE_BYTES: u32 = 16 << 20;
/// Where the part of the header buffer starts that is kept of a frame to send, and where it ends, bytes.
pub const KEPT_HEADER: core::ops::Range<usize> = 12..204;

/// What kind of run a tape holds ([`Tape::kind`]).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunKind(pub u32);

impl RunKind {
    /// A frame from the network.
    pub const RECEIVE: Self = Self(1);
    /// A frame of the engine.
    pub const ENGINE: Self = Self(2);
}

/// The tape of one run. In the kernel one lives in each CPU's scratch map.
#[repr(C)]
#[derive(Zeroable)]
pub struct Tape {
    /// See [`RunKind`].
    pub kind: Cell<u32>,
    /// Words in use; more than [`TAPE_WORDS`] of a run that did not fit.
    pub used: Cell<u32>,
    /// Steps of a connection that it took.
    pub steps: Cell<u32>,
    /// Bytes of the frame that are meant: all of a received one, those of a held request; 0 if there was neither.
    pub frame_length: Cell<u32>,
    /// The first of them, as far as there are that many.
    pub prefix: UnsafeCell<[u8; PREFIX_BYTES]>,
    /// The notes.
    pub words: [Cell<u32>; TAPE_WORDS],
}

impl Tape {
    /// Bytes in front of the words.
    pub const HEAD_BYTES: usize = 16 + PREFIX_BYTES;

    /// Begins a run; what was on the tape is lost.
    #[inline(always)]
    pub fn begin(&self, kind: RunKind) {
        self.kind.set(kind.0);
        self.used.set(0);
        self.steps.set(0);
        self.frame_length.set(0);
    }

    /// Begins a note of `words` words, which follow.
    #[inline(always)]
    fn open(&self, tag: Tag, short: u16, words: usize) {
        self.word(tag as u32 | (words as u32) << 8 | (short as u32) << 16);
    }

    /// Appends a word. One that does not fit overwrites an old one, and `used` tells.
    #[inline(always)]
    fn word(&self, word: u32) {
        // Read back each time: a position that is kept is one more thing in which two states of the kernel's verifier
        // differ.
        // SAFETY: the cell is valid, and read by one run only.
        let used = unsafe { self.used.as_ptr().read_volatile() };
        self.words[used as usize & (TAPE_WORDS - 1)].set(word);
        self.used.set(used.wrapping_add(1));
    }

    /// Appends a note with a small value.
    #[inline(always)]
    pub(crate) fn short(&self, tag: Tag, value: u16) {
        self.open(tag, value, 0);
    }

    /// Appends a note with `N` words, 8 at most.
    #[inline(always)]
    pub(crate) fn long<const N: usize>(&self, tag: Tag, short: u16, words: [u32; N]) {
        self.open(tag, short, N);
        // One by one: a loop over them would put them on the BPF target's stack.
        self.word_of::<0, N>(&words);
        self.word_of::<1, N>(&words);
        self.word_of::<2, N>(&words);
        self.word_of::<3, N>(&words);
        self.word_of::<4, N>(&words);
        self.word_of::<5, N>(&words);
        self.word_of::<6, N>(&words);
        self.word_of::<7, N>(&words);
    }

    /// Appends word `AT`, if there is one.
    #[inline(always)]
    fn word_of<const AT: usize, const N: usize>(&self, words: &[u32; N]) {
        const { assert!(N <= 8) };
        if AT < N {
            self.word(words[AT]);
        }
    }

    /// Appends a note with a plain struct, as 32-bit words.
    #[inline(always)]
    pub(crate) fn value<T: NoUninit>(&self, tag: Tag, short: u16, value: &T) {
        const { assert!(size_of::<T>().is_multiple_of(4) && size_of::<T>() < 1024 && align_of::<T>() >= 4) };
        self.open(tag, short, size_of::<T>() / 4);
        let words = core::ptr::from_ref(value).cast::<u32>();
        let mut n = 0;
        while n < size_of::<T>() / 4 {
            // SAFETY: within the value by the bound of the loop, and aligned, as was asserted.
            self.word(unsafe { words.add(n).read_volatile() });
            n += 1;
        }
    }

    /// Appends a note with a 64-bit value.
    #[inline(always)]
    pub(crate) fn wide(&self, tag: Tag, short: u16, value: u64) {
        self.long(tag, short, [value as u32, (value >> 32) as u32]);
    }
}

/// A step of [`digest`].
#[inline(always)]
const fn mix(hash: u64, word: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR)
}

/// [`digest`] of a completion, from its fields: put together in memory it would need room on the BPF target's stack.
#[inline(always)]
pub fn digest_of_completion(c: &Completion) -> u64 {
    let sizes = c.length as u64 | (c.immediate as u64) << 32;
    let codes = (c.rsn as u64) << 32
        | (c.flags.bits() as u64) << 24
        | (c.opcode.0 as u64) << 16
        | (c.ulp_code as u64) << 8
        | c.status as u64;
    mix(mix(mix(0, c.wr_id), sizes), codes)
}

/// A number that stands for a value in comparisons. Not for enemies: it is easy to find two values of one number.
#[inline(always)]
pub fn digest<T: NoUninit>(value: &T) -> u64 {
    const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() == 8) };
    let words = core::ptr::from_ref(value).cast::<u64>();
    let mut hash = 0u64;
    let mut n = 0;
    while n < size_of::<T>() / 8 {
        crate::verifier::bounded!();
        // SAFETY: within the value by the bound of the loop, aligned as asserted, and no byte of it is uninitialised.
        hash = mix(hash, unsafe { words.add(n).read_volatile() });
        n += 1;
    }
    hash
}
