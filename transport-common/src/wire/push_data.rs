//! Push Data (section 7.5).

use super::base::{BaseHeader, FirstWords};
use super::cursor::Cursor;
use super::field::{get_u16, put_u16};
use super::{Malformed, PacketType};

const RESERVED16: usize = 24;
const REQUEST_LENGTH: usize = 26;

/// Push Data. The payload follows (D-02).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushData {
    /// The base header, `psn` in the data window.
    pub base: BaseHeader,
    /// Bytes of payload, including ULP headers (F-7.5-2).
    pub request_length: u16,
}

impl PushData {
    /// Bytes of the Falcon header.
    pub const LEN: usize = 28;

    /// Reads the part after the first words. [`FalconHeader::decode`](super::FalconHeader::decode) checks whether
    /// the payload has the stated length.
    ///
    /// # Errors
    /// [`Malformed::FalconTruncated`], [`Malformed::FalconProtocol`].
    #[inline(always)]
    pub fn decode_after<C: Cursor>(first: FirstWords, c: &mut C) -> Result<Self, Malformed> {
        let base = BaseHeader::decode_after(first, c)?;
        let bytes = c.take::<{ Self::LEN - BaseHeader::LEN }>().ok_or(Malformed::FalconTruncated)?;
        Ok(Self { base, request_length: get_u16::<{ REQUEST_LENGTH - BaseHeader::LEN }, _>(&bytes) })
    }

    /// Writes the header.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        self.base.put(PacketType::PushData, out);
        put_u16::<RESERVED16, _>(out, 0);
        put_u16::<REQUEST_LENGTH, _>(out, self.request_length);
    }
}
