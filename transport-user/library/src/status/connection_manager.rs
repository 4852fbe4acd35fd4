//! The connection manager: its sessions, counters and events.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Information about a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// This end's CID.
    pub local_cid: u32,
    /// The peer's CID.
    pub peer_cid: u32,
    /// The peer's address of the TCP connection.
    pub peer: SocketAddr,
    /// Whether this end is the connecting end.
    pub connected_here: bool,
    /// Time in milliseconds after which the peer counts as dead if nothing of it arrives.
    pub patience_ms: u64,
    /// Whether this end sets the connection up again when it is lost.
    pub reconnects: bool,
    /// IP MTU that both ends use, bytes.
    pub mtu: u32,
    /// Largest IP packet that crosses the path in both directions, bytes, up to the MTU of the interfaces. `None` if it was
    /// not found: the peer does not search, or no probe arrived.
    pub path_mtu: Option<u32>,
    /// Regions that the peer has registered for access by peers.
    pub peer_regions: Vec<RegionAdvertisement>,
}

/// A registered region as the peer sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionAdvertisement {
    /// Name of the region, if it has one.
    pub name: Option<String>,
    /// R_Key of the region.
    pub rkey: u32,
    /// Length of the region, bytes.
    pub length: u64,
    /// Access rights, bits of [`transport_common::queues::AccessFlags`].
    pub access: u32,
}

/// A lost connection that is being set up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconnecting {
    /// CID that the lost connection had.
    pub cid: u32,
    /// The peer's connection manager.
    pub peer: SocketAddr,
    /// Seconds since the connection was lost.
    pub since_s: u64,
    /// Attempts that have failed.
    pub attempts: u64,
    /// Why the last one failed.
    pub error: Option<String>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Text of the event.
    pub text: String,
}

/// The counters of the connection manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerStatistics {
    /// TCP connections accepted.
    pub tcp_accepted: u64,
    /// Connections established, by either end.
    pub established: u64,
    /// Handshakes rejected because the peer had too many unfinished handshakes.
    pub refused_busy: u64,
    /// Handshakes ended to make place for newer ones, silent ones first.
    pub displaced: u64,
    /// Handshakes or sessions ended because a message was not a message of the protocol.
    pub garbage: u64,
    /// Handshakes or sessions ended because a message was too long.
    pub oversize: u64,
    /// Handshakes ended because the peer speaks other versions of the protocol.
    pub wrong_version: u64,
    /// Handshakes or sessions ended because no whole message arrived in time.
    pub silent: u64,
    /// Handshakes whose TCP connection ended.
    pub broken_off: u64,
    /// Questions of peers whether a connection is alive, over a TCP connection of their own.
    pub asked: u64,
    /// Offers that this end rejected.
    pub declined: u64,
    /// Handshakes ended because the data path does not carry Falcon packets of full size in both directions.
    pub unproven: u64,
    /// Sessions ended by a `Close` of the peer.
    pub closed_by_peer: u64,
    /// Sessions ended by this end.
    pub closed_here: u64,
    /// Sessions ended because the TCP connection broke, or the peer was silent or violated the protocol.
    pub peer_died: u64,
    /// Sessions ended by this end because the data path does not carry the connection's packets any more.
    pub path_lost: u64,
    /// Sessions ended because packet delivery failed (F-11-6).
    pub fatal: u64,
}
