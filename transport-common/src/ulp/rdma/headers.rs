//! InfiniBand's transport headers (D-84).

use super::{Opcode, RdmaError};
use crate::ids::RKey;
use crate::ulp::UlpCode;
use crate::wire::cursor::Cursor;
use crate::wire::field::{get_u8, get_u16, get_u32, get_u64, put_u8, put_u16, put_u32, put_u64};

const MASK_24: u32 = 0x00ff_ffff;

/// Base transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// Operation, see [`Opcode`].
    pub opcode: Opcode,
    /// SE: the sender asks that the receiver be woken.
    pub solicited: bool,
    /// M: path migration state.
    pub migration: bool,
    /// Partition key.
    pub pkey: u16,
    /// Destination queue pair, 24 bits.
    pub dest_qp: u32,
    /// A: acknowledgement request. It is never set, because Falcon acknowledges.
    pub ack_request: bool,
    /// Number of this segment within its operation, from 0, 24 bits.
    pub psn: u32,
}

impl Bth {
    /// Bytes of the header.
    pub const LEN: usize = 12;
    /// The default partition key (D-84).
    pub const DEFAULT_PKEY: u16 = 0xffff;

    const OPCODE: usize = 0;
    const FLAGS: usize = 1;
    const PKEY: usize = 2;
    const DEST_QP: usize = 4;
    const PSN: usize = 8;

    const SOLICITED: u8 = 0x80;
    const MIGRATION: u8 = 0x40;
    const PAD_COUNT: u8 = 0x30;
    const VERSION: u8 = 0x0f;
    const ACK_REQUEST: u32 = 1 << 31;

    /// Returns the header of a segment as this project sends it (D-84).
    #[inline(always)]
    pub const fn new(opcode: Opcode, dest_qp: u32, segment: u32) -> Self {
        Self {
            opcode,
            solicited: false,
            migration: false,
            pkey: Self::DEFAULT_PKEY,
            dest_qp,
            ack_request: false,
            psn: segment,
        }
    }

    /// Parses a header.
    ///
    /// # Errors
    /// `Truncated`. `Version` if the transport version is not 0. `Length` if the pad count is not 0, because
    /// nothing is ever padded.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, RdmaError> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(RdmaError::Truncated)?;
        let flags = get_u8::<{ Self::FLAGS }, _>(&bytes);
        if flags & Self::VERSION != 0 {
            return Err(RdmaError::Version);
        }
        if flags & Self::PAD_COUNT != 0 {
            return Err(RdmaError::Length);
        }
        let psn = get_u32::<{ Self::PSN }, _>(&bytes);
        Ok(Self {
            opcode: Opcode(get_u8::<{ Self::OPCODE }, _>(&bytes)),
            solicited: flags & Self::SOLICITED != 0,
            migration: flags & Self::MIGRATION != 0,
            pkey: get_u16::<{ Self::PKEY }, _>(&bytes),
            dest_qp: get_u32::<{ Self::DEST_QP }, _>(&bytes) & MASK_24,
            ack_request: psn & Self::ACK_REQUEST != 0,
            psn: psn & MASK_24,
        })
    }

    /// Writes the header. Pad count and transport version are 0.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        let solicited = if self.solicited { Self::SOLICITED } else { 0 };
        let migration = if self.migration { Self::MIGRATION } else { 0 };
        let ack_request = if self.ack_request { Self::ACK_REQUEST } else { 0 };
        put_u8::<{ Self::OPCODE }, _>(out, self.opcode.0);
        put_u8::<{ Self::FLAGS }, _>(out, solicited | migration);
        put_u16::<{ Self::PKEY }, _>(out, self.pkey);
        put_u32::<{ Self::DEST_QP }, _>(out, self.dest_qp & MASK_24);
        put_u32::<{ Self::PSN }, _>(out, ack_request | self.psn & MASK_24);
    }
}

/// RDMA extended transport header: the place in the target's memory, and the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Offset within the region (D-84).
    pub address: u64,
    /// The region.
    pub rkey: RKey,
    /// Bytes of this segment.
    pub length: u32,
}

impl Reth {
    /// Bytes of the header.
    pub const LEN: usize = 16;

    const ADDRESS: usize = 0;
    const RKEY: usize = 8;
    const LENGTH: usize = 12;

    /// Parses a header.
    ///
    /// # Errors
    /// `Truncated`.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, RdmaError> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(RdmaError::Truncated)?;
        Ok(Self {
            address: get_u64::<{ Self::ADDRESS }, _>(&bytes),
            rkey: RKey(get_u32::<{ Self::RKEY }, _>(&bytes)),
            length: get_u32::<{ Self::LENGTH }, _>(&bytes),
        })
    }

    /// Writes the header.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        put_u64::<{ Self::ADDRESS }, _>(out, self.address);
        put_u32::<{ Self::RKEY }, _>(out, self.rkey.0);
        put_u32::<{ Self::LENGTH }, _>(out, self.length);
    }
}

/// Atomic extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicEth {
    /// Offset within the region, a multiple of 8.
    pub address: u64,
    /// The region.
    pub rkey: RKey,
    /// The new value of a compare and swap, or the addend of a fetch and add.
    pub swap_or_add: u64,
    /// The value that a compare and swap expects. Fetch and add does not use it.
    pub compare: u64,
}

impl AtomicEth {
    /// Bytes of the header.
    pub const LEN: usize = 28;

    const ADDRESS: usize = 0;
    const RKEY: usize = 8;
    const SWAP_OR_ADD: usize = 12;
    const COMPARE: usize = 20;

    /// Parses a header.
    ///
    /// # Errors
    /// `Truncated`. `Alignment` if the address is not a multiple of 8.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, RdmaError> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(RdmaError::Truncated)?;
        let address = get_u64::<{ Self::ADDRESS }, _>(&bytes);
        if address & 7 != 0 {
            return Err(RdmaError::Alignment);
        }
        Ok(Self {
            address,
            rkey: RKey(get_u32::<{ Self::RKEY }, _>(&bytes)),
            swap_or_add: get_u64::<{ Self::SWAP_OR_ADD }, _>(&bytes),
            compare: get_u64::<{ Self::COMPARE }, _>(&bytes),
        })
    }

    /// Writes the header.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        put_u64::<{ Self::ADDRESS }, _>(out, self.address);
        put_u32::<{ Self::RKEY }, _>(out, self.rkey.0);
        put_u64::<{ Self::SWAP_OR_ADD }, _>(out, self.swap_or_add);
        put_u64::<{ Self::COMPARE }, _>(out, self.compare);
    }
}

/// Acknowledgement extended transport header: the result of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// [`Aeth::SUCCESS`], or [`Aeth::ERROR_BASE`] plus a [`UlpCode`].
    pub syndrome: u8,
    /// Message sequence number, 24 bits.
    pub msn: u32,
}

impl Aeth {
    /// Bytes of the header.
    pub const LEN: usize = 4;
    /// Syndrome of success.
    pub const SUCCESS: u8 = 0;
    /// Base of the syndromes of errors. The error code is added to it.
    pub const ERROR_BASE: u8 = 0x60;

    /// Bits of the syndrome that hold the error code.
    const CODE_MASK: u8 = 0x1f;
    const SYNDROME_SHIFT: u32 = 24;

    /// Returns the error code, 0 to 31, if the syndrome is an error.
    #[inline(always)]
    pub const fn error_code(&self) -> Option<UlpCode> {
        if self.syndrome & !Self::CODE_MASK == Self::ERROR_BASE {
            Some(UlpCode(self.syndrome & Self::CODE_MASK))
        } else {
            None
        }
    }

    /// Parses a header.
    ///
    /// # Errors
    /// `Truncated`.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, RdmaError> {
        let word = get_u32::<0, _>(&c.take::<4>().ok_or(RdmaError::Truncated)?);
        Ok(Self { syndrome: (word >> Self::SYNDROME_SHIFT) as u8, msn: word & MASK_24 })
    }

    /// Writes the header.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        *out = ((self.syndrome as u32) << Self::SYNDROME_SHIFT | self.msn & MASK_24).to_be_bytes();
    }
}
