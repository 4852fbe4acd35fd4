//! One operation for a client, from the request to its completion.

use std::time::Instant;

use serde_json::{Value, json};
use transport_common::ids::RKey;

use super::super::protocol::{Atomic, CopyDirection, Data, Failure, Place};
use super::super::server::ProgressSender;
use super::link::Link;
use super::transfer::{self, Source};
use super::{Arc, NodeService, absolute, value};
use crate::describe;

/// The result of an operation that completed without error.
fn success(bytes: u64, started: Instant) -> Value {
    json!({
        "status": 0,
        "status_text": describe(0, 0),
        "bytes": bytes,
        "seconds": started.elapsed().as_secs_f64(),
    })
}

impl NodeService {
    /// RDMA WRITE to `remote` = (R_Key, address).
    pub(super) async fn write(
        &self,
        cid: u32,
        remote: (u32, u64),
        data: &Data,
        immediate: Option<u32>,
    ) -> Result<Value, Failure> {
        let connection = self.connection(cid)?;
        let from = self.load(data)?;
        let (rkey, address) = (RKey(remote.0), remote.1);
        let started = Instant::now();
        match immediate {
            None => connection.write(&from.region, from.offset, rkey, address, from.length).await?,
            Some(immediate) => {
                let operation = connection.write_immediate(
                    &from.region,
                    from.offset,
                    rkey,
                    address,
                    from.length,
                    immediate,
                );
                operation.await?;
            }
        }
        Ok(success(from.length, started))
    }

    /// RDMA READ from `remote` = (R_Key, address).
    pub(super) async fn read(
        &self,
        cid: u32,
        remote: (u32, u64),
        length: u64,
        to: &Place,
    ) -> Result<Value, Failure> {
        let connection = self.connection(cid)?;
        let target = self.target(length, to)?;
        let started = Instant::now();
        connection.read(&target.region, target.offset, RKey(remote.0), remote.1, length).await?;
        let mut answer = success(length, started);
        // A region is where the READ has put the bytes itself.
        if !matches!(to, Place::Region { .. })
            && let Some(hex) = self.deliver(&target.region, target.offset, length, to)?.get("hex")
        {
            answer["hex"] = hex.clone();
        }
        Ok(answer)
    }

    pub(super) async fn send(&self, cid: u32, data: &Data, immediate: Option<u32>) -> Result<Value, Failure> {
        let connection = self.connection(cid)?;
        let from = self.load(data)?;
        let started = Instant::now();
        connection.send(&from.region, from.offset, from.length, immediate).await?;
        Ok(success(from.length, started))
    }

    /// An atomic on `remote` = (R_Key, address).
    pub(super) async fn atomic(
        &self,
        cid: u32,
        remote: (u32, u64),
        operation: Atomic,
    ) -> Result<Value, Failure> {
        let connection = self.connection(cid)?;
        let (rkey, address) = (RKey(remote.0), remote.1);
        let started = Instant::now();
        let original = match operation {
            Atomic::FetchAdd { add } => connection.fetch_add(rkey, address, add).await?,
            Atomic::CompareSwap { compare, swap } => {
                connection.compare_swap(rkey, address, compare, swap).await?
            }
        };
        let mut answer = success(8, started);
        answer["original"] = original.into();
        if let Atomic::CompareSwap { compare, .. } = operation {
            answer["swapped"] = (original == compare).into();
        }
        Ok(answer)
    }

    /// Copies a file; in `what`, `name` is the peer's side whichever way it goes.
    pub(super) async fn copy(
        &self,
        cid: u32,
        direction: CopyDirection,
        what: Source,
        progress: &ProgressSender,
    ) -> Result<Value, Failure> {
        absolute(&what.file)?;
        transfer::check_name(&what.name)?;
        let connection = self.connection(cid)?;
        let mut steps = self.inner.transfers.enter(connection.cid(), rand::random())?;
        let link = Arc::new(Link::new(self.clone(), connection));
        let report = match direction {
            CopyDirection::ToPeer => transfer::source(&link, &mut steps, what, progress).await?,
            CopyDirection::FromPeer => {
                let wanted = (what.name, what.via);
                transfer::fetch(link.as_ref(), &mut steps, wanted, &what.file, what.overwrite, progress)
                    .await?
            }
        };
        value(report)
    }
}
