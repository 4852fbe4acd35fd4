//! Resolves the MAC address of the next hop towards a peer.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::Netlink;
use super::probe::scope_of;
use super::solicitation::Own;
use crate::node::error::NextHopError;

/// Time between two reads of the neighbour table, and number of reads, while the kernel resolves the address.
const POLL: Duration = Duration::from_millis(10);
const ROUNDS: u32 = 100;
/// Number of reads after which the kernel is made to ask again.
const ASK_AGAIN: u32 = 25;

/// The search for the MAC address of a next hop. No step of it waits.
struct Search<'n> {
    netlink: &'n Netlink,
    index: u32,
    hop: IpAddr,
    round: u32,
}

impl Netlink {
    /// Returns the MAC address of the next hop towards `peer`. The route must lead through the interface with
    /// `index`. Blocks up to a second until the kernel has resolved it. The error is the reason, and what to do
    /// about it.
    pub(crate) fn resolve(&self, index: u32, peer: IpAddr) -> Result<[u8; 6], NextHopError> {
        let mut search = Search::begin(self, index, peer)?;
        loop {
            match search.look()? {
                Some(mac) => return Ok(mac),
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// Resolves like [`Self::resolve`], without blocking the thread.
    pub(crate) async fn resolve_async(&self, index: u32, peer: IpAddr) -> Result<[u8; 6], NextHopError> {
        let mut search = Search::begin(self, index, peer)?;
        loop {
            match search.look()? {
                Some(mac) => return Ok(mac),
                None => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Returns the MAC address of the next hop towards `peer`, if the neighbour table has it. Does not wait. If somebody asks,
    /// the address is resolved for a later call, also one that the table has and that may be wrong.
    pub(crate) fn known(
        &self,
        index: u32,
        peer: IpAddr,
        asks: Option<Own>,
    ) -> Result<Option<[u8; 6]>, NextHopError> {
        let hop = self.next_hop(index, peer)?;
        let known = self.neighbour(index, hop).map_err(NextHopError::Neighbours)?;
        match (asks, known) {
            (Some(own), Some(_)) => self.solicitation.ask(index, own, hop),
            // The kernel has no entry that takes the answer to another's question, so it asks itself.
            (Some(_), None) => self.probe.send(index, hop),
            (None, _) => {}
        }
        Ok(known)
    }

    fn next_hop(&self, index: u32, peer: IpAddr) -> Result<IpAddr, NextHopError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(peer);
        message.header.destination_prefix_length = if peer.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(peer.into()));
        message.attributes.extend(scope_of(peer, index).map(RouteAttribute::Oif));
        let no_route = |error| NextHopError::NoRoute(Some(error));
        let answers = self.requests.ask(RouteNetlinkMessage::GetRoute(message)).map_err(no_route)?;
        let route = answers.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        });
        let route = route.ok_or(NextHopError::NoRoute(None))?;
        if route.header.kind == RouteType::Local {
            return Err(NextHopError::ThisHost);
        }
        let mut hop = peer;
        for attribute in &route.attributes {
            match attribute {
                RouteAttribute::Oif(oif) if *oif != index => {
                    return Err(NextHopError::OtherInterface);
                }
                RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => hop = (*gateway).into(),
                RouteAttribute::Gateway(RouteAddress::Inet6(gateway)) => hop = (*gateway).into(),
                _ => {}
            }
        }
        Ok(hop)
    }

    /// Returns the MAC address of `hop` from the neighbour table, if it is known.
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
    fn begin(netlink: &'n Netlink, index: u32, peer: IpAddr) -> Result<Self, NextHopError> {
        Ok(Self { netlink, index, hop: netlink.next_hop(index, peer)?, round: 0 })
    }

    /// Reads the neighbour table once. If the address is not known yet, the caller should wait before the next
    /// call.
    fn look(&mut self) -> Result<Option<[u8; 6]>, NextHopError> {
        let (netlink, hop) = (self.netlink, self.hop);
        let known = netlink.neighbour(self.index, hop).map_err(NextHopError::Neighbours)?;
        if known.is_none() && self.round == ROUNDS {
            return Err(NextHopError::NoAnswer(hop));
        }
        if known.is_none() && self.round.is_multiple_of(ASK_AGAIN) {
            netlink.probe.send(self.index, hop);
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
        assert!(matches!(reason, NextHopError::ThisHost), "{reason}");
    }

    /// An address of this host has no next hop, whether the kernel is asked or not.
    #[test]
    fn what_is_known_is_that_of_a_route() {
        let netlink = Netlink::open().expect("netlink needs no privilege");
        let own = Own { mac: [2, 0, 0, 0, 0, 1], address: "10.7.0.1".parse().expect("an address") };
        for asks in [None, Some(own)] {
            let known = netlink.known(1, "127.0.0.1".parse().expect("an address"), asks);
            assert!(matches!(known, Err(NextHopError::ThisHost)), "{known:?}");
        }
    }

    #[test]
    fn only_link_local_addresses_need_a_scope() {
        let scope = |text: &str| scope_of(text.parse().expect("an address"), 7);
        assert_eq!(["fe80::2", "febf::1"].map(scope), [Some(7); 2]);
        assert_eq!(["fd00::2", "10.7.0.2", "169.254.0.2", "ff02::1"].map(scope), [None; 4]);
    }
}
