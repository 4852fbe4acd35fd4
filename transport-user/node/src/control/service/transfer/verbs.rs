//! The operations that a file transfer needs. The tests have their own implementation.

use std::future::Future;

use tiercel::control::Failure;

use crate::connection_manager::FileMessage;

/// The operations of one connection, and registered memory for them.
pub(crate) trait Verbs: Send + Sync + 'static {
    /// A registered region.
    type Buffer: Buffer;

    /// Registers a region for the peer to read or write.
    fn register(&self, length: usize, peer_reads: bool, peer_writes: bool) -> Result<Self::Buffer, Failure>;

    /// Returns the largest message of one SEND, bytes.
    fn largest_message(&self) -> u32;

    /// Performs an RDMA WRITE of `span` of a buffer to the same offset of the peer's region.
    fn write(
        &self,
        buffer: &Self::Buffer,
        span: Span,
        rkey: u32,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Performs an RDMA READ into `span` of a buffer, from the same offset of the peer's region.
    fn read(
        &self,
        buffer: &Self::Buffer,
        span: Span,
        rkey: u32,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Performs a SEND of `span` of a buffer, with immediate data.
    fn send(
        &self,
        buffer: &Self::Buffer,
        span: Span,
        immediate: u32,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Takes the permit to use the receives, and waits while another transfer has it. Dropping the permit gives it back.
    ///
    /// # Errors
    /// A client uses the receives, or a failed transfer left some behind.
    fn take_receives(&self) -> impl Future<Output = Result<ReceivePermit, Failure>> + Send;

    /// Posts `span` as a receive.
    fn post_receive(&self, buffer: &Self::Buffer, span: Span, id: u64) -> Result<(), Failure>;

    /// Waits for a posted receive to complete.
    fn receive(&self) -> impl Future<Output = Result<Arrival, Failure>> + Send;

    /// Keeps `buffer` and `permit` until the connection is closed: posted receives, which cannot be taken back,
    /// still point into the buffer.
    fn park(&self, buffer: Self::Buffer, permit: ReceivePermit);

    /// Sends a step to the peer. Returns false if the connection has ended.
    fn tell(&self, step: FileMessage) -> impl Future<Output = bool> + Send;
}

/// Registered memory.
pub(crate) trait Buffer: Clone + Send + Sync + 'static {
    /// Returns the R_Key.
    fn rkey(&self) -> u32;

    /// Copies bytes in.
    fn fill(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure>;

    /// Copies bytes out.
    fn fetch(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure>;
}

/// A range of bytes in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A completed receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// ID that was given when the receive was posted.
    pub(crate) id: u64,
    pub(crate) length: u64,
    pub(crate) immediate: Option<u32>,
}

/// The right to post and collect receives on a connection.
pub(crate) type ReceivePermit = tokio::sync::OwnedSemaphorePermit;
