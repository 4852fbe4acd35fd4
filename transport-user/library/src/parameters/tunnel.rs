//! Tunnel mode: the inner addresses of a connection (F-7.1.2-1).

use std::fmt::{self, Display};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use transport_common::datapath::words;
use transport_common::security;
use transport_common::wire::ipv4::Ipv4;
use transport_common::wire::ipv6::Ipv6;

use crate::common::address::{address_bytes, address_from};
use crate::common::error::TunnelError;

/// The inner addresses of a connection in tunnel mode. Each of its packets carries an inner IP packet from one to the
/// other, which carries the Falcon packet (F-7.1.2-1).
///
/// The inner addresses are independent of the node's: they may have the other IP version, and no interface needs to have
/// them. Packets are routed by the outer addresses. The inner ones are only compared with those of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// Inner address of this end.
    pub local: IpAddr,
    /// Inner address of the peer, of the same IP version.
    pub peer: IpAddr,
}

impl Tunnel {
    /// Checks that both are addresses of one host each, different and of the same IP version.
    ///
    /// # Errors
    /// [`TunnelError`].
    pub fn check(&self) -> Result<(), TunnelError> {
        let Self { local, peer } = *self;
        if local.is_ipv4() != peer.is_ipv4() {
            return Err(TunnelError::Versions { local, peer });
        }
        if let Some(address) = [local, peer].into_iter().find(|address| !is_host(*address)) {
            return Err(TunnelError::NoHost(address));
        }
        if local == peer {
            return Err(TunnelError::Equal(local));
        }
        Ok(())
    }

    /// Returns the tunnel as the other end sees it.
    pub fn reversed(self) -> Self {
        Self { local: self.peer, peer: self.local }
    }

    /// Returns the IP version of the inner packets, 4 or 6.
    pub(crate) fn version(self) -> u8 {
        if self.local.is_ipv4() { 4 } else { 6 }
    }

    /// Returns the length of the inner IP header, bytes; 0 without a tunnel.
    pub fn header_len(tunnel: Option<Self>) -> u32 {
        match tunnel {
            None => 0,
            Some(tunnel) if tunnel.local.is_ipv4() => Ipv4::LEN as u32,
            Some(_) => Ipv6::LEN as u32,
        }
    }

    /// Returns the addresses as the datapath compares and writes them.
    pub(crate) fn of_datapath(self) -> security::Tunnel {
        let address = |address| words(&address_bytes(address));
        security::Tunnel { local: address(self.local), peer: address(self.peer) }
    }
}

impl Tunnel {
    /// Returns the tunnel of a connection's context, if `version` says that it has one. Inverse of [`Self::of_datapath`].
    pub(crate) fn from_datapath(tunnel: &security::Tunnel, version: u8) -> Option<Self> {
        let address = |words: [u64; 2]| address_from(bytemuck::cast(words), version);
        (version != 0).then(|| Self { local: address(tunnel.local), peer: address(tunnel.peer) })
    }
}

impl Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.local, self.peer)
    }
}

fn is_host(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !broadcast
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel(local: &str, peer: &str) -> Tunnel {
        Tunnel { local: local.parse().expect("an address"), peer: peer.parse().expect("an address") }
    }

    /// F-7.1.2-1.
    #[test]
    fn the_ends_of_a_tunnel_are_two_hosts_of_one_ip_version() {
        for good in [tunnel("192.168.7.1", "192.168.7.2"), tunnel("fd01::1", "fd01::2")] {
            assert_eq!(good.check(), Ok(()));
            assert_eq!(good.reversed().check(), Ok(()));
            assert_eq!(good.reversed().reversed(), good);
            assert_eq!(Tunnel::from_datapath(&good.of_datapath(), good.version()), Some(good));
            assert_eq!(Tunnel::from_datapath(&good.of_datapath(), 0), None);
        }
        for (bad, part) in [
            (tunnel("192.168.7.1", "fd01::2"), "differ in IP version"),
            (tunnel("192.168.7.1", "192.168.7.1"), "both inner addresses"),
            (tunnel("0.0.0.0", "192.168.7.1"), "0.0.0.0 is not that of one host"),
            (tunnel("192.168.7.1", "224.0.0.1"), "224.0.0.1 is not that of one host"),
            (tunnel("255.255.255.255", "192.168.7.1"), "255.255.255.255 is not that of one host"),
            (tunnel("fd01::1", "ff02::1"), "ff02::1 is not that of one host"),
            (tunnel("::", "fd01::1"), ":: is not that of one host"),
        ] {
            let text = bad.check().expect_err("refused").to_string();
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn the_datapath_has_the_bytes_in_memory_order() {
        let v4 = tunnel("192.168.7.1", "192.168.7.2");
        let expected = u64::from(u32::from_ne_bytes([192, 168, 7, 1]));
        assert_eq!((v4.version(), v4.of_datapath().local), (4, [expected, 0]));
        let v6 = tunnel("fd01::1", "fd01::2");
        let mut bytes = [0; 8];
        bytes[7] = 2;
        assert_eq!((v6.version(), v6.of_datapath().peer[1]), (6, u64::from_ne_bytes(bytes)));
    }
}
