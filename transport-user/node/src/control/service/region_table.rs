//! The regions that local programs registered.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tiercel::MemoryRegion;
use tiercel::control::Failure;

use crate::common::mutex::lock;

/// The regions kept for local programs, by R_Key.
#[derive(Debug, Default)]
pub(super) struct RegionTable(Mutex<BTreeMap<u32, MemoryRegion>>);

impl RegionTable {
    /// Keeps a region until it is removed.
    pub(super) fn insert(&self, region: MemoryRegion) {
        lock(&self.0).insert(region.key().0, region);
    }

    /// Returns the region with this key.
    ///
    /// # Errors
    /// No region that was registered by `tiercel` has this key.
    pub(super) fn get(&self, rkey: u32) -> Result<MemoryRegion, Failure> {
        lock(&self.0).get(&rkey).cloned().ok_or_else(|| unknown(rkey))
    }

    /// Takes the region with this key out of the table.
    ///
    /// # Errors
    /// As for [`Self::get`].
    pub(super) fn remove(&self, rkey: u32) -> Result<MemoryRegion, Failure> {
        lock(&self.0).remove(&rkey).ok_or_else(|| unknown(rkey))
    }
}

fn unknown(rkey: u32) -> Failure {
    Failure::invalid(format!("no region of this node has R_Key {rkey}: see `tiercel mr list`"))
}
