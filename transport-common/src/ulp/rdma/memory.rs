//! Registered memory: the memory that a peer may name.

use bitflags::bitflags;
use bytemuck::{Pod, Zeroable};

/// Bytes of registered memory per node.
pub const MEMORY_BYTES: usize = 256 << 20;
/// Guard at the end of the memory. No access of the datapath starts in it, so a packet of maximum size stays
/// inside the memory.
pub const MEMORY_GUARD: usize = 8192;
/// Bytes of the memory that requests and regions may name.
pub const USABLE_BYTES: u64 = (MEMORY_BYTES - MEMORY_GUARD) as u64;

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
    /// Returns the memory offset of `[address, address + length)` if key, rights and bounds allow the access. The
    /// table is untrusted, so the part of a region beyond the usable memory is refused too.
    #[inline(always)]
    pub fn resolve(&self, key: u32, access: AccessFlags, address: u64, length: u32) -> Option<u64> {
        if key == 0 || self.key != key || !self.access.contains(access) {
            return None;
        }
        if address > self.length || self.length - address < length as u64 {
            return None;
        }
        let offset = self.offset.wrapping_add(address);
        if offset > USABLE_BYTES || offset + length as u64 > USABLE_BYTES { None } else { Some(offset) }
    }
}

const _: () = assert!(size_of::<Region>() == 24);

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
        let beyond = Region { offset: USABLE_BYTES - 10, ..REGION };
        assert_eq!(beyond.resolve(7, AccessFlags::REMOTE_READ, 0, 10), Some(USABLE_BYTES - 10));
        assert_eq!(beyond.resolve(7, AccessFlags::REMOTE_READ, 1, 10), None);
        let wraps = Region { offset: u64::MAX - 10, length: u64::MAX, ..REGION };
        assert_eq!(wraps.resolve(7, AccessFlags::REMOTE_READ, 0, 10), None);
    }
}
