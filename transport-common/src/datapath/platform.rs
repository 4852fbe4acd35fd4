//! The narrow port between the transport and what carries it: XDP, or the host.

use super::Scratch;
use crate::connection::Entry;
use crate::counters::Counter;
use crate::queues::{Queues, Region};
use crate::units::Picoseconds;
use crate::wire::cursor::Cursor;

/// Bytes at the begin of a received frame that are kept: all headers.
pub const PREFIX_BYTES: usize = 160;

/// Most bytes that are copied or summed at a time.
pub const MAX_COPY: u32 = 4096;
/// Most bytes of headers that are stored in front of a frame, which also is how far before the end of the header buffer they
/// have to start.
pub const MAX_HEADERS: u32 = 192;
/// Most bytes of headers that are summed.
pub const MAX_SUMMED_HEADERS: u32 = 180;
/// Shortest frame: the kernel keeps an Ethernet header.
pub const MIN_FRAME: u32 = 14;
/// Shortest frame that a cell is brought into: a request's headers find room.
pub const MIN_CELL_FRAME: u32 = 64;

/// What becomes of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Verdict {
    /// Not ours: to the kernel's stack, untouched.
    Pass,
    /// Done with.
    Drop,
    /// The frame now holds a packet for the wire.
    Transmit,
}

/// A connection under its lock. Has to be given back to the platform that handed it out ([`Connections::unlock`]).
pub trait Locked {
    /// The queues of a connection, as its steps see them.
    type Queues: Queues;

    /// The connection and its queues.
    fn parts(&mut self) -> (&mut Entry, &Self::Queues);
}

/// The machine: its clock, its addresses, its counters, and what its card says of a frame.
pub trait Host {
    /// Monotonic clock.
    fn now(&mut self) -> Picoseconds;
    /// Whether a frame to this MAC and IPv4 address, as integers of their bytes in memory order, is for this node.
    fn owns_ipv4(&self, mac: u64, address: u32) -> bool;
    /// Whether a frame to this MAC and IPv6 address is for this node.
    fn owns_ipv6(&self, mac: u64, address: [u64; 2]) -> bool;
    /// Raises a counter by its index.
    fn count(&mut self, index: u32);
    /// When the frame at hand came off the wire, if the card says so, else `now`: T2 of data, T4 of acknowledgements
    /// (F-10.1-1). Between the two lies what the frame waited.
    #[inline(always)]
    fn arrival(&mut self, now: Picoseconds) -> Picoseconds {
        now
    }
    /// Occupancy level, 0 to 31, of a receive buffer that the card has in front of the transport; 0 without one.
    #[inline(always)]
    fn rx_buffer_level(&self) -> u8 {
        0
    }
    /// Raises a counter.
    #[inline(always)]
    fn raise(&mut self, counter: Counter) {
        self.count(counter as u32);
    }
}

/// The frame at hand. Offsets and lengths are bytes.
///
/// What does not fit is refused by `false`, `None` or a sum of 0, and changes nothing: a frame stays as long as it is, and as it is.
pub trait Frames {
    /// Reads the frame from its first byte.
    type Cursor: Cursor;
    /// A cursor at the frame's first byte.
    fn cursor(&mut self) -> Self::Cursor;
    /// Bytes in the frame.
    fn frame_length(&self) -> u32;
    /// Copies the frame's first bytes, as many as there are.
    fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]);
    /// Cuts or grows the frame at its end.
    fn resize(&mut self, length: u32) -> bool;
    /// Copies `scratch.header[start..start + length]` to the frame's begin.
    fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool;
    /// Sum of `length` bytes of the frame at `offset`, as 16-bit words in memory order, not folded.
    fn sum_frame(&mut self, s: &mut Scratch, offset: u32, length: u32) -> Option<u32>;
    /// Likewise of `scratch.header`; `length` is a multiple of 4.
    fn sum_header(&mut self, s: &Scratch, start: u32, length: u32) -> u32;
}

/// The memory that applications registered. Offsets are those of the node's memory; they may be any number.
///
/// At most [`MAX_COPY`] bytes go at a time, and at least one. What does not fit is refused by `false` or a value of 0, and
/// changes nothing.
pub trait Memory {
    /// Likewise of the node's memory.
    fn sum_memory(&mut self, memory_offset: u64, length: u32) -> u32;
    /// Node memory to frame.
    fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool;
    /// Frame to node memory.
    fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool;
    /// Stores 8 bytes in host order.
    fn store_value(&mut self, memory_offset: u64, value: u64) -> bool;
    /// Atomic compare and swap of 8 aligned bytes; the original value.
    fn compare_swap(&mut self, memory_offset: u64, compare: u64, swap: u64) -> u64;
    /// Atomic fetch and add of 8 aligned bytes; the original value.
    fn fetch_add(&mut self, memory_offset: u64, add: u64) -> u64;
    /// The table entry an R_Key points to; it may be free or another key's.
    fn region(&mut self, rkey: u32) -> Region;
}

/// Receive cells, which hold requests until their time has come.
///
/// A cell is a number from 1 on; [`NO_CELL`](crate::transaction::NO_CELL) is none. Each is handed out to one owner at a time.
pub trait Cells {
    /// A free receive cell, or [`NO_CELL`](crate::transaction::NO_CELL).
    fn allocate_cell(&mut self) -> u32;
    /// Gives a cell back.
    fn free_cell(&mut self, cell: u32);
    /// Frame to cell.
    fn frame_to_cell(&mut self, offset: u32, cell: u32, length: u32) -> bool;
    /// Cell to the frame's begin.
    fn cell_to_frame(&mut self, cell: u32, length: u32) -> bool;
    /// Receive cells in use.
    fn cells_in_use(&self) -> u32;
}

/// Connections behind their locks.
pub trait Connections {
    /// A connection under its lock.
    type Locked: Locked;
    /// Takes the lock of connection slot `slot`; `None` if there is no such slot, or if the lock was not to be had, which the
    /// platform counts. The platform may be used while it is held, but for another lock.
    #[must_use]
    fn lock(&mut self, slot: u32) -> Option<Self::Locked>;
    /// Gives the lock back.
    fn unlock(&mut self, connection: Self::Locked);
}

/// What congestion control in user space is asked, and answers; and histograms of delays.
pub trait CongestionQueues {
    /// Copies occupancy and admission policy of the event queues to `s.step.input.event_queues`, if an engine in user space decides for
    /// `slot`; otherwise nobody looks at them.
    fn event_queues(&mut self, s: &mut Scratch, slot: u32);
    /// Appends `s.step.output.event` to its queue.
    fn publish_event(&mut self, s: &mut Scratch);
    /// Takes the next result of a rate update engine in user space into `s.step.input.outcome`; false if there is none.
    fn next_result(&mut self, s: &mut Scratch) -> bool;
    /// Counts the delays of `s.step.output.event` in the histograms.
    fn record_delays(&mut self, s: &Scratch);
}

/// Who is serviced by the engine, and when. Only [`wake`](Self::wake) and [`wake_by`](Self::wake_by) may be called by whoever
/// receives; the others are the engine's.
pub trait Services {
    /// Asks for a service by the engine for `slot`.
    fn wake(&mut self, slot: u32);
    /// Asks for a service by the engine for `slot` by `ticks` Falcon ticks from now. An engine that sleeps may be left
    /// asleep if it will be up soon enough by itself.
    fn wake_by(&mut self, slot: u32, now: Picoseconds, ticks: u32);
    /// A connection whose deadline has come, if any.
    fn expired(&mut self, now: Picoseconds) -> Option<u32>;
    /// A connection that asked for a service, if any, round robin. It goes on asking until [`answer`](Self::answer).
    fn ready(&mut self) -> Option<u32>;
    /// Withdraws the request of `slot` for a service. A step that comes after this can ask anew.
    fn answer(&mut self, slot: u32);
    /// Whether more work requests wait than one service can take, as far as can be seen without the lock.
    fn is_backlogged(&self, slot: u32) -> bool;
    /// Files `slot` with the timing wheel, `ticks` Falcon ticks from now.
    fn file(&mut self, slot: u32, now: Picoseconds, ticks: u32);
}

/// Packets, memory and maps of a node: all that the datapath asks for, in the parts that answer it.
///
/// Every implementation passes one suite, which holds what the parts promise: `host_nic::contract`. The kernel's is compared
/// with the host's, frame by frame, by the differential test.
pub trait Platform: Host + Frames + Memory + Cells + Connections + CongestionQueues + Services {}

impl<P: Host + Frames + Memory + Cells + Connections + CongestionQueues + Services> Platform for P {}
