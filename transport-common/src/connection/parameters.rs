//! The parameters that open a connection.

use super::path::Path;
use crate::congestion::algorithm::AlgorithmId;
use crate::congestion::queues::EVENT_QUEUES;
use crate::congestion::settings::{Placement, Settings};
use crate::ids::{Cid, Psn, Rsn, Spi};
use crate::limits;
use crate::memory::Domain;
use crate::security::{RemoteTime, Tunnel};
use crate::ulp::Protocol;
use crate::units::{Fcwnd, PicosecondSpan, Ticks};

/// What the connection manager fixes at setup. [`Snapshot::open`](super::Snapshot::open) copies each part to its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Addresses.
    pub path: Path,
    /// Inner addresses, if `path.inner_version` is not 0 (F-7.1.2-1).
    pub tunnel: Tunnel,
    /// Destination CID in packets to us.
    pub local_cid: Cid,
    /// Destination CID in packets to the peer.
    pub peer_cid: Cid,
    /// Destination function expected in packets to us (D-15).
    pub local_function: u32,
    /// Destination function written into packets to the peer.
    pub peer_function: u32,
    /// 1: requests are delivered and completed in RSN order (F-5-1).
    pub ordered: u8,
    /// 1: packets carry a UDP checksum (D-91).
    pub checksum: u8,
    /// The ULP of both ends (F-7.2-6).
    pub protocol: Protocol,
    /// RNR timeout code to send when no receive is posted (F-7.8-9).
    pub rnr_timeout_code: u8,
    /// Percent of packets that carry AR while fcwnd is above the threshold (F-9.1.3.1-2).
    pub ack_request_percent: u8,
    /// Every packet carries AR while fcwnd is at or below this many packets (F-9.1.3.1-2).
    pub ack_request_threshold: u32,
    /// 1: the RACK-TLP extension is on, at both ends (F-9.1.6-9).
    pub rack_tlp: u8,
    /// Out-of-order distance of early retransmission (F-9.1.4-1).
    pub ooo_threshold: u32,
    /// Timeout retransmissions before a Resync. Also the retransmissions of the Resync before the connection fails
    /// (D-46).
    pub max_retransmit_attempts: u32,
    /// Coalescing time of acknowledgements.
    pub ack_coalescing: Ticks,
    /// A transaction that is not completed after this time completes with `LocalTO` (F-11-19).
    pub transaction_timeout: Ticks,
    /// Largest user data of one of our transactions, bytes.
    pub max_segment: u32,
    /// Largest user data in our response to a READ of the peer, bytes: what one Pull Data holds. 0 stands for
    /// `max_segment`.
    pub max_answer: u32,
    /// What the application of this end may use. No operation reaches beyond it.
    pub domain: Domain,
    /// Weight of a new value in the smoothed occupancy of the receive pools, in 1/256. 0 stands for 256: no
    /// smoothing (F-10.2-2, D-61).
    pub occupancy_weight: u32,
    /// Number of requests held for the ULP at which the packet pool counts as full. The thresholds of the 32
    /// levels divide the range below it evenly (F-10.2-3, D-76). 0 stands for all that a connection can hold.
    pub full_packet_pool: u16,
    /// Number of the node's receive cells in use at which the buffer pool counts as full, with the same levels. 0
    /// stands for all cells.
    pub full_buffer_pool: u16,
    /// Replay protection margin (F-9.2.1-7).
    pub replay_margin: PicosecondSpan,
}

/// The values that both ends have to agree on, and the tuning of this end: the input of
/// [`Snapshot::open`](super::Snapshot::open).
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
    /// The peer's clock as known before its first packet, or none (D-87).
    pub remote_time: Option<RemoteTime>,
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
    /// Congestion control settings. The code that opens the entry gives the same settings to its queues.
    pub settings: Settings,
}

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

impl Parameters {
    /// Checks whether the numbers are in range. The error names the first one that is not.
    ///
    /// # Errors
    /// The name of the field and its range.
    pub fn check(&self) -> Result<(), &'static str> {
        let c = &self.config;
        let checks = [
            (limits::REQUEST_WINDOW.contains(self.request_window.into()), "request_window: 1 to 64 packets"),
            (limits::DATA_WINDOW.contains(self.data_window.into()), "data_window: 1 to 128 packets"),
            (self.config.local_cid.0 <= Cid::MAX, "local_cid: 24 bits"),
            (self.config.peer_cid.0 <= Cid::MAX, "peer_cid: 24 bits"),
            (limits::NCWND.contains(self.ncwnd.into()), "ncwnd: 1 to 2047 packets"),
            (limits::FCWND.contains(self.fcwnd.0.into()), "fcwnd: 1/1024 to 2047.999 packets"),
            (limits::RTO.contains_ticks(self.rto), "rto: 1 us to 2.199 s"),
            (limits::RNR_TIMEOUT_CODE.contains(c.rnr_timeout_code.into()), "rnr_timeout_code: 0 to 31"),
            (
                limits::ACK_REQUEST_PERCENT.contains(c.ack_request_percent.into()),
                "ack_request_percent: 0 to 100",
            ),
            (limits::ACK_COALESCING.contains_ticks(c.ack_coalescing), "ack_coalescing: 0 to 1 s"),
            (
                limits::TRANSACTION_TIMEOUT.contains_ticks(c.transaction_timeout),
                "transaction_timeout: 1 us to 281 s",
            ),
            (self.config.max_segment >= 8, "max_segment: at least 8 bytes"),
            (
                limits::RETRANSMIT_ATTEMPTS.contains(c.max_retransmit_attempts.into()),
                "max_retransmit_attempts: 0 to 65535",
            ),
            (self.rx_spi.0 != 0, "rx_spi: not 0"),
            (matches!(c.path.inner_version, 0 | 4 | 6), "inner_version: 0, 4 or 6"),
            (self.settings.placement < Placement::ALL.len() as u32, "settings.placement: 0 to 2"),
            (self.settings.algorithm < AlgorithmId::ALL.len() as u32, "settings.algorithm: 0 to 3"),
            (self.settings.event_queue < EVENT_QUEUES as u32, "settings.event_queue: 0 to 3"),
        ];
        for (holds, message) in checks {
            if !holds {
                return Err(message);
            }
        }
        Ok(())
    }
}
