//! Resync (section 7.6).

use super::base::{BaseHeader, FirstWords};
use super::cursor::Cursor;
use super::field::{get_u8, get_u32, put_u8, put_u16, put_u32};
use super::{Malformed, PacketType};
use bytemuck::{Pod, Zeroable};

const CODE: usize = 24;
const TYPE: usize = 25;
const RESERVED16: usize = 26;
const VENDOR: usize = 28;

const TYPE_SHIFT: u32 = 4;

/// Causes of a Resync (F-7.6-2, F-7.6-3); all other codes are reserved.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct ResyncCode(pub u8);

impl ResyncCode {
    /// The target ULP completed the transaction in error.
    pub const TARGET_ULP_COMPLETE_IN_ERROR: Self = Self(1);
    /// A function or port level reset at the sender.
    pub const LOCAL_XLR: Self = Self(2);
    /// The packet's retransmissions are exhausted.
    pub const RETRANSMISSION_EXHAUSTED: Self = Self(3);
    /// The transaction timed out.
    pub const TRANSACTION_TIMED_OUT: Self = Self(4);
    /// A function or port level reset at the receiver.
    pub const REMOTE_XLR: Self = Self(5);
    /// The target ULP reported an error it cannot recover from.
    pub const TARGET_ULP_NON_RECOVERABLE: Self = Self(6);
    /// The target ULP does not know the connection.
    pub const TARGET_ULP_INVALID_CID: Self = Self(7);
}

/// A Resync: replaces a packet that will never be sent again (D-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resync {
    /// The base header, with PSN and RSN of the replaced packet (F-7.2-12).
    pub base: BaseHeader,
    /// Cause, see [`ResyncCode`].
    pub code: ResyncCode,
    /// Type of the replaced packet: Pull Request, Pull Data or Push Data (F-7.6-4, D-24).
    pub packet_type: PacketType,
    /// Vendor defined, 0 if unused (F-7.6-5).
    pub vendor: u32,
}

impl Resync {
    /// Bytes of the packet.
    pub const LEN: usize = 32;

    /// Reads the part after the first words.
    ///
    /// # Errors
    /// [`Malformed::FalconTruncated`], [`Malformed::ResyncPacketType`].
    #[inline(always)]
    pub fn decode_after<C: Cursor>(first: FirstWords, c: &mut C) -> Result<Self, Malformed> {
        const REST: usize = BaseHeader::LEN;
        let base = BaseHeader::decode_after(first, c)?;
        let bytes = c.take::<{ Self::LEN - REST }>().ok_or(Malformed::FalconTruncated)?;
        let packet_type = match PacketType::from_wire(get_u8::<{ TYPE - REST }, _>(&bytes) >> TYPE_SHIFT) {
            Some(t @ (PacketType::PullRequest | PacketType::PullData | PacketType::PushData)) => t,
            _ => return Err(Malformed::ResyncPacketType), // D-24
        };
        Ok(Self {
            base,
            code: ResyncCode(get_u8::<{ CODE - REST }, _>(&bytes)),
            packet_type,
            vendor: get_u32::<{ VENDOR - REST }, _>(&bytes),
        })
    }

    /// Returns true if the replaced packet, and so this Resync, belongs to the request window (D-24).
    #[inline(always)]
    pub const fn in_request_window(&self) -> bool {
        matches!(self.packet_type, PacketType::PullRequest)
    }

    /// Writes the packet.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        self.base.put(PacketType::Resync, out);
        put_u8::<CODE, _>(out, self.code.0);
        put_u8::<TYPE, _>(out, (self.packet_type as u8) << TYPE_SHIFT);
        put_u16::<RESERVED16, _>(out, 0);
        put_u32::<VENDOR, _>(out, self.vendor);
    }
}
