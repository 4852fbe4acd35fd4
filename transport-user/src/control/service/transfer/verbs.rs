//! What a file transfer needs of a connection; the tests bring their own.

use std::future::Future;

use super::super::super::protocol::Failure;
use crate::connection_manager::FileMessage;

/// One connection, with memory to work on.
pub(crate) trait Verbs: Send + Sync + 'static {
    /// A registered region.
    type Buffer: Buffer;

    /// Registers a region for the peer to read or write.
    fn register(&self, length: usize, peer_reads: bool, peer_writes: bool) -> Result<Self::Buffer, Failure>;

    /// Largest message of one SEND, bytes.
    fn largest_message(&self) -> u32;

    /// RDMA WRITE out of `span` of a buffer to the same offset of the peer's region.
    fn write(
        &self,
        buffer: &Self::Buffer,
        span: Span,
        rkey: u32,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// RDMA READ from the same offset of the peer's region into `span` of a buffer.
    fn read(
        &self,
        buffer: &Self::Buffer,
        span: Span,
        rkey: u32,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// SEND of `span` with immediate data.
    fn send(
        &self,
        buffer: &Self::Buffer,
        span: Span,
        immediate: u32,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Takes the receive side for one user, for as long as the permit lives.
    ///
    /// # Errors
    /// Somebody else has it.
    fn take_receives(&self) -> Result<ReceivePermit, Failure>;

    /// Posts `span` as a receive.
    fn post_receive(&self, buffer: &Self::Buffer, span: Span, id: u64) -> Result<(), Failure>;

    /// Waits for a posted receive to complete.
    fn receive(&self) -> impl Future<Output = Result<Arrival, Failure>> + Send;

    /// Keeps `buffer` until the connection is gone: receives that cannot be taken back still point into it.
    fn park(&self, buffer: Self::Buffer, permit: ReceivePermit);

    /// Tells the peer. False when the connection has ended.
    fn tell(&self, step: FileMessage) -> impl Future<Output = bool> + Send;
}

/// Registered memory.
pub(crate) trait Buffer: Clone + Send + Sync + 'static {
    /// Its R_Key.
    fn rkey(&self) -> u32;

    /// Copies bytes in.
    fn fill(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure>;

    /// Copies bytes out.
    fn fetch(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure>;
}

/// Bytes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A completed receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// From the posted receive.
    pub(crate) id: u64,
    pub(crate) length: u64,
    pub(crate) immediate: Option<u32>,
}

/// The right to post and collect receives on a connection.
pub(crate) type ReceivePermit = tokio::sync::OwnedSemaphorePermit;
