//! Regions that local programs registered.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use transport_common::ids::RKey;

use super::super::protocol::{Data, Failure, Place, Right};
use super::{NodeService, value};
use crate::{Access, MemoryRegion};

/// Longest name of a region.
const LONGEST_NAME: usize = 64;

/// The regions kept for local programs, by R_Key.
#[derive(Debug, Default)]
pub(super) struct RegionTable(Mutex<BTreeMap<u32, MemoryRegion>>);

impl RegionTable {
    /// Keeps a region until it is removed.
    pub(super) fn insert(&self, region: MemoryRegion) {
        self.lock().insert(region.key().0, region);
    }

    /// # Errors
    /// No region that was registered by `tiercel` has this key.
    pub(super) fn get(&self, rkey: u32) -> Result<MemoryRegion, Failure> {
        self.lock().get(&rkey).cloned().ok_or_else(|| unknown(rkey))
    }

    fn remove(&self, rkey: u32) -> Result<MemoryRegion, Failure> {
        self.lock().remove(&rkey).ok_or_else(|| unknown(rkey))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, MemoryRegion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(rkey: u32) -> Failure {
    Failure::invalid(format!("no region of this node has R_Key {rkey}: see `tiercel mr list`"))
}

/// The library's form of a list of rights.
fn access(rights: &[Right]) -> Access {
    Access {
        remote_read: rights.contains(&Right::RemoteRead),
        remote_write: rights.contains(&Right::RemoteWrite),
        remote_atomic: rights.contains(&Right::RemoteAtomic),
    }
}

impl NodeService {
    pub(super) fn list_regions(&self) -> Result<Value, Failure> {
        let mut all = Vec::new();
        for info in self.node().regions() {
            let name = self.inner.host.region_name(info.key);
            let mut info = value(info)?;
            info["name"] = name.into();
            all.push(info);
        }
        Ok(Value::Array(all))
    }

    pub(super) fn register_region(
        &self,
        length: u64,
        rights: &[Right],
        name: Option<String>,
    ) -> Result<Value, Failure> {
        if name.as_ref().is_some_and(|name| name.len() > LONGEST_NAME || name.contains(char::is_control)) {
            let text = format!("a region's name has at most {LONGEST_NAME} bytes and no control characters");
            return Err(Failure::invalid(text));
        }
        let region = self.node().register(length as usize, access(rights))?;
        self.inner.host.name_region(region.key(), name.clone());
        let mut info = value(region.info())?;
        info["name"] = name.into();
        self.inner.regions.insert(region);
        Ok(info)
    }

    pub(super) fn deregister_region(&self, rkey: RKey) -> Result<Value, Failure> {
        self.inner.regions.remove(rkey.0)?.deregister();
        self.inner.host.name_region(rkey, None);
        Ok(json!({ "deregistered": rkey.0 }))
    }

    pub(super) fn read_region(
        &self,
        rkey: u32,
        offset: u64,
        length: u64,
        to: &Place,
    ) -> Result<Value, Failure> {
        let region = self.inner.regions.get(rkey)?;
        self.deliver(&region, offset, length, to)
    }

    pub(super) fn write_region(&self, rkey: u32, offset: u64, data: &Data) -> Result<Value, Failure> {
        let region = self.inner.regions.get(rkey)?;
        let from = self.load(data)?;
        let mut bytes = vec![0; from.length as usize];
        from.region.read(from.offset, &mut bytes)?;
        region.write(offset, &bytes)?;
        Ok(json!({ "bytes": from.length }))
    }
}
