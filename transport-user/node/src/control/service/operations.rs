//! Operations for clients, from the request to the completion.

use std::time::Instant;

use tiercel::control::Failure;
use tiercel::control::answer::{AtomicCompleted, Completed, ReadCompleted};
use tiercel::control::request::{self, AtomicOperation, Place};
use transport_common::ids::RKey;

use super::NodeService;

/// Makes the answer for an operation that completed without error.
fn completed(bytes: u64, started: Instant) -> Completed {
    Completed::new(bytes, started.elapsed().as_secs_f64())
}

impl NodeService {
    /// Performs an RDMA WRITE.
    pub(super) async fn write(&self, what: &request::Write) -> Result<Completed, Failure> {
        let connection = self.connection(what.cid)?;
        let from = self.load(&what.data).await?;
        let (rkey, address) = (RKey(what.rkey), what.address);
        let started = Instant::now();
        match what.immediate {
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
        Ok(completed(from.length, started))
    }

    /// Performs an RDMA READ.
    pub(super) async fn read(&self, what: &request::Read) -> Result<ReadCompleted, Failure> {
        let request::Read { cid, rkey, address, length, to } = what;
        let connection = self.connection(*cid)?;
        let target = self.target(*length, to).await?;
        let started = Instant::now();
        connection.read(&target.region, target.offset, RKey(*rkey), *address, *length).await?;
        let completed = completed(*length, started);
        let hex = match to {
            // The READ wrote directly into this region.
            Place::Region { .. } => None,
            _ => self.deliver(&target.region, target.offset, *length, to).await?.hex,
        };
        Ok(ReadCompleted { completed, hex })
    }

    pub(super) async fn send(&self, what: &request::Send) -> Result<Completed, Failure> {
        let connection = self.connection(what.cid)?;
        let from = self.load(&what.data).await?;
        let started = Instant::now();
        connection.send(&from.region, from.offset, from.length, what.immediate).await?;
        Ok(completed(from.length, started))
    }

    pub(super) async fn atomic(&self, what: request::Atomic) -> Result<AtomicCompleted, Failure> {
        let connection = self.connection(what.cid)?;
        let (rkey, address) = (RKey(what.rkey), what.address);
        let started = Instant::now();
        let (original, swapped) = match what.operation {
            AtomicOperation::FetchAdd { add } => (connection.fetch_add(rkey, address, add).await?, None),
            AtomicOperation::CompareSwap { compare, swap } => {
                let original = connection.compare_swap(rkey, address, compare, swap).await?;
                (original, Some(original == compare))
            }
        };
        Ok(AtomicCompleted { completed: completed(8, started), original, swapped })
    }
}
