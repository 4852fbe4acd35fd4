//! The description of a data centre and of its flows.

use std::collections::BTreeMap;

use fabric_model::{ByteCount, Egress, FabricConfig, Rate, Span, Time, Topology};
use transport_common::congestion::settings::Settings;
use transport_common::connection::{Config, DATA_WINDOW, Initial, Parameters, Path, REQUEST_WINDOW};
use transport_common::ids::{Cid, Spi};
use transport_common::memory::Domain;
use transport_common::units::{Fcwnd, PicosecondSpan, Ticks};

/// Bytes of memory of a host. All peers write to it, and all flows read from it.
pub(super) const BUFFER_BYTES: u64 = 64 << 10;
/// First port of the range for path entropy (D-80).
pub const FIRST_ENTROPY_PORT: u16 = 49_152;

/// A ULP that takes data at a limited rate. Frames wait for it in the card's receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowUlp {
    /// The rate at which the ULP takes frames. Acknowledgements do not count.
    pub rate: Rate,
    /// Bytes of frames that can wait. Further frames are dropped.
    pub buffer: ByteCount,
}

/// The capabilities of a host's card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostModel {
    /// Rate of the wire.
    pub line_rate: Rate,
    /// Propagation delay of the cable to the switch. The fabric models the delay in the other direction.
    pub cable: Span,
    /// Time of one engine service. It starts when T1 is taken, and ends when the frame is ready. A service starts
    /// when the previous one has ended, and not so early that the wire is still busy at its end.
    pub engine_turn: Span,
    /// The rate limit of the ULP. With `None` the ULP takes all data at once.
    pub slow_ulp: Option<SlowUlp>,
}

impl Default for HostModel {
    /// Returns a card with 100 Gb/s, a cable of 1 us, 50 million engine services per second, and an unlimited ULP.
    fn default() -> Self {
        Self {
            line_rate: Rate::from_bits_per_second(100_000_000_000).expect("not zero"),
            cable: Span::from_micros(1),
            engine_turn: Span::from_nanos(20),
            slow_ulp: None,
        }
    }
}

/// Windows, timers and thresholds of both ends of a connection. D-78 gives the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Initial fabric window.
    pub fcwnd: Fcwnd,
    /// Initial NIC window in packets.
    pub ncwnd: u32,
    /// Initial retransmission timeout.
    pub rto: Ticks,
    /// Data transmit window in packets, 1 to 128 (D-27).
    pub data_window: u32,
    /// ACK coalescing time.
    pub ack_coalescing: Ticks,
    /// Every packet has the AR (ACK request) bit while fcwnd is at most this many packets (F-9.1.3.1-2).
    pub ack_request_threshold: u32,
    /// Percentage of packets with AR while fcwnd is above the threshold (D-81).
    pub ack_request_percent: u8,
    /// Out-of-order distance of early retransmission in packets (D-36).
    pub ooo_threshold: u32,
    /// True if the RACK-TLP extension is on (F-9.1.6-9).
    pub rack_tlp: bool,
    /// Number of timeout retransmissions before a Resync (D-46).
    pub max_retransmit_attempts: u32,
    /// True if requests are delivered in the order of their RSNs (F-5-1).
    pub ordered: bool,
    /// True if a UDP checksum is sent (D-91).
    pub checksum: bool,
    /// Maximum user data of one packet in bytes.
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
            rack_tlp: false,
            max_retransmit_attempts: 1000,
            ordered: false,
            checksum: false,
            segment: 3264,
            settings: Settings::CONSTANT,
        }
    }
}

impl Tuning {
    /// Returns the parameters with which one end of a connection is opened.
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
                rack_tlp: self.rack_tlp.into(),
                max_retransmit_attempts: self.max_retransmit_attempts,
                ack_coalescing: self.ack_coalescing,
                transaction_timeout: Ticks::from_nanos(30_000_000_000),
                max_segment: self.segment,
                domain: Domain::of_node(BUFFER_BYTES),
                replay_margin: PicosecondSpan::from_nanos(100_000_000),
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

/// Data that one host writes to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When the application posts it.
    pub at: Time,
    /// Its length. Use `u64::MAX` for an endless message.
    pub bytes: u64,
}

/// A connection, and the messages that it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// The host that writes.
    pub source: u16,
    /// The host it writes to.
    pub destination: u16,
    /// The messages, sorted by time. They are written one after another.
    pub messages: Vec<Message>,
    /// When the application stops posting.
    pub until: Time,
    /// UDP source port of the packets of both ends, or the flow label with IPv6. It decides the path.
    pub entropy: u16,
    /// IP version, 4 or 6.
    pub ip_version: u8,
    /// The parameters of the connection.
    pub tuning: Tuning,
}

impl FlowPlan {
    /// Creates a flow over IPv4 with default tuning.
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
    /// The hosts, switches and cables.
    pub topology: Topology,
    /// The behaviour of the links out of switches.
    pub fabric: FabricConfig,
    /// The capabilities of the hosts' cards.
    pub host: HostModel,
    /// Hosts with other capabilities, by port.
    pub hosts: BTreeMap<u16, HostModel>,
    /// The flows.
    pub flows: Vec<FlowPlan>,
    /// Interval of the samples in [`Record`](super::Record). Zero means no samples.
    pub sample_every: Span,
    /// Queues that are sampled.
    pub watch: Vec<Egress>,
    /// True if the departure of every packet with data or a request is recorded.
    pub record_departures: bool,
}

impl Plan {
    /// Creates a plan with default cards and no flows.
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
