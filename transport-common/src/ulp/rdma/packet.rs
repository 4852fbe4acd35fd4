//! The RDMA part of a packet as a flat struct, for received packets and for packets to send.

use super::{Aeth, Bth, Position, RdmaPull, RdmaPush, RdmaResponse};
use super::{Opcode, UlpCode};
use crate::wire::PacketType;
use crate::wire::cursor::Cursor;
use bytemuck::{CheckedBitPattern, Zeroable};

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
    /// Segment number (BTH PSN).
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

/// The headers after the BTH of a packet to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
#[repr(u8)]
pub enum Extension {
    /// No ULP part at all.
    #[default]
    None = 0,
    /// None, or the immediate.
    Bth = 1,
    /// RETH.
    Reth = 2,
    /// AtomicETH.
    Atomic = 3,
    /// AETH.
    Aeth = 4,
    /// AETH and an 8-byte value.
    AethValue = 5,
    /// A command of the block protocol, in place of the BTH.
    Command = 6,
    /// A status of the block protocol, in place of the BTH.
    Status = 7,
}

/// ULP header and data of a packet to send.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Payload {
    /// BTH opcode.
    pub bth_opcode: Opcode,
    /// What follows the BTH.
    pub extension: Extension,
    /// 1: immediate data follows.
    pub has_immediate: u8,
    /// AETH syndrome.
    pub syndrome: u8,
    /// BTH segment number.
    pub segment: u32,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// R_Key.
    pub rkey: u32,
    /// RETH or AtomicETH address.
    pub address: u64,
    /// Swap value or addend; the original value of an atomic response.
    pub swap_or_add: u64,
    /// Compare value.
    pub compare: u64,
    /// RETH length.
    pub length: u32,
    /// Immediate data.
    pub immediate: u32,
    /// Offset of the data in the node's memory.
    pub memory_offset: u64,
    /// Bytes of data.
    pub data_length: u32,
    /// 1: look up `rkey` and `address` in this node's region table before reading (READ response).
    pub resolve: u32,
}

impl Payload {
    /// Returns the payload of a packet without a ULP part.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.extension = Extension::None;
        self.data_length = 0;
        self.resolve = 0;
    }
}

/// Parses the ULP headers at the cursor into `out`. A malformed payload becomes [`OperationKind::Invalid`]: the
/// transaction is answered with an error, because the packet itself was valid (D-84).
#[inline(always)]
pub fn parse_operation<C: Cursor>(
    cursor: &mut C,
    kind: PacketType,
    payload_length: usize,
    request_length: u16,
    out: &mut Operation,
) {
    out.begin();
    let Ok(bth) = Bth::decode(cursor) else { return };
    out.segment = bth.psn;
    match kind {
        PacketType::PushData => {
            if let Ok((push, header)) = super::decode_push_after(&bth, cursor, payload_length) {
                out.header = header as u16;
                out.length = (payload_length - header) as u32;
                push_operation(&push, out);
            }
        }
        PacketType::PullRequest => {
            if let Ok(pull) = super::decode_pull_after(&bth, cursor, payload_length, request_length) {
                pull_operation(&pull, out);
            }
        }
        _ => {
            let Ok(aeth) = Aeth::decode(cursor) else { return };
            if let Ok((response, header)) = super::decode_response_after(&bth, &aeth, cursor, payload_length)
            {
                out.header = header as u16;
                match response {
                    RdmaResponse::Read => {
                        out.kind = OperationKind::ReadResponse;
                        out.length = (payload_length - header) as u32;
                    }
                    RdmaResponse::Atomic { original } => {
                        out.kind = OperationKind::AtomicResponse;
                        out.length = 8;
                        out.swap_or_add = original;
                    }
                    RdmaResponse::Failed { code } => {
                        out.kind = OperationKind::ErrorResponse;
                        out.code = code;
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn push_operation(push: &RdmaPush, out: &mut Operation) {
    let immediate = match push {
        RdmaPush::Write { reth, immediate } => {
            out.kind = OperationKind::Write;
            out.address = reth.address;
            out.rkey = reth.rkey.0;
            *immediate
        }
        RdmaPush::Send { position, immediate } => {
            out.kind = OperationKind::Send;
            out.first = matches!(position, Position::First | Position::Only) as u8;
            out.last = matches!(position, Position::Last | Position::Only) as u8;
            *immediate
        }
    };
    if let Some(immediate) = immediate {
        out.has_immediate = 1;
        out.immediate = immediate;
    }
}

#[inline(always)]
fn pull_operation(pull: &RdmaPull, out: &mut Operation) {
    let (kind, atomic) = match pull {
        RdmaPull::Read { reth } => {
            out.kind = OperationKind::Read;
            out.address = reth.address;
            out.rkey = reth.rkey.0;
            out.length = reth.length;
            return;
        }
        RdmaPull::CompareSwap { atomic } => (OperationKind::CompareSwap, atomic),
        RdmaPull::FetchAdd { atomic } => (OperationKind::FetchAdd, atomic),
    };
    out.kind = kind;
    out.address = atomic.address;
    out.rkey = atomic.rkey.0;
    out.length = 8;
    out.swap_or_add = atomic.swap_or_add;
    out.compare = atomic.compare;
}
