//! What the raw programs and the bench share: the page of counters, and what an operation is.
//!
//! The bench includes this very file, so that the layout stands once.

use core::sync::atomic::AtomicU64;

/// Bytes of a frame as the kernel hands it to the engine, which gives every frame it sends another length: the kernel
/// notes a length only when the program changes it, and a recycled frame would keep what its last receiver made of it.
pub(crate) const LIVE_FRAME_BYTES: u32 = 56;
/// Bytes of the smallest frame, and of the header of the larger ones.
pub(crate) const FRAME_BYTES: u32 = 64;
/// Bytes of a payload: the largest segment of the protocol, so that both copy alike.
pub(crate) const PAYLOAD_BYTES: u32 = 3264;
/// Bytes from one payload to the next.
pub(crate) const BUFFER_BYTES: usize = 4096;
/// Payloads in memory, used in turn; a power of two. About 1 MiB, as the protocol's message.
pub(crate) const BUFFERS: usize = 256;
/// Payloads that one acknowledgement covers.
pub(crate) const ACKNOWLEDGED_TOGETHER: u64 = 16;

/// What an operation is ([`Page::kind`]); the first of the two bytes behind the Ethernet header of its frame.
pub(crate) mod kind {
    /// 64 bytes there, the same 64 bytes back: what an operation without much data costs at least.
    pub(crate) const BOUNCE: u64 = 0;
    /// A payload is copied out of the sender's memory and into the peer's, acknowledged in groups: a WRITE.
    pub(crate) const PLACE: u64 = 1;
    /// 64 bytes there, a payload from the peer's memory back into the asker's: a READ.
    pub(crate) const FETCH: u64 = 2;
}

/// A counter with a cache line to itself: each has one writer, and another CPU that reads it without pause.
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) AtomicU64);

/// The queue between application and engine, reduced to its counters.
#[repr(C)]
pub(crate) struct Page {
    /// Application: operations posted.
    pub(crate) producer: Line,
    /// Application: what they are, see [`kind`]; changed only when all posted are complete.
    pub(crate) kind: Line,
    /// Engine: operations sent.
    pub(crate) consumer: Line,
    /// Receiver: operations complete.
    pub(crate) completed: Line,
    /// Receiver at the peer: payloads placed.
    pub(crate) placed: Line,
}
