//! What a data centre is made of, and what is asked of it.

use std::collections::BTreeMap;

use fabric_model::{ByteCount, Egress, FabricConfig, Rate, Span, Time, Topology};
use transport_common::congestion::settings::Settings;
use transport_common::connection::{Config, DATA_WINDOW, Initial, Parameters, Path, REQUEST_WINDOW};
use transport_common::ids::{Cid, Spi};
use transport_common::units::{Fcwnd, Ticks};

/// First port of the range that path entropy is drawn from (D-80).
pub const FIRST_ENTROPY_PORT: u16 = 49_152;

/// A ULP that takes data at a limited rate: what has arrived waits in the card's receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowUlp {
    /// Bytes of frames with payload it takes a second.
    pub rate: Rate,
    /// Bytes of such frames that can wait; the rest is dropped.
    pub buffer: ByteCount,
}

/// What a card is capable of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostModel {
    /// Rate of its wire.
    pub line_rate: Rate,
    /// Propagation delay of the cable to its switch; the way back is the fabric's.
    pub cable: Span,
    /// Time from the beginning of an engine's turn, when T1 is taken, to the end of the frame that comes of it. One
    /// turn begins when the one before has ended, and not before the wire will be free at its end.
    pub engine_turn: Span,
    /// `None` takes everything at once.
    pub slow_ulp: Option<SlowUlp>,
}

impl Default for HostModel {
    /// 100 Gb/s, 1 us, 50 million turns a second, all data taken at once.
    fn default() -> Self {
        Self {
            line_rate: Rate::from_bits_per_second(100_000_000_000).expect("not zero"),
            cable: Span::from_micros(1),
            engine_turn: Span::from_nanos(20),
            slow_ulp: None,
        }
    }
}

/// Windows, timers and thresholds of both ends of a connection; the defaults are D-78's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Initial fabric window.
    pub fcwnd: Fcwnd,
    /// Initial NIC window, packets.
    pub ncwnd: u32,
    /// Initial retransmission timeout.
    pub rto: Ticks,
    /// Data transmit window, packets: 1 to 128 (D-27).
    pub data_window: u32,
    /// ACK coalescing time.
    pub ack_coalescing: Ticks,
    /// AR on every packet while fcwnd is at or below this many packets (F-9.1.3.1-2).
    pub ack_request_threshold: u32,
    /// Percent of packets with AR above the threshold (D-81).
    pub ack_request_percent: u8,
    /// Out-of-order distance of early retransmission, packets (D-36).
    pub ooo_threshold: u32,
    /// Timeout retransmissions before a Resync (D-46).
    pub max_retransmit_attempts: u32,
    /// Whether requests are delivered in the order of their RSNs (F-5-1).
    pub ordered: bool,
    /// Whether a UDP checksum is sent (D-91).
    pub checksum: bool,
    /// User data of one packet, bytes.
    pub segment: u32,
    /// Congestion control.
    pub settings: Settings,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            fcwnd: Fcwnd::from_packets(32),
            ncwnd: 64,
            rto: Ticks::from_nanos(1_000_000),
            data_window: DATA_WINDOW,
            ack_coalescing: Ticks::from_nanos(8_000),
            ack_request_threshold: 2,
            ack_request_percent: 10,
            ooo_threshold: 3,
            max_retransmit_attempts: 1000,
            ordered: false,
            checksum: false,
            segment: 3264,
            settings: Settings::CONSTANT,
        }
    }
}

impl Tuning {
    /// What one end of a connection is opened with.
    pub(super) fn parameters(&self, path: Path, [local_cid, peer_cid]: [Cid; 2]) -> Parameters {
        Parameters {
            config: Config {
                path,
                local_cid,
                peer_cid,
                ordered: self.ordered.into(),
                checksum: self.checksum.into(),
                rnr_timeout_code: 14, // 1.28 ms
                ack_request_percent: self.ack_request_percent,
                ack_request_threshold: self.ack_request_threshold,
                ooo_threshold: self.ooo_threshold,
                max_retransmit_attempts: self.max_retransmit_attempts,
                ack_coalescing: self.ack_coalescing,
                transaction_timeout: Ticks::from_nanos(30_000_000_000),
                max_segment: self.segment,
                replay_margin: 100_000_000_000,
                ..Config::default()
            },
            psp_version: 15,
            tx_spi: Spi(1),
            rx_spi: Spi(1),
            remote_time: None,
            tx: Initial::default(),
            rx: Initial::default(),
            request_window: REQUEST_WINDOW,
            data_window: self.data_window,
            fcwnd: self.fcwnd,
            ncwnd: self.ncwnd,
            rto: self.rto,
            settings: self.settings,
        }
    }
}

/// Data to be written from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When the application posts it.
    pub at: Time,
    /// Its length; `u64::MAX` for more than there is time for.
    pub bytes: u64,
}

/// A connection, and what crosses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// The host that writes.
    pub source: u16,
    /// The host it writes to.
    pub destination: u16,
    /// What is written, one after another, in the order of their times.
    pub messages: Vec<Message>,
    /// When the application ceases to post.
    pub until: Time,
    /// UDP source port of both ends' packets, on IPv6 the flow label: which path they take.
    pub entropy: u16,
    /// 4 or 6.
    pub ip_version: u8,
    /// How the connection is opened.
    pub tuning: Tuning,
}

impl FlowPlan {
    /// Messages over IPv4 with default tuning.
    #[must_use]
    pub fn new(source: u16, destination: u16, messages: Vec<Message>) -> Self {
        Self {
            source,
            destination,
            messages,
            until: Time(u64::MAX),
            entropy: FIRST_ENTROPY_PORT,
            ip_version: 4,
            tuning: Tuning::default(),
        }
    }
}

/// A data centre and the flows in it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Who is joined to whom.
    pub topology: Topology,
    /// What the links out of switches do.
    pub fabric: FabricConfig,
    /// What the hosts' cards are capable of,
    pub host: HostModel,
    /// and those that differ, by port.
    pub hosts: BTreeMap<u16, HostModel>,
    /// What crosses it.
    pub flows: Vec<FlowPlan>,
    /// How often [`Record`](super::Record) takes a sample; zero for never.
    pub sample_every: Span,
    /// Queues that are sampled.
    pub watch: Vec<Egress>,
    /// Whether the departure of every packet with data or a request is recorded.
    pub record_departures: bool,
}

impl Plan {
    /// Hosts with default cards and no flows.
    #[must_use]
    pub fn new(topology: Topology, fabric: FabricConfig) -> Self {
        Self {
            topology,
            fabric,
            host: HostModel::default(),
            hosts: BTreeMap::new(),
            flows: vec![],
            sample_every: Span::ZERO,
            watch: vec![],
            record_departures: false,
        }
    }
}
