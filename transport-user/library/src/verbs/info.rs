//! Information about the regions and the connections of a node.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use transport_common::bitmap::Bitmap128;
use transport_common::congestion::control::Congestion;
use transport_common::connection::{RESPONSES, Snapshot, State};
use transport_common::ids::{Cid, RKey};
use transport_common::packet_delivery::{ReceiveWindow, TransmitWindow};
use transport_common::queues::{
    AccessFlags, COMPLETION_QUEUE_DEPTH, QueuePair, RECEIVE_QUEUE_DEPTH, SEND_QUEUE_DEPTH,
};
use transport_common::units::Fcwnd;

use crate::common::address::address_from;
use crate::common::mac::Mac;
use crate::congestion::{CongestionControl, CongestionInfo};
use crate::parameters::tunnel::Tunnel;
use crate::parameters::ulp::Ulp;
use crate::verbs::nic_time::DelaysInfo;
use crate::verbs::queue_pair::Occupancy;
use crate::verbs::statistics::ConnectionStatistics;

/// The rights of peers to a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Whether peers may READ.
    pub remote_read: bool,
    /// Whether peers may WRITE.
    pub remote_write: bool,
    /// Whether peers may perform atomics.
    pub remote_atomic: bool,
}

impl Access {
    /// Local use only.
    pub const LOCAL: Self = Self { remote_read: false, remote_write: false, remote_atomic: false };
    /// Every right.
    pub const ALL: Self = Self { remote_read: true, remote_write: true, remote_atomic: true };

    /// Returns the bits for the region table.
    pub fn flags(self) -> AccessFlags {
        // Registered memory is the application's: it may place data there.
        let mut flags = AccessFlags::LOCAL_WRITE;
        flags.set(AccessFlags::REMOTE_READ, self.remote_read);
        flags.set(AccessFlags::REMOTE_WRITE, self.remote_write);
        flags.set(AccessFlags::REMOTE_ATOMIC, self.remote_atomic);
        flags
    }
}

/// A registered memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionInfo {
    /// R_Key of the region.
    #[serde(with = "KeyNumber")]
    pub key: RKey,
    /// Length, bytes.
    pub length: u64,
    /// Offset of the first byte in the node's memory.
    pub offset: u64,
    /// Rights of peers.
    pub access: Access,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "RKey")]
struct KeyNumber(u32);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Cid")]
struct CidNumber(u32);

/// State of a connection.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::Display,
    num_enum::FromPrimitive,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[repr(u32)]
pub enum ConnectionState {
    /// The connection is no longer in use. Undefined values of the datapath are read as this state.
    #[default]
    Closed = State::Closed as u32,
    /// The connection is alive.
    Open = State::Open as u32,
    /// Packet delivery failed (F-11-6). The connection must be closed.
    Fatal = State::Fatal as u32,
    /// The connection is being closed: outstanding transactions complete with kCmplDeadConn.
    Closing = State::Closing as u32,
}

/// Transmit side of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransmitWindowInfo {
    /// Oldest unacknowledged PSN.
    pub base_psn: u32,
    /// Next PSN to assign.
    pub next_psn: u32,
    /// Size of the window, packets.
    pub size: u32,
    /// Packets in the window that are not acknowledged.
    pub unacknowledged: u32,
    /// Packets that wait for retransmission.
    pub to_retransmit: u32,
}

/// Receive side of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveWindowInfo {
    /// Oldest PSN not acknowledged.
    pub base_psn: u32,
    /// Packets received at or beyond the base.
    pub received: u32,
    /// Packets acknowledged beyond the base.
    pub acknowledged: u32,
}

/// The use of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueInfo {
    /// Entries in use.
    pub used: u32,
    /// Total number of entries.
    pub depth: u32,
}

/// The state of one connection in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionInfo {
    /// CID that the peer writes into packets to us.
    #[serde(with = "CidNumber")]
    pub local_cid: Cid,
    /// CID that we write into packets to the peer.
    #[serde(with = "CidNumber")]
    pub peer_cid: Cid,
    /// State of the connection.
    pub state: ConnectionState,
    /// Number of the connection among those that have used its slot.
    pub generation: u32,
    /// Whether requests keep the order of their RSNs.
    pub ordered: bool,
    /// Whether new requests of both ends are dropped (xLR, D-50).
    #[serde(default)]
    pub drops_requests: bool,
    /// Whether the RACK-TLP extension is on (F-9.1.6-9).
    #[serde(default)]
    pub rack_tlp: bool,
    /// The upper layer protocol.
    pub ulp: Ulp,
    /// The inner addresses in tunnel mode; absent in transport mode (F-7.1.2-1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// The peer's address.
    pub peer_address: IpAddr,
    /// MAC address of the next hop.
    pub peer_mac: Mac,
    /// UDP source port: path entropy on IPv4.
    pub source_port: u16,
    /// Flow label: path entropy on IPv6.
    pub flow_label: u32,
    /// PSP version; 15 is plaintext.
    pub psp_version: u8,
    /// SPI of packets that we send.
    pub tx_spi: u32,
    /// SPI of packets that we receive.
    pub rx_spi: u32,
    /// Largest user data of one transaction, bytes.
    pub max_segment: u32,
    /// Fabric window, packets.
    pub fcwnd: f64,
    /// NIC window, packets.
    pub ncwnd: u32,
    /// Level of our receive buffer in our acknowledgements, 0 to 31 (F-10.2-4).
    pub receive_buffer_level: u8,
    /// Retransmission timeout, nanoseconds.
    pub rto_ns: u64,
    /// Last round trip time, nanoseconds. 0 before the first one.
    pub rtt_ns: u64,
    /// Smallest round trip time, nanoseconds. 0 before the first one.
    pub min_rtt_ns: u64,
    /// What the connection has measured of its path, and what follows from it.
    pub path: PathInfo,
    /// Gap between packets while the fabric window is below 1, nanoseconds; 0 is none (F-10.6.2.1-7).
    pub inter_packet_gap_ns: u64,
    /// Congestion control.
    pub congestion: CongestionInfo,
    /// NIC time: the four delays.
    pub delays: DelaysInfo,
    /// Bytes of user data of our completed operations: written, sent or read.
    pub bytes_completed: u64,
    /// RSN of our oldest incomplete transaction.
    pub base_rsn: u32,
    /// RSN of the next transaction to post.
    pub next_rsn: u32,
    /// Transmit window of Pull Requests.
    pub request_tx: TransmitWindowInfo,
    /// Transmit window of Push Data and Pull Data.
    pub data_tx: TransmitWindowInfo,
    /// Receive window of Pull Requests.
    pub request_rx: ReceiveWindowInfo,
    /// Receive window of Push Data and Pull Data.
    pub data_rx: ReceiveWindowInfo,
    /// Responses to the peer's pulls that are not acknowledged.
    pub responses: QueueInfo,
    /// Send queue.
    pub send_queue: QueueInfo,
    /// Receive queue.
    pub receive_queue: QueueInfo,
    /// Completion queue, including the completions that the library keeps for the application.
    pub completion_queue: QueueInfo,
    /// Operations that wait for space in the send queue.
    pub operations_waiting: usize,
    /// Counters of the connection.
    pub statistics: ConnectionStatistics,
}

/// What a connection has measured of its path. The target and the timeout follow it where
/// [`adaptive_target`](crate::congestion::CongestionParameters::adaptive_target) and
/// [`adaptive_timeout`](crate::congestion::CongestionParameters::adaptive_timeout) are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathInfo {
    /// Smallest delay of the path, nanoseconds; 0 before the first measurement.
    pub floor_ns: u64,
    /// Mean difference of two successive delays, nanoseconds.
    pub variation_ns: u64,
    /// Longest round trip time of the last one to two seconds, nanoseconds.
    pub longest_rtt_ns: u64,
    /// Target delay in force before scaling, nanoseconds.
    pub delay_target_ns: u64,
    /// The connection has at most one packet outstanding for a short time, to see the path without its own queue.
    pub draining: bool,
}

impl PathInfo {
    fn new(congestion: &Congestion) -> Self {
        Self {
            floor_ns: congestion.path.floor.as_nanos(),
            variation_ns: congestion.path.variation().as_nanos(),
            longest_rtt_ns: congestion.path.longest().as_nanos(),
            delay_target_ns: congestion.base_delay_target.as_nanos(),
            draining: congestion.path.is_draining(),
        }
    }
}

impl ConnectionInfo {
    /// Makes the information from a copy of the connection and from the counters of its queues.
    pub(crate) fn new(
        entry: &Snapshot,
        queues: &QueuePair,
        occupancy: &Occupancy,
        control: &CongestionControl,
        failure: Option<String>,
    ) -> Self {
        let c = &entry.connection;
        let (path, s, congestion) = (&c.flow.endpoint.path, &c.flow.security, &c.flow.congestion);
        Self {
            local_cid: c.flow.endpoint.local_cid,
            peer_cid: c.flow.endpoint.peer_cid,
            state: ConnectionState::from(c.state as u32),
            generation: c.generation,
            ordered: c.initiator.ordered != 0,
            drops_requests: c.service.dropping != 0,
            rack_tlp: c.flow.delivery.tuning.rack_tlp != 0,
            ulp: c.flow.endpoint.protocol.into(),
            tunnel: Tunnel::from_datapath(&entry.cold.tunnel, s.inner_version),
            peer_address: address_from(path.destination, path.ip_version),
            peer_mac: Mac(path.destination_mac),
            source_port: path.source_port,
            flow_label: path.flow_label,
            psp_version: s.version,
            tx_spi: s.tx_spi.0,
            rx_spi: s.rx_spi.0,
            max_segment: c.flow.endpoint.max_segment,
            fcwnd: f64::from(congestion.fcwnd.0) / f64::from(1 << Fcwnd::FRACTION_BITS),
            ncwnd: congestion.ncwnd,
            receive_buffer_level: entry.cold.occupancy.level as u8,
            rto_ns: congestion.rto.as_nanos(),
            rtt_ns: congestion.rtt.as_nanos(),
            min_rtt_ns: congestion.min_rtt.as_nanos(),
            path: PathInfo::new(congestion),
            inter_packet_gap_ns: congestion.inter_packet_gap.as_nanos(),
            congestion: CongestionInfo::new(control, failure),
            delays: DelaysInfo::new(&congestion.delays, control.parameters.synchronised_clocks),
            bytes_completed: occupancy.bytes_completed,
            base_rsn: c.initiator.brsn.0,
            next_rsn: queues.send_producer.load(std::sync::atomic::Ordering::Relaxed),
            request_tx: transmit(&c.flow.delivery.request().tx),
            data_tx: transmit(&c.flow.delivery.data().tx),
            request_rx: receive(&c.flow.delivery.request().rx),
            data_rx: receive(&c.flow.delivery.data().rx),
            responses: QueueInfo {
                used: c.target.response_tail.wrapping_sub(c.target.response_head),
                depth: RESPONSES as u32,
            },
            send_queue: QueueInfo { used: occupancy.send, depth: SEND_QUEUE_DEPTH as u32 },
            receive_queue: QueueInfo { used: occupancy.receive, depth: RECEIVE_QUEUE_DEPTH as u32 },
            completion_queue: QueueInfo { used: occupancy.completions, depth: COMPLETION_QUEUE_DEPTH as u32 },
            operations_waiting: occupancy.operations_waiting,
            statistics: ConnectionStatistics::of(entry),
        }
    }
}

fn ones(bitmap: Bitmap128) -> u32 {
    bitmap.low.count_ones() + bitmap.high.count_ones()
}

fn transmit(w: &TransmitWindow) -> TransmitWindowInfo {
    TransmitWindowInfo {
        base_psn: w.base.0,
        next_psn: w.next.0,
        size: w.size,
        unacknowledged: w.in_flight() - ones(w.acknowledged),
        to_retransmit: ones(w.retransmit),
    }
}

fn receive(w: &ReceiveWindow) -> ReceiveWindowInfo {
    ReceiveWindowInfo { base_psn: w.base.0, received: ones(w.received), acknowledged: ones(w.acknowledged) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_the_region_tables_bits() {
        assert_eq!(Access::LOCAL.flags(), AccessFlags::LOCAL_WRITE);
        assert_eq!(Access::ALL.flags(), AccessFlags::all());
        let writable = Access { remote_write: true, ..Access::LOCAL }.flags();
        assert_eq!(writable, AccessFlags::REMOTE_WRITE | AccessFlags::LOCAL_WRITE);
    }
}
