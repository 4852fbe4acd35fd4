//! The requests of a run of the datapath to the blocks.

use super::work::StepWork;

/// A call to the platform that takes time. All other calls (clock, counters, occupancies, own addresses) read
/// registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Parse the headers of a frame of this many bytes. A frame that arrives from the line passes security too.
    Parse { bytes: u32, arriving: bool },
    /// Compute the checksum of this many bytes of the frame.
    SumFrame { bytes: u32 },
    /// Compute the checksum of this many bytes of a header to send.
    SumHeader { bytes: u32 },
    /// Compute the checksum of this many bytes of host memory. They are the payload to send, and the builder keeps
    /// them.
    SumMemory { bytes: u32 },
    /// Read this many bytes of host memory, or do an atomic operation, which returns a value.
    ReadMemory { bytes: u32 },
    /// Write this many bytes to host memory.
    WriteMemory { bytes: u32 },
    /// Look up a memory region.
    Region,
    /// Take a receive cell from the free list, or return it.
    CellList,
    /// Copy this many bytes to or from a receive cell.
    MoveCell { bytes: u32 },
    /// Publish an event or take a result.
    RueQueues,
    /// Request a turn, or find the next connection that requests one.
    Scheduler,
    /// File a deadline, or find a due one.
    TimingWheel,
    /// Build this many bytes of a packet to send.
    Build { bytes: u32 },
    /// Get the connection of `slot` for this run alone. With `after`, the connection must have made that many
    /// steps.
    Lock { slot: u32, after: Option<u64> },
    /// Write the connection back after a step that did `work`, and release it.
    WriteBack { slot: u32, work: StepWork },
    /// Send the frame of this many bytes.
    Send { bytes: u32 },
}
