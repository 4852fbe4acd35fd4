//! A connection on which both ends agree without a handshake of the datapath: of a node file, or as the connection
//! managers have agreed.

use std::net::IpAddr;

use tiercel::{ConnectionSecurity, LocalCid, Mac, OpenConnection, PLAINTEXT_VERSION, Tuning, Tunnel, Ulp};
use transport_common::connection::Initial;
use transport_common::ids::{Cid, Spi};
use transport_common::security::RemoteTime;

/// The table `[[connection]]`: a connection on which both ends agree without the connection manager.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticConnection {
    /// CID that the peer writes into packets to us.
    pub local_cid: Cid,
    /// CID that we write into packets to the peer.
    pub peer_cid: Cid,
    /// The peer's address, of the same IP version as the node's.
    pub peer_address: IpAddr,
    /// The peer's MAC address, or the next hop's.
    pub peer_mac: Mac,
    /// Whether it follows when the kernel's neighbour table has another MAC address of the next hop. Unless the table says so, it
    /// keeps the address that is written there.
    pub follow_next_hop: bool,
    /// Whether requests are delivered and completed in RSN order.
    pub ordered: bool,
    /// The upper layer protocol, RDMA unless the table names another.
    pub ulp: Ulp,
    /// The inner addresses in tunnel mode, if the table has them (F-7.1.2-1).
    pub tunnel: Option<Tunnel>,
    /// The security association.
    pub security: Security,
    /// Destination function that packets to us must have (D-15).
    pub local_function: u32,
    /// Destination function that we write into packets to the peer.
    pub peer_function: u32,
    /// First sequence numbers of our packets.
    pub tx: Initial,
    /// First sequence numbers of the peer's packets.
    pub rx: Initial,
    /// Tuning of this end.
    pub tuning: Tuning,
}

/// The table `security` of a static connection, in plaintext mode (D-83).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Security {
    /// SPI of packets we send.
    pub tx_spi: Spi,
    /// SPI of packets we receive.
    pub rx_spi: Spi,
    /// Whether a UDP checksum is sent (D-91).
    pub checksum: bool,
    /// First Remote Time in picoseconds, if known (D-87).
    pub remote_time: Option<RemoteTime>,
}

impl StaticConnection {
    /// Returns the options with which the node opens the connection. `max_segment` is the bound in bytes on which
    /// both ends agreed, if they did.
    pub fn to_open(&self, local_cid: LocalCid, max_segment: Option<u32>) -> OpenConnection {
        OpenConnection {
            local_cid,
            follow_next_hop: self.follow_next_hop,
            ordered: self.ordered,
            ulp: self.ulp,
            tunnel: self.tunnel,
            security: ConnectionSecurity {
                psp_version: PLAINTEXT_VERSION,
                tx_spi: self.security.tx_spi,
                rx_spi: self.security.rx_spi,
                checksum: self.security.checksum,
                remote_time: self.security.remote_time,
            },
            local_function: self.local_function,
            peer_function: self.peer_function,
            tx: self.tx,
            rx: self.rx,
            max_segment,
            tuning: self.tuning,
            ..OpenConnection::new(self.peer_cid, self.peer_address, self.peer_mac)
        }
    }
}
