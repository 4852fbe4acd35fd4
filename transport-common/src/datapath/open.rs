//! Opening a packet: the step between its outer and its inner headers.
//!
//! [`Sealed`] is a packet of which the outer headers are parsed, up to and including PSP. An [`Opener`] makes
//! [`Opened`] of it, and only from that the parser reads the inner headers: the inner IP header of a tunnel, Falcon
//! and the ULP. Nothing outside of this module can make an `Opened`, so no inner header is read of a packet that no
//! opener has accepted. An opener is therefore written in this module, or in one below it.

use crate::counters::Counter;
use crate::ids::Spi;
use crate::units::Picoseconds;
use crate::wire::cursor::Cursor;
use crate::wire::psp::PLAINTEXT_VERSION;

/// What the outer headers say of a packet. Nothing of it is authenticated before the packet is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// Initialisation vector: the sender's clock.
    pub iv: Picoseconds,
    /// Security parameters index: it names the security association.
    pub spi: Spi,
    /// Offset in the frame of the first byte after the PSP header, which has no virtualisation cookie.
    pub offset: u32,
    /// Bytes from there to the end of the UDP payload.
    pub length: u32,
    /// PSP version: the cipher suite.
    pub version: u8,
    /// PSP's Next Header: Falcon, or the IP version of a tunnel's inner header.
    pub next_header: u8,
    /// Start of encryption, in units of 4 bytes after the PSP header.
    pub crypt_offset: u8,
}

impl Outer {
    /// Returns the offset in the frame at which the ciphertext begins, and its length including the ICV, bytes.
    /// Returns `None` if the packet ends before it. A packet of the plaintext version has no ciphertext: there these
    /// are the bytes that another version encrypts.
    pub const fn ciphertext(&self) -> Option<(u32, u32)> {
        let clear = self.crypt_offset as u32 * 4;
        match self.length.checked_sub(clear) {
            Some(length) => Some((self.offset + clear, length)),
            None => None,
        }
    }
}

/// A packet of which only the outer headers are parsed. It does not give access to what follows them.
#[derive(Debug)]
pub struct Sealed<C> {
    outer: Outer,
    content: C,
}

impl<C: Cursor> Sealed<C> {
    /// Creates a packet from its outer headers and a cursor at the first byte after them.
    #[inline(always)]
    pub const fn new(outer: Outer, content: C) -> Self {
        Self { outer, content }
    }

    /// Returns what the outer headers say.
    #[inline(always)]
    pub const fn outer(&self) -> Outer {
        self.outer
    }
}

/// A packet that an [`Opener`] has accepted: its inner headers may be read.
///
/// ```
/// use transport_common::datapath::{Opened, Opener, Outer, Plaintext, Sealed};
/// use transport_common::ids::Spi;
/// use transport_common::units::Picoseconds;
/// use transport_common::wire::{Cursor, SliceCursor};
///
/// # let (iv, spi) = (Picoseconds(1), Spi(2));
/// let outer =
///     Outer { iv, spi, offset: 58, length: 4, version: 15, next_header: 252, crypt_offset: 1 };
/// let sealed = Sealed::new(outer, SliceCursor::new(&[1, 2, 3, 4]));
/// let mut opened: Opened<_> = Plaintext.open(sealed).unwrap();
/// assert_eq!(opened.cursor().take::<2>(), Some([1, 2]));
/// ```
///
/// Without an opener this does not compile:
///
/// ```compile_fail,E0451
/// # use transport_common::datapath::{Opened, Opener, Outer, Plaintext, Sealed};
/// # use transport_common::ids::Spi;
/// # use transport_common::units::Picoseconds;
/// # use transport_common::wire::{Cursor, SliceCursor};
/// # let (iv, spi) = (Picoseconds(1), Spi(2));
/// # let outer =
/// #     Outer { iv, spi, offset: 58, length: 4, version: 15, next_header: 252, crypt_offset: 1 };
/// # let sealed = Sealed::new(outer, SliceCursor::new(&[1, 2, 3, 4]));
/// let mut opened: Opened<_> = Opened { packet: sealed };
/// # assert_eq!(opened.cursor().take::<2>(), Some([1, 2]));
/// ```
///
/// Neither does reading what is sealed:
///
/// ```compile_fail,E0616
/// # use transport_common::datapath::{Opened, Opener, Outer, Plaintext, Sealed};
/// # use transport_common::ids::Spi;
/// # use transport_common::units::Picoseconds;
/// # use transport_common::wire::{Cursor, SliceCursor};
/// # let (iv, spi) = (Picoseconds(1), Spi(2));
/// # let outer =
/// #     Outer { iv, spi, offset: 58, length: 4, version: 15, next_header: 252, crypt_offset: 1 };
/// # let mut sealed = Sealed::new(outer, SliceCursor::new(&[1, 2, 3, 4]));
/// assert_eq!(sealed.content.take::<2>(), Some([1, 2]));
/// ```
#[derive(Debug)]
pub struct Opened<C> {
    packet: Sealed<C>,
}

impl<C: Cursor> Opened<C> {
    /// Returns what the outer headers say.
    #[inline(always)]
    pub const fn outer(&self) -> Outer {
        self.packet.outer
    }

    /// Returns the cursor, which begins at the first inner header.
    #[inline(always)]
    pub const fn cursor(&mut self) -> &mut C {
        &mut self.packet.content
    }
}

/// Opens packets. What an opener accepts is authentic as far as its PSP version provides that.
pub trait Opener {
    /// Opens a packet.
    ///
    /// # Errors
    /// The counter of the reason why it cannot be opened. Then the packet is dropped.
    fn open<C: Cursor>(self, packet: Sealed<C>) -> Result<Opened<C>, Counter>;
}

/// The opener of the plaintext lab mode (D-83): there is nothing to decrypt, and no ICV. It opens no packet of another
/// version.
#[derive(Clone, Copy, Debug)]
pub struct Plaintext;

impl Opener for Plaintext {
    #[inline(always)]
    fn open<C: Cursor>(self, packet: Sealed<C>) -> Result<Opened<C>, Counter> {
        if packet.outer.version != PLAINTEXT_VERSION {
            return Err(Counter::DropPspHeader);
        }
        Ok(Opened { packet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SliceCursor;
    use crate::wire::psp::{
        CRYPT_OFFSET, CRYPT_OFFSET_IPV4, CRYPT_OFFSET_IPV6, NEXT_HEADER_FALCON, VERSION_AES_GCM_128,
        VERSION_AES_GCM_256,
    };

    fn outer(version: u8) -> Outer {
        Outer {
            iv: Picoseconds(7),
            spi: Spi(8),
            offset: 58,
            length: 100,
            version,
            next_header: NEXT_HEADER_FALCON,
            crypt_offset: CRYPT_OFFSET,
        }
    }

    #[test]
    fn plaintext_opens_its_own_version_only() {
        const CONTENT: [u8; 3] = [1, 2, 3];
        for version in 0..16 {
            let sealed = Sealed::new(outer(version), SliceCursor::new(&CONTENT));
            assert_eq!(sealed.outer(), outer(version));
            match Plaintext.open(sealed) {
                Ok(mut opened) => {
                    assert_eq!(version, PLAINTEXT_VERSION);
                    assert_eq!(opened.outer(), outer(version));
                    assert_eq!(opened.cursor().rest(), CONTENT, "nothing is skipped");
                }
                Err(reason) => {
                    assert_ne!(version, PLAINTEXT_VERSION);
                    assert_eq!(reason, Counter::DropPspHeader);
                }
            }
        }
    }

    #[test]
    fn ciphertext_begins_after_what_stays_in_clear() {
        for version in [VERSION_AES_GCM_128, VERSION_AES_GCM_256] {
            for (crypt_offset, clear) in [(CRYPT_OFFSET, 4), (CRYPT_OFFSET_IPV4, 24), (CRYPT_OFFSET_IPV6, 44)]
            {
                let packet = |length| Outer { crypt_offset, length, ..outer(version) };
                assert_eq!(packet(100).ciphertext(), Some((58 + clear, 100 - clear)));
                assert_eq!(packet(clear).ciphertext(), Some((58 + clear, 0)));
                assert_eq!(packet(clear - 1).ciphertext(), None, "the packet ends before it");
            }
        }
    }
}
