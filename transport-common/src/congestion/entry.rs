//! Bit fields of a 64-byte queue entry: listed order from bit 0, little endian (D-74).

/// A queue entry: word `i` is in bytes `8 * i` to `8 * i + 7`, little endian. Bit `n` of the entry is bit `n % 64`
/// of word `n / 64`.
pub type Entry = [u64; 8];

/// Bits of an entry.
pub const ENTRY_BITS: u32 = 512;

/// Largest NIC window, 11 bits.
pub const MAX_NCWND: u32 = (1 << 11) - 1;

/// Zeroes an entry.
#[inline(always)]
pub(super) fn clear(entry: &mut Entry) {
    crate::verifier::zero(entry);
}

/// Position of a field of at most 32 bits. All fields are constants. So reading or writing one compiles to a load
/// or store with a shift and a mask, and to a second one only if the field crosses a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    offset: u32,
    width: u32,
}

impl Field {
    /// Returns the field at bit 0.
    pub(super) const fn first(width: u32) -> Self {
        Self { offset: 0, width }
    }

    /// Returns the field after this one.
    pub(super) const fn then(self, width: u32) -> Self {
        Self { offset: self.end(), width }
    }

    /// Returns the bit after this field.
    pub(super) const fn end(self) -> u32 {
        self.offset + self.width
    }

    const fn mask(self) -> u64 {
        (1 << self.width) - 1
    }

    #[inline(always)]
    pub(super) const fn get(self, entry: &Entry) -> u32 {
        let (word, bit) = (self.offset / 64, self.offset % 64);
        let mut value = entry[word as usize & 7] >> bit;
        if bit + self.width > 64 {
            value |= entry[(word as usize + 1) & 7] << (64 - bit);
        }
        (value & self.mask()) as u32
    }

    /// Writes the low bits of `value` into a field that is zero.
    #[inline(always)]
    pub(super) const fn put(self, entry: &mut Entry, value: u32) {
        let (word, bit) = (self.offset / 64, self.offset % 64);
        let value = value as u64 & self.mask();
        entry[word as usize & 7] |= value << bit;
        if bit + self.width > 64 {
            entry[(word as usize + 1) & 7] |= value >> (64 - bit);
        }
    }
}
