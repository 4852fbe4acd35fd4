//! BACK and EACK (section 7.7), and the words they share with the NACK.

use super::base::FirstWords;
use super::cursor::Cursor;
use super::field::{get_u32, get_u64, put_u32, put_u64};
use super::{Malformed, PacketType};
use crate::ids::{Cid, Psn};
use crate::units::FalconTime;

const DATA_BASE_PSN: usize = 8;
const REQUEST_BASE_PSN: usize = 12;
const T1: usize = 16;
const T2: usize = 20;
const WORD6: usize = 24;
const WORD7: usize = 28;
const DATA_ACK: usize = 32;
const DATA_RECEIVED: usize = 48;
const REQUEST: usize = 64;

const HOPS_SHIFT: u32 = 28;
const LEVEL_SHIFT: u32 = 23;
const LEVEL_MASK: u32 = 0x1f;
const ECN_SHIFT: u32 = 9;
const ECN_MASK: u32 = 0x3fff;
/// Word 7 of BACK and EACK: RUE value in bits 8-29 of the figure, then OWN (D-05, D-06).
const RUE_SHIFT: u32 = 2;
const RUE_MASK: u32 = 0x003f_ffff;
const OWN_DATA: u32 = 0x2;
const OWN_REQUEST: u32 = 0x1;
/// Word 7 of the NACK: RUE value in bits 8-31 of the figure (D-05).
const NACK_RUE_MASK: u32 = 0x00ff_ffff;

/// What an acknowledgement reports to the peer's congestion control (F-7.7.1-5, F-7.8-2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionInfo {
    /// Hops of the packet that `t1` and `t2` belong to, 4 bits (D-14).
    pub forward_hops: u8,
    /// Quantised receive buffer level, 5 bits.
    pub rx_buffer_level: u8,
    /// Packets received with a CE mark, modulo 2^14 (D-14).
    pub ecn_count: u16,
    /// Value of the rate update engine: 22 bits in BACK and EACK, 24 in the NACK (D-07).
    pub rue: u32,
}

/// Words 2 to 7 of BACK, EACK and NACK as on the wire. Word 7 is not split into fields yet.
#[derive(Clone, Copy)]
pub(crate) struct AckWords {
    pub(crate) data_base_psn: Psn,
    pub(crate) request_base_psn: Psn,
    pub(crate) t1: FalconTime,
    pub(crate) t2: FalconTime,
    /// Congestion information of word 6. `rue` is still 0.
    pub(crate) cc: CongestionInfo,
    pub(crate) word7: u32,
}

impl AckWords {
    #[inline(always)]
    pub(crate) fn decode<C: Cursor>(c: &mut C) -> Result<Self, Malformed> {
        const REST: usize = FirstWords::LEN;
        let bytes = c.take::<{ AckHeader::LEN - REST }>().ok_or(Malformed::FalconTruncated)?;
        let word6 = get_u32::<{ WORD6 - REST }, _>(&bytes);
        Ok(Self {
            data_base_psn: Psn(get_u32::<{ DATA_BASE_PSN - REST }, _>(&bytes)),
            request_base_psn: Psn(get_u32::<{ REQUEST_BASE_PSN - REST }, _>(&bytes)),
            t1: FalconTime(get_u32::<{ T1 - REST }, _>(&bytes)),
            t2: FalconTime(get_u32::<{ T2 - REST }, _>(&bytes)),
            cc: CongestionInfo {
                forward_hops: (word6 >> HOPS_SHIFT) as u8,
                rx_buffer_level: (word6 >> LEVEL_SHIFT & LEVEL_MASK) as u8,
                ecn_count: (word6 >> ECN_SHIFT & ECN_MASK) as u16,
                rue: 0,
            },
            word7: get_u32::<{ WORD7 - REST }, _>(&bytes),
        })
    }

    /// Returns the RUE value if this is a NACK.
    #[inline(always)]
    pub(crate) const fn nack_rue(&self) -> u32 {
        self.word7 & NACK_RUE_MASK
    }

    /// Returns word 7 of a NACK.
    #[inline(always)]
    pub(crate) const fn nack_word7(rue: u32) -> u32 {
        rue & NACK_RUE_MASK
    }

    #[inline(always)]
    pub(crate) const fn put<const N: usize>(
        &self,
        dest_cid: Cid,
        packet_type: PacketType,
        out: &mut [u8; N],
    ) {
        // F-7.7.1-1: the first two words are reserved, except for version, connection and type.
        FirstWords { dest_cid, dest_function: 0, protocol: 0, packet_type, ack_request: false }.put(out);
        let hops = (self.cc.forward_hops as u32) << HOPS_SHIFT;
        let level = (self.cc.rx_buffer_level as u32 & LEVEL_MASK) << LEVEL_SHIFT;
        let ecn = (self.cc.ecn_count as u32 & ECN_MASK) << ECN_SHIFT;
        put_u32::<DATA_BASE_PSN, N>(out, self.data_base_psn.0);
        put_u32::<REQUEST_BASE_PSN, N>(out, self.request_base_psn.0);
        put_u32::<T1, N>(out, self.t1.0);
        put_u32::<T2, N>(out, self.t2.0);
        put_u32::<WORD6, N>(out, hops | level | ecn);
        put_u32::<WORD7, N>(out, self.word7);
    }
}

/// A BACK, and the first 32 bytes of an EACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckHeader {
    /// Connection, as numbered by the receiver of the acknowledgement (F-7.7.1-8).
    pub dest_cid: Cid,
    /// Base of the sender's receive data window (F-7.7.1-2).
    pub data_base_psn: Psn,
    /// Base of the sender's receive request window (F-7.7.1-2).
    pub request_base_psn: Psn,
    /// Time when the last received packet was sent, from its IV (F-7.7.1-3, D-12, D-13).
    pub t1: FalconTime,
    /// Time when that packet was received, by the clock of the sender of this ACK (F-7.7.1-4).
    pub t2: FalconTime,
    /// Congestion information, `rue` of 22 bits.
    pub cc: CongestionInfo,
    /// A packet was dropped because it was beyond the request window (F-7.7.1-6).
    pub own_request: bool,
    /// A packet was dropped because it was beyond the data window (F-7.7.1-6).
    pub own_data: bool,
}

impl AckHeader {
    /// Bytes of a BACK.
    pub const LEN: usize = 32;

    /// Reads the part after the first words of a BACK or EACK.
    ///
    /// # Errors
    /// [`Malformed::FalconTruncated`].
    #[inline(always)]
    pub fn decode_after<C: Cursor>(first: FirstWords, c: &mut C) -> Result<Self, Malformed> {
        let words = AckWords::decode(c)?;
        Ok(Self {
            dest_cid: first.dest_cid,
            data_base_psn: words.data_base_psn,
            request_base_psn: words.request_base_psn,
            t1: words.t1,
            t2: words.t2,
            cc: CongestionInfo { rue: words.word7 >> RUE_SHIFT & RUE_MASK, ..words.cc },
            own_request: words.word7 & OWN_REQUEST != 0, // D-06
            own_data: words.word7 & OWN_DATA != 0,
        })
    }

    /// Returns the 24 bits that congestion events and results call cc_metadata: RUE value and OWN (D-07).
    #[inline(always)]
    pub const fn cc_metadata(&self) -> u32 {
        let own_request = if self.own_request { OWN_REQUEST } else { 0 };
        let own_data = if self.own_data { OWN_DATA } else { 0 };
        (self.cc.rue & RUE_MASK) << RUE_SHIFT | own_data | own_request
    }

    /// Writes a BACK.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        self.put(PacketType::Back, out);
    }

    #[inline(always)]
    const fn put<const N: usize>(&self, packet_type: PacketType, out: &mut [u8; N]) {
        AckWords {
            data_base_psn: self.data_base_psn,
            request_base_psn: self.request_base_psn,
            t1: self.t1,
            t2: self.t2,
            cc: self.cc,
            word7: self.cc_metadata(),
        }
        .put(self.dest_cid, packet_type, out);
    }
}

/// An EACK: a BACK and three bitmaps. Bit n stands for the PSN base + n (D-08).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eack {
    /// The header that it shares with the BACK.
    pub header: AckHeader,
    /// Acknowledged packets of the data window; index 0 holds bits 63 to 0 (F-7.7.2-2).
    pub data_ack: [u64; 2],
    /// Received packets of the data window; index 0 holds bits 63 to 0 (F-7.7.2-3).
    pub data_received: [u64; 2],
    /// Acknowledged packets of the request window (F-7.7.2-4).
    pub request: u64,
}

impl Eack {
    /// Bytes of an EACK.
    pub const LEN: usize = 72;

    /// Reads the part after the first words.
    ///
    /// # Errors
    /// [`Malformed::FalconTruncated`].
    #[inline(always)]
    pub fn decode_after<C: Cursor>(first: FirstWords, c: &mut C) -> Result<Self, Malformed> {
        const REST: usize = AckHeader::LEN;
        let header = AckHeader::decode_after(first, c)?;
        let bytes = c.take::<{ Self::LEN - REST }>().ok_or(Malformed::FalconTruncated)?;
        Ok(Self {
            header,
            data_ack: [
                get_u64::<{ DATA_ACK + 8 - REST }, _>(&bytes),
                get_u64::<{ DATA_ACK - REST }, _>(&bytes),
            ],
            data_received: [
                get_u64::<{ DATA_RECEIVED + 8 - REST }, _>(&bytes),
                get_u64::<{ DATA_RECEIVED - REST }, _>(&bytes),
            ],
            request: get_u64::<{ REQUEST - REST }, _>(&bytes),
        })
    }

    /// Writes the packet.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        self.header.put(PacketType::Eack, out);
        put_u64::<DATA_ACK, _>(out, self.data_ack[1]);
        put_u64::<{ DATA_ACK + 8 }, _>(out, self.data_ack[0]);
        put_u64::<DATA_RECEIVED, _>(out, self.data_received[1]);
        put_u64::<{ DATA_RECEIVED + 8 }, _>(out, self.data_received[0]);
        put_u64::<REQUEST, _>(out, self.request);
    }
}

/// Either acknowledgement (F-7.7-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Bases only.
    Back(AckHeader),
    /// Bases and bitmaps.
    Eack(Eack),
}

impl Ack {
    /// Returns the part that both kinds carry.
    #[inline(always)]
    pub const fn header(&self) -> &AckHeader {
        match self {
            Self::Back(header) => header,
            Self::Eack(eack) => &eack.header,
        }
    }
}
