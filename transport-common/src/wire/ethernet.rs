//! Ethernet II, with at most one 802.1Q tag (D-86).

use super::Malformed;
use super::cursor::Cursor;
use super::field::{get_array, get_u16, put_array, put_u16};

/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Tag protocol identifier of an 802.1Q tag.
pub const TPID_8021Q: u16 = 0x8100;

const DST: usize = 0;
const SRC: usize = 6;
const ETHERTYPE: usize = 12;
const TCI: usize = 14;
const TAGGED_ETHERTYPE: usize = 16;

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Destination MAC address.
    pub dst: [u8; 6],
    /// Source MAC address.
    pub src: [u8; 6],
    /// Tag control information (priority, DEI, VLAN identifier) if the frame is tagged.
    pub vlan: Option<u16>,
    /// EtherType of the data after the header and its tag. 0x8100 here means a second tag, which nothing accepts.
    pub ethertype: u16,
}

impl Ethernet {
    /// Bytes of an untagged header.
    pub const LEN: usize = 14;
    /// Bytes of a tagged header.
    pub const TAGGED_LEN: usize = 18;

    /// Reads a header, tagged or not.
    ///
    /// # Errors
    /// [`Malformed::EthernetTruncated`].
    #[inline(always)]
    pub fn decode<C: Cursor>(c: &mut C) -> Result<Self, Malformed> {
        let bytes = c.take::<{ Self::LEN }>().ok_or(Malformed::EthernetTruncated)?;
        let mut header = Self {
            dst: get_array::<DST, 6, _>(&bytes),
            src: get_array::<SRC, 6, _>(&bytes),
            vlan: None,
            ethertype: get_u16::<ETHERTYPE, _>(&bytes),
        };
        if header.ethertype == TPID_8021Q {
            let tag = c.take::<{ Self::TAGGED_LEN - Self::LEN }>().ok_or(Malformed::EthernetTruncated)?;
            header.vlan = Some(get_u16::<{ TCI - Self::LEN }, _>(&tag));
            header.ethertype = get_u16::<{ TAGGED_ETHERTYPE - Self::LEN }, _>(&tag);
        }
        Ok(header)
    }

    /// Returns the length of this header in bytes.
    #[inline(always)]
    pub const fn header_len(&self) -> usize {
        if self.vlan.is_some() { Self::TAGGED_LEN } else { Self::LEN }
    }

    /// Writes the header without a tag, ignoring `vlan`.
    #[inline(always)]
    pub const fn encode(&self, out: &mut [u8; Self::LEN]) {
        put_array::<DST, 6, _>(out, self.dst);
        put_array::<SRC, 6, _>(out, self.src);
        put_u16::<ETHERTYPE, _>(out, self.ethertype);
    }

    /// Writes the header with a tag of this control information, ignoring `vlan`.
    #[inline(always)]
    pub const fn encode_tagged(&self, tci: u16, out: &mut [u8; Self::TAGGED_LEN]) {
        put_array::<DST, 6, _>(out, self.dst);
        put_array::<SRC, 6, _>(out, self.src);
        put_u16::<ETHERTYPE, _>(out, TPID_8021Q);
        put_u16::<TCI, _>(out, tci);
        put_u16::<TAGGED_ETHERTYPE, _>(out, self.ethertype);
    }
}
