//! The layout that the raw programs and the bench share: the page of counters, and the kinds of operations.
//!
//! The bench includes this very file, so that the layout is defined only once.

use core::sync::atomic::AtomicU64;

/// Bytes of a frame as the kernel passes it to the engine. The engine gives every frame that it sends another
/// length: the kernel records a length only when the program changes it. A recycled frame would otherwise keep the
/// length that its last receiver set.
pub(crate) const LIVE_FRAME_BYTES: u32 = 56;
/// Bytes of the smallest frame, and of the header of the larger ones.
pub(crate) const FRAME_BYTES: u32 = 64;
/// Bytes of a payload: the largest segment of the protocol, so that both copy the same amount.
pub(crate) const PAYLOAD_BYTES: u32 = 3264;
/// Bytes from one payload to the next.
pub(crate) const BUFFER_BYTES: usize = 4096;
/// Number of payloads in memory, used in rotation; a power of two. About 1 MiB, like the protocol's message.
pub(crate) const BUFFERS: usize = 256;
/// Payloads that one acknowledgement covers.
pub(crate) const ACKNOWLEDGED_TOGETHER: u64 = 16;

/// Kinds of operations ([`Page::kind`]), the first of the two bytes after the Ethernet header of a frame.
pub(crate) mod kind {
    /// 64 bytes to the peer and the same 64 bytes back: the minimum cost of an operation without much data.
    pub(crate) const BOUNCE: u64 = 0;
    /// A WRITE: a payload is copied out of the sender's memory and into the peer's, and acknowledged in groups.
    pub(crate) const PLACE: u64 = 1;
    /// A READ: 64 bytes to the peer, and a payload from the peer's memory back into the requester's.
    pub(crate) const FETCH: u64 = 2;
}

/// A counter with its own cache line. Each counter has one writer, and another CPU reads it continuously.
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) AtomicU64);

/// The queue between application and engine, reduced to its counters.
#[repr(C)]
pub(crate) struct Page {
    /// Written by the application: number of operations posted.
    pub(crate) producer: Line,
    /// Written by the application: kind of the operations, see [`kind`]. It changes only when all posted
    /// operations are complete.
    pub(crate) kind: Line,
    /// Written by the engine: number of operations sent.
    pub(crate) consumer: Line,
    /// Written by the receiver: number of operations complete.
    pub(crate) completed: Line,
    /// Written by the receiver at the peer: number of payloads placed.
    pub(crate) placed: Line,
}
