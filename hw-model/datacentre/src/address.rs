//! Addresses of cards. A host has one card for every 256 connections. Each card has its own addresses, as the
//! functions of a multi-function card do. The cards of a host share the wire.

use fabric_model::FlowHash;
use host_nic::node_config;
use transport_common::connection::Path;
use transport_common::queues::NodeConfig;

/// Protocol number of UDP.
const UDP: u8 = 17;

/// One card of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: u16,
    pub(super) card: u8,
}

impl Address {
    pub(super) const fn mac(self) -> [u8; 6] {
        let [high, low] = self.host.to_be_bytes();
        [2, 0, 0, high, low, self.card]
    }

    const fn ipv4(self) -> [u8; 4] {
        let [high, low] = self.host.to_be_bytes();
        [10, high, low, self.card + 1]
    }

    const fn ipv6(self) -> [u8; 16] {
        let [high, low] = self.host.to_be_bytes();
        [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low, self.card + 1]
    }

    /// Returns the card's configuration of its own addresses.
    pub(super) fn node(self) -> NodeConfig {
        node_config(self.mac(), self.ipv4(), self.ipv6())
    }

    /// Returns the path from this card to a peer's card.
    pub(super) fn path_to(self, peer: Self, ip_version: u8, entropy: u16) -> Path {
        let address = |of: Self| {
            let mut address = of.ipv6();
            if ip_version == 4 {
                address = [0; 16];
                address[..4].copy_from_slice(&of.ipv4());
            }
            address
        };
        Path {
            source: address(self),
            destination: address(peer),
            source_mac: self.mac(),
            destination_mac: peer.mac(),
            source_port: entropy,
            ip_version,
            flow_label: entropy.into(),
            ..Path::default()
        }
    }
}

/// Returns the hash by which switches choose among equal paths.
pub(super) fn flow_hash(path: &Path) -> FlowHash {
    if path.ip_version == 6 {
        return FlowHash::ipv6(path.source, path.destination, UDP, path.flow_label);
    }
    let v4 = |address: &[u8; 16]| [address[0], address[1], address[2], address[3]];
    let ports = [path.source_port, transport_common::wire::udp::FALCON_UDP_PORT];
    FlowHash::ipv4(v4(&path.source), v4(&path.destination), UDP, ports)
}
