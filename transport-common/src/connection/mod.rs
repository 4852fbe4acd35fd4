//! The connection context: one `repr(C)` struct, sections by sublayer, and the tables beside it.
//!
//! [`Connection`] is what a card would keep hot for every connection; [`Tables`] holds what is needed per
//! outstanding packet or transaction. Both live in one map value behind one lock. Zero bytes are a valid,
//! closed connection.

mod congestion_step;
pub mod exchange;
mod receive_step;
mod reply;
mod transmit_step;

use crate::bitmap::Bitmap128;
use crate::congestion::algorithm::EngineState;
use crate::congestion::nic_time::NicTime;
use crate::congestion::settings::Settings;
use crate::ids::{Cid, Psn, Rsn, Spi};
use crate::packet_delivery::{AckState, ReceiveWindow, TransmitWindow, TxPacket};
use crate::transaction::{Initiator, Response, Target, TargetRequest, Transaction};
use crate::units::{FalconTime, Fcwnd, Picoseconds, Ticks};

pub use exchange::Exchange;
pub use receive_step::INITIAL_HOP_LIMIT;

/// Life of a connection ([`Connection::state`], `QueuePair::state`).
pub mod state {
    /// Not in use: packets for it are dropped silently (D-50).
    pub const CLOSED: u32 = 0;
    /// Alive.
    pub const OPEN: u32 = 1;
    /// Packet delivery gave up (F-11-6): every outstanding transaction completes in error.
    pub const FATAL: u32 = 2;
    /// Closed by either end: outstanding transactions complete with `DeadConn`.
    pub const CLOSING: u32 = 3;
}

/// Largest transmit and receive window for Pull Requests, packets (F-9-1).
pub const REQUEST_WINDOW: u32 = 64;
/// Largest transmit and receive window for Push and Pull Data, packets (F-9-1).
pub const DATA_WINDOW: u32 = 128;
/// Outstanding transactions an initiator keeps, and requests a target can hold for ordering.
pub const TRANSACTIONS: usize = 256;
/// Pull responses a target keeps until they are acknowledged.
pub const RESPONSES: usize = 128;
/// Entries of a packet table, both windows.
pub const PACKETS: usize = 128;

/// Where packets of this connection go and come from.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Own address; IPv4 in the first 4 bytes.
    pub source: [u8; 16],
    /// Peer's address; IPv4 in the first 4 bytes.
    pub destination: [u8; 16],
    /// Own MAC address.
    pub source_mac: [u8; 6],
    /// Next hop's MAC address.
    pub destination_mac: [u8; 6],
    /// UDP source port: path entropy on IPv4 (D-10, D-80).
    pub source_port: u16,
    /// 4 or 6.
    pub ip_version: u8,
    /// 1 when frames carry `vlan_tci`.
    pub vlan: u8,
    /// 802.1Q tag control information.
    pub vlan_tci: u16,
    /// 0.
    pub reserved: u16,
    /// IPv6 flow label: path entropy on IPv6 (D-80).
    pub flow_label: u32,
}

/// What the connection manager fixes at setup.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Addresses.
    pub path: Path,
    /// What the peer writes into packets to us.
    pub local_cid: Cid,
    /// What we write into packets to the peer.
    pub peer_cid: Cid,
    /// Destination function expected in packets to us (D-15).
    pub local_function: u32,
    /// Destination function written into packets to the peer.
    pub peer_function: u32,
    /// 1: requests are delivered and completed in RSN order (F-5-1).
    pub ordered: u8,
    /// 1: a UDP checksum is sent (D-91).
    pub checksum: u8,
    /// RNR timeout code sent when no receive is posted (F-7.8-9).
    pub rnr_timeout_code: u8,
    /// Percent of packets with AR above the threshold (F-9.1.3.1-2).
    pub ack_request_percent: u8,
    /// AR on every packet while fcwnd is at or below this many packets (F-9.1.3.1-2).
    pub ack_request_threshold: u32,
    /// Out-of-order distance of early retransmission (F-9.1.4-1).
    pub ooo_threshold: u32,
    /// Timeout retransmissions before a Resync, and Resync retransmissions before the end (D-46).
    pub max_retransmit_attempts: u32,
    /// Coalescing time of acknowledgements.
    pub ack_coalescing: Ticks,
    /// A transaction that did not complete for this long completes `LocalTO` (F-11-19).
    pub transaction_timeout: Ticks,
    /// Largest user data of one transaction, bytes.
    pub max_segment: u32,
    /// Weight of a new value in the smoothed occupancy of the receive pools, in 1/256; 0 stands for 256, which does not
    /// smooth (F-10.2-2, D-61).
    pub occupancy_weight: u32,
    /// Requests held for the ULP at which the packet pool counts as full; the thresholds of the 32 levels divide what
    /// lies below evenly (F-10.2-3, D-76). 0 stands for all that a connection can hold.
    pub full_packet_pool: u16,
    /// Receive cells of the node in use at which the buffer pool counts as full, likewise. 0 stands for all there are.
    pub full_buffer_pool: u16,
    /// Replay protection margin in picoseconds (F-9.2.1-7).
    pub replay_margin: u64,
}

/// Security state of a connection (section 9.2.1).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Newest IV accepted (F-9.2.1-5).
    pub remote_time: u64,
    /// Last IV assigned; the next is larger (D-12).
    pub last_iv: u64,
    /// SPI written into packets to the peer.
    pub tx_spi: Spi,
    /// SPI expected in packets to us; 0 rejects everything (F-9.2.2.3-8).
    pub rx_spi: Spi,
    /// PSP version on this connection; 15 is plaintext (D-83).
    pub version: u8,
    /// 0 until `remote_time` has a value (D-87).
    pub remote_time_known: u8,
    /// 0.
    pub reserved: [u8; 6],
}

/// What the receiver reports about the forward path (F-10.1-5, D-13).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReport {
    /// T1 of the last packet: its IV in ticks.
    pub t1: u32,
    /// T2 of the last packet: local time in ticks.
    pub t2: u32,
    /// Packets with congestion experienced, modulo 2^14 (D-14).
    pub ecn_count: u16,
    /// Forward hops of the last packet, at most 15 (D-14).
    pub forward_hops: u8,
    /// Occupancy level of the receive pools, 0..31.
    pub rx_buffer_level: u8,
}

/// Windows and timeouts as the rate update engine sets them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Congestion {
    /// Fabric window.
    pub fcwnd: Fcwnd,
    /// NIC window, packets.
    pub ncwnd: u32,
    /// Retransmission timeout.
    pub rto: Ticks,
    /// Round trip time of the last acknowledgement.
    pub rtt: Ticks,
    /// Smallest round trip time seen; 0 before the first.
    pub min_rtt: Ticks,
    /// Error accumulator of the AR fraction (D-81).
    pub ack_request_credit: u32,
    /// Inter-packet gap while the fabric window is below 1, units of 512 ns (F-10.6.2.1-7).
    pub inter_packet_gap: u32,
    /// See [`Event`](crate::congestion::event::Event).
    pub fabric_window_time_marker: NicTime,
    /// See [`Event`](crate::congestion::event::Event).
    pub nic_window_time_marker: NicTime,
    /// Target delay before scaling (D-77).
    pub base_delay_target: Ticks,
    /// Smoothed delay, kept for the engine.
    pub delay_state: Ticks,
    /// Smoothed RTT, kept for the engine.
    pub rtt_state: Ticks,
    /// What ACK and NACK tell the peer's engine (D-07).
    pub cc_metadata: u32,
    /// When the last event was raised.
    pub last_event: FalconTime,
    /// Packets acknowledged since then, saturating at 1023 (D-75).
    pub packets_acked: u16,
    /// See [`Direction`](crate::congestion::event::Direction).
    pub ncwnd_direction: u8,
    /// Delay the engine is to look at.
    pub delay_select: u8,
    /// The engine's own.
    pub cc_opaque: u8,
    /// 1: an event waits for its result (D-73).
    pub outstanding: u8,
    /// 1: the next packet had to wait for its departure.
    pub waited: u8,
    /// 0.
    pub reserved: u8,
    /// When the last reliable packet left, picoseconds; with a gap, when it was due at the earliest (D-63).
    pub last_departure: u64,
    /// State of the algorithm that the queues do not carry.
    pub engine: EngineState,
    /// Full, fabric, forward and reverse delay (F-10.1-3, F-10.1-4).
    pub delays: [DelayRecord; 4],
    /// When the window of the smallest delays began.
    pub delays_since: FalconTime,
    /// T1 of the last acknowledgement: an RNR NACK that repeats it measures nothing new.
    pub last_t1: FalconTime,
}

/// One of the four delays, as people want to see it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayRecord {
    /// Of the last acknowledgement.
    pub last: Ticks,
    /// Smoothed with a weight of 1/8.
    pub smoothed: Ticks,
    /// Smallest in the current window of about a second.
    pub smallest: Ticks,
    /// Smallest in the window before.
    pub smallest_before: Ticks,
}

impl DelayRecord {
    /// Smallest delay of the last one to two windows.
    pub fn windowed_minimum(&self) -> Ticks {
        self.smallest.min(self.smallest_before)
    }
}

/// Deadlines of a connection; each is valid while its bit in `armed` is set.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// See [`timer`].
    pub armed: u32,
    /// Earliest retransmission timeout, a lower bound.
    pub retransmit: u32,
    /// Coalesced acknowledgement due.
    pub coalescing: u32,
    /// Redelivery after RNR (D-43).
    pub rnr: u32,
    /// Oldest transaction times out.
    pub transaction: u32,
    /// Deadline filed with the timing wheel, valid with [`timer::FILED`].
    pub filed: u32,
    /// Next departure while pacing.
    pub pacing: u32,
    /// 0.
    pub reserved: u32,
}

/// Bits of [`Timers::armed`].
pub mod timer {
    /// Retransmission.
    pub const RETRANSMIT: u32 = 1;
    /// ACK coalescing.
    pub const COALESCING: u32 = 2;
    /// RNR redelivery.
    pub const RNR: u32 = 4;
    /// Transaction timeout.
    pub const TRANSACTION: u32 = 8;
    /// The connection stands in the timing wheel.
    pub const FILED: u32 = 16;
    /// A packet waits for its departure (F-10.3.5-1).
    pub const PACING: u32 = 32;
}

/// The connection context.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// See [`state`].
    pub state: u32,
    /// Counts incarnations of the slot.
    pub generation: u32,
    /// Fixed at setup.
    pub config: Config,
    /// SPI and replay state.
    pub security: Security,
    /// Measurements for the peer.
    pub report: PathReport,
    /// Transactions we started.
    pub initiator: Initiator,
    /// Windows and timeouts.
    pub congestion: Congestion,
    /// Transmit side of the request window.
    pub request_tx: TransmitWindow,
    /// Transmit side of the data window.
    pub data_tx: TransmitWindow,
    /// Receive side of the request window.
    pub request_rx: ReceiveWindow,
    /// Receive side of the data window.
    pub data_rx: ReceiveWindow,
    /// Acknowledgement generation.
    pub ack: AckState,
    /// Transactions the peer started.
    pub target: Target,
    /// Deadlines.
    pub timers: Timers,
}

/// Counts of one connection, for people.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Reliable packets sent for the first time.
    pub packets_sent: u64,
    /// Copies caused by an EACK.
    pub retransmitted_early: u64,
    /// Copies caused by the retransmission timer.
    pub retransmitted_timeout: u64,
    /// Resync packets sent for the first time.
    pub resyncs_sent: u64,
    /// BACKs sent.
    pub backs_sent: u64,
    /// EACKs sent.
    pub eacks_sent: u64,
    /// NACKs sent.
    pub nacks_sent: u64,
    /// Base-header packets that passed all checks up to the window.
    pub packets_received: u64,
    /// Duplicates received.
    pub duplicates: u64,
    /// Packets beyond the window.
    pub out_of_window: u64,
    /// Requests held for ordering or RNR.
    pub held: u64,
    /// ACKs and NACKs received and used.
    pub acks_received: u64,
    /// NACKs received and used.
    pub nacks_received: u64,
    /// Payload bytes accepted as target.
    pub bytes_received: u64,
    /// Transactions completed to the application.
    pub completions: u64,
    /// SPI or replay failures.
    pub security_drops: u64,
    /// Congestion events raised: handled in the datapath, or queued.
    pub congestion_events: u64,
    /// Results applied.
    pub congestion_results: u64,
    /// Results that were not legal and had to be repaired.
    pub congestion_repairs: u64,
    /// Queued events whose result did not come in time.
    pub congestion_lost: u64,
    /// Times another path was chosen (D-80).
    pub path_changes: u64,
    /// Packets that waited for their departure.
    pub paced: u64,
}

/// Per-packet and per-transaction state beside the context.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Outstanding Pull Requests by PSN.
    pub request_packets: [TxPacket; PACKETS],
    /// Outstanding Push and Pull Data by PSN.
    pub data_packets: [TxPacket; PACKETS],
    /// Our transactions by RSN.
    pub transactions: [Transaction; TRANSACTIONS],
    /// The peer's requests that are not finished: by RSN (ordered) or PSN (unordered).
    pub requests: [TargetRequest; TRANSACTIONS],
    /// Responses not yet acknowledged, a ring.
    pub responses: [Response; RESPONSES],
    /// For people.
    pub statistics: Statistics,
    /// Steps recorded (see [`tape`](crate::tape)).
    pub steps: u64,
}

/// What stands in the connection map behind the lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The context.
    pub connection: Connection,
    /// The tables.
    pub tables: Tables,
}

/// What both ends have to agree on, and the tuning of this end: the input of [`Entry::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// See [`Config`].
    pub config: Config,
    /// PSP version, 15 for plaintext.
    pub psp_version: u8,
    /// SPI of packets we send.
    pub tx_spi: Spi,
    /// SPI of packets we receive.
    pub rx_spi: Spi,
    /// Initial Remote Time, or none (D-87).
    pub remote_time: Option<u64>,
    /// First PSNs and RSN we send with (D-18).
    pub tx: Initial,
    /// First PSNs and RSN the peer sends with.
    pub rx: Initial,
    /// Request transmit window, 1..=64 packets.
    pub request_window: u32,
    /// Data transmit window, 1..=128 packets.
    pub data_window: u32,
    /// Initial fabric window.
    pub fcwnd: Fcwnd,
    /// Initial NIC window, packets.
    pub ncwnd: u32,
    /// Initial retransmission timeout.
    pub rto: Ticks,
    /// Congestion control; whoever opens the entry starts its queues with the same.
    pub settings: Settings,
}

/// What the engine's smoothed delay and RTT start from (D-78).
const INITIAL_DELAY: Ticks = Ticks::from_nanos(25_000);

/// Initial sequence numbers of one direction (D-18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Initial {
    /// First PSN of the request window.
    pub request_psn: Psn,
    /// First PSN of the data window.
    pub data_psn: Psn,
    /// First RSN.
    pub rsn: Rsn,
}

impl Entry {
    /// Brings an all-zero entry to life. Large, so it works in place.
    pub fn open(&mut self, p: &Parameters, generation: u32) {
        let c = &mut self.connection;
        c.state = state::OPEN;
        c.generation = generation;
        c.config = p.config;
        c.security = Security {
            remote_time: p.remote_time.unwrap_or(0),
            remote_time_known: p.remote_time.is_some() as u8,
            tx_spi: p.tx_spi,
            rx_spi: p.rx_spi,
            version: p.psp_version,
            ..Security::default()
        };
        let set = p.settings.prepared.parameters();
        c.congestion = Congestion {
            fcwnd: p.fcwnd,
            ncwnd: p.ncwnd,
            rto: p.rto,
            base_delay_target: set.base_delay_target,
            delay_select: set.delay_select as u8,
            delay_state: INITIAL_DELAY,
            rtt_state: INITIAL_DELAY,
            ..Congestion::default()
        };
        c.request_tx = TransmitWindow::new(p.tx.request_psn, p.request_window);
        c.data_tx = TransmitWindow::new(p.tx.data_psn, p.data_window);
        c.request_rx = ReceiveWindow::new(p.rx.request_psn, REQUEST_WINDOW);
        c.data_rx = ReceiveWindow::new(p.rx.data_psn, DATA_WINDOW);
        c.initiator = Initiator::new(p.tx.rsn);
        c.target = Target::new(p.rx.rsn);
    }
}

impl Connection {
    /// The next IV: the clock, but always larger than the last one (D-12, D-90).
    #[inline(always)]
    pub fn next_iv(&mut self, now: Picoseconds) -> u64 {
        let last = self.security.last_iv;
        let iv = if (now.0.wrapping_sub(last) as i64) > 0 { now.0 } else { last.wrapping_add(1) };
        self.security.last_iv = iv;
        iv
    }

    /// Packets that may be outstanding per window by congestion control (D-27, D-28).
    #[inline(always)]
    pub fn fabric_window(&self) -> u32 {
        self.congestion.fcwnd.packets()
    }
}

/// Bits for which nothing is reported: piggybacked bases say it all (F-9.1.6-4).
#[inline(always)]
pub fn nothing_beyond_bases(c: &Connection) -> bool {
    c.request_rx.received.is_zero()
        && c.data_rx.received.is_zero()
        && c.data_rx.acknowledged.is_zero()
        && c.request_rx.own == 0
        && c.data_rx.own == 0
}

const _: () = {
    assert!(size_of::<Connection>() <= 1024);
    assert!(size_of::<Bitmap128>() == 16);
    assert!(align_of::<Entry>() == 8);
};
