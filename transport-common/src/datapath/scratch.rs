//! The working memory of one packet: what was parsed, what the transaction sublayer wants done, what to send.
//!
//! In the kernel one lives in each CPU's scratch map, because the stack is 512 bytes. Every field a step reads
//! is written before by the same frame's processing; nothing survives from frame to frame.

use crate::congestion::admission::Admission;
use crate::congestion::entry::Entry;
use crate::congestion::event::Event;
use crate::congestion::queues::EVENT_QUEUES;
use crate::congestion::result::Outcome;
use crate::connection::Path;
use crate::packet_delivery::{Acknowledgement, NackReport, Window};
use crate::queues::{Region, WorkRequest};
use crate::ulp::rdma::Operation;
use bytemuck::{Pod, Zeroable};

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
    pub resync_code: u8,
    /// Type of the packet a Resync replaces.
    pub resync_type: u8,
    /// NACK code.
    pub nack_code: u8,
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
    /// Bases, and bitmaps of an EACK.
    pub acknowledgement: Acknowledgement,
    /// ULP operation.
    pub operation: Operation,
}

/// What the IP layer says about the UDP datagram.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Bytes behind the IP header.
    pub payload_length: u32,
    /// Where the UDP header starts in the frame.
    pub udp_offset: u32,
    /// Sum of the pseudo header without its length, words in memory order.
    pub pseudo_sum: u64,
}

/// What has to be done outside the lock for a request or response ([`Delivery::kind`]).
pub mod delivery {
    /// Nothing.
    pub const NONE: u32 = 0;
    /// Copy the data into memory, then `request_placed`.
    pub const PLACE_REQUEST: u32 = 1;
    /// Execute compare and swap, then `atomic_executed`.
    pub const COMPARE_SWAP: u32 = 2;
    /// Execute fetch and add, then `atomic_executed`.
    pub const FETCH_ADD: u32 = 3;
    /// Copy the data into memory, then `response_placed`.
    pub const PLACE_RESPONSE: u32 = 4;
    /// Store `value` in memory, then `response_placed`.
    pub const STORE_VALUE: u32 = 5;
    /// Keep the payload in a receive cell, then `request_held`.
    pub const HOLD: u32 = 6;
    /// Take the payload out of its cell into the frame, then `redeliver`.
    pub const REDELIVER: u32 = 7;
}

/// No receive cell.
pub const NO_CELL: u32 = 0xffff;

/// What the transaction sublayer wants done outside the lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// See [`delivery`].
    pub kind: u32,
    /// Index in the request table.
    pub key: u32,
    /// RSN of the transaction.
    pub rsn: u32,
    /// Receive cell to take from (REDELIVER).
    pub cell: u32,
    /// Receive cell to give back, or [`NO_CELL`].
    pub free_cell: u32,
    /// Bytes.
    pub length: u32,
    /// Where in the node's memory.
    pub memory_offset: u64,
    /// Value to store, or swap value or addend.
    pub value: u64,
    /// Compare value.
    pub compare: u64,
    /// 1: the held request is answered with RNR (HOLD).
    pub rnr: u32,
    /// 1: it is a Pull Request (REDELIVER).
    pub pull: u32,
    /// Posted receive a push consumes.
    pub slot: u32,
    /// Flags of the request table entry.
    pub flags: u32,
    /// Bytes of the message so far.
    pub message_length: u32,
    /// 0.
    pub reserved: u32,
}

/// ULP header and data of a packet to send.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UlpOut {
    /// BTH opcode.
    pub bth_opcode: u8,
    /// What follows the BTH, see [`ulp_header`].
    pub extension: u8,
    /// 1: immediate data follows.
    pub has_immediate: u8,
    /// AETH syndrome.
    pub syndrome: u8,
    /// BTH segment number.
    pub segment: u32,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// R_Key.
    pub rkey: u32,
    /// RETH or AtomicETH address.
    pub address: u64,
    /// Swap value or addend; the original value of an atomic response.
    pub swap_or_add: u64,
    /// Compare value.
    pub compare: u64,
    /// RETH length.
    pub length: u32,
    /// Immediate data.
    pub immediate: u32,
    /// Data in the node's memory.
    pub memory_offset: u64,
    /// Bytes of data.
    pub data_length: u32,
    /// 1: resolve `rkey`, `address` in our region table before reading (READ response).
    pub resolve: u32,
}

/// Kinds of [`UlpOut::extension`].
pub mod ulp_header {
    /// No ULP part at all.
    pub const NONE: u8 = 0;
    /// BTH only.
    pub const BTH: u8 = 1;
    /// BTH and RETH.
    pub const RETH: u8 = 2;
    /// BTH and AtomicETH.
    pub const ATOMIC: u8 = 3;
    /// BTH and AETH.
    pub const AETH: u8 = 4;
    /// BTH, AETH and an 8-byte value.
    pub const AETH_VALUE: u8 = 5;
}

/// A packet to send ([`Transmission::kind`] is its packet type on the wire).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmission {
    /// 1: there is one.
    pub present: u8,
    /// Packet type.
    pub kind: u8,
    /// Ack Request.
    pub ack_request: u8,
    /// Resync code.
    pub resync_code: u8,
    /// Type a Resync replaces.
    pub resync_type: u8,
    /// Window of a reliable packet.
    pub window: u8,
    /// PSP version.
    pub psp_version: u8,
    /// Forward hops reported.
    pub forward_hops: u8,
    /// Receive buffer level reported.
    pub rx_buffer_level: u8,
    /// NACK code.
    pub nack_code: u8,
    /// NACK: RNR timeout code.
    pub rnr_timeout_code: u8,
    /// NACK: code of the target ULP.
    pub ulp_code: u8,
    /// NACK: W bit.
    pub nack_window: u8,
    /// OWN bit of the request window.
    pub own_request: u8,
    /// OWN bit of the data window.
    pub own_data: u8,
    /// 1: with UDP checksum (D-91).
    pub checksum: u8,
    /// Destination CID.
    pub dest_cid: u32,
    /// Destination function.
    pub dest_function: u32,
    /// ECN count reported.
    pub ecn_count: u32,
    /// PSN.
    pub psn: u32,
    /// RSN.
    pub rsn: u32,
    /// Request Length field.
    pub request_length: u32,
    /// SPI.
    pub spi: u32,
    /// T1.
    pub t1: u32,
    /// T2.
    pub t2: u32,
    /// What the rate update engine tells the peer's, 24 bits (D-07).
    pub cc_metadata: u32,
    /// 0.
    pub reserved: u32,
    /// Base of our data receive window.
    pub data_base: u32,
    /// Base of our request receive window.
    pub request_base: u32,
    /// IV.
    pub iv: u64,
    /// EACK bitmaps.
    pub data_acknowledged: [u64; 2],
    /// EACK bitmaps.
    pub data_received: [u64; 2],
    /// EACK bitmap.
    pub request: u64,
    /// ULP part.
    pub ulp: UlpOut,
}

/// What a step reports beside its transmission and delivery.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Report {
    /// Counters to raise plus 1, or 0.
    pub counts: [u32; 2],
    /// Counter of congestion control to raise plus 1, or 0.
    pub congestion_count: u32,
    /// 1: `Scratch::event` waits for a decision.
    pub decide: u32,
    /// 1: `Scratch::event` is for the event queues.
    pub event: u32,
    /// 1: `Scratch::event` holds the delays of an acknowledgement.
    pub delays: u32,
    /// 1: the engine has to look at the connection.
    pub wake: u32,
    /// 1: file the connection with the timing wheel `file_ticks` from now.
    pub file: u32,
    /// Falcon ticks from now.
    pub file_ticks: u32,
}

impl Report {
    /// Whether there is nothing to count, to publish or to record.
    #[inline(always)]
    pub(crate) const fn is_silent(&self) -> bool {
        self.counts[0] | self.counts[1] | self.congestion_count | self.event | self.delays == 0
    }

    /// Nothing to report.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        crate::verifier::zero(self);
    }
}

/// Whose turn of the engine it is, and why.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnOf {
    /// When, picoseconds.
    pub now: u64,
    /// Connection slot.
    pub slot: u32,
    /// 1: because its deadline has come.
    pub fired: u32,
}

/// What the admission policy goes by.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct EventQueues {
    /// Entries in each queue.
    pub occupancy: [u32; EVENT_QUEUES],
    /// The policy (D-73); capacity 0 without a rate update engine.
    pub admission: Admission,
}

/// Bytes of the header buffer.
pub const HEADER_BYTES: usize = 256;
/// Bytes of the payload staging buffer: a frame, and slack for padding a checksum.
pub const STAGING_BYTES: usize = 4096 + 64;

/// The working memory of one packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// The IP layer of what came in.
    pub network: Network,
    /// What came in.
    pub packet: Packet,
    /// The work request at hand.
    pub work: WorkRequest,
    /// Region named by the packet's R_Key, looked up before the lock.
    pub region: Region,
    /// What the ULP side has to do.
    pub delivery: Delivery,
    /// What to send.
    pub transmission: Transmission,
    /// Where to.
    pub path: Path,
    /// Side results.
    pub report: Report,
    /// Congestion event at hand.
    pub event: Event,
    /// Congestion result at hand.
    pub outcome: Outcome,
    /// Its entry in a queue.
    pub entry: Entry,
    /// The event queues, as they were before the step.
    pub event_queues: EventQueues,
    /// 1: `outcome` is a result to be applied.
    pub result: u32,
    /// Occupancy level of the card's own receive buffer, 0..31.
    pub rx_buffer_level: u32,
    /// Whose turn it is.
    pub turn: TurnOf,
    /// 0.
    pub reserved: u32,
    /// Receive cells of the node in use.
    pub cells_in_use: u32,
    /// Headers of the frame being built; the Falcon header stands at [`super::FALCON_AT`].
    pub header: [u8; HEADER_BYTES],
    /// Staging for checksums and cells.
    pub staging: [u8; STAGING_BYTES],
}

impl Scratch {
    /// Forgets the results of the previous step.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.delivery.kind = delivery::NONE;
        self.delivery.free_cell = NO_CELL;
        self.transmission.present = 0;
        self.report.clear();
    }

    /// Asks for a counter of congestion control, by index, to be raised.
    #[inline(always)]
    pub(crate) fn count_congestion(&mut self, index: u32) {
        self.report.congestion_count = index + 1;
    }

    /// Asks for `counter` to be raised.
    #[inline(always)]
    pub(crate) fn count(&mut self, counter: crate::counters::Counter) {
        let slot = if self.report.counts[0] == 0 { 0 } else { 1 };
        self.report.counts[slot] = counter as u32 + 1;
    }

    /// The NACK in the packet.
    #[inline(always)]
    pub(crate) fn nack(&self) -> NackReport {
        NackReport {
            psn: crate::ids::Psn(self.packet.psn),
            window: if self.packet.nack_window != 0 { Window::Request } else { Window::Data },
            code: self.packet.nack_code,
            rnr_timeout_code: self.packet.rnr_timeout_code,
            ulp_code: self.packet.ulp_code,
        }
    }
}
