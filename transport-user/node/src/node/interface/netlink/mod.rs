//! Asks the kernel about interfaces, routes and neighbours.
//!
//! A socket stays in the network namespace in which it was opened, whatever thread uses it later.

use std::io;
use std::net::IpAddr;

use aya_obj::generated::{XDP_FLAGS_DRV_MODE, XDP_FLAGS_HW_MODE, XDP_FLAGS_SKB_MODE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp, XdpAttached,
};
use netlink_sys::protocols::NETLINK_ROUTE;

pub(crate) mod channels;
pub(crate) mod events;
pub(crate) mod generic;
mod neighbour;
mod probe;
pub(crate) mod requests;
pub(crate) mod solicitation;
pub(crate) mod xdp_refusal;

use probe::Probe;
pub(crate) use requests::Requests;
use solicitation::Solicitation;
pub(crate) use xdp_refusal::xdp_refusal;

/// An XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XdpState {
    /// Id of the program.
    pub(crate) id: u32,
    /// Attach mode.
    pub(crate) mode: XdpAttached,
}

/// An interface.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    /// Whether the other end of the cable is there.
    pub(crate) carrier: bool,
    pub(crate) loopback: bool,
    pub(crate) ethernet: bool,
    /// Kind of a virtual interface ("veth"). `None` for hardware.
    pub(crate) kind: Option<String>,
    pub(crate) xdp: Option<XdpState>,
    /// Index of the interface at the other end of a virtual cable.
    pub(crate) peer: Option<u32>,
    /// By what number this network namespace knows that of the peer. `None` if it is this one.
    pub(crate) peer_namespace: Option<i32>,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnAddress {
    pub(crate) address: IpAddr,
    pub(crate) state: AddressState,
}

/// Whether an address can be used. IPv6 addresses are checked for duplicates first (RFC 4862, 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressState {
    Usable,
    /// The check has not ended. Nobody can bind the address, and the kernel does not answer for it.
    Tentative,
    /// Another host has the address.
    Duplicate,
}

/// A route netlink socket, and the sockets that have MAC addresses resolved, of one network namespace.
#[derive(Debug)]
pub(crate) struct Netlink {
    requests: Requests,
    probe: Probe,
    solicitation: Solicitation,
}

impl Netlink {
    /// Opens the sockets in the calling thread's network namespace.
    pub(crate) fn open() -> io::Result<Self> {
        let requests = Requests::open(NETLINK_ROUTE)?;
        Ok(Self { requests, probe: Probe::open()?, solicitation: Solicitation::open() })
    }

    /// Returns all interfaces of the namespace.
    pub(crate) fn interfaces(&self) -> io::Result<Vec<Interface>> {
        let answers = self.requests.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()))?;
        let links = answers.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(Interface::from_message(&link)),
            _ => None,
        });
        Ok(links.collect())
    }

    /// Returns the interface with `index`, or `None` if the namespace has none.
    pub(crate) fn interface(&self, index: u32) -> io::Result<Option<Interface>> {
        self.interface_in(index, None)
    }

    /// Returns whether the other end of a veth runs an XDP program in its driver. False if this process may not ask.
    pub(crate) fn peer_runs_xdp(&self, index: u32) -> bool {
        let ask = || -> io::Result<Option<Interface>> {
            let Some(own) = self.interface(index)? else { return Ok(None) };
            own.peer.map_or(Ok(None), |peer| self.interface_in(peer, own.peer_namespace))
        };
        let peer = ask().ok().flatten();
        peer.and_then(|peer| peer.xdp).is_some_and(|xdp| xdp.mode == XdpAttached::Driver)
    }

    fn interface_in(&self, index: u32, namespace: Option<i32>) -> io::Result<Option<Interface>> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.extend(namespace.map(LinkAttribute::IfNetnsId));
        let answers = match self.requests.ask(RouteNetlinkMessage::GetLink(message)) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
            answers => answers?,
        };
        Ok(answers.into_iter().find_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(Interface::from_message(&link)),
            _ => None,
        }))
    }

    /// Returns the addresses of the interface with `index`.
    pub(crate) fn addresses(&self, index: u32) -> io::Result<Vec<OwnAddress>> {
        let answers = self.requests.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        let mut addresses = Vec::new();
        for message in answers {
            let RouteNetlinkMessage::NewAddress(message) = message else { continue };
            if message.header.index != index {
                continue;
            }
            // On a point-to-point link, ADDRESS is the peer's address, and LOCAL is our address.
            let own = |a: &AddressAttribute| match a {
                AddressAttribute::Local(ip) => Some(*ip),
                _ => None,
            };
            let any = |a: &AddressAttribute| match a {
                AddressAttribute::Address(ip) => Some(*ip),
                _ => None,
            };
            let state = AddressState::from(message.header.flags);
            let attributes = &message.attributes;
            let address = attributes.iter().find_map(own).or_else(|| attributes.iter().find_map(any));
            addresses.extend(address.map(|address| OwnAddress { address, state }));
        }
        Ok(addresses)
    }

    /// Detaches an XDP program that was attached to an interface without a link.
    pub(crate) fn detach_xdp(&self, index: u32, mode: XdpAttached) -> io::Result<()> {
        let flags = match mode {
            XdpAttached::SocketBuffer => XDP_FLAGS_SKB_MODE,
            XdpAttached::Hardware => XDP_FLAGS_HW_MODE,
            _ => XDP_FLAGS_DRV_MODE,
        };
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::Xdp(vec![LinkXdp::Fd(-1), LinkXdp::Flags(flags)]));
        self.requests.ask(RouteNetlinkMessage::SetLink(message)).map(drop)
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
            carrier: flags.contains(LinkFlags::LowerUp),
            loopback: flags.contains(LinkFlags::Loopback),
            ethernet: link.header.link_layer_type == LinkLayerType::Ether,
            kind: None,
            xdp: None,
            peer: None,
            peer_namespace: None,
        };
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => interface.name.clone_from(name),
                LinkAttribute::Address(mac) => interface.mac = mac.as_slice().try_into().ok(),
                LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
                LinkAttribute::Xdp(xdp) => interface.xdp = xdp_state(xdp),
                LinkAttribute::Link(peer) => interface.peer = Some(*peer),
                LinkAttribute::LinkNetNsId(namespace) => interface.peer_namespace = Some(*namespace),
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

impl From<AddressHeaderFlags> for AddressState {
    fn from(flags: AddressHeaderFlags) -> Self {
        if flags.contains(AddressHeaderFlags::Dadfailed) {
            Self::Duplicate
        } else if flags.contains(AddressHeaderFlags::Tentative)
            && !flags.contains(AddressHeaderFlags::Optimistic)
        {
            // An optimistic address is used while it is checked (RFC 4429).
            Self::Tentative
        } else {
            Self::Usable
        }
    }
}

fn xdp_state(attributes: &[LinkXdp]) -> Option<XdpState> {
    let mode = attributes.iter().find_map(|a| match a {
        LinkXdp::Attached(mode) if *mode != XdpAttached::None => Some(*mode),
        _ => None,
    })?;
    // With several attached programs there is no PROG_ID, but one id per mode.
    let id = attributes.iter().find_map(|a| match a {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) => {
            Some(*id)
        }
        _ => None,
    });
    Some(XdpState { id: id.unwrap_or(0), mode })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An interface for tests.
    pub(crate) fn interface() -> Interface {
        Interface {
            name: "veth0".into(),
            index: 2,
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 3498,
            up: true,
            carrier: true,
            loopback: false,
            ethernet: true,
            kind: Some("veth".into()),
            xdp: None,
            peer: None,
            peer_namespace: None,
        }
    }

    #[test]
    fn every_namespace_has_a_loopback_interface() {
        let netlink = Netlink::open().expect("netlink needs no privilege");
        let interfaces = netlink.interfaces().expect("a dump needs no privilege");
        let loopback = interfaces.iter().find(|i| i.name == "lo").expect("there is always a lo");
        assert!(loopback.loopback && !loopback.ethernet);
        assert_eq!(loopback.index, 1);
        let again = netlink.interface(1).expect("a request needs no privilege").expect("it is there");
        assert_eq!((again.name.as_str(), again.mtu, again.up), ("lo", loopback.mtu, loopback.up));
        assert!(netlink.interface(u32::MAX >> 1).expect("answered").is_none());
    }

    #[test]
    fn an_address_is_usable_when_it_is_checked() {
        use AddressHeaderFlags as Flags;
        for (flags, state) in [
            (Flags::Permanent, AddressState::Usable),
            (Flags::Permanent | Flags::Tentative, AddressState::Tentative),
            (Flags::Tentative | Flags::Optimistic, AddressState::Usable),
            (Flags::Tentative | Flags::Dadfailed, AddressState::Duplicate),
        ] {
            assert_eq!(AddressState::from(flags), state, "{flags:?}");
        }
    }
}
