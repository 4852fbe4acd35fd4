//! Two hosts in different networks with a router between them, and nodes with their connection managers on the hosts.

use std::net::IpAddr;

use anyhow::Result;
use tiercel::{Access, Cid, Connection, Tuning};
use tiercel_node::connection_manager::{
    ConnectError, ConnectionManager, Limits, ManagerOptions, NodeHost, SessionInfo, Terms, Timing,
};
use tiercel_node::{Node, NodeOptions};
use tokio::runtime::{Builder, Runtime};
use transport_common::wire::udp::FALCON_UDP_PORT;

use crate::Namespace;
use crate::checks::{block_on, contents, fill, wait_until};
use crate::veth::{self, DEFAULT_MTU, MacAddress, VethEnd};

/// Two hosts in different networks, and the router between them.
pub struct Routed {
    /// The hosts. Each has the interface [`Routed::INTERFACE`].
    pub hosts: [Namespace; 2],
    /// The router. Its interface to host N is `portN`.
    pub router: Namespace,
}

/// What a router drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Datagrams to ports of programs, which the port of Falcon is not.
    Programs,
    /// Falcon packets that come from this host.
    FalconFrom(usize),
    /// IP packets from this host that are longer than this, bytes. With IPv6 it is at least 1280.
    LongFrom(usize, u32),
    /// Falcon packets among them.
    LongFalconFrom(usize, u32),
    /// Everything.
    Everything,
}

impl Routed {
    /// Name of the interface of each host.
    pub const INTERFACE: &str = "veth0";

    /// Makes the hosts. All links have [`DEFAULT_MTU`].
    ///
    /// # Errors
    /// Without root.
    pub fn new() -> Result<Self> {
        let (hosts, router) = ([Namespace::new()?, Namespace::new()?], Namespace::new()?);
        router.run(|| {
            ["ipv4/ip_forward", "ipv6/conf/all/forwarding"]
                .iter()
                .try_for_each(|name| std::fs::write(format!("/proc/sys/net/{name}"), "1"))
        })?;
        for (network, host) in hosts.iter().enumerate() {
            let port = format!("port{network}");
            let (mac, routers) = (Self::host_mac(network), Self::router_mac(network));
            let end = |namespace, name, mac| VethEnd { namespace, name, mac, merge: true };
            veth::connect(end(host, Self::INTERFACE, mac), end(&router, &port, routers), DEFAULT_MTU)?;
            // A router asks for a neighbour from this address if it only forwards. Without one, it asks nobody (RFC 4291, 2.1).
            router.ip(&format!("addr add fe80::254/64 dev {port} nodad\n"))?;
            host.ip("addr add fe80::1/64 dev veth0 nodad\n")?;
            for ipv6 in [false, true] {
                let (own, gateway) = (address(network, true, ipv6), address(network, false, ipv6));
                let prefix = if ipv6 { 64 } else { 24 };
                let nodad = if ipv6 { " nodad" } else { "" };
                router.ip(&format!(
                    "addr add {gateway}/{prefix} dev {port}{nodad}\nneigh add {own} lladdr {mac} dev {port} nud permanent\n"
                ))?;
                host.ip(&format!(
                    "addr add {own}/{prefix} dev veth0{nodad}\nneigh add {gateway} lladdr {routers} dev veth0 nud permanent\n\
                     route add default via {gateway}\n"
                ))?;
            }
        }
        Ok(Self { hosts, router })
    }

    /// Sets the MTU of the router's interface to host 1. The interfaces of the hosts keep theirs.
    ///
    /// # Errors
    /// The error of `ip`.
    pub fn narrow(&self, mtu: u32) -> Result<()> {
        self.router.ip(&format!("link set port1 mtu {mtu}\n"))
    }

    /// Has another router take over: the interfaces of the router have these MAC addresses from now on, and the hosts know it,
    /// as from a gratuitous ARP or an unsolicited neighbour advertisement.
    ///
    /// # Errors
    /// The error of `ip`.
    pub fn take_over(&self, macs: [MacAddress; 2]) -> Result<()> {
        self.take_over_silently(macs)?;
        for (network, (host, mac)) in self.hosts.iter().zip(macs).enumerate() {
            let hosts = Self::host_mac(network);
            for ipv6 in [false, true] {
                let (own, gateway) = (address(network, true, ipv6), address(network, false, ipv6));
                // An interface with another address forgets its neighbours, the permanent ones included.
                self.router
                    .ip(&format!("neigh replace {own} lladdr {hosts} dev port{network} nud permanent\n"))?;
                host.ip(&format!("neigh replace {gateway} lladdr {mac} dev veth0 nud permanent\n"))?;
            }
        }
        Ok(())
    }

    /// Has another router take over that does not announce itself. It knows no host.
    ///
    /// # Errors
    /// The error of `ip`.
    pub fn take_over_silently(&self, macs: [MacAddress; 2]) -> Result<()> {
        macs.into_iter()
            .enumerate()
            .try_for_each(|(network, mac)| self.router.ip(&format!("link set port{network} address {mac}\n")))
    }

    /// Has the hosts know the MAC address of the router as if they had learned it, with their entries in this state. Before, it
    /// is fixed.
    ///
    /// # Errors
    /// The error of `ip`.
    pub fn learn_router(&self, state: &str) -> Result<()> {
        for (network, host) in self.hosts.iter().enumerate() {
            let routers = Self::router_mac(network);
            for ipv6 in [false, true] {
                let gateway = address(network, false, ipv6);
                host.ip(&format!("neigh replace {gateway} lladdr {routers} dev veth0 nud {state}\n"))?;
            }
        }
        Ok(())
    }

    /// Returns the MAC address of the router in the network of a host, before another one takes over.
    const fn router_mac(network: usize) -> MacAddress {
        MacAddress([2, 0, 0, 0, 2, network as u8])
    }

    /// Returns the MAC address of a host.
    const fn host_mac(network: usize) -> MacAddress {
        MacAddress([2, 0, 0, 0, 1, network as u8])
    }

    /// Has the router drop packets silently from now on.
    ///
    /// # Errors
    /// The error of `ip`.
    pub fn drop_silently(&self, what: Dropped) -> Result<()> {
        self.rules("add", what)
    }

    /// Has the router forward again what it dropped.
    ///
    /// # Errors
    /// The error of `ip`.
    pub fn forward_again(&self, what: Dropped) -> Result<()> {
        self.rules("del", what)
    }

    fn rules(&self, verb: &str, what: Dropped) -> Result<()> {
        let falcon = format!("ipproto udp dport {FALCON_UDP_PORT}");
        for ipv6 in [false, true] {
            let version = if ipv6 { "-6" } else { "-4" };
            let run = |command: String| {
                let command = format!("{version} {command}");
                self.router.command("ip", command.split(' ')).map(drop)
            };
            let selector = match what {
                Dropped::Programs => "ipproto udp dport 1024-65534".to_owned(),
                Dropped::FalconFrom(host) => format!("iif port{host} {falcon}"),
                Dropped::Everything => "from all".to_owned(),
                Dropped::LongFrom(host, longest) | Dropped::LongFalconFrom(host, longest) => {
                    // The packets have a route of their own, with a smaller MTU. The router drops what is longer, and would say
                    // so by ICMP if it had a route for that.
                    let (table, other) = (100 + host, 1 - host);
                    let network =
                        if ipv6 { format!("fd07:{other}::/64") } else { format!("10.7.{other}.0/24") };
                    run(format!("route {verb} {network} dev port{other} mtu lock {longest} table {table}"))?;
                    let icmp = if ipv6 { libc::IPPROTO_ICMPV6 } else { libc::IPPROTO_ICMP };
                    run(format!("rule {verb} pref {table} iif lo ipproto {icmp} blackhole"))?;
                    let from = match what {
                        Dropped::LongFrom(..) => format!("iif port{host}"),
                        _ => format!("iif port{host} {falcon}"),
                    };
                    run(format!("rule {verb} {from} lookup {table}"))?;
                    continue;
                }
            };
            run(format!("rule {verb} {selector} blackhole"))?;
        }
        Ok(())
    }

    /// Brings nodes up on both hosts.
    ///
    /// # Errors
    /// The error of a node.
    pub fn up(&self, ipv6: bool, tuning: Tuning) -> Result<[End<'_>; 2]> {
        let [a, b] = &self.hosts;
        Ok([End::up(a, address(0, true, ipv6), tuning)?, End::up(b, address(1, true, ipv6), tuning)?])
    }
}

/// Returns the address of a host, or of the router in the network of that host.
///
/// # Panics
/// Never: the texts are addresses.
pub fn address(network: usize, host: bool, ipv6: bool) -> IpAddr {
    let last = if host { 1 } else { 254 };
    let text = if ipv6 { format!("fd07:{network}::{last}") } else { format!("10.7.{network}.{last}") };
    text.parse().expect("an address")
}

/// A node with its connection manager. The fields are dropped in this order.
pub struct End<'a> {
    host: &'a Namespace,
    /// The connection manager.
    pub manager: ConnectionManager<NodeHost>,
    /// The node.
    pub node: Node,
    /// Its threads are inside the host, as all sockets of the manager must be.
    runtime: Runtime,
}

impl<'a> End<'a> {
    /// Brings a node up on a host.
    ///
    /// # Errors
    /// The error of the node.
    pub fn up(host: &'a Namespace, address: IpAddr, tuning: Tuning) -> Result<Self> {
        let options =
            ManagerOptions { port: 0, tuning, timing: Timing::default(), limits: Limits::default() };
        host.run(|| {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            let node = Node::up(NodeOptions::new(Routed::INTERFACE, address))?;
            let start = ConnectionManager::start(NodeHost::new(node.clone()), options);
            let (manager, _) = runtime.block_on(start)?;
            Ok(Self { host, manager, node, runtime })
        })
    }

    /// Asks the other end for a connection.
    ///
    /// # Errors
    /// Why there is none.
    pub fn try_connect(&self, peer: &Self) -> Result<Cid, ConnectError> {
        self.try_connect_with(peer, Terms::default())
    }

    /// Asks the other end for a connection with these terms.
    ///
    /// # Errors
    /// Why there is none.
    pub fn try_connect_with(&self, peer: &Self, terms: Terms) -> Result<Cid, ConnectError> {
        let to = peer.manager.address();
        let connect = self.manager.connect(to.ip(), to.port(), terms);
        self.host.run(|| self.runtime.block_on(connect))
    }

    /// Connects to the other end.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn connect(&self, peer: &Self) -> Result<()> {
        self.try_connect(peer)?;
        peer.accept();
        Ok(())
    }

    /// Waits for the next connection that the other end has opened.
    ///
    /// # Panics
    /// If there is none in time.
    pub fn accept(&self) -> Cid {
        Cid(block_on(self.manager.accept()).expect("the manager is up").local_cid)
    }

    /// Closes the only connection, and waits until both ends have forgotten it.
    ///
    /// # Panics
    /// If there is none, or if an end does not forget it.
    pub fn close(&self, peer: &Self) {
        let cid = Cid(self.session().local_cid);
        assert!(self.runtime.block_on(self.manager.close(cid)), "it is connected");
        wait_until("both ends have closed", || self.is_idle() && peer.is_idle());
    }

    /// Returns whether there is neither a session nor a connection.
    pub fn is_idle(&self) -> bool {
        self.manager.sessions().is_empty() && self.node.connections().is_empty()
    }

    /// Moves 100 KB to the other end by WRITE and back by READ, over the only connection.
    ///
    /// # Errors
    /// If an operation fails.
    ///
    /// # Panics
    /// If received data differ from the sent data.
    pub fn there_and_back(&self, peer: &Self) -> Result<()> {
        const LENGTH: usize = 100_000;
        let local = self.node.register(LENGTH, Access::LOCAL)?;
        let remote = peer.node.register(LENGTH, Access::ALL)?;
        let sent = fill(&local, LENGTH, 4);
        block_on(self.connection().write(&local, 0, remote.key(), 0, LENGTH as u64))?;
        assert!(contents(&remote, LENGTH) == sent, "WRITE: the received data differ from the sent data");
        local.write(0, &vec![0; LENGTH])?;
        block_on(self.connection().read(&local, 0, remote.key(), 0, LENGTH as u64))?;
        assert!(contents(&local, LENGTH) == sent, "READ: the data read back differ from the sent data");
        Ok(())
    }

    /// Returns the only session.
    ///
    /// # Panics
    /// If there is none.
    pub fn session(&self) -> SessionInfo {
        self.manager.sessions().pop().expect("connected")
    }

    /// Returns the connection of the only session.
    ///
    /// # Panics
    /// If there is none.
    pub fn connection(&self) -> Connection {
        self.node.connection(Cid(self.session().local_cid)).expect("connected")
    }

    /// Waits until an event contains a text.
    ///
    /// # Panics
    /// If none does.
    pub fn wait_for_event(&self, text: &str) {
        let events = || self.manager.events().into_iter().map(|event| event.text).collect::<Vec<_>>();
        let told = std::panic::AssertUnwindSafe(|| {
            wait_until(text, || events().iter().any(|event| event.contains(text)));
        });
        if std::panic::catch_unwind(told).is_err() {
            panic!("no event says \"{text}\": {:#?}", events());
        }
    }
}
