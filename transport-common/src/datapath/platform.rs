//! The narrow interface between the transport and its platform: XDP, or the host.
//!
//! [`platform_calls`](crate::platform_calls) lists each call once: its signature, and the note of it on a
//! [tape](crate::tape). The traits, the forwarders of what stands in front of a platform, the tags of the tape, the recorder
//! and the reader of a replay are made from this list. Implementations that do something are written by hand. The page
//! `docs/architecture.md` gives the reason for each call.

use super::Scratch;
use crate::connection::Whole;
use crate::counters::Counter;
use crate::queues::Queues;
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

/// What [`Memory::atomic`] does with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Atomic {
    /// Stores the value if the word is equal to the other one.
    CompareSwap = 0,
    /// Adds the value.
    FetchAdd = 1,
}

/// Passes the list of the platform's calls to the macro `$then`, after what follows its name: for each trait its calls, each
/// with its signature and its note on a tape. [`Connections`](crate::datapath::Connections) is not in the list: what stands
/// in front of a platform wraps the connections.
///
/// The note of a call is one of
/// - `{ Tag "name" [a, b] }`: the values `a` and `b`, then the answer ([`Noted`](crate::tape::Noted)). Recorder and replay
///   are made from it.
/// - `{ Tag "name" { "words" } }`: recorder and replay are written by hand, in their modules `by_hand`. The text says which
///   words the note has.
/// - `{}`: the call has no note. It reads or writes the frame, whose first bytes the tape has.
#[macro_export]
macro_rules! platform_calls {
    ($then:ident $($with:tt)*) => { $then! { $($with)*
        /// The machine: its clock, its addresses, its counters, and what it reports to a step.
        trait Host {
            /// Returns the time of a monotonic clock.
            fn now(&mut self) -> $crate::units::Picoseconds { Now "now" [] }
            /// Returns when the current frame arrived from the wire if the card reports it, otherwise `now`: T2 of data,
            /// T4 of acknowledgements (F-10.1-1). The difference to `now` is the time that the frame waited.
            fn arrival(&mut self, now: $crate::units::Picoseconds) -> $crate::units::Picoseconds {
                Arrival "arrival" []
            }
            /// Returns whether a frame to this MAC and IPv4 address, as integers of their bytes in memory order, is for
            /// this node.
            fn owns_ipv4(&mut self, mac: u64, address: u32) -> bool { OwnsIpv4 "owns IPv4" [] }
            /// Returns whether a frame to this MAC and IPv6 address is for this node.
            fn owns_ipv6(&mut self, mac: u64, address: [u64; 2]) -> bool { OwnsIpv6 "owns IPv6" [] }
            /// Raises a counter by its index.
            fn count(&mut self, index: u32) { Count "count" [index] }
            /// Copies what a step of the connection in `slot` reads of the node to `s.step.input`: the number of receive
            /// cells in use; the occupancy level, 0 to 31, of the card's receive buffer in front of the transport, 0 if there
            /// is none; with `events`, occupancy and admission policy of the event queues, if an engine in user space
            /// decides for `slot`. Otherwise nothing reads these.
            fn observe(&mut self, s: &mut $crate::datapath::Scratch, slot: u32, events: bool) {
                Observe "observe" { "Receive cells in use, and with `events` the event queues; short: level of the receive buffer." }
            }
        }

        /// The current frame. Offsets and lengths are bytes.
        ///
        /// A request that does not fit returns `false` or `None`, and changes nothing: neither the length nor the content of
        /// the frame. Only [`put_frame`](Self::put_frame) may leave a frame that nobody can use.
        trait Frames {
            /// Returns a cursor at the frame's first byte.
            fn cursor(&mut self) -> Self::Cursor {}
            /// Copies the frame's first bytes, as many as there are, up to the size of `to`.
            fn peek(&mut self, to: &mut [u8; $crate::datapath::PREFIX_BYTES]) {}
            /// Returns the sum of `length` bytes of the frame at `offset`, as 16-bit words in memory order, not folded. It
            /// handles 1 to [`MAX_COPY`] bytes.
            fn sum_frame(&mut self, s: &mut $crate::datapath::Scratch, offset: u32, length: u32) -> Option<u32> {
                SumFrame "sum of frame" [offset, length]
            }
            /// Returns the sum of a packet to send, as 16-bit words in memory order, not folded: of `headers` bytes of
            /// `s.header` from [`UDP_AT`](crate::datapath::UDP_AT) on, a multiple of 4 and at most [`MAX_SUMMED_HEADERS`], and
            /// of its payload, as for [`put_frame`](Self::put_frame). A part that does not fit counts 0.
            fn sum_packet(&mut self, s: &$crate::datapath::Scratch, headers: u32, length: u32) -> u64 {
                SumPacket "sum of packet" [headers, s.payload_place(length), length]
            }
            /// Makes the frame of a packet to send: `s.header[start..start + headers]`, then its payload, which is `length`
            /// bytes, up to [`MAX_COPY`], of the node's memory at `s.step.output.packet.ulp.memory_offset`.
            fn put_frame(
                &mut self, s: &$crate::datapath::Scratch, start: u32, headers: u32, length: u32
            ) -> bool {
                PutFrame "put frame" { "Start, headers, memory offset (64 bits), length, the recorded part of the header buffer; short: whether it was done." }
            }
        }

        /// The memory that applications registered. Offsets are in the node's memory and may be any number.
        ///
        /// A request that does not fit returns `false` or a value of 0, and changes nothing.
        trait Memory {
            /// Copies 1 to [`MAX_COPY`] bytes from the frame to node memory.
            fn frame_to_memory(&mut self, offset: u32, memory_offset: u64, length: u32) -> bool {
                FrameToMemory "frame to memory" [offset, memory_offset, length]
            }
            /// Stores 8 bytes in host order, at any alignment.
            fn store_value(&mut self, memory_offset: u64, value: u64) -> bool {
                StoreValue "store value" [memory_offset, value]
            }
            /// Changes 8 aligned bytes atomically. Returns the original value. Only [`Atomic::CompareSwap`] reads `compare`.
            fn atomic(
                &mut self, kind: $crate::datapath::Atomic, memory_offset: u64, value: u64, compare: u64
            ) -> u64 {
                Atomic "atomic" [kind, memory_offset, value, compare]
            }
            /// Returns the table entry that a key points to. It may be free, or belong to another key or to another domain.
            fn region(&mut self, key: u32) -> $crate::memory::Region { Region "region" [key] }
        }

        /// Receive cells, which hold requests until they can be delivered.
        ///
        /// Each cell has at most one owner at a time.
        trait Cells {
            /// Allocates a free cell and copies `length` bytes of the frame to it, up to [`MAX_COPY`]. Returns
            /// [`CellId::NONE`](crate::ids::CellId::NONE) if there is none, or if the frame has not so many bytes.
            fn frame_to_cell(&mut self, offset: u32, length: u32) -> $crate::ids::CellId {
                FrameToCell "frame to cell" [offset, length]
            }
            /// Copies from a cell to the beginning of the frame, which then has this length, and at least
            /// [`MIN_CELL_FRAME`].
            fn cell_to_frame(&mut self, cell: $crate::ids::CellId, length: u32) -> bool {
                CellToFrame "cell to frame" { "Cell, length; short: whether it was done." }
            }
            /// Gives a cell back.
            fn free_cell(&mut self, cell: $crate::ids::CellId) { FreeCell "free cell" [cell] }
        }

        /// Events to congestion control in user space, its results, and histograms of delays.
        trait CongestionQueues {
            /// Appends `s.step.output.event` to its queue.
            fn publish_event(&mut self, s: &mut $crate::datapath::Scratch) {
                PublishEvent "publish event" { "The event." }
            }
            /// Takes the next result of a rate update engine in user space into `s.step.input.outcome`. Returns false if
            /// there is none.
            fn next_result(&mut self, s: &mut $crate::datapath::Scratch) -> bool {
                NextResult "next result" { "The result, if short is 1." }
            }
            /// Counts the delays of `s.step.output.event` in the histograms.
            fn record_delays(&mut self, s: &$crate::datapath::Scratch) { RecordDelays "record delays" [] }
        }

        /// Which connections the engine services, and when; which applications are woken. The receiver may call only
        /// [`wake`](Self::wake) and [`notify`](Self::notify). Only the engine may call the others.
        trait Services {
            /// Wakes the application of `slot` if it sleeps and has to know of a completion or of another state
            /// ([`CompletionQueue::takes_notice`](crate::queues::CompletionQueue::takes_notice)). The caller has released
            /// the connection's lock, which is the barrier that this needs.
            fn notify(&mut self, slot: u32) { Notify "notify" [slot] }
            /// Asks for a service by the engine for `slot`. With a deadline, a sleeping engine may be left asleep if it will
            /// wake up early enough by itself.
            fn wake(&mut self, slot: u32, deadline: Option<$crate::units::Picoseconds>) {
                Wake "wake" [slot, deadline]
            }
            /// Enters `slot` into the timing wheel, `ticks` from now.
            fn file(&mut self, slot: u32, now: $crate::units::Picoseconds, ticks: $crate::units::Ticks) {
                File "file" [slot, now, ticks]
            }
            /// Returns a connection whose deadline has passed, if any.
            fn expired(&mut self, now: $crate::units::Picoseconds) -> Option<u32> { Expired "expired" [] }
            /// Returns a connection that asked for a service, if any, round robin. The request stays until
            /// [`answer`](Self::answer).
            fn ready(&mut self) -> Option<u32> { Ready "ready" [] }
            /// Withdraws the request of `slot` for a service, unless more work requests wait than one service can take, as
            /// far as this is visible without the lock. A later step can ask again.
            fn answer(&mut self, slot: u32) { Answer "answer" [slot] }
        }
    } };
}

/// Declares the traits of the list.
macro_rules! declare {
    ($(
        $(#[$about:meta])* trait $trait:ident { $(
            $(#[$doc:meta])* fn $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $answer:ty)? {
                $($note:tt)*
            }
        )* }
    )*) => { $(
        $(#[$about])*
        pub trait $trait {
            not_in_the_list! { $trait }
            $(
                $(#[$doc])*
                fn $name(&mut self $(, $argument: $of)*) $(-> $answer)?;
            )*
        }
    )* };
}

/// What the traits have in addition to the calls of the list.
macro_rules! not_in_the_list {
    (Host) => {
        /// Raises a counter.
        #[inline(always)]
        fn raise(&mut self, counter: Counter) {
            self.count(counter as u32);
        }
    };
    (Frames) => {
        /// A reader of the frame.
        type Cursor: Cursor;

        /// Builds the frame of `s.step.output.packet` by `build` of this crate's datapath. The XDP programs and the recorder
        /// make a function of its own of it, because two parts of a program call it.
        fn build(&mut self, s: &mut Scratch) -> bool;
    };
    ($other:ident) => {};
}

platform_calls! { declare }

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
