//! Registered memory: the memory that a peer may name.

use bitflags::bitflags;
use bytemuck::{Pod, Zeroable};

/// Bytes of a memory bank, a power of two. A node's memory is a number of banks, which follow each other without a
/// gap: an access may begin in one and end in the next.
pub const BANK_BYTES: usize = 16 << 20;
/// Bytes after each bank in the kernel, which nothing reads or writes. With them, the verifier can see that the
/// longest copy stays inside a bank. They are a page of every architecture, so that banks can be mapped one after
/// the other.
pub const BANK_GUARD: usize = 64 << 10;
/// Largest number of banks of a node: 64 GiB.
pub const MAX_BANKS: usize = 4096;
/// Banks of a node that asks for no other number: 256 MiB.
pub const DEFAULT_BANKS: usize = 16;
/// Bytes of these banks.
pub const DEFAULT_MEMORY: u64 = (DEFAULT_BANKS * BANK_BYTES) as u64;
/// Bytes of a page, in which a connection counts the node's memory.
pub const PAGE_BYTES: u64 = 4096;

bitflags! {
    /// What a peer may do with a region.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub struct AccessFlags: u32 {
        /// The peer may READ.
        const REMOTE_READ = 1;
        /// The peer may WRITE.
        const REMOTE_WRITE = 2;
        /// The peer may use atomics.
        const REMOTE_ATOMIC = 4;
    }
}

impl AccessFlags {
    /// Not a right, but a state of the region: the block protocol answers its commands with RNR (F-6.4-1).
    pub const BUSY: Self = Self::from_bits_retain(1 << 31);
}

/// A registered memory region. A `key` of 0 marks a free entry.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Region {
    /// Offset of its start in the node's memory.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// R_Key.
    pub key: u32,
    /// What a peer may do with it.
    pub access: AccessFlags,
}

impl Region {
    /// Returns the region if it lies within `memory` bytes, otherwise a free entry. The table is untrusted.
    #[inline(always)]
    #[must_use]
    pub fn within(self, memory: u64) -> Self {
        if self.length > memory || self.offset > memory - self.length { Self::default() } else { self }
    }

    /// Returns the memory offset of `[address, address + length)` if key, rights and bounds allow the access to a
    /// region that lies [`within`](Self::within) the node's memory.
    #[inline(always)]
    pub fn resolve(&self, key: u32, access: AccessFlags, address: u64, length: u32) -> Option<u64> {
        if key == 0 || self.key != key || !self.access.contains(access) {
            return None;
        }
        if address > self.length || self.length - address < length as u64 {
            return None;
        }
        Some(self.offset.wrapping_add(address))
    }
}

const _: () = {
    assert!(size_of::<Region>() == 24);
    assert!(BANK_BYTES.is_power_of_two() && (BANK_BYTES as u64).is_multiple_of(PAGE_BYTES));
    assert!((MAX_BANKS * BANK_BYTES) as u64 / PAGE_BYTES <= u32::MAX as u64);
};

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region {
        offset: 4096,
        length: 100,
        key: 7,
        access: AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE),
    };

    #[test]
    fn region_resolves_only_inside_with_key_and_rights() {
        assert_eq!(REGION.resolve(7, AccessFlags::REMOTE_READ, 0, 100), Some(4096));
        assert_eq!(REGION.resolve(7, AccessFlags::REMOTE_READ, 100, 0), Some(4196));
        assert_eq!(REGION.resolve(7, AccessFlags::REMOTE_READ, 1, 100), None);
        assert_eq!(REGION.resolve(7, AccessFlags::REMOTE_READ, u64::MAX, 2), None);
        assert_eq!(REGION.resolve(7, AccessFlags::REMOTE_ATOMIC, 0, 8), None);
        assert_eq!(REGION.resolve(8, AccessFlags::REMOTE_READ, 0, 8), None);
        assert_eq!(Region::default().resolve(0, AccessFlags::REMOTE_READ, 0, 0), None);
    }

    #[test]
    fn a_region_beyond_the_memory_is_no_region() {
        assert_eq!(REGION.within(4196), REGION);
        assert_eq!(REGION.within(4195), Region::default());
        for (offset, length) in [(u64::MAX, 1), (1, u64::MAX), (u64::MAX - 10, u64::MAX), (8192, 1)] {
            assert_eq!(
                Region { offset, length, ..REGION }.within(8192),
                Region::default(),
                "{offset} {length}"
            );
        }
    }
}
