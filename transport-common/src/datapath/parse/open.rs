//! Between the two stages of parsing: a packet is opened.

use super::parsed::Parsed;
use crate::counters::Counter;
use crate::wire::psp::PLAINTEXT_VERSION;

/// A packet whose outer headers were read. What is in it may not be read yet: nobody knows who wrote it.
#[derive(Clone, Copy)]
pub(super) struct Sealed {
    /// PSP version: the cipher.
    pub(super) version: u8,
    /// Whether a virtualisation cookie follows the IV.
    pub(super) has_vc: bool,
    /// Protocol number of the content.
    pub(super) next_header: u8,
    /// Offset of the content in the frame.
    pub(super) offset: u32,
    /// Bytes of the content, up to the end of the UDP payload.
    pub(super) length: u32,
}

/// Content that may be read: its opener vouches for it. Nothing else makes one.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    next_header: u8,
    offset: u32,
    length: u32,
}

impl Opened {
    /// Returns the protocol number of the content.
    #[inline(always)]
    pub(super) const fn next_header(self) -> u8 {
        self.next_header
    }

    /// Returns the offset of the content in the frame.
    #[inline(always)]
    pub(super) const fn offset(self) -> u32 {
        self.offset
    }

    /// Returns the bytes of the content.
    #[inline(always)]
    pub(super) const fn length(self) -> u32 {
        self.length
    }
}

/// Opens packets: checks their integrity with the key of the association that the SPI names, and decrypts them. That the
/// association is the connection's own is a check of the connection (D-23 step 4).
pub(super) trait Opener {
    /// Opens a packet and reads it. Drops a packet that is not authentic, or of a version that this opener does not know.
    fn open(&self, sealed: Sealed, read: impl FnOnce(Opened) -> Parsed) -> Parsed;
}

/// The opener of the plaintext lab mode, in which nothing is authenticated (D-83).
pub(super) struct Plaintext;

impl Opener for Plaintext {
    #[inline(always)]
    fn open(&self, sealed: Sealed, read: impl FnOnce(Opened) -> Parsed) -> Parsed {
        let Sealed { version, has_vc, next_header, offset, length } = sealed;
        if has_vc || version != PLAINTEXT_VERSION {
            return Parsed::Drop(Counter::DropPspHeader);
        }
        read(Opened { next_header, offset, length })
    }
}
