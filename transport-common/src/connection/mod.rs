//! The connection context. This is the one place that composes the parts of a connection: for example, it passes
//! the findings of packet delivery to the transaction sublayer.
//!
//! [`Connection`] is what a card keeps in fast memory for every connection. [`Tables`] holds the state per
//! outstanding packet or transaction, [`Cold`] what is rarely used. All are behind one lock, and [`Whole`] lends them to
//! its holder. Zero bytes are a valid, closed connection.
//!
//! | step of [`Whole`] | when |
//! |---|---|
//! | [`on_packet`](Whole::on_packet) | a packet arrived |
//! | [`on_work_done`](Whole::on_work_done) | the work that the step requested is done, in the same lock hold |
//! | [`on_service`](Whole::on_service) | the engine services the connection |
//! | [`on_held`](Whole::on_held) | the payload of a held request is in a frame again |
//! | [`not_sent`](Whole::not_sent) | a packet that was recorded as sent could not be built |
//! | [`denied`](Whole::denied) | the local key of a request to send gives no access to its buffer |

mod acknowledgement;
mod application;
mod congestion;
mod open;
mod outgoing;
mod parameters;
mod path;
mod receive;
mod requests;
mod sender;
mod service;
mod step;
mod whole;

use crate::congestion::control::Congestion;
use crate::ids::Cid;
use crate::packet_delivery::{DeliveryTables, PacketDelivery};
use crate::resources::Occupancy;
use crate::security::{PeerClock, Security, SecurityDrops, Tunnel};
use crate::transaction::{Initiator, Response, Responses, Target, TargetRequest, Transaction};
use crate::ulp::{Answer, Protocol, Responder};
use crate::units::Deadline;
use bytemuck::{AnyBitPattern, CheckedBitPattern, NoUninit, Pod, Zeroable};

pub use crate::congestion::control::DelayRecord;
pub use crate::packet_delivery::{DATA_WINDOW, PACKETS, REQUEST_WINDOW};
pub use crate::transaction::{RESPONSES, TRANSACTIONS};
pub use parameters::{Config, Initial, Parameters};
pub use path::Path;
pub use step::{Input, Outgoing, Output, Report, Serviced, Step, Work, WorkDone, WorkKind};
pub use whole::{Parts, Snapshot, Whole};

/// Both ends send with this TTL or hop limit (D-14).
pub const INITIAL_HOP_LIMIT: u8 = 255;

/// Life cycle of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
#[repr(u32)]
pub enum State {
    /// Not in use: packets for it are dropped silently (D-50).
    #[default]
    Closed = 0,
    /// In use.
    Open = 1,
    /// Packet delivery gave up (F-11-6): every outstanding transaction completes in error.
    Fatal = 2,
    /// Closed by either end: outstanding transactions complete with `DeadConn`.
    Closing = 3,
}

/// The two ends of the connection, as packets identify them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Endpoint {
    /// Addresses.
    pub path: Path,
    /// Destination CID in packets to us.
    pub local_cid: Cid,
    /// Destination CID in packets to the peer.
    pub peer_cid: Cid,
    /// Destination function expected in packets to us (D-15).
    pub local_function: u32,
    /// Destination function written into packets to the peer.
    pub peer_function: u32,
    /// Largest user data of one of our transactions, bytes.
    pub max_segment: u32,
    /// 1: packets carry a UDP checksum (D-91).
    pub checksum: u16,
    /// The ULP of both ends.
    pub protocol: Protocol,
    /// Always 0.
    pub reserved: u8,
}

/// State of the service of a connection by the engine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Service {
    /// Deadline filed with the timing wheel.
    pub filed: Deadline,
    /// When a service saw to the timers that run, or the first of them began; see [`Self::timers_run_at`]. 0: none runs.
    pub since: u32,
    /// 1: the target sends first at the next service (F-8.3-2).
    pub target_next: u16,
    /// 1: the last service found nothing to do.
    pub fruitless: u8,
    /// 1: new requests of either end are dropped (xLR, D-50).
    pub dropping: u8,
}

/// The packets of the connection in both directions: where they go, which ones are accepted, sent, acknowledged and lost,
/// and how fast they may leave. It knows no transactions.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct Flow {
    /// The two ends.
    pub endpoint: Endpoint,
    /// SPI and replay state.
    pub security: Security,
    /// Windows, acknowledgements, retransmission.
    pub delivery: PacketDelivery,
    /// Windows and timeouts.
    pub congestion: Congestion,
}

/// The connection context: what nearly every step of a connection uses.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct Connection {
    /// Packets. It comes first: then a pointer to it is a pointer to the context, and takes no register of its own.
    pub flow: Flow,
    /// Life cycle.
    pub state: State,
    /// Counts how often the slot was opened.
    pub generation: u32,
    /// Transactions we started.
    pub initiator: Initiator,
    /// Transactions the peer started.
    pub target: Target,
    /// State of the ULP for the peer's transactions.
    pub responder: Responder,
    /// State of the service by the engine.
    pub service: Service,
}

/// What a connection rarely uses, beside the context.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Cold {
    /// Inner addresses, if packets have any.
    pub tunnel: Tunnel,
    /// The estimate of the peer's clock.
    pub clock: PeerClock,
    /// How full the receive pools are.
    pub occupancy: Occupancy,
}

/// Counters of one connection. They are for people; the protocol does not use them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Statistics {
    /// Reliable packets sent for the first time.
    pub packets_sent: u64,
    /// Retransmissions caused by an EACK.
    pub retransmitted_early: u64,
    /// Retransmissions caused by the retransmission timer.
    pub retransmitted_timeout: u64,
    /// Retransmissions that the peer asked for, because its ULP was not ready (D-40).
    pub retransmitted_rnr: u64,
    /// Probes sent by RACK-TLP: the last packet again, after a time without acknowledgements.
    pub tail_probes: u64,
    /// Resync packets sent for the first time.
    pub resyncs_sent: u64,
    /// BACKs sent.
    pub backs_sent: u64,
    /// EACKs sent.
    pub eacks_sent: u64,
    /// NACKs sent.
    pub nacks_sent: u64,
    /// Packets with a base header that passed all checks up to the window.
    pub packets_received: u64,
    /// Duplicates received.
    pub duplicates: u64,
    /// Packets beyond the window.
    pub out_of_window: u64,
    /// Requests held for ordering or RNR.
    pub held: u64,
    /// ACKs and NACKs received and used.
    pub acks_received: u64,
    /// NACKs among them.
    pub nacks_received: u64,
    /// Payload bytes accepted as the target.
    pub bytes_received: u64,
    /// Packets that the security check refused.
    pub refused: SecurityDrops,
    /// Congestion events raised: handled in the datapath or queued.
    pub congestion_events: u64,
    /// Results applied.
    pub congestion_results: u64,
    /// Results that were not legal and had to be repaired.
    pub congestion_repairs: u64,
    /// Queued events whose result did not come in time.
    pub congestion_lost: u64,
    /// Times another path was chosen (D-80).
    pub path_changes: u64,
    /// Packets that waited for their departure time.
    pub paced: u64,
}

impl Statistics {
    /// Counts a Resync that takes the place of a request that was never sent.
    #[inline(always)]
    const fn resync_sent(&mut self) {
        self.packets_sent += 1;
        self.resyncs_sent += 1;
    }

    /// Returns the number of copies of packets that were sent after the first. Resyncs are not among them.
    pub const fn retransmissions(&self) -> u64 {
        self.retransmitted_early + self.retransmitted_timeout + self.retransmitted_rnr + self.tail_probes
    }
}

/// State per packet and per transaction, beside the context.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Zeroable)]
pub struct Tables {
    /// Packets, RACK-TLP, NACK generation.
    pub delivery: DeliveryTables,
    /// Our transactions by RSN.
    pub transactions: [Transaction; TRANSACTIONS],
    /// The peer's unfinished requests: by RSN (ordered) or by window and PSN (unordered).
    pub requests: [TargetRequest; TRANSACTIONS],
    /// Responses that are not acknowledged yet, a ring.
    pub responses: Responses<Answer>,
    /// Counters for people.
    pub statistics: Statistics,
    /// Steps recorded (see [`tape`](crate::tape)).
    pub steps: u64,
}

/// The bytes of a [`Tables`] in a file. Any bytes are valid.
#[repr(C)]
#[derive(Clone, Copy, Debug, Zeroable)]
pub struct TablesBits {
    delivery: <DeliveryTables as CheckedBitPattern>::Bits,
    transactions: [<Transaction as CheckedBitPattern>::Bits; TRANSACTIONS],
    requests: [<TargetRequest as CheckedBitPattern>::Bits; TRANSACTIONS],
    responses: [<Response<Answer> as CheckedBitPattern>::Bits; RESPONSES],
    statistics: Statistics,
    steps: u64,
}

// bytemuck derives nothing for arrays of types that are not `Pod`.

// SAFETY: no field has padding. The size assertion at the end of this file proves that there is none between the
// fields.
unsafe impl NoUninit for Tables {}
// SAFETY: all fields take any bytes.
unsafe impl AnyBitPattern for TablesBits {}
// SAFETY: both types have the same layout, field by field. A value is valid if its fields with invalid values are
// valid.
unsafe impl CheckedBitPattern for Tables {
    type Bits = TablesBits;

    fn is_valid_bit_pattern(bits: &TablesBits) -> bool {
        DeliveryTables::is_valid_bit_pattern(&bits.delivery)
            && bits.transactions.iter().all(Transaction::is_valid_bit_pattern)
            && bits.requests.iter().all(TargetRequest::is_valid_bit_pattern)
            && bits.responses.iter().all(Response::<Answer>::is_valid_bit_pattern)
    }
}

const _: () = {
    let requests = TRANSACTIONS * (size_of::<Transaction>() + size_of::<TargetRequest>());
    let parts =
        size_of::<DeliveryTables>() + requests + size_of::<Responses<Answer>>() + size_of::<Statistics>() + 8;
    assert!(size_of::<Tables>() == parts && size_of::<TablesBits>() == parts);
    assert!(size_of::<Response<Answer>>() == 8 + size_of::<Answer>() && align_of::<Answer>() == 8);
    assert!(size_of::<Connection>() <= 1024);
};
