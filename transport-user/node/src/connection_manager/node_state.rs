//! What a node tells its connection manager about itself and its connections.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use transport_common::ids::Cid;
use transport_common::security::SecurityDrops;

use tiercel::Mac;

/// This end of every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalEnd {
    /// The node's IP address.
    pub address: IpAddr,
    /// Index of its interface, which is the scope of link-local IPv6 addresses.
    pub interface_index: u32,
    /// MAC address.
    pub mac: Mac,
    /// IP MTU, bytes.
    pub mtu: u32,
    /// Largest user data of one transaction, bytes.
    pub max_segment: u32,
    /// The clock from which IVs are taken, picoseconds (D-12).
    pub clock_ps: u64,
}

/// What the datapath knows of one connection's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathState {
    /// The connection.
    pub cid: Cid,
    /// Number of the connection among those that have used its slot.
    pub generation: u32,
    /// The peer's address.
    pub peer: IpAddr,
    /// MAC address of the next hop to which it sends.
    pub next_hop: Mac,
    /// Whether it follows when the next hop has another one.
    pub follows: bool,
    /// Whether packet delivery has failed.
    pub failed: bool,
    /// Number of packets that are sent and not acknowledged.
    pub outstanding: u32,
    /// The oldest packet of each window that is not acknowledged.
    pub oldest: [u32; 2],
    /// Number of packets that were sent again after a timeout.
    pub timeouts: u64,
    /// Number of packets of the peer that arrived, with acknowledgements.
    pub heard: u64,
    /// Number of NACKs of the peer. They ask for patience.
    pub nacks: u64,
}

/// What the security checks of a connection have refused since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// The connection.
    pub cid: Cid,
    /// Number of the connection among those that have used its slot.
    pub generation: u32,
    /// The peer's address.
    pub peer: IpAddr,
    /// The packets, by cause.
    pub drops: SecurityDrops,
}

/// Makes a socket address. A link-local IPv6 address is valid on one interface only, so it needs the interface's
/// index.
pub(super) fn socket_address(address: IpAddr, port: u16, interface_index: u32) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, interface_index).into()
        }
        _ => SocketAddr::new(address, port),
    }
}
