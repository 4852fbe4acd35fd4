//! Responses of a target: a ring in the order of the requests, kept until acknowledged (section 8.5.3.2).

use crate::connection::{Entry, RESPONSES};
use crate::verifier::{bounded, fresh};

/// Kinds of [`Response::kind`].
pub mod response_kind {
    /// Data read from registered memory when the packet is built.
    pub const READ: u8 = 1;
    /// The original value of an atomic.
    pub const ATOMIC: u8 = 2;
    /// An error of the ULP (D-45).
    pub const ERROR: u8 = 3;
}

/// States of [`Response::state`] (F-8.5.1-3).
pub mod response_state {
    /// Slot not in use.
    pub const FREE: u8 = 0;
    /// PullReqUlpTx: the ULP works on it.
    pub const EXECUTING: u8 = 1;
    /// PullDataUlpRx: waits for the gate.
    pub const READY: u8 = 2;
    /// PullDataTx.
    pub const SENT: u8 = 3;
    /// PullDataAckd, behind an older one.
    pub const ACKNOWLEDGED: u8 = 4;
}

/// A Pull Data packet in the making, or waiting to be acknowledged.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// RSN of the request (F-7.4-2).
    pub rsn: u32,
    /// See [`response_kind`].
    pub kind: u8,
    /// See [`response_state`].
    pub state: u8,
    /// ULP code of an error.
    pub code: u8,
    /// 0.
    pub reserved: u8,
    /// READ: address in the region.
    pub address: u64,
    /// READ: the region.
    pub rkey: u32,
    /// READ: bytes.
    pub length: u32,
    /// ATOMIC: the original value.
    pub value: u64,
}

impl Entry {
    /// Whether the ring has room for another response.
    #[inline(always)]
    pub(crate) fn has_response_slot(&self) -> bool {
        let t = &self.connection.target;
        t.response_tail.wrapping_sub(t.response_head) < RESPONSES as u32
    }

    /// The response at ring position `position`.
    #[inline(always)]
    pub(crate) fn response(&mut self, position: u32) -> &mut Response {
        &mut self.tables.responses[position as usize & (RESPONSES - 1)]
    }

    /// Appends a response and returns its position; the ring must have room.
    #[inline(always)]
    pub(crate) fn append_response(&mut self, response: Response) -> u32 {
        let position = self.connection.target.response_tail;
        *self.response(position) = response;
        self.connection.target.response_tail = position.wrapping_add(1);
        position
    }

    /// Frees an acknowledged response and the acknowledged ones behind it.
    #[inline(always)]
    pub(crate) fn release_response(&mut self, index: u16) {
        self.response(index as u32).state = response_state::ACKNOWLEDGED;
        loop {
            bounded!();
            let t = &self.connection.target;
            let head = fresh(t.response_head);
            if head == t.response_next || self.response(head).state != response_state::ACKNOWLEDGED {
                break;
            }
            self.response(head).state = response_state::FREE;
            self.connection.target.response_head = head.wrapping_add(1);
        }
    }
}
