//! Bitmaps used as rings. A window of segments is stored as one.

/// A ring of `64 * WORDS` bits. Bit `i` belongs to the segment whose number is `i` modulo the size. The head is
/// the first segment of the window. Indices are taken modulo the size. `WORDS` is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingBitmap<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Default for RingBitmap<WORDS> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const WORDS: usize> RingBitmap<WORDS> {
    /// The number of bits in the ring.
    pub const BITS: u32 = {
        assert!(WORDS.is_power_of_two() && WORDS <= 1 << 16, "the number of words is a power of two");
        64 * WORDS as u32
    };
    /// A bitmap with no bit set.
    pub const EMPTY: Self = Self([0; WORDS]);

    #[inline(always)]
    const fn place(index: u32) -> (usize, u32) {
        ((index as usize / 64) & (WORDS - 1), index % 64)
    }

    /// Returns bit `index`.
    #[inline(always)]
    #[must_use]
    pub const fn get(&self, index: u32) -> bool {
        let (word, bit) = Self::place(index);
        self.0[word] >> bit & 1 != 0
    }

    /// Sets bit `index`.
    #[inline(always)]
    pub const fn set(&mut self, index: u32) {
        let (word, bit) = Self::place(index);
        self.0[word] |= 1 << bit;
    }

    /// Clears bit `index`.
    #[inline(always)]
    pub const fn clear(&mut self, index: u32) {
        let (word, bit) = Self::place(index);
        self.0[word] &= !(1 << bit);
    }

    /// Returns true if no bit is set.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Returns the number of bits that are set.
    #[inline(always)]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns a bitmap in which the `length` bits from `head` on are set, across the end of the ring. All bits
    /// are set if `length` is the size or more.
    #[inline]
    #[must_use]
    pub fn range(head: u32, length: u32) -> Self {
        if length >= Self::BITS {
            return Self([u64::MAX; WORDS]);
        }
        let head = head % Self::BITS;
        let end = head + length;
        let before_head = Self::below(head);
        if end <= Self::BITS {
            Self::below(end).and_not(&before_head)
        } else {
            Self::below(end - Self::BITS).or(&before_head.not())
        }
    }

    /// Returns the 128 bits from `head` on, around the ring. Bit `n` of the result is the bit at `head + n`.
    #[inline]
    #[must_use]
    pub fn unrolled(&self, head: u32) -> [u64; 2] {
        [head, head.wrapping_add(64)].map(|index| {
            let (word, bit) = Self::place(index);
            // Two shifts, because a `bit` of 0 would need a shift by 64.
            self.0[word] >> bit | (self.0[(word + 1) & (WORDS - 1)] << 1) << (63 - bit)
        })
    }

    /// The inverse of [`Self::unrolled`]: puts bit `n` of `bits` at `head + n`. In a ring of 64 bits the second
    /// word is or-ed onto the first.
    #[inline]
    #[must_use]
    pub fn placed(head: u32, bits: [u64; 2]) -> Self {
        let mut ring = Self::EMPTY;
        for (part, index) in bits.into_iter().zip([head, head.wrapping_add(64)]) {
            let (word, bit) = Self::place(index);
            ring.0[word] |= part << bit;
            ring.0[(word + 1) & (WORDS - 1)] |= (part >> 1) >> (63 - bit);
        }
        ring
    }

    /// Returns a bitmap in which the bits with an index below `end` are set. `end` is at most the size.
    #[inline(always)]
    fn below(end: u32) -> Self {
        Self(core::array::from_fn(|word| {
            let bits = end.saturating_sub(64 * word as u32);
            if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
        }))
    }

    /// Returns the bits that are set in both bitmaps.
    #[inline(always)]
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Returns the bits that are set in either bitmap.
    #[inline(always)]
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Returns the bits that are set in `self` and not in `other`.
    #[inline(always)]
    #[must_use]
    pub fn and_not(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Returns the bits that are not set.
    #[inline(always)]
    #[must_use]
    pub fn not(&self) -> Self {
        Self(core::array::from_fn(|word| !self.0[word]))
    }

    /// Returns the first set bit from index 0 on. It works in two layers, as in hardware: each part of the ring is
    /// or-ed, the first part with a set bit is chosen, then the first bit in that part.
    #[inline(always)]
    fn first_from_zero(&self) -> Option<u32> {
        let part = self.0.iter().position(|part| *part != 0)?;
        Some(64 * part as u32 + self.0[part].trailing_zeros())
    }

    /// Returns the first set bit from `head` on, around the ring.
    ///
    /// The search has two subproblems with the head fixed at zero (Tonic, appendix C). The bits before the head
    /// are masked off. If any bit is left, the first of these is the result. Otherwise the first of all bits is
    /// the result. No layer has to know the head.
    #[inline]
    #[must_use]
    pub fn find_first(&self, head: u32) -> Option<u32> {
        let masked = self.and_not(&Self::below(head % Self::BITS));
        match masked.first_from_zero() {
            Some(index) => Some(index),
            None => self.first_from_zero(),
        }
    }

    /// Returns the last set bit before `end`, around the ring: the mirror image of [`Self::find_first`].
    #[inline]
    #[must_use]
    pub fn find_last(&self, end: u32) -> Option<u32> {
        let masked = self.and(&Self::below(end % Self::BITS));
        let bits = if masked.is_empty() { self } else { &masked };
        let part = bits.0.iter().rposition(|part| *part != 0)?;
        Some(64 * part as u32 + 63 - bits.0[part].leading_zeros())
    }
}
