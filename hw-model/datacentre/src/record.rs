//! What was seen in the course of a run.

use fabric_model::{Span, Time};
use transport_common::units::{Fcwnd, Ticks};

/// A connection at the instant of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSample {
    /// Fabric window.
    pub fcwnd: Fcwnd,
    /// NIC window, packets.
    pub ncwnd: u32,
    /// Round trip time of the last acknowledgement, as the sender measured it.
    pub rtt: Ticks,
    /// Fabric delay (F-10.1-3) of the acknowledgements since the last sample, seen on the wire: the mean,
    pub mean_delay: Option<Span>,
    /// and the greatest; none if there was no acknowledgement.
    pub greatest_delay: Option<Span>,
    /// Bytes of user data placed at the receiver since the beginning.
    pub received: u64,
    /// Copies sent since the beginning because of an EACK,
    pub retransmitted_early: u64,
    /// and because of the retransmission timer.
    pub retransmitted_timeout: u64,
    /// UDP source port or IPv6 flow label of the sender's packets.
    pub entropy: u32,
    /// False once packet delivery gave up (F-11-6).
    pub alive: bool,
}

/// A packet with data or a request that a card let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketDeparture {
    /// The beginning of the engine's turn that it came of, which is its IV.
    pub at: Time,
    /// The gap behind the packet before as in force then, in units of 512 ns; 0 if packets were not paced.
    pub inter_packet_gap: u32,
}

/// Samples at equal distances in time, all lists of which are of the same length, and departures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When each sample was taken.
    pub times: Vec<Time>,
    /// By flow.
    pub flows: Vec<Vec<FlowSample>>,
    /// Bytes in the queues that were to be watched, in the order of the plan.
    pub queues: Vec<Vec<u64>>,
    /// Bytes in the receive buffers of the hosts with a slow ULP, by port.
    pub buffers: Vec<Vec<u64>>,
    /// Departures of each flow, if the plan asks for them.
    pub departures: Vec<Vec<PacketDeparture>>,
}
