//! A Falcon header of any type.

use super::ack::{Ack, AckHeader, Eack};
use super::base::FirstWords;
use super::cursor::Cursor;
use super::nack::Nack;
use super::pull_data::PullData;
use super::pull_request::PullRequest;
use super::push_data::PushData;
use super::resync::Resync;
use super::{Malformed, PacketType};
use crate::ids::Cid;

/// A Falcon header of any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FalconHeader {
    /// Type 0.
    PullRequest(PullRequest),
    /// Type 5.
    PushData(PushData),
    /// Type 3.
    PullData(PullData),
    /// Type 6.
    Resync(Resync),
    /// Types 9 and 10.
    Ack(Ack),
    /// Type 8.
    Nack(Nack),
}

/// Consumer of a header, called once its type is known.
pub trait Reader<C> {
    /// Result of the consumer.
    type Output;

    /// Takes the header. The cursor is after it, at `payload_length` bytes of payload that are known to be in the
    /// frame.
    fn header(self, header: FalconHeader, payload_length: usize, cursor: &mut C) -> Self::Output;
}

/// Returns the header unchanged.
struct AsItIs;

impl<C> Reader<C> for AsItIs {
    type Output = FalconHeader;

    #[inline(always)]
    fn header(self, header: FalconHeader, _payload_length: usize, _cursor: &mut C) -> FalconHeader {
        header
    }
}

impl FalconHeader {
    /// Reads the header of a Falcon packet of `falcon_length` bytes, including payload: the UDP length without UDP
    /// header, PSP header and ICV (D-03). The cursor may hold more bytes after the packet, such as Ethernet
    /// padding.
    ///
    /// On success the cursor is at the ULP header, and `falcon_length` minus [`FalconHeader::header_len`] bytes of
    /// payload are known to be in the frame.
    ///
    /// # Errors
    /// `FalconTruncated`, the errors of [`FirstWords::decode`] and of the type's own decoder, and `FalconLength`:
    /// Push Data whose payload length differs from Request Length (D-16), or bytes after a Resync, BACK, EACK or
    /// NACK, which have a fixed length (F-7.6-1, F-7.7.1-1, F-7.7.2-1, F-7.8-1).
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C, falcon_length: usize) -> Result<Self, Malformed> {
        let first = FirstWords::decode_in(c, falcon_length)?;
        Self::decode_after(first, c, falcon_length, AsItIs)
    }

    /// As [`decode`](Self::decode), for a caller that checks the first words before it continues. The header is
    /// passed to `reader` per type, so the reader's code is compiled separately for each type, and the header
    /// itself need not exist. On the BPF target a header that exists would be spilled field by field.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    #[inline(always)]
    pub fn decode_after<C: Cursor, R: Reader<C>>(
        first: FirstWords,
        c: &mut C,
        falcon_length: usize,
        reader: R,
    ) -> Result<R::Output, Malformed> {
        let Some(payload) = falcon_length.checked_sub(header_len(first.packet_type)) else {
            return Err(Malformed::FalconTruncated);
        };
        match first.packet_type {
            PacketType::PullRequest => {
                let pull = PullRequest::decode_after(first, c)?;
                Ok(reader.header(Self::PullRequest(pull), payload, c))
            }
            PacketType::PullData => {
                let data = PullData::decode_after(first, c)?;
                Ok(reader.header(Self::PullData(data), payload, c))
            }
            PacketType::PushData => {
                let push = PushData::decode_after(first, c)?;
                if payload != push.request_length as usize {
                    return Err(Malformed::FalconLength); // D-16
                }
                Ok(reader.header(Self::PushData(push), payload, c))
            }
            _ if payload != 0 => Err(Malformed::FalconLength),
            PacketType::Resync => {
                let resync = Resync::decode_after(first, c)?;
                Ok(reader.header(Self::Resync(resync), payload, c))
            }
            PacketType::Nack => {
                let nack = Nack::decode_after(first, c)?;
                Ok(reader.header(Self::Nack(nack), payload, c))
            }
            PacketType::Back => {
                let back = AckHeader::decode_after(first, c)?;
                Ok(reader.header(Self::Ack(Ack::Back(back)), payload, c))
            }
            PacketType::Eack => {
                let eack = Eack::decode_after(first, c)?;
                Ok(reader.header(Self::Ack(Ack::Eack(eack)), payload, c))
            }
        }
    }

    /// Returns the packet's type.
    #[inline(always)]
    pub const fn packet_type(&self) -> PacketType {
        match self {
            Self::PullRequest(_) => PacketType::PullRequest,
            Self::PushData(_) => PacketType::PushData,
            Self::PullData(_) => PacketType::PullData,
            Self::Resync(_) => PacketType::Resync,
            Self::Ack(Ack::Back(_)) => PacketType::Back,
            Self::Ack(Ack::Eack(_)) => PacketType::Eack,
            Self::Nack(_) => PacketType::Nack,
        }
    }

    /// Returns the length of the header in bytes.
    #[inline(always)]
    pub const fn header_len(&self) -> usize {
        header_len(self.packet_type())
    }

    /// Returns the connection, as numbered by the packet's receiver.
    #[inline(always)]
    pub const fn dest_cid(&self) -> Cid {
        match self {
            Self::PullRequest(p) => p.base.dest_cid,
            Self::PushData(p) => p.base.dest_cid,
            Self::PullData(p) => p.base.dest_cid,
            Self::Resync(p) => p.base.dest_cid,
            Self::Ack(p) => p.header().dest_cid,
            Self::Nack(p) => p.dest_cid,
        }
    }
}

/// Returns the length of the Falcon header of a packet of this type in bytes. The ULP header or payload follows.
#[inline(always)]
pub const fn header_len(packet_type: PacketType) -> usize {
    match packet_type {
        PacketType::PullRequest => PullRequest::LEN,
        PacketType::PullData => PullData::LEN,
        PacketType::PushData => PushData::LEN,
        PacketType::Resync => Resync::LEN,
        PacketType::Nack => Nack::LEN,
        PacketType::Back => AckHeader::LEN,
        PacketType::Eack => Eack::LEN,
    }
}
