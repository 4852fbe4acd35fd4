//! Registered regions, as the node's table has them.

use bitflags::bitflags;
use bytemuck::{Pod, Zeroable};

/// Largest number of memory regions that a node can register, a power of two. The index of a key in the table is its value
/// modulo this number.
pub const REGIONS: usize = 256;

/// Number of a protection domain. Connections and regions with the same number belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct ProtectionDomain(pub u32);

impl ProtectionDomain {
    /// The domain of the node's own process.
    pub const NODE: Self = Self(0);
}

bitflags! {
    /// What may be done with a region.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub struct AccessFlags: u32 {
        /// A peer may READ.
        const REMOTE_READ = 1;
        /// A peer may WRITE.
        const REMOTE_WRITE = 2;
        /// A peer may use atomics.
        const REMOTE_ATOMIC = 4;
        /// The application may place data there: answers to its pulls, and messages.
        const LOCAL_WRITE = 8;
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
    /// Its key, as L_Key and as R_Key.
    pub key: u32,
    /// What may be done with it.
    pub access: AccessFlags,
    /// The domain that it was registered in. Only connections of this domain reach it.
    pub domain: ProtectionDomain,
    /// 0.
    pub reserved: u32,
}

impl Region {
    /// A free entry.
    pub const FREE: Self = Self {
        offset: 0,
        length: 0,
        key: 0,
        access: AccessFlags::empty(),
        domain: ProtectionDomain::NODE,
        reserved: 0,
    };

    /// Returns the region if it lies within `memory` bytes, otherwise [a free entry](Self::FREE). The table is untrusted.
    #[inline(always)]
    #[must_use]
    pub fn within(self, memory: u64) -> Self {
        if self.length > memory || self.offset > memory - self.length { Self::FREE } else { self }
    }
}

const _: () = assert!(size_of::<Region>() == 32 && REGIONS.is_power_of_two());
