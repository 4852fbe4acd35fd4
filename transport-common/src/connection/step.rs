//! What goes into a step of a connection and what comes out. In the kernel one of these stands in each CPU's scratch map,
//! because the stack is 512 bytes; nothing in it survives from frame to frame.

use super::Path;
use crate::congestion::event::Event;
use crate::congestion::queues::AdmissionView;
use crate::congestion::result::Outcome;
use crate::counters::Raised;
use crate::transaction::NO_CELL;
use crate::ulp::rdma::{Operation, Payload, Place, Region, WorkRequest};
use crate::wire::nack::NackCode;
use crate::wire::packet::Packet;
use crate::wire::resync::ResyncCode;

/// Written by the datapath before a step, read by steps.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// What came in.
    pub packet: Packet,
    /// Its ULP part.
    pub operation: Operation,
    /// Region named by the operation's R_Key.
    pub region: Region,
    /// The event queues.
    pub event_queues: AdmissionView,
    /// Congestion result to be applied, if `has_outcome`.
    pub outcome: Outcome,
    /// 1: there is a congestion result.
    pub has_outcome: u32,
    /// Receive cells of the node in use.
    pub cells_in_use: u32,
    /// Occupancy level of the card's own receive buffer, 0..31.
    pub rx_buffer_level: u32,
    /// 0.
    pub reserved: u32,
}

/// What a step wants done before it can go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Copy the data of an answer into memory.
    PlaceResponse = 4,
    /// Store the value of an answer in memory.
    StoreValue = 5,
    /// Keep the payload in a receive cell.
    Hold = 6,
}

/// What a step wants done; [`Entry::on_work_done`](super::Entry::on_work_done) follows under the same hold of the lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// What.
    pub kind: WorkKind,
    /// 1: the request stands in the table already, it was held.
    pub held: u8,
    /// 1: the request that is to be held is answered with RNR.
    pub rnr: u8,
    /// 0.
    pub reserved: u8,
    /// Place of the request in its table.
    pub key: u32,
    /// Bytes of data.
    pub length: u32,
    /// 0.
    pub reserved2: u32,
    /// Where in the node's memory, and what the ULP makes of it.
    pub place: Place,
    /// Value to store, swap value or addend.
    pub value: u64,
    /// Compare value.
    pub compare: u64,
}

/// How the work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkDone {
    /// False: the platform could not copy.
    pub done: bool,
    /// What an atomic found.
    pub value: u64,
    /// The receive cell that was filled, or [`NO_CELL`].
    pub cell: u32,
}

/// A packet to send.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// 1: there is one.
    pub present: u8,
    /// Packet type.
    pub kind: u8,
    /// Ack Request.
    pub ack_request: u8,
    /// Resync code.
    pub resync_code: ResyncCode,
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
    pub nack_code: NackCode,
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
    /// Incarnation of the connection that sends it.
    pub generation: u32,
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
    pub ulp: Payload,
    /// Where to.
    pub path: Path,
}

/// What a step reports beside its packet and its work.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Counters to raise.
    pub raised: Raised,
    /// Receive cell to give back, or [`NO_CELL`].
    pub free_cell: u32,
    /// 1: [`Output::event`] waits for a decision.
    pub decide: u8,
    /// 1: [`Output::event`] is for the event queues.
    pub event: u8,
    /// 1: [`Output::event`] holds the delays of an acknowledgement. Only received packets have some.
    pub delays: u8,
    /// 1: the engine has to service the connection.
    pub wake: u8,
    /// 1: file the connection with the timing wheel `file_ticks` from now.
    pub file: u32,
    /// Falcon ticks from now.
    pub file_ticks: u32,
}

impl Report {
    /// Whether there is nothing to count, to publish or to give back.
    #[inline(always)]
    pub(crate) const fn is_silent(&self) -> bool {
        self.raised.is_empty() && (self.free_cell | self.event as u32) == 0
    }
}

/// Written by steps, read by the datapath after them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// What has to be done before the step can go on.
    pub work: Work,
    /// What to send.
    pub packet: Outgoing,
    /// Side results.
    pub report: Report,
    /// Congestion event at hand.
    pub event: Event,
    /// What an algorithm in the kernel made of it.
    pub outcome: Outcome,
}

/// One step of a connection.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Written before it.
    pub input: Input,
    /// Written by it.
    pub output: Output,
    /// The work request at hand: a step's own.
    pub(super) work_request: WorkRequest,
}

impl Step {
    /// Nothing came of the step so far.
    #[inline(always)]
    pub fn begin(&mut self) {
        let output = &mut self.output;
        output.work.kind = WorkKind::None;
        output.packet.present = 0;
        let report = &mut output.report;
        report.raised.clear();
        report.free_cell = NO_CELL;
        report.decide = 0;
        report.event = 0;
        report.delays = 0;
        report.wake = 0;
        report.file = 0;
    }
}
