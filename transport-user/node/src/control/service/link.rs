//! The interface to a connection of the node that file transfers use.

use tiercel::control::Failure;
use tiercel::{Access, Connection, MemoryRegion};
use transport_common::ids::RKey;

use super::NodeService;
use super::transfer::{Arrival, Buffer, ReceivePermit, Span, Verbs};
use crate::connection_manager::FileMessage;

/// Largest SEND on an ordered connection, bytes. It is cut into segments.
const LARGEST_MESSAGE: u32 = 1 << 20;

/// A connection and the node it belongs to.
pub(super) struct Link {
    service: NodeService,
    connection: Connection,
}

impl Link {
    pub(super) fn new(service: NodeService, connection: Connection) -> Self {
        Self { service, connection }
    }
}

impl Verbs for Link {
    type Buffer = MemoryRegion;

    fn register(&self, length: usize, peer_reads: bool, peer_writes: bool) -> Result<MemoryRegion, Failure> {
        let access = Access { remote_read: peer_reads, remote_write: peer_writes, remote_atomic: false };
        let node = self.service.node();
        // Memory for transfers gets no key that an application may expect for its own region (D-84).
        Ok(if access == Access::LOCAL {
            node.allocate(length)?
        } else {
            node.register_temporary(length, access)?
        })
    }

    fn largest_message(&self) -> u32 {
        // On an unordered connection a SEND is one transaction (D-84).
        if self.connection.is_ordered() { LARGEST_MESSAGE } else { self.connection.max_segment() }
    }

    async fn write(&self, buffer: &MemoryRegion, span: Span, rkey: u32) -> Result<(), Failure> {
        Ok(self.connection.write(buffer, span.offset, RKey(rkey), span.offset, span.length).await?)
    }

    async fn read(&self, buffer: &MemoryRegion, span: Span, rkey: u32) -> Result<(), Failure> {
        Ok(self.connection.read(buffer, span.offset, RKey(rkey), span.offset, span.length).await?)
    }

    async fn send(&self, buffer: &MemoryRegion, span: Span, immediate: u32) -> Result<(), Failure> {
        Ok(self.connection.send(buffer, span.offset, span.length, Some(immediate)).await?)
    }

    async fn take_receives(&self) -> Result<ReceivePermit, Failure> {
        self.service.inner.receives.take(&self.connection).await
    }

    fn post_receive(&self, buffer: &MemoryRegion, span: Span, id: u64) -> Result<(), Failure> {
        Ok(self.connection.post_receive(buffer, span.offset, span.length as u32, id)?)
    }

    async fn receive(&self) -> Result<Arrival, Failure> {
        let received = self.connection.receive().await?;
        Ok(Arrival { id: received.wr_id, length: received.length.into(), immediate: received.immediate })
    }

    fn park(&self, buffer: MemoryRegion, permit: ReceivePermit) {
        // The library keeps the memory of posted receives. Keeping the permit prevents that anyone else collects
        // them.
        drop(buffer);
        self.service.inner.receives.park(&self.connection, permit);
    }

    async fn tell(&self, step: FileMessage) -> bool {
        self.service.inner.manager.send_file_step(self.connection.cid(), step).await
    }
}

impl Buffer for MemoryRegion {
    fn rkey(&self) -> u32 {
        self.key().0
    }

    fn fill(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.write(offset, bytes)?)
    }

    fn fetch(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        Ok(self.read(offset, bytes)?)
    }
}
