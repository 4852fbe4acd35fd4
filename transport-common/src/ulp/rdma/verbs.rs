//! What an application asks for and hears, in the words of verbs.

use bytemuck::{Pod, Zeroable};

/// Work request operation codes ([`WorkRequest::opcode`]).
pub mod verb {
    /// RDMA WRITE, one segment.
    pub const WRITE: u8 = 1;
    /// RDMA READ, one segment.
    pub const READ: u8 = 2;
    /// Compare and swap of 8 bytes.
    pub const COMPARE_SWAP: u8 = 3;
    /// Fetch and add of 8 bytes.
    pub const FETCH_ADD: u8 = 4;
    /// SEND that fits one segment.
    pub const SEND_ONLY: u8 = 5;
    /// First segment of a longer SEND.
    pub const SEND_FIRST: u8 = 6;
    /// Neither first nor last segment of a SEND.
    pub const SEND_MIDDLE: u8 = 7;
    /// Last segment of a SEND.
    pub const SEND_LAST: u8 = 8;
    /// Completion of a posted receive ([`super::Completion`] only).
    pub const RECEIVE: u8 = 9;
    /// Receive completion raised by a WRITE with immediate.
    pub const RECEIVE_IMMEDIATE: u8 = 10;
}

/// Bits of [`WorkRequest::flags`] and [`Completion::flags`].
pub mod flag {
    /// A completion is written also when the request succeeds.
    pub const SIGNALED: u8 = 1;
    /// The request (or completion) carries immediate data.
    pub const IMMEDIATE: u8 = 2;
}

/// Receives that may be posted at once on a connection.
pub const RECEIVE_QUEUE_DEPTH: usize = 256;

/// One Falcon transaction as the application posts it: 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct WorkRequest {
    /// What to do, see [`verb`].
    pub opcode: u8,
    /// See [`flag`].
    pub flags: u8,
    /// 0.
    pub reserved: u16,
    /// Bytes of user data, at most the connection's largest segment.
    pub length: u32,
    /// Offset of the local buffer in the node's memory.
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
    /// 0.
    pub reserved2: u32,
}

/// A posted receive buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ReceiveRequest {
    /// Offset of the buffer in the node's memory.
    pub local_offset: u64,
    /// Returned in the completion.
    pub wr_id: u64,
    /// Bytes.
    pub length: u32,
    /// 0.
    pub reserved: u32,
}

/// What became of a work request: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Completion {
    /// From the work request.
    pub wr_id: u64,
    /// Bytes placed (READ, atomics, receives) or sent.
    pub length: u32,
    /// Immediate data when [`flag::IMMEDIATE`] is set.
    pub immediate: u32,
    /// RSN of the transaction (of its last segment for a receive).
    pub rsn: u32,
    /// A code of [`crate::transaction::CompletionCode`].
    pub status: u8,
    /// The target ULP's code, for completions in error (F-7.8-7).
    pub ulp_code: u8,
    /// See [`verb`].
    pub opcode: u8,
    /// See [`flag`].
    pub flags: u8,
    /// In the queue: counts completions from 1 on, modulo 2^32, and is written last, so that the application looks at
    /// the entry alone. 0 once taken.
    pub number: u32,
    /// 0.
    pub reserved: u32,
}

const _: () = {
    assert!(size_of::<WorkRequest>() == 64);
    assert!(size_of::<ReceiveRequest>() == 24);
    assert!(size_of::<Completion>() == 32);
};
