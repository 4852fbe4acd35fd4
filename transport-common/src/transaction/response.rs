//! Responses of a target: a ring in the order of the requests, kept until acknowledged (section 8.5.3.2).

use super::{RESPONSES, Target};
use crate::ids::Rsn;
use crate::verifier::{bounded, fresh};
use bytemuck::{AnyBitPattern, CheckedBitPattern, NoUninit, Zeroable};

/// State of a response (F-8.5.1-3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit)]
#[repr(u32)]
pub enum ResponseState {
    /// Place not in use.
    #[default]
    Free = 0,
    /// PullDataUlpRx: waits for the gate.
    Ready = 1,
    /// PullDataTx.
    Sent = 2,
    /// PullDataAckd, behind an older one.
    Acknowledged = 3,
}

/// A Pull Data packet in the making, or waiting to be acknowledged. What it says is the ULP's `A`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response<A> {
    /// RSN of the request (F-7.4-2).
    pub rsn: Rsn,
    /// How far it is.
    pub state: ResponseState,
    /// The ULP's answer.
    pub answer: A,
}

/// A [`Response`] as it may stand in a file: any bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ResponseBits<B> {
    rsn: u32,
    state: u32,
    answer: B,
}

// SAFETY: two words in front of an answer that is aligned like two words at most, `repr(C)`: no padding in front of it, and
// none behind, as the assertion of its size says for each type it is used with.
unsafe impl<A: NoUninit> NoUninit for Response<A> {}
// SAFETY: `repr(C)` of integers and a type that takes any bytes.
unsafe impl<B: AnyBitPattern> Zeroable for ResponseBits<B> {}
// SAFETY: likewise.
unsafe impl<B: AnyBitPattern> AnyBitPattern for ResponseBits<B> {}
// SAFETY: the same layout, field by field; valid if the fields that have invalid values are.
unsafe impl<A: CheckedBitPattern> CheckedBitPattern for Response<A> {
    type Bits = ResponseBits<A::Bits>;

    fn is_valid_bit_pattern(bits: &Self::Bits) -> bool {
        ResponseState::is_valid_bit_pattern(&bits.state) && A::is_valid_bit_pattern(&bits.answer)
    }
}

/// The responses of a connection, by position modulo [`RESPONSES`].
pub type Responses<A> = [Response<A>; RESPONSES];

/// The response at a position.
#[inline(always)]
pub(super) fn at<A>(responses: &mut Responses<A>, position: u32) -> &mut Response<A> {
    &mut responses[position as usize & (RESPONSES - 1)]
}

impl Target {
    /// Whether the ring has room for another response.
    #[inline(always)]
    pub fn has_response_slot(&self) -> bool {
        self.response_tail.wrapping_sub(self.response_head) < RESPONSES as u32
    }

    /// Whether a response waits to be sent.
    #[inline(always)]
    pub fn has_response(&self) -> bool {
        self.response_next != self.response_tail
    }

    /// Appends the answer to the request `rsn`; the ring must have room.
    #[inline(always)]
    pub fn answer<A: Copy>(&mut self, responses: &mut Responses<A>, rsn: Rsn, answer: A) {
        *at(responses, self.response_tail) = Response { rsn, state: ResponseState::Ready, answer };
        self.response_tail = self.response_tail.wrapping_add(1);
    }

    /// Takes the oldest response that was not sent yet; there must be one. Its place, and the RSN it answers.
    #[inline(always)]
    pub fn send_response<A>(&mut self, responses: &mut Responses<A>) -> (u16, Rsn) {
        let position = self.response_next;
        let response = at(responses, position);
        response.state = ResponseState::Sent;
        self.response_next = position.wrapping_add(1);
        (position as u16, response.rsn)
    }

    /// Pull Data is acknowledged: its place is free, and so are those of acknowledged ones behind it.
    #[inline(always)]
    pub fn response_acknowledged<A>(&mut self, responses: &mut Responses<A>, place: u16) {
        at(responses, place as u32).state = ResponseState::Acknowledged;
        loop {
            bounded!();
            let head = fresh(self.response_head);
            let response = at(responses, head);
            if head == self.response_next || response.state != ResponseState::Acknowledged {
                break;
            }
            response.state = ResponseState::Free;
            self.response_head = head.wrapping_add(1);
        }
    }
}
