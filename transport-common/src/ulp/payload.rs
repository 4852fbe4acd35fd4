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
    /// Offset of the data in the node's memory, or in the region that `key` names.
    pub memory_offset: u64,
    /// Bytes of data.
    pub data_length: u32,
    /// The key under which the place has to be found before the packet is built: of a request the L_Key of its buffer, of
    /// an answer with data the R_Key with which the peer asked. 0: it is found, or there is no data.
    pub key: u32,
}

impl Payload {
    /// Returns the bytes of the buffer of a pull, which its answer fills: 8 for an atomic.
    #[inline(always)]
    pub(crate) const fn answer_length(&self) -> u32 {
        if matches!(self.headers, Headers::Atomic) { 8 } else { self.length }
    }

    /// Returns the payload of a packet without a ULP part.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.headers = Headers::None;
        self.data_length = 0;
        self.key = 0;
    }
}
