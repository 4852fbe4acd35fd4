//! What the raw programs and the bench share: the page of counters, and what an operation is.
//!
//! The bench includes this very file, so that the layout stands once.

use core::sync::atomic::AtomicU64;

/// Bytes of the smallest frame, and of the header of the larger ones.
pub const FRAME_BYTES: u32 = 64;
/// Bytes of a payload: the largest segment of the protocol, so that both copy alike.
pub const PAYLOAD_BYTES: u32 = 3264;
/// Bytes from one payload to the next.
pub const BUFFER_BYTES: usize = 4096;
/// Payloads in memory, used in turn; a power of two. About 1 MiB, as the protocol's message.
pub const BUFFERS: usize = 256;
/// Payloads that one acknowledgement covers.
pub const ACKNOWLEDGED_TOGETHER: u64 = 16;

/// What an operation is ([`Page::kind`]); the first of the two bytes behind the Ethernet header of its frame.
pub mod kind {
    /// 64 bytes there, the same 64 bytes back: what an operation without much data costs at least.
    pub const BOUNCE: u64 = 0;
    /// A payload is copied out of the sender's memory and into the peer's, acknowledged in groups: a WRITE.
    pub const PLACE: u64 = 1;
    /// 64 bytes there, a payload from the peer's memory back into the asker's: a READ.
    pub const FETCH: u64 = 2;
    /// On the wire only: the answer to `BOUNCE` or a group of `PLACE`.
    pub const DONE: u64 = 3;
    /// On the wire only: the answer to `FETCH`.
    pub const FETCHED: u64 = 4;
}

/// A counter with a cache line to itself: each has one writer, and another CPU that reads it without pause.
#[repr(C, align(64))]
pub struct Line(pub AtomicU64);

/// The queue between application and engine, reduced to its counters.
#[repr(C)]
pub struct Page {
    /// Application: operations posted.
    pub producer: Line,
    /// Application: what they are, see [`kind`]; changed only when all posted are complete.
    pub kind: Line,
    /// Engine: operations sent.
    pub consumer: Line,
    /// Receiver: operations complete.
    pub completed: Line,
    /// Receiver at the peer: payloads placed.
    pub placed: Line,
}
