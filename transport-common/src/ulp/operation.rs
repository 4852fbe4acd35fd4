//! What a received packet requests or answers, as a flat struct. Each ULP parses its headers into it.

use bytemuck::{CheckedBitPattern, Pod, Zeroable};

/// Why an operation failed. It is the ULP code of a NACK, and a ULP writes it into the headers of an answer (D-84).
/// Falcon itself passes on any value.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct UlpCode(pub u8);

impl UlpCode {
    /// No error.
    pub const NONE: Self = Self(0);
    /// Bad opcode, lengths that disagree, or misaligned atomic.
    pub const INVALID_REQUEST: Self = Self(1);
    /// Unknown R_Key, address out of bounds, or no permission.
    pub const ACCESS: Self = Self(2);
    /// The target could not execute the operation.
    pub const OPERATIONAL: Self = Self(3);
}

/// What a packet requests or answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
#[repr(u8)]
pub enum OperationKind {
    /// The packet carries no ULP part.
    #[default]
    None = 0,
    /// WRITE segment.
    Write = 1,
    /// SEND segment; see [`Operation::first`] and [`Operation::last`].
    Send = 2,
    /// READ request.
    Read = 3,
    /// Compare and swap request.
    CompareSwap = 4,
    /// Fetch and add request.
    FetchAdd = 5,
    /// READ response with data.
    ReadResponse = 6,
    /// Atomic response with the original value.
    AtomicResponse = 7,
    /// Response that reports an error of the target ULP.
    ErrorResponse = 8,
    /// Malformed. It is answered with an error (D-84).
    Invalid = 9,
}

/// The operation of a received packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Operation {
    /// The kind of operation.
    pub kind: OperationKind,
    /// 1: first segment of its message.
    pub first: u8,
    /// 1: last segment of its message.
    pub last: u8,
    /// 1: `immediate` is valid.
    pub has_immediate: u8,
    /// ULP code of an error response, or of an invalid request.
    pub code: UlpCode,
    /// 0.
    pub reserved: u8,
    /// Bytes of ULP header before the data.
    pub header: u16,
    /// Bytes of data in the packet, or bytes that a READ asks for.
    pub length: u32,
    /// R_Key.
    pub rkey: u32,
    /// Address in the region.
    pub address: u64,
    /// Swap value or addend; the original value in a response.
    pub swap_or_add: u64,
    /// Compare value.
    pub compare: u64,
    /// Immediate data.
    pub immediate: u32,
    /// Segment number.
    pub segment: u32,
}

impl Operation {
    /// Forgets an earlier packet. The operation is invalid until a parser finds another kind. Fields that only one kind
    /// has keep their values.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        // The fields are assigned one by one: a struct literal becomes a slow byte loop on the BPF target.
        self.kind = OperationKind::Invalid;
        self.first = 0;
        self.last = 0;
        self.has_immediate = 0;
        self.code = UlpCode::NONE;
        self.header = 0;
        self.length = 0;
        self.rkey = 0;
        self.immediate = 0;
    }
}
