//! The MAC address of the next hop towards a peer.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::Netlink;

/// The discard port: a datagram there makes the kernel look for the peer's MAC address.
const DISCARD_PORT: u16 = 9;
/// How often, and for how many rounds, the neighbour table is looked at while the kernel asks.
const POLL: Duration = Duration::from_millis(10);
const ROUNDS: u32 = 100;
/// The kernel is made to ask again so many rounds later.
const ASK_AGAIN: u32 = 25;

/// Datagram sockets of one network namespace, for IPv4 and IPv6, that make the kernel look for neighbours.
#[derive(Debug)]
pub(super) struct Probe([UdpSocket; 2]);

impl Probe {
    pub(super) fn open() -> io::Result<Self> {
        // A kernel without IPv6 has only IPv4 peers to ask for.
        let v4 = UdpSocket::bind("0.0.0.0:0")?;
        let v6 = UdpSocket::bind("[::]:0").or_else(|_| v4.try_clone())?;
        Ok(Self([v4, v6]))
    }

    fn send(&self, hop: IpAddr) {
        // What becomes of the datagram does not matter: sending it starts the resolution.
        let _ = self.0[usize::from(hop.is_ipv6())].send_to(&[], (hop, DISCARD_PORT));
    }
}

/// A next hop whose MAC address is looked for. No step of it waits.
struct Search<'n> {
    netlink: &'n Netlink,
    index: u32,
    hop: IpAddr,
    round: u32,
}

impl Netlink {
    /// MAC address of the next hop towards `peer`, which must lead through the interface with `index`. Waits up
    /// to a second for the kernel to find it out, blocking. The error is the reason, and what to do about it.
    pub(crate) fn resolve(&self, index: u32, peer: IpAddr) -> Result<[u8; 6], String> {
        let mut search = Search::begin(self, index, peer)?;
        loop {
            match search.look()? {
                Some(mac) => return Ok(mac),
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// As [`Self::resolve`], without blocking.
    pub(crate) async fn resolve_async(&self, index: u32, peer: IpAddr) -> Result<[u8; 6], String> {
        let mut search = Search::begin(self, index, peer)?;
        loop {
            match search.look()? {
                Some(mac) => return Ok(mac),
                None => tokio::time::sleep(POLL).await,
            }
        }
    }

    fn next_hop(&self, index: u32, peer: IpAddr) -> Result<IpAddr, String> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(peer);
        message.header.destination_prefix_length = if peer.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(peer.into()));
        let no_route = |error: io::Error| format!("there is no route ({error}); add one with `ip route add`");
        let answers = self.requests.ask(RouteNetlinkMessage::GetRoute(message)).map_err(no_route)?;
        let route = answers.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        });
        let route = route.ok_or("there is no route; add one with `ip route add`")?;
        if route.header.kind == RouteType::Local {
            return Err("it is an address of this host".to_owned());
        }
        let mut hop = peer;
        for attribute in &route.attributes {
            match attribute {
                RouteAttribute::Oif(oif) if *oif != index => {
                    return Err(
                        "the route leads through another interface; change it with `ip route`".to_owned()
                    );
                }
                RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => hop = (*gateway).into(),
                RouteAttribute::Gateway(RouteAddress::Inet6(gateway)) => hop = (*gateway).into(),
                _ => {}
            }
        }
        Ok(hop)
    }

    /// What the neighbour table says of `hop`.
    fn neighbour(&self, index: u32, hop: IpAddr) -> io::Result<Option<[u8; 6]>> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(hop);
        message.header.ifindex = index;
        message.attributes.push(NeighbourAttribute::Destination(match hop {
            IpAddr::V4(v4) => NeighbourAddress::Inet(v4),
            IpAddr::V6(v6) => NeighbourAddress::Inet6(v6),
        }));
        let answers = match self.requests.ask(RouteNetlinkMessage::GetNeighbour(message)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            answers => answers?,
        };
        let known = answers.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewNeighbour(entry) => mac_of(&entry),
            _ => None,
        });
        Ok(known)
    }
}

impl<'n> Search<'n> {
    fn begin(netlink: &'n Netlink, index: u32, peer: IpAddr) -> Result<Self, String> {
        Ok(Self { netlink, index, hop: netlink.next_hop(index, peer)?, round: 0 })
    }

    /// One look at the neighbour table, after which the kernel may need some time.
    fn look(&mut self) -> Result<Option<[u8; 6]>, String> {
        let (netlink, hop) = (self.netlink, self.hop);
        let failed = |error: io::Error| format!("the neighbour table could not be read: {error}");
        let known = netlink.neighbour(self.index, hop).map_err(failed)?;
        if known.is_none() && self.round == ROUNDS {
            return Err(format!(
                "{hop} does not answer; see whether the peer is up, or give its MAC address"
            ));
        }
        if known.is_none() && self.round.is_multiple_of(ASK_AGAIN) {
            netlink.probe.send(hop);
        }
        self.round += 1;
        Ok(known)
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn mac_of(entry: &NeighbourMessage) -> Option<[u8; 6]> {
    if matches!(
        entry.header.state,
        NeighbourState::Incomplete | NeighbourState::Failed | NeighbourState::None
    ) {
        return None;
    }
    entry.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(mac) => mac.as_slice().try_into().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_no_peers() {
        let netlink = Netlink::open().expect("netlink needs no privilege");
        let reason =
            netlink.resolve(u32::MAX, "127.0.0.1".parse().expect("an address")).expect_err("not a peer");
        assert!(reason.contains("this host"), "{reason}");
    }
}
