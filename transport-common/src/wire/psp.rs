//! The PSP header in transport mode (F-7.1-1) and in tunnel mode (F-7.1.2-1): encrypted versions and the plaintext lab
//! mode (D-83).

use super::Malformed;
use super::cursor::Cursor;
use super::field::{get_u8, get_u32, get_u64, put_u8, put_u32, put_u64};
use super::ipv4::Ipv4;
use super::ipv6::Ipv6;
use crate::ids::Spi;
use crate::units::Picoseconds;

/// PSP version of AES-GCM-128 (D-10).
pub const VERSION_AES_GCM_128: u8 = 0;
/// PSP version of AES-GCM-256 (D-10).
pub const VERSION_AES_GCM_256: u8 = 1;
/// The version that PSP reserves and that the plaintext lab mode uses: no encryption, no ICV (D-83).
pub const PLAINTEXT_VERSION: u8 = 15;
/// Next Header value of Falcon (F-7.1-1). Also the protocol number in the inner IP header of a tunnel (D-10).
pub const NEXT_HEADER_FALCON: u8 = 252;
/// Next Header value of an inner IPv4 packet: tunnel mode (F-7.1.2-1, D-10).
pub const NEXT_HEADER_IPV4: u8 = 4;
/// Next Header value of an inner IPv6 packet: tunnel mode (F-7.1.2-1, D-10).
pub const NEXT_HEADER_IPV6: u8 = 41;
/// Crypt offset that leaves the first Falcon word unencrypted, in units of 4 bytes after the IV (F-7.1-3, D-10).
pub const CRYPT_OFFSET: u8 = 1;
/// The same with a virtualisation cookie, which the offset includes (D-10).
pub const CRYPT_OFFSET_VC: u8 = CRYPT_OFFSET + VC_WORDS;
/// Crypt offset that leaves an inner IPv4 header without options and the first Falcon word unencrypted (F-7.1.2-1).
pub const CRYPT_OFFSET_IPV4: u8 = CRYPT_OFFSET + (Ipv4::LEN / 4) as u8;
/// Crypt offset that leaves an inner IPv6 header and the first Falcon word unencrypted (F-7.1.2-1).
pub const CRYPT_OFFSET_IPV6: u8 = CRYPT_OFFSET + (Ipv6::LEN / 4) as u8;
/// What a virtualisation cookie adds to the crypt offset.
const VC_WORDS: u8 = 2;

const NEXT_HEADER: usize = 0;
const EXT_LEN: usize = 1;
const OFFSET: usize = 2;
const FLAGS: usize = 3;
const SPI: usize = 4;
const IV: usize = 8;
const VC: usize = 16;

const CRYPT_OFFSET_MASK: u8 = 0x3f;
const SAMPLE: u8 = 0x80;
const DROP: u8 = 0x40;
const VERSION_SHIFT: u32 = 2;
const VERSION_MASK: u8 = 0x0f;
const VC_PRESENT: u8 = 0x02;
const ALWAYS_ONE: u8 = 0x01;

/// A PSP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Psp {
    /// Protocol number of the content: [`NEXT_HEADER_FALCON`], or [`NEXT_HEADER_IPV4`] or [`NEXT_HEADER_IPV6`] in tunnel
    /// mode.
    pub next_header: u8,
    /// Units of 8 bytes after the first 8: 1, or 2 with a virtualisation cookie.
    pub ext_len: u8,
    /// Start of encryption, in units of 4 bytes after the IV, 6 bits.
    pub crypt_offset: u8,
    /// Cipher suite, 4 bits: 0, 1 or [`PLAINTEXT_VERSION`].
    pub version: u8,
    /// Whether a virtualisation cookie follows the IV.
    pub has_vc: bool,
    /// The S bit: sample this packet.
    pub sample: bool,
    /// The D bit: drop this packet after sampling.
    pub drop: bool,
    /// Security parameters index.
    pub spi: Spi,
    /// Initialisation vector: the sender's clock, strictly increasing per security association (D-12).
    pub iv: Picoseconds,
    /// Virtualisation cookie; 0 unless `has_vc`.
    pub vc: u64,
}

impl Psp {
    /// Bytes of the header without a virtualisation cookie.
    pub const LEN: usize = 16;
    /// Bytes of the header with a virtualisation cookie.
    pub const VC_LEN: usize = 24;

    /// Returns the header of a Falcon packet in plaintext lab mode (D-83, D-90).
    #[inline(always)]
    pub const fn plaintext(spi: Spi, iv: Picoseconds) -> Self {
        Self {
            next_header: NEXT_HEADER_FALCON,
            ext_len: 1,
            crypt_offset: CRYPT_OFFSET,
            version: PLAINTEXT_VERSION,
            has_vc: false,
            sample: false,
            drop: false,
            spi,
            iv,
            vc: 0,
        }
    }

    /// Returns the header of an inner packet of this IP version, 4 or 6, in plaintext lab mode (F-7.1.2-1).
    #[inline(always)]
    pub const fn tunnel(inner_version: u8, spi: Spi, iv: Picoseconds) -> Self {
        let (next_header, crypt_offset) = if inner_version == 6 {
            (NEXT_HEADER_IPV6, CRYPT_OFFSET_IPV6)
        } else {
            (NEXT_HEADER_IPV4, CRYPT_OFFSET_IPV4)
        };
        Self { next_header, crypt_offset, ..Self::plaintext(spi, iv) }
    }

    /// Reads a header of either mode, with or without a virtualisation cookie.
    ///
    /// # Errors
    /// In this order: `PspTruncated`, `PspNextHeader`, `PspTrailingBit`, `PspVersion`, `PspExtLength`,
    /// `PspCryptOffset`. Also `PspTruncated` if the cookie is cut off.
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, Malformed> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(Malformed::PspTruncated)?;
        let next_header = get_u8::<NEXT_HEADER, _>(&bytes);
        let clear = match next_header {
            NEXT_HEADER_FALCON => CRYPT_OFFSET,    // F-7.1-1
            NEXT_HEADER_IPV4 => CRYPT_OFFSET_IPV4, // F-7.1.2-1
            NEXT_HEADER_IPV6 => CRYPT_OFFSET_IPV6,
            _ => return Err(Malformed::PspNextHeader),
        };
        let flags = get_u8::<FLAGS, _>(&bytes);
        if flags & ALWAYS_ONE == 0 {
            return Err(Malformed::PspTrailingBit);
        }
        let version = flags >> VERSION_SHIFT & VERSION_MASK;
        if !matches!(version, VERSION_AES_GCM_128 | VERSION_AES_GCM_256 | PLAINTEXT_VERSION) {
            return Err(Malformed::PspVersion);
        }
        let has_vc = flags & VC_PRESENT != 0;
        let (expected_ext_len, expected_offset) = if has_vc { (2, clear + VC_WORDS) } else { (1, clear) };
        let ext_len = get_u8::<EXT_LEN, _>(&bytes);
        if ext_len != expected_ext_len {
            return Err(Malformed::PspExtLength);
        }
        let crypt_offset = get_u8::<OFFSET, _>(&bytes) & CRYPT_OFFSET_MASK;
        if crypt_offset != expected_offset {
            return Err(Malformed::PspCryptOffset); // F-7.1-3, F-7.1.2-1
        }
        let vc = if has_vc {
            let cookie = c.take::<{ Self::VC_LEN - Self::LEN }>().ok_or(Malformed::PspTruncated)?;
            get_u64::<0, _>(&cookie)
        } else {
            0
        };
        Ok(Self {
            next_header,
            ext_len,
            crypt_offset,
            version,
            has_vc,
            sample: flags & SAMPLE != 0,
            drop: flags & DROP != 0,
            spi: Spi(get_u32::<SPI, _>(&bytes)),
            iv: Picoseconds(get_u64::<IV, _>(&bytes)),
            vc,
        })
    }

    /// Returns the length of this header in bytes.
    #[inline(always)]
    pub const fn header_len(&self) -> usize {
        if self.has_vc { Self::VC_LEN } else { Self::LEN }
    }

    /// Writes the header without a cookie, ignoring `has_vc`. The extension length is set accordingly.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        self.put(out, 1, 0);
    }

    /// Writes the header with its cookie, ignoring `has_vc`. The extension length is set accordingly.
    #[inline(always)]
    pub const fn encode_with_vc(&self, out: &mut [u8; Self::VC_LEN]) {
        self.put(out, 2, VC_PRESENT);
        put_u64::<VC, _>(out, self.vc);
    }

    #[inline(always)]
    const fn put<const N: usize>(&self, out: &mut [u8; N], ext_len: u8, vc_present: u8) {
        let sample = if self.sample { SAMPLE } else { 0 };
        let drop = if self.drop { DROP } else { 0 };
        let version = (self.version & VERSION_MASK) << VERSION_SHIFT;
        put_u8::<NEXT_HEADER, N>(out, self.next_header);
        put_u8::<EXT_LEN, N>(out, ext_len);
        put_u8::<OFFSET, N>(out, self.crypt_offset & CRYPT_OFFSET_MASK);
        put_u8::<FLAGS, N>(out, sample | drop | version | vc_present | ALWAYS_ONE);
        put_u32::<SPI, N>(out, self.spi.0);
        put_u64::<IV, N>(out, self.iv.0);
    }
}
