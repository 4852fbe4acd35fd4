//! Pull Data (section 7.4).

use super::base::{BaseHeader, FirstWords};
use super::cursor::Cursor;
use super::{Malformed, PacketType};

/// Pull Data: only the base header. The payload follows and takes the rest of the packet (F-7.4-1, D-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullData {
    /// The base header: `psn` in the data window, `rsn` of the Pull Request it answers (F-7.4-2).
    pub base: BaseHeader,
}

impl PullData {
    /// Bytes of the Falcon header.
    pub const LEN: usize = BaseHeader::LEN;

    /// Reads the part after the first words.
    ///
    /// # Errors
    /// [`Malformed::FalconTruncated`], [`Malformed::FalconProtocol`].
    #[inline(always)]
    pub fn decode_after<C: Cursor>(first: FirstWords, c: &mut C) -> Result<Self, Malformed> {
        Ok(Self { base: BaseHeader::decode_after(first, c)? })
    }

    /// Writes the header.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        self.base.put(PacketType::PullData, out);
    }
}
