//! The narrow interface between the transport and its platform: XDP, or the host.

use super::Scratch;
use crate::connection::Whole;
use crate::counters::Counter;
use crate::memory::Region;
use crate::queues::Queues;
use crate::units::{Picoseconds, Ticks};
use crate::wire::cursor::Cursor;

/// Bytes at the beginning of a received frame that are kept: all headers.
pub const PREFIX_BYTES: usize = 200;

/// Largest number of bytes that are copied or summed at a time.
pub const MAX_COPY: u32 = 4096;
/// Largest number of header bytes that are stored at the beginning of a frame. Also the smallest distance of their
/// start from the end of the header buffer.
pub const MAX_HEADERS: u32 = 200;
/// Largest number of header bytes that are summed.
pub const MAX_SUMMED_HEADERS: u32 = 180;
/// Shortest frame: the kernel keeps an Ethernet header.
pub const MIN_FRAME: u32 = 14;
/// Shortest frame into which a cell is copied. It has space for the headers of a request.
pub const MIN_CELL_FRAME: u32 = 64;

/// What to do with the received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Verdict {
    /// Not for us: pass it to the kernel's network stack, unchanged.
    Pass,
    /// The frame is not needed any more.
    Drop,
    /// The frame now holds a packet for the wire.
    Transmit,
}

/// A connection under its lock. The caller has to return it to the platform that handed it out
/// ([`Connections::unlock`]).
pub trait Locked {
    /// The queues of a connection, as its steps see them.
    type Queues: Queues;

    /// Returns the connection and its queues.
    fn parts(&mut self) -> (Whole<'_>, &Self::Queues);
}

/// The machine: its clock, its addresses, its counters, and what its card reports about a frame.
pub trait Host {
    /// Returns the time of a monotonic clock.
    fn now(&mut self) -> Picoseconds;
    /// Returns whether a frame to this MAC and IPv4 address, as integers of their bytes in memory order, is for
    /// this node.
    fn owns_ipv4(&self, mac: u64, address: u32) -> bool;
    /// Returns whether a frame to this MAC and IPv6 address is for this node.
    fn owns_ipv6(&self, mac: u64, address: [u64; 2]) -> bool;
    /// Raises a counter by its index.
    fn count(&mut self, index: u32);
    /// Returns when the current frame arrived from the wire if the card reports it, otherwise `now`: T2 of data,
    /// T4 of acknowledgements (F-10.1-1). The difference to `now` is the time that the frame waited.
    #[inline(always)]
    fn arrival(&mut self, now: Picoseconds) -> Picoseconds {
        now
    }
    /// Returns the occupancy level, 0 to 31, of the card's receive buffer in front of the transport. Returns 0 if
    /// there is none.
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

/// The current frame. Offsets and lengths are bytes.
///
/// A request that does not fit returns `false`, `None` or a sum of 0, and changes nothing: neither the length nor
/// the content of the frame.
pub trait Frames {
    /// A reader of the frame.
    type Cursor: Cursor;
    /// Returns a cursor at the frame's first byte.
    fn cursor(&mut self) -> Self::Cursor;
    /// Returns the number of bytes in the frame.
    fn frame_length(&self) -> u32;
    /// Copies the frame's first bytes, as many as there are, up to the size of `to`.
    fn peek(&mut self, to: &mut [u8; PREFIX_BYTES]);
    /// Shortens or extends the frame at its end.
    fn resize(&mut self, length: u32) -> bool;
    /// Copies `scratch.header[start..start + length]` to the beginning of the frame.
    fn store_header(&mut self, s: &Scratch, start: u32, length: u32) -> bool;
    /// Returns the sum of `length` bytes of the frame at `offset`, as 16-bit words in memory order, not folded.
    fn sum_frame(&mut self, s: &mut Scratch, offset: u32, length: u32) -> Option<u32>;
    /// Returns the same sum of `scratch.header`. `length` is a multiple of 4.
    fn sum_header(&mut self, s: &Scratch, start: u32, length: u32) -> u32;
    /// Builds the frame of `s.step.output.packet` by `build` of this crate's datapath. A function of its own, because two
    /// parts of a program call it.
    fn build(&mut self, s: &mut Scratch) -> bool;
}

/// The memory that applications registered. Offsets are in the node's memory and may be any number.
///
/// A call handles at least one byte and at most [`MAX_COPY`] bytes. A request that does not fit returns `false` or
/// a value of 0, and changes nothing.
pub trait Memory {
    /// Returns the sum of `length` bytes of the node's memory, as 16-bit words in memory order, not folded.
    fn sum_memory(&mut self, memory_offset: u64, length: u32) -> u32;
    /// Copies from node memory to the frame.
    fn memory_to_frame(&mut self, memory_offset: u64, offset: u32, length: u32) -> bool;
    /// Copies from the frame to node memory.
    fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool;
    /// Stores 8 bytes in host order.
    fn store_value(&mut self, memory_offset: u64, value: u64) -> bool;
    /// Compares and swaps 8 aligned bytes atomically. Returns the original value.
    fn compare_swap(&mut self, memory_offset: u64, compare: u64, swap: u64) -> u64;
    /// Adds to 8 aligned bytes atomically. Returns the original value.
    fn fetch_add(&mut self, memory_offset: u64, add: u64) -> u64;
    /// Returns the table entry that a key points to. It may be free, or belong to another key or to another domain.
    fn region(&mut self, key: u32) -> Region;
}

/// Receive cells, which hold requests until they can be delivered.
///
/// A cell is a number from 1 on. [`NO_CELL`](crate::transaction::NO_CELL) means no cell. Each cell has at most one
/// owner at a time.
pub trait Cells {
    /// Allocates a free receive cell. Returns [`NO_CELL`](crate::transaction::NO_CELL) if there is none.
    fn allocate_cell(&mut self) -> u32;
    /// Gives a cell back.
    fn free_cell(&mut self, cell: u32);
    /// Copies from the frame to a cell.
    fn frame_to_cell(&mut self, offset: u32, cell: u32, length: u32) -> bool;
    /// Copies from a cell to the beginning of the frame.
    fn cell_to_frame(&mut self, cell: u32, length: u32) -> bool;
    /// Returns the number of receive cells in use.
    fn cells_in_use(&self) -> u32;
}

/// Connections behind their locks.
pub trait Connections {
    /// A connection under its lock.
    type Locked: Locked;
    /// Takes the lock of connection slot `slot`. Returns `None` if there is no such slot, or if the lock could not
    /// be taken, which the platform counts. While the lock is held, the platform may be used, but not to take
    /// another lock.
    #[must_use]
    fn lock(&mut self, slot: u32) -> Option<Self::Locked>;
    /// Releases the lock.
    fn unlock(&mut self, connection: Self::Locked);
}

/// Events to congestion control in user space, its results, and histograms of delays.
pub trait CongestionQueues {
    /// Copies occupancy and admission policy of the event queues to `s.step.input.event_queues`, if an engine in
    /// user space decides for `slot`. Otherwise nothing reads them.
    fn event_queues(&mut self, s: &mut Scratch, slot: u32);
    /// Appends `s.step.output.event` to its queue.
    fn publish_event(&mut self, s: &mut Scratch);
    /// Takes the next result of a rate update engine in user space into `s.step.input.outcome`. Returns false if
    /// there is none.
    fn next_result(&mut self, s: &mut Scratch) -> bool;
    /// Counts the delays of `s.step.output.event` in the histograms.
    fn record_delays(&mut self, s: &Scratch);
}

/// Which connections the engine services, and when. The receiver may call only [`wake`](Self::wake) and
/// [`wake_by`](Self::wake_by). Only the engine may call the others.
pub trait Services {
    /// Asks for a service by the engine for `slot`.
    fn wake(&mut self, slot: u32);
    /// Asks for a service by the engine for `slot` within `ticks` from now. A sleeping engine may be
    /// left asleep if it will wake up early enough by itself.
    fn wake_by(&mut self, slot: u32, now: Picoseconds, ticks: Ticks);
    /// Returns a connection whose deadline has passed, if any.
    fn expired(&mut self, now: Picoseconds) -> Option<u32>;
    /// Returns a connection that asked for a service, if any, round robin. The request stays until
    /// [`answer`](Self::answer).
    fn ready(&mut self) -> Option<u32>;
    /// Withdraws the request of `slot` for a service. A later step can ask again.
    fn answer(&mut self, slot: u32);
    /// Returns whether more work requests wait than one service can take, as far as this is visible without the
    /// lock. Returns false if there is no such slot.
    fn is_backlogged(&self, slot: u32) -> bool;
    /// Files `slot` with the timing wheel, `ticks` from now.
    fn file(&mut self, slot: u32, now: Picoseconds, ticks: Ticks);
}

/// Packets, memory and maps of a node: everything that the datapath needs, in separate parts.
///
/// One test suite checks the contract of each part: `host_nic::contract`. The host's implementation passes it, and
/// so do those in front of it. The replay of a trace, which has recorded answers, passes it except for the checks
/// that read a frame back. The implementation of the XDP programs cannot run the suite, because it exists only in
/// the kernel. The differential test compares it with the host's in 100,000 received frames and a quarter as many
/// services of the engine: verdict, frame, connection, queues, memory, cells, counters, doorbells and timing wheel.
/// So it shows the contract of the kernel's implementation only as far as the datapath calls it. It does not compare
/// the event queues, the histograms of delays and receive timestamps; tests with real traffic use those
/// (`tests/tests/congestion`).
pub trait Platform: Host + Frames + Memory + Cells + Connections + CongestionQueues + Services {}

impl<P: Host + Frames + Memory + Cells + Connections + CongestionQueues + Services> Platform for P {}
