//! The connection context. This is the one place that composes the parts of a connection: for example, it passes
//! the findings of packet delivery to the transaction sublayer.
//!
//! [`Connection`] is what a card keeps in fast memory for every connection. [`Tables`] holds the state per
//! outstanding packet or transaction. Both are in one map value behind one lock. Zero bytes are a valid, closed
//! connection.
//!
//! | step of [`Entry`] | when |
//! |---|---|
//! | [`on_packet`](Entry::on_packet) | a packet arrived |
//! | [`on_work_done`](Entry::on_work_done) | the work that the step requested is done, in the same lock hold |
//! | [`on_service`](Entry::on_service) | the engine services the connection |
//! | [`on_held`](Entry::on_held) | the payload of a held request is in a frame again |
//! | [`not_sent`](Entry::not_sent) | a packet that was booked could not be built |
//! | [`denied`](Entry::denied) | the local key of a request to send gives no access to its buffer |

mod acknowledgement;
mod application;
mod congestion;
mod outgoing;
mod parameters;
mod path;
mod receive;
mod requests;
mod sender;
mod service;
mod step;

use crate::congestion::control::Congestion;
use crate::congestion::control::Start;
use crate::congestion::settings::CurrentSettings;
use crate::ids::Cid;
use crate::packet_delivery::{DeliveryTables, Lane, PacketDelivery, ReceiveWindow, TransmitWindow, Tuning};
use crate::resources::Occupancy;
use crate::security::{Security, SecurityDrops};
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

/// The connection context.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct Connection {
    /// Life cycle.
    pub state: State,
    /// Counts how often the slot was opened.
    pub generation: u32,
    /// The two ends.
    pub endpoint: Endpoint,
    /// SPI and replay state.
    pub security: Security,
    /// Windows, acknowledgements, retransmission.
    pub delivery: PacketDelivery,
    /// Transactions we started.
    pub initiator: Initiator,
    /// Transactions the peer started.
    pub target: Target,
    /// State of the ULP for the peer's transactions.
    pub responder: Responder,
    /// Windows and timeouts.
    pub congestion: Congestion,
    /// How full the receive pools are.
    pub occupancy: Occupancy,
    /// State of the service by the engine.
    pub service: Service,
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

/// One value of the connection map, behind the lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, CheckedBitPattern, NoUninit, Zeroable)]
pub struct Entry {
    /// The context.
    pub connection: Connection,
    /// The tables.
    pub tables: Tables,
    /// Settings of congestion control. The node requests others.
    pub settings: CurrentSettings,
}

impl Entry {
    /// Opens the connection in an all-zero entry. Works in place, because an entry is large.
    pub fn open(&mut self, p: &Parameters, generation: u32) {
        let (c, config) = (&mut self.connection, &p.config);
        let ordered = config.ordered != 0;
        c.state = State::Open;
        c.generation = generation;
        c.endpoint = Endpoint {
            path: config.path,
            local_cid: config.local_cid,
            peer_cid: config.peer_cid,
            local_function: config.local_function,
            peer_function: config.peer_function,
            max_segment: config.max_segment,
            checksum: config.checksum.into(),
            protocol: config.protocol,
            reserved: 0,
        };
        c.security = Security {
            replay_margin: config.replay_margin,
            peer: config.path.peer(),
            inner_version: config.path.inner_version,
            tunnel: config.tunnel,
            tx_spi: p.tx_spi,
            rx_spi: p.rx_spi,
            version: p.psp_version,
            ..Security::default()
        };
        if let Some(time) = p.remote_time {
            c.security.know_clock(time);
        }
        c.delivery = PacketDelivery {
            lanes: [
                Lane {
                    tx: TransmitWindow::new(p.tx.data_psn, p.data_window),
                    rx: ReceiveWindow::new(p.rx.data_psn, DATA_WINDOW),
                },
                Lane {
                    tx: TransmitWindow::new(p.tx.request_psn, p.request_window),
                    rx: ReceiveWindow::new(p.rx.request_psn, REQUEST_WINDOW),
                },
            ],
            tuning: Tuning {
                ack_coalescing: config.ack_coalescing,
                ack_request_threshold: config.ack_request_threshold,
                ack_request_percent: config.ack_request_percent.into(),
                ooo_threshold: config.ooo_threshold,
                max_retransmit_attempts: config.max_retransmit_attempts,
                ordered: ordered.into(),
                rack_tlp: config.rack_tlp.into(),
            },
            ..PacketDelivery::default()
        };
        c.initiator = Initiator::new(p.tx.rsn, ordered, config.transaction_timeout);
        c.target = Target::new(p.rx.rsn, ordered, config.rnr_timeout_code);
        let max_answer = if config.max_answer == 0 { config.max_segment } else { config.max_answer };
        c.responder = Responder::new(max_answer, ordered, config.domain);
        self.settings = CurrentSettings::new(p.settings);
        c.congestion = Congestion::new(Start { fcwnd: p.fcwnd, ncwnd: p.ncwnd, rto: p.rto }, &p.settings);
        c.occupancy =
            Occupancy::new(config.occupancy_weight, config.full_packet_pool, config.full_buffer_pool);
        c.service = Service::default();
    }
}

const _: () = {
    let requests = TRANSACTIONS * (size_of::<Transaction>() + size_of::<TargetRequest>());
    let parts =
        size_of::<DeliveryTables>() + requests + size_of::<Responses<Answer>>() + size_of::<Statistics>() + 8;
    assert!(size_of::<Tables>() == parts && size_of::<TablesBits>() == parts);
    assert!(size_of::<Response<Answer>>() == 8 + size_of::<Answer>() && align_of::<Answer>() == 8);
    assert!(size_of::<Connection>() <= 1024);
    assert!(align_of::<Entry>() == 8);
};
