//! A received packet as a flat struct: the input of a connection's steps.

use super::PacketType;
use super::nack::NackCode;
use super::resync::ResyncCode;
use crate::bitmap::Bitmap128;
use crate::ids::Psn;
use crate::units::{FalconTime, Picoseconds};
use bytemuck::{CheckedBitPattern, Zeroable};

/// The acknowledgement part of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Acknowledgement {
    /// Base PSN of the peer's data receive window.
    pub data_base: Psn,
    /// Base PSN of the peer's request receive window.
    pub request_base: Psn,
    /// 1: the bitmaps are valid (EACK).
    pub selective: u8,
    /// 1: the peer dropped a data packet beyond its window (F-7.7.1-6).
    pub own_data: u8,
    /// 1: the peer dropped a Pull Request beyond its window.
    pub own_request: u8,
    /// Always 0.
    pub reserved: [u8; 5],
    /// Acknowledged packets of the data window.
    pub data_acknowledged: Bitmap128,
    /// Received packets of the data window.
    pub data_received: Bitmap128,
    /// Received (= acknowledged) packets of the request window.
    pub request: Bitmap128,
}

/// A received packet, parsed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Packet {
    /// Packet type.
    pub kind: PacketType,
    /// 1: the sender asks for an ACK.
    pub ack_request: u8,
    /// 1: the IP header has congestion experienced set.
    pub congestion_experienced: u8,
    /// TTL or hop limit on arrival.
    pub hop_limit: u8,
    /// PSP version.
    pub psp_version: u8,
    /// Resync code.
    pub resync_code: ResyncCode,
    /// Type of the packet that a Resync replaces.
    pub resync_type: PacketType,
    /// NACK code.
    pub nack_code: NackCode,
    /// RNR timeout code of a NACK.
    pub rnr_timeout_code: u8,
    /// 1: the packet that a NACK refuses belongs to the request window.
    pub nack_window: u8,
    /// Code of the target ULP in a NACK.
    pub ulp_code: u8,
    /// 1: the frame had an 802.1Q tag.
    pub vlan: u8,
    /// Tag control information of the tag.
    pub vlan_tci: u16,
    /// Protocol type of a packet with a base header (F-7.2-6).
    pub protocol: u8,
    /// IP version of the inner packet in tunnel mode, 4 or 6; 0 in transport mode (F-7.1.2-1).
    pub inner_version: u8,
    /// Destination CID.
    pub dest_cid: u32,
    /// Destination function.
    pub dest_function: u32,
    /// SPI.
    pub spi: u32,
    /// T1 of an ACK or NACK.
    pub t1: FalconTime,
    /// T2 of an ACK or NACK.
    pub t2: FalconTime,
    /// Low 24 bits of the congestion information in an ACK or NACK (D-07).
    pub cc_metadata: u32,
    /// Number of packets that the peer received with congestion experienced, in an ACK or NACK.
    pub ecn_count: u16,
    /// Hops of the forward path, in an ACK or NACK.
    pub forward_hops: u8,
    /// Level of the peer's receive buffers, in an ACK or NACK.
    pub rx_buffer_level: u8,
    /// IV: the sender's clock.
    pub iv: Picoseconds,
    /// Time of arrival from the wire by our clock.
    pub arrival: Picoseconds,
    /// PSN.
    pub psn: u32,
    /// RSN.
    pub rsn: u32,
    /// Request Length field of Pull Request and Push Data.
    pub request_length: u32,
    /// Offset of the ULP payload in the frame.
    pub payload_offset: u32,
    /// Bytes of ULP payload.
    pub payload_length: u32,
    /// Sender's address, its bytes in memory order; IPv4 in the first 4 bytes, the rest 0.
    pub source: [u64; 2],
    /// Sender's inner address, like `source`. Not written in transport mode.
    pub inner_source: [u64; 2],
    /// Inner address that the packet is for. Not written in transport mode.
    pub inner_destination: [u64; 2],
    /// Bases, and the bitmaps of an EACK.
    pub acknowledgement: Acknowledgement,
}
