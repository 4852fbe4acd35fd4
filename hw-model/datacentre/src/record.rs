//! The samples and departures that a run records.

use fabric_model::{Span, Time};
use transport_common::units::{Fcwnd, InterPacketGap, Ticks};

/// The state of a connection at the time of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSample {
    /// Fabric window.
    pub fcwnd: Fcwnd,
    /// NIC window in packets.
    pub ncwnd: u32,
    /// Round trip time of the last acknowledgement, as the sender measured it.
    pub rtt: Ticks,
    /// Mean fabric delay (F-10.1-3) of the acknowledgements since the last sample, measured on the wire. `None` if
    /// there was no acknowledgement.
    pub mean_delay: Option<Span>,
    /// Largest fabric delay of the same acknowledgements. `None` if there was no acknowledgement.
    pub greatest_delay: Option<Span>,
    /// Bytes of user data placed at the receiver since the start.
    pub received: u64,
    /// Copies of packets since the start, for every reason.
    pub retransmissions: u64,
    /// Copies because of an EACK.
    pub retransmitted_early: u64,
    /// Copies because of the retransmission timer.
    pub retransmitted_timeout: u64,
    /// Copies as tail probes of RACK-TLP.
    pub tail_probes: u64,
    /// UDP source port or IPv6 flow label of the sender's packets.
    pub entropy: u32,
    /// False after packet delivery has given up on the connection (F-11-6).
    pub alive: bool,
}

/// The departure of a packet with data or a request from a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketDeparture {
    /// The start of the engine service that made the packet. The packet's IV has the same value.
    pub at: Time,
    /// The inter-packet gap of the connection at that time. 0 if packets were not paced.
    pub inter_packet_gap: InterPacketGap,
}

/// Samples at equal intervals, and departures. All lists of samples have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When each sample was taken.
    pub times: Vec<Time>,
    /// The samples of each flow.
    pub flows: Vec<Vec<FlowSample>>,
    /// Bytes in the watched queues, in the order of the plan.
    pub queues: Vec<Vec<u64>>,
    /// Bytes in the receive buffers of the hosts with a slow ULP, in the order of their ports.
    pub buffers: Vec<Vec<u64>>,
    /// Departures of each flow, if the plan asks for them.
    pub departures: Vec<Vec<PacketDeparture>>,
}
