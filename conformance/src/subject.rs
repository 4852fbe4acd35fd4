//! The peer under test, as the tester has to know it.

use std::time::Duration;

use transport_common::ids::{Cid, Psn, RKey, Rsn, Spi};
use transport_common::units::PicosecondSpan;

use crate::flow::Flow;

/// First sequence numbers of one direction (D-18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// First PSN of the request window.
    pub request_psn: Psn,
    /// First PSN of the data window.
    pub data_psn: Psn,
    /// First RSN.
    pub rsn: Rsn,
}

/// A static connection to the peer. All fields are from the tester's point of view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Addresses and ports.
    pub flow: Flow,
    /// CID that the peer writes into its packets.
    pub local_cid: Cid,
    /// CID that the tester writes into its packets.
    pub peer_cid: Cid,
    /// Destination function that the peer writes into its packets (D-15).
    pub local_function: u32,
    /// Destination function that the tester writes into its packets.
    pub peer_function: u32,
    /// Whether the connection is ordered.
    pub ordered: bool,
    /// SPI of the tester's packets.
    pub tx_spi: Spi,
    /// SPI of the peer's packets.
    pub rx_spi: Spi,
    /// First sequence numbers of the tester's packets.
    pub tx: Start,
    /// First sequence numbers of the peer's packets.
    pub rx: Start,
    /// A region of the peer that allows WRITE, READ and atomics. The tester overwrites its first
    /// [`REGION_BYTES`].
    pub rkey: RKey,
    /// What is known about the peer's configuration.
    pub settings: Settings,
}

/// What the user says about the peer's configuration. The wire does not show these values, so a check that needs
/// one of them is skipped if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The fabric window in packets, if it is constant.
    pub fcwnd: Option<u32>,
    /// The NIC window in packets, if it is constant.
    pub ncwnd: Option<u32>,
    /// How often the peer retransmits a packet by timeout before it gives the packet up.
    pub attempts: Option<u32>,
    /// How long a transaction may take before the peer ends it with an error (F-11-19).
    pub transaction_timeout: Option<Duration>,
    /// The fabric window up to which every packet has AR.
    pub ack_request_threshold: Option<u32>,
    /// Percent of the packets that have AR if the fabric window is larger.
    pub ack_request_percent: Option<u32>,
}

/// Bytes of the peer's region that the tester uses.
pub const REGION_BYTES: u64 = 4096;

/// How long the tester waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a packet that the peer has to send.
    pub answer: PicosecondSpan,
    /// For the first packet of an operation that the peer was asked to submit.
    pub start: PicosecondSpan,
    /// Until the tester concludes that the peer does not send a packet. It has to be longer than the peer's
    /// coalescing time and the round trip.
    pub silence: PicosecondSpan,
}

impl Patience {
    /// Returns these times.
    pub fn new(answer: Duration, start: Duration, silence: Duration) -> Self {
        let span = |time: Duration| PicosecondSpan::from_nanos(time.as_nanos() as u64);
        Self { answer: span(answer), start: span(start), silence: span(silence) }
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: PicosecondSpan::from_nanos(3_000_000_000),
            start: PicosecondSpan::from_nanos(3_000_000_000),
            silence: PicosecondSpan::from_nanos(50_000_000),
        }
    }
}
