//! Questions to the kernel about interfaces, routes and neighbours.
//!
//! The socket stays in the network namespace in which it was opened, whatever thread uses it later.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Mutex;
use std::time::Duration;

use aya_obj::generated::{XDP_FLAGS_DRV_MODE, XDP_FLAGS_HW_MODE, XDP_FLAGS_SKB_MODE};
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp, XdpAttached,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// The discard port: a datagram there makes the kernel look for the peer's MAC address.
const DISCARD_PORT: u16 = 9;
/// How often, and for how many rounds, the neighbour table is looked at while the kernel asks.
const NEIGHBOUR_POLL: Duration = Duration::from_millis(10);
const NEIGHBOUR_ROUNDS: u32 = 100;

/// An XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XdpState {
    /// Program id.
    pub(crate) id: u32,
    /// How it is attached.
    pub(crate) mode: XdpAttached,
}

/// An interface, as the kernel describes it.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    pub(crate) loopback: bool,
    pub(crate) ethernet: bool,
    /// Kind of a virtual interface ("veth"), none for hardware.
    pub(crate) kind: Option<String>,
    pub(crate) xdp: Option<XdpState>,
}

/// A route netlink socket and a datagram socket, both of the namespace they were opened in.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Mutex<Socket>,
    probe: [UdpSocket; 2],
}

impl Netlink {
    /// Opens both in the calling thread's network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // A kernel without IPv6 has only IPv4 peers to ask for.
        let v4 = UdpSocket::bind("0.0.0.0:0")?;
        let v6 = UdpSocket::bind("[::]:0").or_else(|_| v4.try_clone())?;
        Ok(Self { socket: Mutex::new(socket), probe: [v4, v6] })
    }

    /// All interfaces of the namespace.
    pub(crate) fn interfaces(&self) -> io::Result<Vec<Interface>> {
        let answers = self.request(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        let links = answers.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(Interface::from_message(&link)),
            _ => None,
        });
        Ok(links.collect())
    }

    /// Addresses of the interface with `index`.
    pub(crate) fn addresses(&self, index: u32) -> io::Result<Vec<IpAddr>> {
        let answers = self.request(RouteNetlinkMessage::GetAddress(AddressMessage::default()), NLM_F_DUMP)?;
        let mut addresses = Vec::new();
        for message in answers {
            let RouteNetlinkMessage::NewAddress(message) = message else { continue };
            if message.header.index != index {
                continue;
            }
            // On a point-to-point link ADDRESS is the peer's and LOCAL ours.
            let own = |a: &AddressAttribute| match a {
                AddressAttribute::Local(ip) => Some(*ip),
                _ => None,
            };
            let any = |a: &AddressAttribute| match a {
                AddressAttribute::Address(ip) => Some(*ip),
                _ => None,
            };
            let attributes = &message.attributes;
            addresses.extend(attributes.iter().find_map(own).or_else(|| attributes.iter().find_map(any)));
        }
        Ok(addresses)
    }

    /// Takes the XDP program off an interface to which it was attached without a link.
    pub(crate) fn detach_xdp(&self, index: u32, mode: XdpAttached) -> io::Result<()> {
        let flags = match mode {
            XdpAttached::SocketBuffer => XDP_FLAGS_SKB_MODE,
            XdpAttached::Hardware => XDP_FLAGS_HW_MODE,
            _ => XDP_FLAGS_DRV_MODE,
        };
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::Xdp(vec![LinkXdp::Fd(-1), LinkXdp::Flags(flags)]));
        self.request(RouteNetlinkMessage::SetLink(message), NLM_F_ACK).map(drop)
    }

    /// MAC address of the next hop towards `peer`, which must lead through the interface with `index`. Waits up
    /// to a second for the kernel to find it out. The error is the reason, and what to do about it.
    pub(crate) fn resolve(&self, index: u32, peer: IpAddr) -> Result<[u8; 6], String> {
        let hop = self.next_hop(index, peer)?;
        let failed = |error: io::Error| format!("the neighbour table could not be read: {error}");
        for round in 0..NEIGHBOUR_ROUNDS {
            if let Some(mac) = self.neighbour(index, hop).map_err(failed)? {
                return Ok(mac);
            }
            if round % 25 == 0 {
                let probe = &self.probe[usize::from(hop.is_ipv6())];
                // What becomes of the datagram does not matter: sending it starts the resolution.
                let _ = probe.send_to(&[], (hop, DISCARD_PORT));
            }
            std::thread::sleep(NEIGHBOUR_POLL);
        }
        Err(format!("{hop} does not answer; see whether the peer is up, or give its MAC address"))
    }

    fn next_hop(&self, index: u32, peer: IpAddr) -> Result<IpAddr, String> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(peer);
        message.header.destination_prefix_length = if peer.is_ipv4() { 32 } else { 128 };
        message.attributes.push(RouteAttribute::Destination(peer.into()));
        let no_route = |error: io::Error| format!("there is no route ({error}); add one with `ip route add`");
        let answers = self.request(RouteNetlinkMessage::GetRoute(message), 0).map_err(no_route)?;
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

    fn neighbour(&self, index: u32, hop: IpAddr) -> io::Result<Option<[u8; 6]>> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(hop);
        let answers = self.request(RouteNetlinkMessage::GetNeighbour(message), NLM_F_DUMP)?;
        let known = answers.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewNeighbour(entry) if entry.header.ifindex == index => mac_of(&entry, hop),
            _ => None,
        });
        Ok(known)
    }

    /// Sends a request and gathers its answers.
    fn request(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let socket = self.socket.lock().expect("no panic under the lock");
        let mut packet = NetlinkMessage::from(message);
        packet.header.flags = NLM_F_REQUEST | flags;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let answer =
                    NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
                // Messages are padded to 4 bytes; the last one need not be.
                let length = (answer.header.length as usize).next_multiple_of(4).clamp(1, rest.len());
                rest = &rest[length..];
                match answer.payload {
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Error(_) => return Ok(answers),
                    _ => {}
                }
            }
            if flags & (NLM_F_DUMP | NLM_F_ACK) == 0 {
                return Ok(answers);
            }
        }
    }
}

impl Interface {
    fn from_message(link: &LinkMessage) -> Self {
        let flags = link.header.flags;
        let mut interface = Self {
            name: String::new(),
            index: link.header.index,
            mac: None,
            mtu: 0,
            up: flags.contains(LinkFlags::Up),
            loopback: flags.contains(LinkFlags::Loopback),
            ethernet: link.header.link_layer_type == LinkLayerType::Ether,
            kind: None,
            xdp: None,
        };
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => interface.name.clone_from(name),
                LinkAttribute::Address(mac) => interface.mac = mac.as_slice().try_into().ok(),
                LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
                LinkAttribute::Xdp(xdp) => interface.xdp = xdp_state(xdp),
                LinkAttribute::LinkInfo(infos) => {
                    interface.kind = infos.iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind.to_string()),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        interface
    }
}

fn xdp_state(attributes: &[LinkXdp]) -> Option<XdpState> {
    let mode = attributes.iter().find_map(|a| match a {
        LinkXdp::Attached(mode) if *mode != XdpAttached::None => Some(*mode),
        _ => None,
    })?;
    // With several programs at once there is no PROG_ID, only one id a mode.
    let id = attributes.iter().find_map(|a| match a {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) => {
            Some(*id)
        }
        _ => None,
    });
    Some(XdpState { id: id.unwrap_or(0), mode })
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn mac_of(entry: &NeighbourMessage, hop: IpAddr) -> Option<[u8; 6]> {
    if matches!(
        entry.header.state,
        NeighbourState::Incomplete | NeighbourState::Failed | NeighbourState::None
    ) {
        return None;
    }
    let here = entry.attributes.iter().any(|a| match a {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => IpAddr::V4(*ip) == hop,
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => IpAddr::V6(*ip) == hop,
        _ => false,
    });
    let mac = entry.attributes.iter().find_map(|a| match a {
        NeighbourAttribute::LinkLayerAddress(mac) => mac.as_slice().try_into().ok(),
        _ => None,
    });
    mac.filter(|_| here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_namespace_has_a_loopback_interface() {
        let netlink = Netlink::open().expect("netlink needs no privilege");
        let interfaces = netlink.interfaces().expect("a dump needs no privilege");
        let loopback = interfaces.iter().find(|i| i.name == "lo").expect("there is always a lo");
        assert!(loopback.loopback && !loopback.ethernet);
        assert_eq!(loopback.index, 1);
    }

    #[test]
    fn own_addresses_are_no_peers() {
        let netlink = Netlink::open().expect("netlink needs no privilege");
        let reason =
            netlink.resolve(u32::MAX, "127.0.0.1".parse().expect("an address")).expect_err("not a peer");
        assert!(reason.contains("this host"), "{reason}");
    }
}
