//! NACK (section 7.8).

use super::ack::{AckHeader, AckWords, CongestionInfo};
use super::base::FirstWords;
use super::cursor::Cursor;
use super::field::{get_u32, put_u32};
use super::{Malformed, PacketType};
use crate::ids::{Cid, Psn};
use crate::units::{FalconTime, Ticks};
use bytemuck::{Pod, Zeroable};

const PSN: usize = 32;
const WORD9: usize = 36;

const CODE_SHIFT: u32 = 24;
const RNR_SHIFT: u32 = 16;
const RNR_MASK: u32 = 0x1f;
const REQUEST_WINDOW: u32 = 1 << 15;
const ULP_CODE_MASK: u32 = 0xff;

/// Causes of a NACK (F-7.8-5); all other codes are reserved.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct NackCode(pub u8);

impl NackCode {
    /// No NACK: the value where there is none to tell of.
    pub const NONE: Self = Self(0);
    /// The receiver lacks resources.
    pub const INSUFFICIENT_RESOURCES: Self = Self(1);
    /// The target ULP is not ready to receive.
    pub const RNR: Self = Self(2);
    /// Dropped by a function or port level reset.
    pub const XLR_DROP: Self = Self(4);
    /// The target ULP completed the transaction in error.
    pub const COMPLETE_IN_ERROR: Self = Self(6);
    /// The target ULP reported an error it cannot recover from.
    pub const NON_RECOVERABLE: Self = Self(7);
    /// The target ULP does not know the connection.
    pub const INVALID_CID: Self = Self(8);
}

/// Receiver-not-ready delays by code, in nanoseconds (F-7.8-9, F-7.8-10, F-7.8-11, F-7.8-12).
pub const RNR_TIMEOUT_NANOS: [u64; 32] = [
    655_360_000,
    10_000,
    20_000,
    30_000,
    40_000,
    60_000,
    80_000,
    120_000,
    160_000,
    240_000,
    320_000,
    480_000,
    640_000,
    960_000,
    1_280_000,
    1_920_000,
    2_560_000,
    3_840_000,
    5_120_000,
    7_680_000,
    10_240_000,
    15_360_000,
    20_480_000,
    30_720_000,
    40_960_000,
    61_440_000,
    81_920_000,
    122_880_000,
    163_840_000,
    245_760_000,
    327_680_000,
    491_520_000,
];

const RNR_TIMEOUT_TICKS: [Ticks; 32] = {
    let mut ticks = [Ticks(0); 32];
    let mut code = 0;
    while code < 32 {
        ticks[code] = Ticks::from_nanos(RNR_TIMEOUT_NANOS[code]);
        code += 1;
    }
    ticks
};

/// Returns the receiver-not-ready delay of the lower five bits of `code`, rounded to ticks.
#[inline(always)]
pub const fn rnr_timeout(code: u8) -> Ticks {
    RNR_TIMEOUT_TICKS[(code & 0x1f) as usize]
}

/// A NACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack {
    /// Connection, as numbered by the receiver of the NACK.
    pub dest_cid: Cid,
    /// Base of the sender's receive data window (F-7.8-8).
    pub data_base_psn: Psn,
    /// Base of the sender's receive request window (F-7.8-8).
    pub request_base_psn: Psn,
    /// Time when the last received packet was sent, from its IV (D-12, D-13).
    pub t1: FalconTime,
    /// Time when that packet was received, by the clock of the sender of this NACK.
    pub t2: FalconTime,
    /// Congestion information, `rue` of 24 bits (F-7.8-2).
    pub cc: CongestionInfo,
    /// The refused packet (F-7.8-3).
    pub psn: Psn,
    /// Cause, see [`NackCode`]. Reserved codes are passed on (D-38).
    pub code: NackCode,
    /// Requested delay if the cause is RNR, 5 bits, see [`rnr_timeout`].
    pub rnr_timeout_code: u8,
    /// W: `psn` belongs to the request window, otherwise to the data window (F-7.8-6).
    pub request_window: bool,
    /// The target ULP's own code, for the initiator's ULP (F-7.8-7).
    pub ulp_code: u8,
}

impl Nack {
    /// Bytes of a NACK.
    pub const LEN: usize = 40;

    /// Reads the part after the first words.
    ///
    /// # Errors
    /// [`Malformed::FalconTruncated`].
    #[inline(always)]
    pub fn decode_after<C: Cursor>(first: FirstWords, c: &mut C) -> Result<Self, Malformed> {
        const REST: usize = AckHeader::LEN;
        let words = AckWords::decode(c)?;
        let bytes = c.take::<{ Self::LEN - REST }>().ok_or(Malformed::FalconTruncated)?;
        let word9 = get_u32::<{ WORD9 - REST }, _>(&bytes);
        Ok(Self {
            dest_cid: first.dest_cid,
            data_base_psn: words.data_base_psn,
            request_base_psn: words.request_base_psn,
            t1: words.t1,
            t2: words.t2,
            cc: CongestionInfo { rue: words.nack_rue(), ..words.cc },
            psn: Psn(get_u32::<{ PSN - REST }, _>(&bytes)),
            code: NackCode((word9 >> CODE_SHIFT) as u8),
            rnr_timeout_code: (word9 >> RNR_SHIFT & RNR_MASK) as u8,
            request_window: word9 & REQUEST_WINDOW != 0,
            ulp_code: (word9 & ULP_CODE_MASK) as u8,
        })
    }

    /// Writes the packet.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        AckWords {
            data_base_psn: self.data_base_psn,
            request_base_psn: self.request_base_psn,
            t1: self.t1,
            t2: self.t2,
            cc: self.cc,
            word7: AckWords::nack_word7(self.cc.rue),
        }
        .put(self.dest_cid, PacketType::Nack, out);
        let code = (self.code.0 as u32) << CODE_SHIFT;
        let rnr = (self.rnr_timeout_code as u32 & RNR_MASK) << RNR_SHIFT;
        let window = if self.request_window { REQUEST_WINDOW } else { 0 };
        put_u32::<PSN, _>(out, self.psn.0);
        put_u32::<WORD9, _>(out, code | rnr | window | self.ulp_code as u32);
    }
}
