//! The set of the connections that asked for a service.

use crate::shared::AtomicU64;
use crate::verifier::bounded;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Largest number of words that a search reads one by one: a cache line. A larger set has a summary.
const FLAT_WORDS: usize = 8;

/// A set of slots, `WORDS` words of 64, for any number of CPUs that add and one engine that searches and removes. All zero
/// bytes are the empty set. Slots are taken modulo the size of the set.
///
/// A set of up to a cache line of words has one level: a search reads the words in turn. A larger set has a second level, a
/// word with a bit for each word that may not be empty, so that a search is two scans for the lowest bit.
///
/// # Order of the accesses
///
/// A bit is set before its bit in the summary. The engine clears only the bit. A search that finds the word of a summary
/// bit empty clears that bit, reads the word again, and restores the bit if the word is no longer empty. A full barrier
/// stands between the write and the read on both sides, so either the search sees the new bit, or the CPU that set it sees
/// that the summary bit is cleared, and sets it. So no request is lost. `tests/threads.rs` tries all orders.
///
/// Applications can write anything into the set. A summary bit without a reason costs a search one more pass, and no slot its
/// turn. One that is cleared is like a bit of the set that is cleared: the next request sets it again.
///
/// # Example
///
/// ```
/// use transport_common::shard::ReadySet;
///
/// let set: ReadySet<4> = bytemuck::Zeroable::zeroed();
/// set.set(3);
/// set.set(200);
/// let mut cursor = 100;
/// assert_eq!(set.next(&mut cursor), Some(200));
/// assert_eq!(set.next(&mut cursor), Some(3), "round robin");
/// assert!(set.contains(200), "a search removes nothing");
/// set.clear(200);
/// assert_eq!(set.next(&mut cursor), Some(3));
/// ```
#[repr(C)]
#[cfg_attr(not(target_arch = "bpf"), derive(bytemuck::Zeroable))]
pub struct ReadySet<const WORDS: usize> {
    /// Bit `n % 64` of word `n / 64`: slot `n` is in the set.
    pub words: [AtomicU64; WORDS],
    /// Bit `n`: word `n` may not be empty. Always 0 in a set of one level.
    pub summary: AtomicU64,
}

impl<const WORDS: usize> ReadySet<WORDS> {
    /// Number of slots.
    pub const SLOTS: u32 = {
        assert!(WORDS.is_power_of_two() && WORDS <= 64, "a summary is one word");
        WORDS as u32 * u64::BITS
    };
    const TWO_LEVELS: bool = WORDS > FLAT_WORDS;
    /// The bits of a summary that stand for words.
    const SUMMARY_BITS: u64 = u64::MAX >> (64 - WORDS);

    /// Returns the index of a slot's word, and its bit.
    #[inline(always)]
    const fn place(slot: u32) -> (usize, u64) {
        ((slot as usize / 64) & (WORDS - 1), 1 << (slot & 63))
    }

    /// Adds `slot`, on any CPU. A bit that is already set is not written, so that the cache line stays in the engine's cache.
    #[inline(always)]
    pub fn set(&self, slot: u32) {
        let (index, bit) = Self::place(slot);
        let word = &self.words[index];
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
        // Also if the bit was set: the CPU that set it may not have come to the summary.
        if Self::TWO_LEVELS && self.summary.load(SeqCst) & (1 << index) == 0 {
            self.summary.fetch_or(1 << index, SeqCst);
        }
    }

    /// Removes `slot`. Only the engine may. The summary keeps its bit until a search finds the word empty: that search has
    /// time, and while slots of the word ask again soon, no atomic operation is needed.
    #[inline(always)]
    pub fn clear(&self, slot: u32) {
        let (index, bit) = Self::place(slot);
        self.words[index].fetch_and(!bit, SeqCst);
    }

    /// Returns the first slot of the set at or after `cursor`, round robin, and moves the cursor behind it. The slot stays in
    /// the set. Only the engine may.
    #[inline(always)]
    pub fn next(&self, cursor: &mut u32) -> Option<u32> {
        let slot = if Self::TWO_LEVELS { self.next_by_summary(*cursor) } else { self.next_by_word(*cursor) };
        if let Some(slot) = slot {
            *cursor = (slot + 1) & (Self::SLOTS - 1);
        }
        slot
    }

    /// Reads each word. The word with the cursor is read twice: its upper part first, all of it last.
    #[inline(always)]
    fn next_by_word(&self, cursor: u32) -> Option<u32> {
        let mut n = 0;
        while n <= WORDS {
            let index = (cursor as usize / 64 + n) & (WORDS - 1);
            let mut bits = self.words[index].load(Relaxed);
            if n == 0 {
                bits &= u64::MAX << (cursor & 63);
            }
            if bits != 0 {
                return Some((index as u32 * 64 + bits.trailing_zeros()) & (Self::SLOTS - 1));
            }
            n += 1;
        }
        None
    }

    /// Reads the upper part of the word with the cursor, and then words that the summary names: those after it, then those
    /// before it. There is one such word if no summary bit is out of date. Each pass corrects one that is.
    #[inline(always)]
    fn next_by_summary(&self, cursor: u32) -> Option<u32> {
        let mut index = (cursor as usize / 64) & (WORDS - 1);
        let mut bits = self.words[index].load(Relaxed) & (u64::MAX << (cursor & 63));
        let mut n = 0;
        while n <= WORDS {
            bounded!();
            if bits != 0 {
                return Some((index as u32 * 64 + bits.trailing_zeros()) & (Self::SLOTS - 1));
            }
            let named = self.summary.load(Relaxed) & Self::SUMMARY_BITS;
            let after = named & ((u64::MAX << index) << 1);
            let named = if after != 0 { after } else { named };
            if named == 0 {
                return None;
            }
            index = named.trailing_zeros() as usize & (WORDS - 1);
            bits = self.words[index].load(Relaxed);
            if bits == 0 {
                bits = self.withdraw(index);
            }
            n += 1;
        }
        None
    }

    /// Clears the summary bit of a word that was found empty. Returns the word, which another CPU may have written meanwhile:
    /// then the summary keeps its bit.
    #[inline(always)]
    fn withdraw(&self, index: usize) -> u64 {
        self.summary.fetch_and(!(1 << index), SeqCst);
        let bits = self.words[index].load(SeqCst);
        if bits != 0 {
            self.summary.fetch_or(1 << index, SeqCst);
        }
        bits
    }

    /// Returns whether a search would find nothing. An engine that falls asleep asks this last, after a full barrier.
    pub fn is_empty(&self) -> bool {
        let named = if Self::TWO_LEVELS { self.summary.load(SeqCst) } else { u64::MAX };
        self.words.iter().enumerate().all(|(n, word)| named >> n & 1 == 0 || word.load(SeqCst) == 0)
    }

    /// Returns whether `slot` is in the set.
    pub fn contains(&self, slot: u32) -> bool {
        let (index, bit) = Self::place(slot);
        self.words[index].load(Relaxed) & bit != 0
    }

    /// Returns the bits of all slots, slot 0 first.
    pub fn bits(&self) -> [u64; WORDS] {
        self.words.each_ref().map(|word| word.load(Relaxed))
    }

    /// Makes the set the one of these bits, while nobody else uses it.
    pub fn restore(&self, bits: [u64; WORDS]) {
        let mut summary = 0;
        for (n, (word, bits)) in self.words.iter().zip(bits).enumerate() {
            word.store(bits, Relaxed);
            summary |= u64::from(bits != 0) << n;
        }
        self.summary.store(if Self::TWO_LEVELS { summary } else { 0 }, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use bytemuck::Zeroable;
    use std::vec::Vec;

    /// Takes slots until the set is empty.
    fn take_all<const WORDS: usize>(set: &ReadySet<WORDS>, mut cursor: u32) -> Vec<u32> {
        let take = || set.next(&mut cursor).inspect(|slot| set.clear(*slot));
        core::iter::from_fn(take).take(ReadySet::<WORDS>::SLOTS as usize + 1).collect()
    }

    fn turns_go_round_robin<const WORDS: usize>() {
        let set = ReadySet::<WORDS>::zeroed();
        let last = ReadySet::<WORDS>::SLOTS - 1;
        [3, 65, 70, last, 70].iter().for_each(|slot| set.set(*slot));
        assert!(set.contains(70) && !set.contains(71) && !set.is_empty());
        assert_eq!(take_all(&set, 70), [70, last, 3, 65]);
        assert!(set.is_empty());
        [3, 65].iter().for_each(|slot| set.set(*slot));
        let mut cursor = 4;
        let turns = [(); 4].map(|()| set.next(&mut cursor));
        assert_eq!(turns, [65, 3, 65, 3].map(Some), "a slot that stays has a turn in every round");
    }

    #[test]
    fn turns_go_round_robin_and_each_request_is_served_once() {
        turns_go_round_robin::<4>();
        turns_go_round_robin::<16>();
        turns_go_round_robin::<64>();
    }

    #[test]
    fn slots_are_taken_modulo_the_size() {
        let set = ReadySet::<4>::zeroed();
        set.set(256 + 9);
        assert_eq!((set.bits(), set.next(&mut { 1 << 20 })), ([1 << 9, 0, 0, 0], Some(9)));
        set.clear(512 + 9);
        assert!(set.is_empty());
    }

    /// A CPU set the bit of a word that a search had emptied meanwhile; an application writes what it likes.
    #[test]
    fn summary_bits_of_empty_words_are_corrected_and_hide_nothing() {
        let set = ReadySet::<16>::zeroed();
        set.set(1000);
        set.summary.store(u64::MAX, Relaxed);
        assert!(!set.is_empty());
        let mut cursor = 130;
        assert_eq!(set.next(&mut cursor), Some(1000));
        set.clear(1000);
        assert!(set.is_empty(), "an engine with nothing to do may sleep");
        assert_eq!(set.next(&mut cursor), None);
        assert_eq!(set.summary.load(Relaxed) & 0xffff, 0);
    }

    /// A process that ended between the two writes leaves a bit that no summary bit names. The next request corrects it.
    #[test]
    fn request_is_found_after_one_that_was_not_completed() {
        let set = ReadySet::<16>::zeroed();
        set.words[3].store(1, Relaxed);
        assert!(set.is_empty() && set.next(&mut 0).is_none());
        set.set(192);
        assert_eq!(take_all(&set, 0), [192]);
    }
}
