//! The RDMA ULP at the target. It places a WRITE, answers a READ or an atomic, and uses a posted receive for a
//! SEND.

use super::{
    AccessFlags, Completion, Operation, OperationKind, PAGE_BYTES, ReceiveRequest, Region, UlpCode, Verb,
    WorkFlags,
};
use crate::ids::Rsn;
use crate::transaction::CompletionCode;
use bitflags::bitflags;
use bytemuck::{CheckedBitPattern, NoUninit, Pod, Zeroable};

/// Whether the application is ready for a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Readiness {
    /// No receive is posted.
    #[default]
    NoReceive = 0,
    /// A receive is posted, but the completion queue has no place for its completion.
    NoPlace = 1,
    /// A receive is posted, and its completion has a place.
    Ready = 2,
}

/// The application's side of the responder: the receives that it has posted, and the queue for completions. What
/// the application writes is untrusted, and two reads may differ.
pub trait Receives: Copy {
    /// Returns whether a message may use the receive after the first `used`. While the caller holds the connection's
    /// lock, nothing else takes the place of its completion.
    fn readiness(&self, used: u32) -> Readiness;
    /// Returns a posted receive.
    fn receive(&self, index: u32) -> ReceiveRequest;
    /// Returns the first `count` posted receives to the application.
    fn consumed(&self, count: u32);
    /// Reports a message. Its completion has a place if the application was [ready](Self::readiness) for the message. It
    /// is lost if the application has changed the counters of its queues since then as it may not.
    fn received(&self, completion: Completion);
}

bitflags! {
    /// Additional effects of placing a push.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub struct PlaceFlags: u32 {
        /// It completes a posted receive.
        const RECEIVES = 1;
        /// The receive completion carries immediate data.
        const IMMEDIATE = 2;
        /// It is the last segment that its receive waits for.
        const LAST = 4;
    }
}

/// Where to place the data of a push.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Place {
    /// Offset in the node's memory.
    pub memory_offset: u64,
    /// Index of the posted receive that it uses.
    pub receive: u32,
    /// Additional effects of the placement.
    pub flags: PlaceFlags,
    /// Bytes of the message up to and including this segment.
    pub message_length: u32,
    /// 0.
    pub reserved: u32,
}

/// The ULP's verdict on a push. All values except the first and the last complete the push in error, with the
/// value as the ULP code (D-84).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PushVerdict {
    /// Place its data.
    Take = 0,
    /// Malformed, at a wrong position in a message, or larger than its receive.
    Invalid = UlpCode::INVALID_REQUEST.0,
    /// Access to the memory is not allowed.
    Access = UlpCode::ACCESS.0,
    /// No receive is posted, or its completion has no place (F-6.4-1).
    NotReady = u8::MAX,
}

/// The ULP's verdict on a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullVerdict {
    /// Answer at once.
    Answer(AnswerKind, UlpCode),
    /// Execute the atomic at this offset in the node's memory first. Its result is the answer.
    Execute(Atomic, u64),
    /// The ULP is not ready. It gets the pull again later (F-8.5.3.4-2).
    NotReady,
}

/// An atomic operation on a word of the node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Atomic {
    /// Stores the swap value if the word equals the compare value.
    CompareSwap,
    /// Adds the addend to the word.
    FetchAdd,
}

/// The content of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
#[repr(u8)]
pub enum AnswerKind {
    /// An error of the ULP (D-45).
    #[default]
    Error = 0,
    /// Data read from registered memory when the packet is built.
    Read = 1,
    /// The original value of an atomic.
    Atomic = 2,
}

/// The answer to a pull. It is kept as long as its Pull Data may have to be built.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct Answer {
    /// READ: address in the region. Atomic: the original value.
    pub operand: u64,
    /// READ: the region.
    pub rkey: u32,
    /// READ: bytes.
    pub length: u32,
    /// Its content.
    pub kind: AnswerKind,
    /// ULP code of an error.
    pub code: UlpCode,
    /// 0.
    pub reserved: [u8; 6],
}

/// The responder of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Responder {
    /// Number of posted receives consumed.
    pub receive_next: u32,
    /// Bytes of the current SEND message placed so far.
    pub receive_offset: u32,
    /// 1: between the first and the last segment of a SEND.
    pub in_message: u32,
    /// Largest number of data bytes in Pull Data.
    pub max_answer: u32,
    /// 1: requests arrive in the order in which they were submitted.
    pub ordered: u32,
    /// The node's memory, pages of [`PAGE_BYTES`].
    pub memory_pages: u32,
}

impl Responder {
    /// Creates a responder on `memory_pages` pages of memory that has received nothing yet.
    pub fn new(max_answer: u32, ordered: bool, memory_pages: u32) -> Self {
        Self { max_answer, ordered: ordered as u32, memory_pages, ..Self::default() }
    }

    /// Returns the bytes of the node's memory. Neither end of an operation lies beyond them.
    #[inline(always)]
    pub const fn memory(&self) -> u64 {
        self.memory_pages as u64 * PAGE_BYTES
    }

    /// Returns whether a receive is posted whose completion has a place.
    #[inline(always)]
    pub fn is_ready(&self, receives: impl Receives) -> bool {
        matches!(receives.readiness(self.receive_next), Readiness::Ready)
    }

    /// Returns whether a receive is posted, but its completion has no place.
    #[inline(always)]
    pub fn lacks_place(&self, receives: impl Receives) -> bool {
        matches!(receives.readiness(self.receive_next), Readiness::NoPlace)
    }

    /// Decides about a push. If the push uses a receive, that receive counts as used. The caller then places the
    /// data and calls [`Self::placed`] or [`Self::failed`].
    #[inline(always)]
    pub fn admit_push(
        &mut self,
        op: &Operation,
        region: &Region,
        rsn: Rsn,
        receives: impl Receives,
        place: &mut Place,
    ) -> PushVerdict {
        match op.kind {
            OperationKind::Write => self.admit_write(op, region, receives, place),
            OperationKind::Send => self.admit_send(op, rsn, receives, place),
            _ => PushVerdict::Invalid,
        }
    }

    #[inline(always)]
    fn admit_write(
        &mut self,
        op: &Operation,
        region: &Region,
        receives: impl Receives,
        place: &mut Place,
    ) -> PushVerdict {
        let Some(memory_offset) = region.resolve(op.rkey, AccessFlags::REMOTE_WRITE, op.address, op.length)
        else {
            return PushVerdict::Access;
        };
        place.memory_offset = memory_offset;
        place.message_length = op.length;
        place.flags = PlaceFlags::empty();
        if op.has_immediate != 0 {
            if !self.is_ready(receives) {
                return PushVerdict::NotReady;
            }
            place.receive = self.receive_next;
            place.flags = PlaceFlags::RECEIVES | PlaceFlags::IMMEDIATE | PlaceFlags::LAST;
            self.receive_next = self.receive_next.wrapping_add(1);
        }
        PushVerdict::Take
    }

    #[inline(always)]
    fn admit_send(
        &mut self,
        op: &Operation,
        rsn: Rsn,
        receives: impl Receives,
        place: &mut Place,
    ) -> PushVerdict {
        // Side by side, not one within the other: the stack is nearly full here.
        self.place_send(op, receives, place).unwrap_or_else(|| {
            self.failed(rsn, place, receives);
            PushVerdict::Invalid
        })
    }

    /// Assigns a receive to a SEND. Returns `None` if the message does not fit into it.
    #[inline(never)]
    fn place_send(
        &mut self,
        op: &Operation,
        receives: impl Receives,
        place: &mut Place,
    ) -> Option<PushVerdict> {
        let whole = op.first != 0 && op.last != 0;
        // D-84: messages of several segments need ordered delivery.
        let out_of_place = (op.first == 0) != (self.in_message != 0);
        if out_of_place || (self.ordered == 0 && !whole) {
            self.abandon_message();
            return Some(PushVerdict::Invalid);
        }
        if !self.is_ready(receives) {
            return Some(PushVerdict::NotReady);
        }
        let receive = receives.receive(self.receive_next);
        let offset = self.receive_offset as u64;
        let end = offset + op.length as u64;
        let memory = self.memory();
        let fits = end <= receive.length as u64
            && receive.local_offset <= memory
            && end <= memory - receive.local_offset;
        place.memory_offset = receive.local_offset.wrapping_add(offset);
        place.receive = self.receive_next;
        place.message_length = end as u32;
        if op.last != 0 || !fits {
            self.receive_next = self.receive_next.wrapping_add(1);
            self.abandon_message();
        } else {
            self.receive_offset = end as u32;
            self.in_message = 1;
        }
        if !fits {
            return None;
        }
        place.flags = PlaceFlags::RECEIVES;
        if op.last != 0 {
            place.flags |= PlaceFlags::LAST;
            if op.has_immediate != 0 {
                place.flags |= PlaceFlags::IMMEDIATE;
            }
        }
        Some(PushVerdict::Take)
    }

    /// Abandons the current message. A message that lacks a segment is never completed. The next message uses its
    /// posted receive.
    #[inline(always)]
    pub fn abandon_message(&mut self) {
        self.in_message = 0;
        self.receive_offset = 0;
    }

    /// Completes a push whose data is in memory. If it completes a receive, the application is notified.
    #[inline(always)]
    pub fn placed(&self, op: &Operation, rsn: Rsn, place: &Place, receives: impl Receives) {
        if place.flags.contains(PlaceFlags::LAST) {
            self.received(op, rsn, place, receives);
        }
    }

    #[inline(never)]
    fn received(&self, op: &Operation, rsn: Rsn, place: &Place, receives: impl Receives) {
        let immediate = place.flags.contains(PlaceFlags::IMMEDIATE);
        let write = matches!(op.kind, OperationKind::Write);
        let completion = Completion {
            wr_id: receives.receive(place.receive).wr_id,
            length: place.message_length,
            immediate: if immediate { op.immediate } else { 0 },
            rsn: rsn.0,
            opcode: if write { Verb::RECEIVE_IMMEDIATE } else { Verb::RECEIVE },
            flags: if immediate { WorkFlags::IMMEDIATE } else { WorkFlags::empty() },
            ..Completion::default()
        };
        receives.consumed(self.receive_next);
        receives.received(completion);
    }

    /// Completes the receive in error, because the message does not fit into it or its data could not be placed.
    #[inline(never)]
    pub fn failed(&self, rsn: Rsn, place: &Place, receives: impl Receives) {
        let completion = Completion {
            wr_id: receives.receive(place.receive).wr_id,
            length: place.message_length,
            rsn: rsn.0,
            status: CompletionCode::OperationError as u8,
            opcode: Verb::RECEIVE,
            ..Completion::default()
        };
        receives.consumed(self.receive_next);
        receives.received(completion);
    }

    /// Decides about a pull. A READ is answered when its packet is built. An atomic is executed first.
    #[inline(always)]
    pub fn admit_pull(&self, op: &Operation, region: &Region) -> PullVerdict {
        let read = matches!(op.kind, OperationKind::Read);
        let rights = if read { AccessFlags::REMOTE_READ } else { AccessFlags::REMOTE_ATOMIC };
        let known = read || matches!(op.kind, OperationKind::CompareSwap | OperationKind::FetchAdd);
        if !known || op.length > self.max_answer {
            return PullVerdict::Answer(AnswerKind::Error, UlpCode::INVALID_REQUEST);
        }
        match region.resolve(op.rkey, rights, op.address, op.length) {
            None => PullVerdict::Answer(AnswerKind::Error, UlpCode::ACCESS),
            Some(_) if read => PullVerdict::Answer(AnswerKind::Read, UlpCode::NONE),
            Some(offset) => {
                let swap = matches!(op.kind, OperationKind::CompareSwap);
                PullVerdict::Execute(if swap { Atomic::CompareSwap } else { Atomic::FetchAdd }, offset)
            }
        }
    }
}
