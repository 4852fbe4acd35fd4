//! Input and output of a step of a connection. In the kernel each CPU's scratch map holds one of these, because
//! the stack is 512 bytes. Nothing in it survives from frame to frame.

use super::Path;
use crate::congestion::event::Event;
use crate::congestion::queues::AdmissionView;
use crate::congestion::result::Outcome;
use crate::counters::Raised;
use crate::ids::CellId;
use crate::memory::Region;
use crate::security::Tunnel;
use crate::ulp::{Operation, Payload, Place, Protocol, WorkRequest};
use crate::units::{FalconTime, Picoseconds, Ticks};
use crate::wire::PacketType;
use crate::wire::nack::NackCode;
use crate::wire::packet::Packet;
use crate::wire::resync::ResyncCode;
use bytemuck::{CheckedBitPattern, Zeroable};

/// Input of a step: the datapath writes it, steps read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Input {
    /// The received packet.
    pub packet: Packet,
    /// The ULP part of the packet.
    pub operation: Operation,
    /// The memory region that the operation's R_Key names.
    pub region: Region,
    /// The event queues.
    pub event_queues: AdmissionView,
    /// Congestion result to apply, if `has_outcome` is 1.
    pub outcome: Outcome,
    /// 1: there is a congestion result.
    pub has_outcome: u32,
    /// Receive cells of the node that are in use.
    pub cells_in_use: u32,
    /// Occupancy level of the card's own receive buffer, 0..31.
    pub rx_buffer_level: u32,
    /// Always 0.
    pub reserved: u32,
}

/// The work that a step needs before it can continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
#[repr(u8)]
pub enum WorkKind {
    /// Nothing.
    #[default]
    None = 0,
    /// Copy the data of a push into memory.
    PlaceRequest = 1,
    /// Execute compare and swap.
    CompareSwap = 2,
    /// Execute fetch and add.
    FetchAdd = 3,
    /// Copy the data of a pull's response into memory.
    PlaceResponse = 4,
    /// Store the value of a pull's response in memory.
    StoreValue = 5,
    /// Keep the payload in a receive cell.
    Hold = 6,
}

/// The work that a step needs. [`Whole::on_work_done`](super::Whole::on_work_done) follows in the same lock hold.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Work {
    /// Kind of work.
    pub kind: WorkKind,
    /// 1: the request is already in the table, because it was held.
    pub held: u8,
    /// 1: the request to hold is answered with RNR.
    pub rnr: u8,
    /// Always 0.
    pub reserved: u8,
    /// Index of the request in its table.
    pub key: u32,
    /// Bytes of data.
    pub length: u32,
    /// Always 0.
    pub reserved2: u32,
    /// The place in the node's memory, and what the ULP does with it.
    pub place: Place,
    /// Value to store, swap value or addend.
    pub value: u64,
    /// Compare value.
    pub compare: u64,
}

/// Result of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkDone {
    /// False: the platform could not copy, or the place is not the application's.
    pub done: bool,
    /// The place is not the application's.
    pub denied: bool,
    /// Value that an atomic operation found.
    pub value: u64,
    /// The receive cell that was filled, if any.
    pub cell: CellId,
}

/// Result of a service of a connection by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Serviced {
    /// There was nothing to do.
    Nothing,
    /// Something was done. A packet may be in the step's output.
    Done,
    /// A held request has to be delivered: see [`Whole::next_held`](super::Whole::next_held).
    Held,
}

/// A packet to send.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Outgoing {
    /// 1: there is a packet to send.
    pub present: u8,
    /// Packet type.
    pub kind: PacketType,
    /// Ack Request.
    pub ack_request: u8,
    /// Resync code.
    pub resync_code: ResyncCode,
    /// Packet type that a Resync replaces.
    pub resync_type: PacketType,
    /// Window of a reliable packet.
    pub window: u8,
    /// PSP version.
    pub psp_version: u8,
    /// Forward hops to report.
    pub forward_hops: u8,
    /// Receive buffer level to report.
    pub rx_buffer_level: u8,
    /// NACK code.
    pub nack_code: NackCode,
    /// RNR timeout code of a NACK.
    pub rnr_timeout_code: u8,
    /// Code of the target ULP in a NACK.
    pub ulp_code: u8,
    /// W bit of a NACK.
    pub nack_window: u8,
    /// OWN bit of the request window.
    pub own_request: u8,
    /// OWN bit of the data window.
    pub own_data: u8,
    /// 1: the packet carries a UDP checksum (D-91).
    pub checksum: u8,
    /// Destination CID.
    pub dest_cid: u32,
    /// Destination function.
    pub dest_function: u32,
    /// ECN count to report.
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
    pub t1: FalconTime,
    /// T2.
    pub t2: FalconTime,
    /// Metadata from our rate update engine to the peer's, 24 bits (D-07).
    pub cc_metadata: u32,
    /// Generation of the connection that sends the packet.
    pub generation: u32,
    /// Base of our data receive window.
    pub data_base: u32,
    /// Base of our request receive window.
    pub request_base: u32,
    /// ULP of a packet with a base header (F-7.2-6).
    pub protocol: Protocol,
    /// IV: our clock (D-12).
    pub iv: Picoseconds,
    /// EACK bitmap of acknowledged packets in the data window.
    pub data_acknowledged: [u64; 2],
    /// EACK bitmap of received packets in the data window.
    pub data_received: [u64; 2],
    /// EACK bitmap of the request window.
    pub request: u64,
    /// ULP part.
    pub ulp: Payload,
    /// Path of the packet.
    pub path: Path,
    /// Inner addresses. Written only if `path.inner_version` is not 0.
    pub tunnel: Tunnel,
}

/// What a step reports in addition to its packet and its work.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Report {
    /// Counters to raise.
    pub raised: Raised,
    /// Receive cell to give back, if any.
    pub free_cell: CellId,
    /// 1: [`Output::event`] waits for a decision.
    pub decide: u8,
    /// 1: [`Output::event`] is for the event queues.
    pub event: u8,
    /// 1: [`Output::event`] holds the delays of an acknowledgement. Only received packets set this.
    pub delays: u8,
    /// 1: the engine has to service the connection.
    pub wake: u8,
    /// 1: file the connection with the timing wheel, `deadline_in` from now.
    pub file: u32,
    /// Time until the deadline; 0 if it has passed.
    pub deadline_in: Ticks,
}

impl Report {
    /// Returns whether there is nothing to count, to publish or to give back.
    #[inline(always)]
    pub(crate) const fn is_silent(&self) -> bool {
        self.raised.is_empty() && (self.free_cell.0 | self.event as u32) == 0
    }
}

/// Output of a step: steps write it, the datapath reads it afterwards.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Output {
    /// Work to do before the step can continue.
    pub work: Work,
    /// Packet to send.
    pub packet: Outgoing,
    /// Side results.
    pub report: Report,
    /// Congestion event of the step.
    pub event: Event,
    /// Result of an algorithm in the kernel for the event.
    pub outcome: Outcome,
}

/// One step of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, CheckedBitPattern, Zeroable)]
pub struct Step {
    /// Written before the step.
    pub input: Input,
    /// Written by the step.
    pub output: Output,
    /// The current work request, for the step's own use.
    pub(super) work_request: WorkRequest,
}

impl Step {
    /// Clears the output at the start of a step.
    #[inline(always)]
    pub fn begin(&mut self) {
        let output = &mut self.output;
        output.work.kind = WorkKind::None;
        output.packet.present = 0;
        let report = &mut output.report;
        report.raised.clear();
        report.free_cell = CellId::NONE;
        report.decide = 0;
        report.event = 0;
        report.delays = 0;
        report.wake = 0;
        report.file = 0;
    }
}
