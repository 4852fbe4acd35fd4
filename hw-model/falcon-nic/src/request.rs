//! What a run of the datapath asks the blocks for.

use super::work::StepWork;

/// A call of the platform that takes time. The others (clock, counters, occupancies, own addresses) are registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The headers of a frame of so many bytes, which passes security first when it comes from the line.
    Parse { bytes: u32, arriving: bool },
    /// The checksum of so many bytes of the frame.
    SumFrame { bytes: u32 },
    /// Likewise of a header to send.
    SumHeader { bytes: u32 },
    /// Likewise of the host's memory: the payload to send, which is kept for the builder.
    SumMemory { bytes: u32 },
    /// So many bytes of the host's memory, or an atomic operation, which is answered.
    ReadMemory { bytes: u32 },
    /// So many bytes to the host's memory.
    WriteMemory { bytes: u32 },
    /// A memory region.
    Region,
    /// A receive cell from or to the list of free ones.
    CellList,
    /// So many bytes to or from a receive cell.
    MoveCell { bytes: u32 },
    /// An event or a result.
    RueQueues,
    /// A request for a turn, or the next connection whose turn it is.
    Scheduler,
    /// A deadline, filed or due.
    TimingWheel,
    /// So many bytes of a packet to send.
    Build { bytes: u32 },
    /// The connection of `slot`, for this run alone, after `after` steps of it if that is said.
    Lock { slot: u32, after: Option<u64> },
    /// What the step did; then the connection is for others.
    WriteBack { slot: u32, work: StepWork },
    /// The frame of so many bytes goes out.
    Send { bytes: u32 },
}
