//! The ULP part of a packet to send, as a flat struct. Each ULP writes its headers from it.

use bytemuck::{CheckedBitPattern, Zeroable};

/// What the ULP headers of a packet to send say. Each ULP has a format of its own for each of them that it uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
#[repr(u8)]
pub enum Headers {
    /// No ULP part at all.
    #[default]
    None = 0,
    /// A message without an address.
    Message = 1,
    /// A request that names a region and an address in it.
    Access = 2,
    /// A request with the operands of an atomic.
    Atomic = 3,
    /// An answer: how the pull ended.
    Status = 4,
    /// An answer with an 8-byte value.
    Value = 5,
}

/// ULP header and data of a packet to send.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Payload {
    /// The ULP's own operation code.
    pub opcode: u8,
    /// What the headers say.
    pub headers: Headers,
    /// 1: immediate data follows.
    pub has_immediate: u8,
    /// How the pull ended, as the ULP writes it into an answer.
    pub status: u8,
    /// Segment number.
    pub segment: u32,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// R_Key.
    pub rkey: u32,
    /// Address in the region.
    pub address: u64,
    /// Swap value or addend; the original value of an atomic response.
    pub swap_or_add: u64,
    /// Compare value.
    pub compare: u64,
    /// Bytes that the operation writes or reads.
    pub length: u32,
    /// Immediate data.
    pub immediate: u32,
    /// Offset of the data in the node's memory.
    pub memory_offset: u64,
    /// Bytes of data.
    pub data_length: u32,
    /// 1: look up `rkey` and `address` in this node's region table before reading (READ response). If they name nothing
    /// that may be read, [`Ulp::refuse_answer`](super::Ulp::refuse_answer) follows.
    pub resolve: u32,
}

impl Payload {
    /// Returns the payload of a packet without a ULP part.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.headers = Headers::None;
        self.data_length = 0;
        self.resolve = 0;
    }
}
