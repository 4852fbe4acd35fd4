//! Makes the kernel resolve MAC addresses.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

/// The discard port. A datagram to it makes the kernel resolve the MAC address.
const DISCARD_PORT: u16 = 9;

/// Datagram sockets of one network namespace, for IPv4 and IPv6, that make the kernel resolve MAC addresses.
#[derive(Debug)]
pub(super) struct Probe([UdpSocket; 2]);

impl Probe {
    pub(super) fn open() -> io::Result<Self> {
        // A kernel without IPv6 has only IPv4 peers, so the second socket is not used.
        let v4 = UdpSocket::bind("0.0.0.0:0")?;
        let v6 = UdpSocket::bind("[::]:0").or_else(|_| v4.try_clone())?;
        Ok(Self([v4, v6]))
    }

    /// Makes the kernel ask for the MAC address of a next hop of the interface with `index`.
    pub(super) fn send(&self, index: u32, hop: IpAddr) {
        let to = match hop {
            IpAddr::V4(v4) => SocketAddr::from((v4, DISCARD_PORT)),
            IpAddr::V6(v6) => {
                SocketAddrV6::new(v6, DISCARD_PORT, 0, scope_of(hop, index).unwrap_or(0)).into()
            }
        };
        // Sending starts the resolution. It does not matter whether the datagram arrives.
        let _ = self.0[usize::from(hop.is_ipv6())].send_to(&[], to);
    }
}

/// Returns the interface on whose link an address is, if the address alone does not say so. Each interface has a route to the
/// link-local addresses of IPv6, and the kernel takes any of them if it is not told which.
pub(super) fn scope_of(address: IpAddr, index: u32) -> Option<u32> {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(index),
        _ => None,
    }
}
