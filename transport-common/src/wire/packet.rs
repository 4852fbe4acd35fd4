//! A received packet, flat: what the steps of a connection read.

use super::nack::NackCode;
use super::resync::ResyncCode;
use crate::bitmap::Bitmap128;
use crate::ids::Psn;

/// The acknowledgement part of a packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Base PSN of the peer's data receive window.
    pub data_base: Psn,
    /// Base PSN of the peer's request receive window.
    pub request_base: Psn,
    /// 1 when the bitmaps are valid (EACK).
    pub selective: u8,
    /// 1: the peer dropped a data packet beyond its window (F-7.7.1-6).
    pub own_data: u8,
    /// 1: the peer dropped a Pull Request beyond its window.
    pub own_request: u8,
    /// 0.
    pub reserved: [u8; 5],
    /// Data acknowledged.
    pub data_acknowledged: Bitmap128,
    /// Data received.
    pub data_received: Bitmap128,
    /// Requests received (= acknowledged).
    pub request: Bitmap128,
}

/// A received packet, parsed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Packet type as on the wire.
    pub kind: u8,
    /// 1 when the sender asks for an ACK.
    pub ack_request: u8,
    /// 1 when the IP header says congestion experienced.
    pub congestion_experienced: u8,
    /// TTL or hop limit as received.
    pub hop_limit: u8,
    /// PSP version.
    pub psp_version: u8,
    /// Resync code.
    pub resync_code: ResyncCode,
    /// Type of the packet a Resync replaces.
    pub resync_type: u8,
    /// NACK code.
    pub nack_code: NackCode,
    /// NACK: RNR timeout code.
    pub rnr_timeout_code: u8,
    /// NACK: 1 when the offending packet belongs to the request window.
    pub nack_window: u8,
    /// NACK: code of the target ULP.
    pub ulp_code: u8,
    /// 1 when the frame had an 802.1Q tag.
    pub vlan: u8,
    /// That tag.
    pub vlan_tci: u16,
    /// 0.
    pub reserved: u16,
    /// Destination CID.
    pub dest_cid: u32,
    /// Destination function.
    pub dest_function: u32,
    /// SPI.
    pub spi: u32,
    /// T1 of an ACK or NACK, ticks.
    pub t1: u32,
    /// T2 of an ACK or NACK, ticks.
    pub t2: u32,
    /// ACK or NACK: low 24 bits of the congestion information (D-07).
    pub cc_metadata: u32,
    /// ACK or NACK: packets the peer received with congestion experienced.
    pub ecn_count: u16,
    /// ACK or NACK: hops of the forward path.
    pub forward_hops: u8,
    /// ACK or NACK: level of the peer's receive buffers.
    pub rx_buffer_level: u8,
    /// IV: the sender's clock in picoseconds.
    pub iv: u64,
    /// When it came off the wire by our clock, picoseconds.
    pub arrival: u64,
    /// PSN.
    pub psn: u32,
    /// RSN.
    pub rsn: u32,
    /// Request Length field of Pull Request and Push Data.
    pub request_length: u32,
    /// Where the ULP payload starts in the frame.
    pub payload_offset: u32,
    /// Bytes of ULP payload.
    pub payload_length: u32,
    /// Sender's address, its bytes in memory order; IPv4 in the first 4 bytes, the rest 0.
    pub source: [u64; 2],
    /// Bases, and bitmaps of an EACK.
    pub acknowledgement: Acknowledgement,
}
