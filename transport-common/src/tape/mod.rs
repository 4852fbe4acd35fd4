//! The tape: what a run of the datapath asked its platform and what the platform answered, in words of 32 bits.
//!
//! A run is one frame of [`receive`](crate::datapath::receive) or of [`engine`](crate::datapath::engine).
//! Everything that it does follows from the context of its connection and from the answers of the platform.
//! [`Recorded`] stands between the two and writes the answers down. With the contexts at the start and the tapes
//! of all runs, every decision can be repeated on another machine and compared ([`mod@file`] describes the file
//! format).
//!
//! The steps of one connection are numbered under its lock, because runs on several CPUs interleave. The node may change the
//! next hop of a connection between two steps ([`set_next_hop`](crate::datapath::exchange::set_next_hop)), and request other
//! settings of congestion control ([`request_settings`](crate::datapath::exchange::request_settings)), so each step records
//! those with which it begins.

pub mod file;
mod note;
mod noted;
mod recorded;
mod recorder;

pub use crate::datapath::PREFIX_BYTES;
pub use note::{Note, Notes, Tag, Unreadable};
pub use noted::{Answer, Noted, Words, words_of};
pub use recorded::{Ending, Outcome, Recorded, finish};
pub use recorder::Recorder;

use crate::congestion::settings::Settings;
use crate::connection::{Cold, Connection};
use crate::queues::Completion;
use bytemuck::{NoUninit, Zeroable};
use core::cell::{Cell, UnsafeCell};

/// Largest number of words on a tape. The longest run completes and reports every transaction of a connection.
pub const TAPE_WORDS: usize = 4096;
/// Bytes of tapes that the kernel holds for the process that takes the trace, a power of two.
pub const TRACE_BYTES: u32 = 16 << 20;
/// The part of a sent frame's header buffer that is recorded, as a range of bytes.
pub const KEPT_HEADER: core::ops::Range<usize> = 12..208;

/// The kind of a run ([`Tape::kind`]).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunKind(pub u32);

impl RunKind {
    /// A frame from the network.
    pub const RECEIVE: Self = Self(1);
    /// A run of the engine for one of its frames.
    pub const ENGINE: Self = Self(2);
}

/// The tape of one run. In the kernel, each CPU's scratch map holds one.
#[repr(C)]
#[derive(Zeroable)]
pub struct Tape {
    /// See [`RunKind`].
    pub kind: Cell<u32>,
    /// Words in use. It is more than [`TAPE_WORDS`] if the run did not fit.
    pub used: Cell<u32>,
    /// Number of connection steps that the run took.
    pub steps: Cell<u32>,
    /// Bytes of the frame: all of a received frame, or those of a held request; 0 if there was neither.
    pub frame_length: Cell<u32>,
    /// The first bytes of that frame, at most this many.
    pub prefix: UnsafeCell<[u8; PREFIX_BYTES]>,
    /// The notes.
    pub words: [Cell<u32>; TAPE_WORDS],
}

impl Tape {
    /// Bytes before the words.
    pub const HEAD_BYTES: usize = 16 + PREFIX_BYTES;

    /// Begins a run and discards what was on the tape.
    #[inline(always)]
    pub fn begin(&self, kind: RunKind) {
        self.kind.set(kind.0);
        self.used.set(0);
        self.steps.set(0);
        self.frame_length.set(0);
    }

    /// Begins a note of `words` words. The words follow.
    #[inline(always)]
    fn open(&self, tag: Tag, short: u16, words: usize) {
        self.word(tag as u32 | (words as u32) << 8 | (short as u32) << 16);
    }

    /// Appends a note with a small value.
    #[inline(always)]
    pub(crate) fn short(&self, tag: Tag, value: u16) {
        self.open(tag, value, 0);
    }

    /// Appends a note with `N` words, at most 8.
    #[inline(always)]
    pub(crate) fn long<const N: usize>(&self, tag: Tag, short: u16, words: [u32; N]) {
        self.open(tag, short, N);
        // One word at a time: a loop over the words would put them on the BPF target's stack.
        self.word_of::<0, N>(&words);
        self.word_of::<1, N>(&words);
        self.word_of::<2, N>(&words);
        self.word_of::<3, N>(&words);
        self.word_of::<4, N>(&words);
        self.word_of::<5, N>(&words);
        self.word_of::<6, N>(&words);
        self.word_of::<7, N>(&words);
    }

    /// Appends word `AT`, if it exists.
    #[inline(always)]
    fn word_of<const AT: usize, const N: usize>(&self, words: &[u32; N]) {
        const { assert!(N <= 8) };
        if AT < N {
            self.word(words[AT]);
        }
    }

    /// Appends a note with a plain struct, as words of 32 bits.
    #[inline(always)]
    pub(crate) fn value<T: NoUninit>(&self, tag: Tag, short: u16, value: &T) {
        self.open(tag, short, size_of::<T>() / 4);
        noted::write_struct(value, self);
    }

    /// Appends the note of the next hop with which a step begins.
    #[inline(always)]
    fn next_hop(&self, [a, b, c, d, e, f]: [u8; 6]) {
        self.long(Tag::NextHop, u16::from_le_bytes([e, f]), [u32::from_le_bytes([a, b, c, d])]);
    }

    /// Appends the note of the settings that are pending when a step begins. Never inlined: it is rare, and each program
    /// takes locks in several places.
    #[inline(never)]
    fn settings(&self, requested: &Settings) {
        self.value(Tag::Settings, 0, requested);
    }

    /// Appends a note with a 64-bit value.
    #[inline(always)]
    pub(crate) fn wide(&self, tag: Tag, short: u16, value: u64) {
        self.long(tag, short, [value as u32, (value >> 32) as u32]);
    }
}

impl Words for Tape {
    /// Appends a word. A word that does not fit overwrites an old one, and `used` then shows the overflow.
    #[inline(always)]
    fn word(&self, word: u32) {
        // The position is read back each time. A position in a register is one more value in which two states of
        // the kernel's verifier can differ.
        // SAFETY: the cell is valid, and only one run reads it.
        let used = unsafe { self.used.as_ptr().read_volatile() };
        self.words[used as usize & (TAPE_WORDS - 1)].set(word);
        self.used.set(used.wrapping_add(1));
    }
}

/// Makes a call whose note is made from the list, and writes the note. If there is no answer, the note comes first, so that the
/// arguments need not be kept during the call: the BPF target's stack is small.
macro_rules! record {
    ($tape:expr, $tag:ident [$($noted:expr),*], $call:expr) => {{
        let tape = $tape;
        let answers = $crate::tape::noted::words_of_answer(&|| $call);
        if answers == 0 {
            tape.open($crate::tape::Tag::$tag, 0, 0 $(+ $crate::tape::words_of(&$noted))*);
            $($crate::tape::Noted::write($noted, tape);)*
        }
        let answer = $call;
        if answers != 0 {
            tape.open($crate::tape::Tag::$tag, 0, answers $(+ $crate::tape::words_of(&$noted))*);
            $($crate::tape::Noted::write($noted, tape);)*
        }
        $crate::tape::Noted::write(answer, tape);
        answer
    }};
}
use record;

/// Computes one step of [`digest`].
#[inline(always)]
const fn mix(hash: u64, word: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR)
}

/// Computes the [`digest`] of a completion from its fields. A completion built in memory would need space on the
/// BPF target's stack.
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

/// Returns a hash of a value, for comparisons. It does not resist attacks: it is easy to find two values with the
/// same hash.
#[inline(always)]
pub fn digest<T: NoUninit>(value: &T) -> u64 {
    const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() == 8) };
    let words = core::ptr::from_ref(value).cast::<u64>();
    let mut hash = 0u64;
    let mut n = 0;
    while n < size_of::<T>() / 8 {
        crate::verifier::bounded!();
        // SAFETY: the address is within the value by the bound of the loop and aligned, as the assertion shows. No
        // byte of the value is uninitialised.
        hash = mix(hash, unsafe { words.add(n).read_volatile() });
        n += 1;
    }
    hash
}

/// Returns a hash of what a step of a connection changes, other than its tables: context and cold state. For a closed
/// connection the cold state adds nothing.
#[inline(always)]
pub fn digest_of_state(hot: &Connection, cold: &Cold) -> u64 {
    digest(hot) ^ digest_of_cold(cold)
}

/// A function of its own, because the recording programs have no stack for it.
#[inline(never)]
fn digest_of_cold(cold: &Cold) -> u64 {
    digest(cold)
}
