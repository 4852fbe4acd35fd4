//! The responder: what a connection keeps of its ULP for the peer's requests, and the application's side of it.

use super::operation::{Operation, OperationKind};
use super::request::{Completion, ReceiveRequest, Verb, WorkFlags};
use super::verdict::{Place, PlaceFlags};
use crate::ids::Rsn;
use crate::memory::Domain;
use crate::transaction::CompletionCode;
use bytemuck::{Pod, Zeroable};

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

/// The responder of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Responder {
    /// Number of posted receives consumed.
    pub receive_next: u32,
    /// Bytes of the current SEND message placed so far.
    pub receive_offset: u32,
    /// Largest number of data bytes in Pull Data.
    pub max_answer: u16,
    /// 1: between the first and the last segment of a SEND.
    pub in_message: u8,
    /// 1: requests arrive in the order in which they were submitted.
    pub ordered: u8,
    /// What the application of this end may use. Neither end of an operation lies beyond it.
    pub domain: Domain,
}

impl Responder {
    /// Creates a responder for an application with this domain that has received nothing yet. No answer is longer than
    /// 65,535 bytes: its Request Length has 16 bits.
    pub fn new(max_answer: u32, ordered: bool, domain: Domain) -> Self {
        let max_answer = max_answer.min(u16::MAX.into()) as u16;
        Self { max_answer, ordered: ordered.into(), domain, ..Self::default() }
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

    /// Completes the receive in error, because the message does not fit into it, its data could not be placed, or its place
    /// is not the application's.
    #[inline(never)]
    pub fn failed(&self, rsn: Rsn, place: &Place, receives: impl Receives) {
        let denied = place.flags.contains(PlaceFlags::DENIED);
        let code = if denied { CompletionCode::LocalProtection } else { CompletionCode::OperationError };
        let completion = Completion {
            wr_id: receives.receive(place.receive).wr_id,
            length: place.message_length,
            rsn: rsn.0,
            status: code as u8,
            opcode: Verb::RECEIVE,
            ..Completion::default()
        };
        receives.consumed(self.receive_next);
        receives.received(completion);
    }
}
