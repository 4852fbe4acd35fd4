//! Regions that local programs registered.

use tiercel::Access;
use tiercel::control::Failure;
use tiercel::control::answer::{self, Content, Deregistered, Written};
use tiercel::control::request::{self, Right};
use transport_common::ids::RKey;

use super::NodeService;
use super::buffers::copy;

/// Longest name of a region.
const LONGEST_NAME: usize = 64;

/// Converts a list of rights to the library's type.
fn access(rights: &[Right]) -> Access {
    Access {
        remote_read: rights.contains(&Right::RemoteRead),
        remote_write: rights.contains(&Right::RemoteWrite),
        remote_atomic: rights.contains(&Right::RemoteAtomic),
    }
}

impl NodeService {
    pub(super) fn list_regions(&self) -> Vec<answer::Region> {
        let named =
            |info: tiercel::RegionInfo| answer::Region { name: self.inner.host.region_name(info.key), info };
        self.node().regions().into_iter().map(named).collect()
    }

    pub(super) fn register_region(&self, what: request::RegisterRegion) -> Result<answer::Region, Failure> {
        let request::RegisterRegion { length, access: rights, name, rkey } = what;
        if name.as_ref().is_some_and(|name| name.len() > LONGEST_NAME || name.contains(char::is_control)) {
            let text =
                format!("the name is not valid: use at most {LONGEST_NAME} bytes and no control characters");
            return Err(Failure::invalid(text));
        }
        let (length, access) = (length as usize, access(&rights));
        let region = match rkey {
            Some(rkey) => self.node().register_with_key(RKey(rkey), length, access)?,
            None => self.node().register(length, access)?,
        };
        self.inner.host.name_region(region.key(), name.clone());
        let info = region.info();
        self.inner.regions.insert(region);
        Ok(answer::Region { info, name })
    }

    pub(super) fn deregister_region(&self, rkey: u32) -> Result<Deregistered, Failure> {
        self.inner.regions.remove(rkey)?.deregister();
        self.inner.host.name_region(RKey(rkey), None);
        Ok(Deregistered { deregistered: rkey })
    }

    pub(super) async fn read_region(&self, what: &request::ReadRegion) -> Result<Content, Failure> {
        let request::ReadRegion { rkey, offset, length, to } = what;
        let region = self.inner.regions.get(*rkey)?;
        let rest = (region.len() as u64).saturating_sub(*offset);
        self.deliver(&region, *offset, length.unwrap_or(rest), to).await
    }

    pub(super) async fn write_region(&self, what: &request::WriteRegion) -> Result<Written, Failure> {
        let region = self.inner.regions.get(what.rkey)?;
        let from = self.load(&what.data).await?;
        copy((from.region, from.offset), (region, what.offset), from.length).await?;
        Ok(Written { bytes: from.length })
    }
}
