//! The first two words of every Falcon packet, and the base header of all but the acknowledgements (F-7.2-1).

use super::cursor::Cursor;
use super::field::{get_u32, put_u32};
use super::{Malformed, PacketType, ProtocolType};
use crate::ids::{Cid, Psn, Rsn};

/// The only Falcon version (F-7.2-2).
pub const FALCON_VERSION: u8 = 1;

const WORD0: usize = 0;
const WORD1: usize = 4;
const DATA_BASE_PSN: usize = 8;
const REQUEST_BASE_PSN: usize = 12;
const PSN: usize = 16;
const RSN: usize = 20;

const VERSION_SHIFT: u32 = 28;
const FUNCTION_SHIFT: u32 = 8;
const PROTOCOL_SHIFT: u32 = 5;
const PROTOCOL_MASK: u32 = 0x7;
const PACKET_TYPE_SHIFT: u32 = 1;
const PACKET_TYPE_MASK: u32 = 0xf;
const ACK_REQUEST: u32 = 1;
const MASK_24: u32 = 0x00ff_ffff;

/// Words 0 and 1: connection and packet type. The rest of the packet depends on the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstWords {
    /// Connection, as numbered by the receiver (F-7.2-4, F-7.7.1-8).
    pub dest_cid: Cid,
    /// Destination function, 24 bits (D-15); reserved in acknowledgements.
    pub dest_function: u32,
    /// Protocol type, raw 3 bits; reserved in acknowledgements.
    pub protocol: u8,
    /// Packet type.
    pub packet_type: PacketType,
    /// The sender asks for an acknowledgement; reserved in acknowledgements.
    pub ack_request: bool,
}

impl FirstWords {
    /// Bytes of the two words.
    pub const LEN: usize = 8;

    /// Reads the two words that all types have in common.
    ///
    /// # Errors
    /// In this order: `FalconTruncated`, `FalconVersion`, `FalconPacketType` (D-09).
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, Malformed> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(Malformed::FalconTruncated)?;
        let word0 = get_u32::<WORD0, _>(&bytes);
        let word1 = get_u32::<WORD1, _>(&bytes);
        if word0 >> VERSION_SHIFT != FALCON_VERSION as u32 {
            return Err(Malformed::FalconVersion); // F-7.2-2
        }
        let packet_type = PacketType::from_wire((word1 >> PACKET_TYPE_SHIFT & PACKET_TYPE_MASK) as u8)
            .ok_or(Malformed::FalconPacketType)?; // F-7.2-7
        Ok(Self {
            dest_cid: Cid(word0 & MASK_24),
            dest_function: word1 >> FUNCTION_SHIFT,
            protocol: (word1 >> PROTOCOL_SHIFT & PROTOCOL_MASK) as u8,
            packet_type,
            ack_request: word1 & ACK_REQUEST != 0,
        })
    }

    /// Reads the two words of a Falcon packet of `falcon_length` bytes, all of which must be in the frame.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    #[inline(always)]
    pub fn decode_in<C: Cursor>(c: &mut C, falcon_length: usize) -> Result<Self, Malformed> {
        if falcon_length < Self::LEN || c.remaining() < falcon_length {
            return Err(Malformed::FalconTruncated);
        }
        Self::decode(c)
    }

    /// Writes the two words at the start of a packet.
    #[inline(always)]
    pub(crate) const fn put<const N: usize>(&self, out: &mut [u8; N]) {
        let version = (FALCON_VERSION as u32) << VERSION_SHIFT;
        let function = (self.dest_function & MASK_24) << FUNCTION_SHIFT;
        let protocol = (self.protocol as u32 & PROTOCOL_MASK) << PROTOCOL_SHIFT;
        let packet_type = (self.packet_type as u32) << PACKET_TYPE_SHIFT;
        put_u32::<WORD0, N>(out, version | self.dest_cid.0 & MASK_24);
        put_u32::<WORD1, N>(out, function | protocol | packet_type | self.ack_request as u32);
    }
}

/// The base header (F-7.2-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseHeader {
    /// Connection, as numbered by the receiver (F-7.2-4).
    pub dest_cid: Cid,
    /// Receiving function, 24 bits (F-7.2-5, D-15).
    pub dest_function: u32,
    /// Protocol type, raw 3 bits (F-7.2-6); any value in a Resync (D-09).
    pub protocol: u8,
    /// Packet type. The encoders of the packet types write their own type and ignore this field.
    pub packet_type: PacketType,
    /// AR: the sender asks for an acknowledgement of this packet at once (F-7.2-9).
    pub ack_request: bool,
    /// Base of the sender's receive data window: piggybacked acknowledgement (F-7.2-10).
    pub data_base_psn: Psn,
    /// Base of the sender's receive request window: piggybacked acknowledgement (F-7.2-11).
    pub request_base_psn: Psn,
    /// This packet's number in its window (F-7.2-12).
    pub psn: Psn,
    /// The transaction's number (F-7.2-13).
    pub rsn: Rsn,
}

impl BaseHeader {
    /// Bytes of the header.
    pub const LEN: usize = 24;

    /// Reads words 2 to 5, after `first`.
    ///
    /// # Errors
    /// [`Malformed::FalconTruncated`]; [`Malformed::FalconProtocol`] for a reserved protocol type on anything but a
    /// Resync (D-09).
    #[inline(always)]
    pub fn decode_after<C: Cursor>(first: FirstWords, c: &mut C) -> Result<Self, Malformed> {
        const REST: usize = FirstWords::LEN;
        let bytes = c.take::<{ Self::LEN - REST }>().ok_or(Malformed::FalconTruncated)?;
        if first.packet_type as u8 != PacketType::Resync as u8
            && ProtocolType::from_wire(first.protocol).is_none()
        {
            return Err(Malformed::FalconProtocol);
        }
        Ok(Self {
            dest_cid: first.dest_cid,
            dest_function: first.dest_function,
            protocol: first.protocol,
            packet_type: first.packet_type,
            ack_request: first.ack_request,
            data_base_psn: Psn(get_u32::<{ DATA_BASE_PSN - REST }, _>(&bytes)),
            request_base_psn: Psn(get_u32::<{ REQUEST_BASE_PSN - REST }, _>(&bytes)),
            psn: Psn(get_u32::<{ PSN - REST }, _>(&bytes)),
            rsn: Rsn(get_u32::<{ RSN - REST }, _>(&bytes)),
        })
    }

    /// Writes the header.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        self.put(self.packet_type, out);
    }

    /// Writes the header at the start of a packet of the given type.
    #[inline(always)]
    pub(crate) const fn put<const N: usize>(&self, packet_type: PacketType, out: &mut [u8; N]) {
        FirstWords {
            dest_cid: self.dest_cid,
            dest_function: self.dest_function,
            protocol: self.protocol,
            packet_type,
            ack_request: self.ack_request,
        }
        .put(out);
        put_u32::<DATA_BASE_PSN, N>(out, self.data_base_psn.0);
        put_u32::<REQUEST_BASE_PSN, N>(out, self.request_base_psn.0);
        put_u32::<PSN, N>(out, self.psn.0);
        put_u32::<RSN, N>(out, self.rsn.0);
    }
}
