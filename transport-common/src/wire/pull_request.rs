//! Pull Request (section 7.3).

use super::base::{BaseHeader, FirstWords};
use super::cursor::Cursor;
use super::field::{get_u16, put_u16, put_u32};
use super::{Malformed, PacketType};

const RESERVED16: usize = 24;
const REQUEST_LENGTH: usize = 26;
const RESERVED32: usize = 28;

/// A Pull Request. The ULP header follows (D-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// The base header, `psn` in the request window.
    pub base: BaseHeader,
    /// Bytes of payload, including ULP headers, that the Pull Data has to carry (F-7.3-3).
    pub request_length: u16,
}

impl PullRequest {
    /// Bytes of the Falcon header.
    pub const LEN: usize = 32;

    /// Reads the part after the first words.
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
        self.base.put(PacketType::PullRequest, out);
        put_u16::<RESERVED16, _>(out, 0); // F-7.3-4
        put_u16::<REQUEST_LENGTH, _>(out, self.request_length);
        put_u32::<RESERVED32, _>(out, 0);
    }
}
