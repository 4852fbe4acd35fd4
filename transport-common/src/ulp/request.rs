//! The application's requests and completions, named as in the verbs interface. All ULPs have them in common.

use crate::ids::Cid;
use crate::memory::{Domain, LKey};
use crate::transaction::{Kind, Label};
use bitflags::bitflags;
use bytemuck::{Pod, Zeroable};

/// The operation of a work request or of a completion. The application writes it, so any value can occur. The
/// engine refuses values that the ULP of the connection does not have ([`Ulp::is_valid`](super::Ulp::is_valid)).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct Verb(pub u8);

impl Verb {
    /// RDMA WRITE, one segment.
    pub const WRITE: Self = Self(1);
    /// RDMA READ, one segment.
    pub const READ: Self = Self(2);
    /// Compare and swap of 8 bytes.
    pub const COMPARE_SWAP: Self = Self(3);
    /// Fetch and add of 8 bytes.
    pub const FETCH_ADD: Self = Self(4);
    /// SEND that fits one segment.
    pub const SEND_ONLY: Self = Self(5);
    /// First segment of a longer SEND.
    pub const SEND_FIRST: Self = Self(6);
    /// Neither first nor last segment of a SEND.
    pub const SEND_MIDDLE: Self = Self(7);
    /// Last segment of a SEND.
    pub const SEND_LAST: Self = Self(8);
    /// Completion of a posted receive ([`Completion`] only).
    pub const RECEIVE: Self = Self(9);
    /// Receive completion caused by a WRITE with immediate.
    pub const RECEIVE_IMMEDIATE: Self = Self(10);

    /// Returns whether an operation is a pull. This is the same for all ULPs. An unknown operation counts as a push, and
    /// is refused when it is served.
    #[inline(always)]
    pub const fn is_pull(self) -> bool {
        matches!(self, Self::READ | Self::COMPARE_SWAP | Self::FETCH_ADD)
    }
}

bitflags! {
    /// Flags of a work request and of its completion. The application writes them. Unknown bits are ignored.
    #[repr(transparent)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub struct WorkFlags: u8 {
        /// A completion is written even if the request succeeds.
        const SIGNALED = 1;
        /// The request (or completion) carries immediate data.
        const IMMEDIATE = 2;
    }
}

/// Largest number of receives posted at once per connection.
pub const RECEIVE_QUEUE_DEPTH: usize = 256;

/// One Falcon transaction as the application posts it, 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct WorkRequest {
    /// The operation, see [`Verb`].
    pub opcode: Verb,
    /// See [`WorkFlags`].
    pub flags: WorkFlags,
    /// 0.
    pub reserved: u16,
    /// Bytes of user data, at most the connection's largest segment size.
    pub length: u32,
    /// Offset of the local buffer: in the region that `lkey` names, or in the node's memory.
    pub local_offset: u64,
    /// Address in the peer's region (an offset, D-84).
    pub remote_address: u64,
    /// The peer's R_Key.
    pub rkey: u32,
    /// Immediate data, host order.
    pub immediate: u32,
    /// Swap value, or the addend.
    pub swap_or_add: u64,
    /// Compare value.
    pub compare: u64,
    /// Returned in the completion.
    pub wr_id: u64,
    /// Number of this segment within the operation, from 0 (D-84).
    pub segment: u32,
    /// Key of the local buffer. With [`LKey::OWN`] it is in the memory of the application's domain.
    pub lkey: LKey,
}

impl WorkRequest {
    /// Returns the label of its transaction.
    #[inline(always)]
    pub const fn label(&self) -> Label {
        let kind = if self.opcode.is_pull() { Kind::Pull } else { Kind::Push };
        Label { kind, opcode: self.opcode.0, flags: self.flags.bits(), length: self.length }
    }

    /// Returns whether it is an atomic.
    #[inline(always)]
    pub const fn is_atomic(&self) -> bool {
        matches!(self.opcode, Verb::COMPARE_SWAP | Verb::FETCH_ADD)
    }

    /// Returns the bytes of its local buffer: 8 for an atomic, whatever the application wrote.
    #[inline(always)]
    pub const fn local_length(&self) -> u32 {
        if self.is_atomic() { 8 } else { self.length }
    }

    /// Returns whether its local buffer is memory of the domain. A buffer in a region is judged when the region is known.
    #[inline(always)]
    pub const fn is_in(&self, domain: &Domain) -> bool {
        self.lkey.0 != LKey::OWN.0 || domain.holds(self.local_offset, self.local_length() as u64)
    }
}

/// A posted receive buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ReceiveRequest {
    /// Offset of the buffer: in the region that `lkey` names, or in the node's memory.
    pub local_offset: u64,
    /// Returned in the completion.
    pub wr_id: u64,
    /// Length in bytes.
    pub length: u32,
    /// Key of the buffer. With [`LKey::OWN`] it is in the memory of the application's domain.
    pub lkey: LKey,
}

/// The result of a work request, 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Completion {
    /// From the work request.
    pub wr_id: u64,
    /// Bytes placed (READ, atomics, receives) or sent.
    pub length: u32,
    /// Immediate data, valid if [`WorkFlags::IMMEDIATE`] is set.
    pub immediate: u32,
    /// RSN of the transaction; for a receive, of the transaction of its last segment.
    pub rsn: u32,
    /// A code of [`crate::transaction::CompletionCode`].
    pub status: u8,
    /// The target ULP's code, for completions in error (F-7.8-7).
    pub ulp_code: u8,
    /// See [`Verb`].
    pub opcode: Verb,
    /// See [`WorkFlags`].
    pub flags: WorkFlags,
    /// In the queue: the number of this completion, counted from 1 modulo 2^32. It is written last, so the
    /// application can recognise a new entry by the entry alone. It is 0 in the copy that the application takes.
    pub number: u32,
    /// The queue pair of the work request: the CID with which the peer addresses it. It is written when the completion
    /// enters its queue.
    pub queue_pair: Cid,
}

const _: () = {
    assert!(size_of::<WorkRequest>() == 64);
    assert!(size_of::<ReceiveRequest>() == 24);
    assert!(size_of::<Completion>() == 32);
};
