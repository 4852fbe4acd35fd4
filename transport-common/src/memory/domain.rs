//! Domains, and the one function that finds a place in the node's memory.

use super::{AccessFlags, Key, PAGE_BYTES, ProtectionDomain, Region};
use bytemuck::{Pod, Zeroable};

/// What the application of a connection may use: a part of the node's memory, and the regions of its protection domain. The
/// node writes it when it opens the connection. Zero bytes are a domain without memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Domain {
    /// First page of its memory ([`PAGE_BYTES`]).
    pub first_page: u32,
    /// Number of pages.
    pub pages: u32,
    /// Its protection domain.
    pub id: ProtectionDomain,
}

/// A place in the node's memory that may be used as its caller asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Resolved(u64);

impl Resolved {
    /// Returns the offset in the node's memory.
    #[inline(always)]
    pub const fn offset(self) -> u64 {
        self.0
    }
}

/// Why a place may not be used. The first reason in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Denied {
    /// No region has the key.
    Key,
    /// The region is of another protection domain. A peer must not learn that it exists: for the peer, it is an unknown key.
    Domain,
    /// The region does not give the right.
    Right,
    /// The place exceeds the region, or the memory of the domain.
    Bounds,
}

impl Domain {
    /// Returns the domain with the whole pages among these bytes of the node's memory.
    #[must_use]
    pub const fn new(id: ProtectionDomain, offset: u64, bytes: u64) -> Self {
        let first = offset.div_ceil(PAGE_BYTES);
        let end = offset.saturating_add(bytes) / PAGE_BYTES;
        Self { first_page: first as u32, pages: end.saturating_sub(first) as u32, id }
    }

    /// Returns the domain of a node's own process, with all of its memory.
    #[must_use]
    pub const fn of_node(memory: u64) -> Self {
        Self::new(ProtectionDomain::NODE, 0, memory)
    }

    /// Returns whether `length` bytes at `offset` of the node's memory are all memory of the domain.
    #[inline(always)]
    pub const fn holds(&self, offset: u64, length: u64) -> bool {
        let bytes = self.pages as u64 * PAGE_BYTES;
        let from = offset.wrapping_sub(self.first_page as u64 * PAGE_BYTES);
        from <= bytes && length <= bytes - from
    }

    /// Finds the place of `length` bytes at `at`, an offset in the region that `key` names, for what `right` says. `region`
    /// is the entry of the table at the index of the key, [within](Region::within) the node's memory. With
    /// [`LKey::OWN`](super::LKey::OWN) there is no region, and `at` is an offset in the node's memory.
    ///
    /// # Errors
    /// [`Denied`].
    #[inline(always)]
    pub fn resolve<K: Key>(
        &self,
        key: K,
        region: &Region,
        at: u64,
        length: u32,
        right: K::Right,
    ) -> Result<Resolved, Denied> {
        if K::HAS_OWN && key.number() == 0 {
            return if self.holds(at, length as u64) { Ok(Resolved(at)) } else { Err(Denied::Bounds) };
        }
        self.id.resolve(key, region, at, length, right)
    }
}

impl ProtectionDomain {
    /// Does the same as [`Domain::resolve`] for a key that names a region.
    ///
    /// # Errors
    /// [`Denied`].
    #[inline(always)]
    pub fn resolve<K: Key>(
        self,
        key: K,
        region: &Region,
        at: u64,
        length: u32,
        right: K::Right,
    ) -> Result<Resolved, Denied> {
        let (key, right): (u32, AccessFlags) = (key.number(), right.into());
        if key == 0 || region.key != key {
            return Err(Denied::Key);
        }
        if region.domain.0 != self.0 {
            return Err(Denied::Domain);
        }
        if !region.access.contains(right) {
            return Err(Denied::Right);
        }
        if at > region.length || region.length - at < length as u64 {
            return Err(Denied::Bounds);
        }
        Ok(Resolved(region.offset.wrapping_add(at)))
    }
}

const _: () = assert!(size_of::<Domain>() == 12);
