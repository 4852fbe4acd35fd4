//! Responses of a target: a ring in the order of the requests, kept until they are acknowledged (section 8.5.3.2).

use super::{RESPONSES, Target};
use crate::ids::Rsn;
use crate::ring::at_mut;
use crate::verifier::{bounded, fresh};
use bytemuck::{AnyBitPattern, CheckedBitPattern, NoUninit, Zeroable};

/// State of a response (F-8.5.1-3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
#[repr(u32)]
pub enum ResponseState {
    /// The entry is not in use.
    #[default]
    Free = 0,
    /// PullDataUlpRx: it waits for the gate.
    Ready = 1,
    /// PullDataTx.
    Sent = 2,
    /// PullDataAckd. An older response is not acknowledged yet.
    Acknowledged = 3,
}

/// A Pull Data packet that is not sent yet or not acknowledged yet. `A` is the ULP's type for its content.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Zeroable)]
pub struct Response<A> {
    /// RSN of the request (F-7.4-2).
    pub rsn: Rsn,
    /// State.
    pub state: ResponseState,
    /// Content, from the ULP.
    pub answer: A,
}

/// The bytes of a [`Response`] in a file. Any bytes are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, Zeroable)]
pub struct ResponseBits<B> {
    rsn: u32,
    state: u32,
    answer: B,
}

// SAFETY: the type is `repr(C)`: two words, then an answer whose alignment is at most that of two words. So there
// is no padding before the answer. The size assertion for each type that it is used with proves that there is none
// after it.
unsafe impl<A: NoUninit> NoUninit for Response<A> {}
// SAFETY: `repr(C)` of integers and of a type that takes any bytes.
unsafe impl<B: AnyBitPattern> AnyBitPattern for ResponseBits<B> {}
// SAFETY: both types have the same layout, field by field. A value is valid if its fields with invalid values are
// valid.
unsafe impl<A: CheckedBitPattern> CheckedBitPattern for Response<A> {
    type Bits = ResponseBits<A::Bits>;

    fn is_valid_bit_pattern(bits: &Self::Bits) -> bool {
        ResponseState::is_valid_bit_pattern(&bits.state) && A::is_valid_bit_pattern(&bits.answer)
    }
}

/// The responses of a connection, indexed by position modulo [`RESPONSES`].
pub type Responses<A> = [Response<A>; RESPONSES];

/// A packet keeps the place of its response in 16 bits.
const _: () =
    assert!(RESPONSES <= 1 << 16, "widen `TxPacket::response`, `PULL_CREDITS` and `Initiator::open_pulls`");

impl Target {
    /// Returns whether the ring has space for another response.
    #[inline(always)]
    pub fn has_response_slot(&self) -> bool {
        self.response_tail.wrapping_sub(self.response_head) < RESPONSES as u32
    }

    /// Returns whether a response waits to be sent.
    #[inline(always)]
    pub fn has_response(&self) -> bool {
        self.response_next != self.response_tail
    }

    /// Appends the answer to the request `rsn`. The ring must have space.
    #[inline(always)]
    pub fn answer<A: Copy>(&mut self, responses: &mut Responses<A>, rsn: Rsn, answer: A) {
        *at_mut(responses, self.response_tail) = Response { rsn, state: ResponseState::Ready, answer };
        self.response_tail = self.response_tail.wrapping_add(1);
    }

    /// Marks the oldest unsent response as sent. There must be one. Returns its place, and the RSN of its request.
    #[inline(always)]
    pub fn send_response<A>(&mut self, responses: &mut Responses<A>) -> (u16, Rsn) {
        let position = self.response_next;
        let response = at_mut(responses, position);
        response.state = ResponseState::Sent;
        self.response_next = position.wrapping_add(1);
        (position as u16, response.rsn)
    }

    /// Records that Pull Data is acknowledged. Frees its entry, if it is the oldest, and the acknowledged entries
    /// after it.
    #[inline(always)]
    pub fn response_acknowledged<A>(&mut self, responses: &mut Responses<A>, place: u16) {
        at_mut(responses, place as u32).state = ResponseState::Acknowledged;
        let mut looked_at = 0;
        while looked_at < RESPONSES as u32 {
            bounded!();
            looked_at = fresh(looked_at + 1);
            let head = fresh(self.response_head);
            let response = at_mut(responses, head);
            if head == self.response_next || response.state != ResponseState::Acknowledged {
                break;
            }
            response.state = ResponseState::Free;
            self.response_head = head.wrapping_add(1);
        }
    }
}
