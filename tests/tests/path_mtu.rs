//! The MTU of a path through a router, whose second link carries shorter packets than the interfaces of both hosts.

use std::net::IpAddr;

use anyhow::Result;
use tiercel_tests::checks::{self, pattern};
use tiercel_tests::nodes::Setup;
use tiercel_tests::veth::{self, DEFAULT_MTU, MacAddress, VethEnd};
use tiercel_tests::{Namespace, need_root};
use tokio::runtime::{Builder, Runtime};
use transport_user::connection_manager::{
    ConnectionManager, Limits, ManagerOptions, NodeHost, SessionInfo, Terms, Timing,
};
use transport_user::{Access, Cid, Connection, Node, NodeOptions};

/// The MTU of the router's second link.
const PATH_MTU: u32 = 1400;

/// Two hosts in different networks, and the router between them.
struct Routed {
    hosts: [Namespace; 2],
    _router: Namespace,
}

/// Returns the address of a host, or of the router in the network of that host.
fn address(network: usize, host: bool, ipv6: bool) -> IpAddr {
    let last = if host { 1 } else { 254 };
    let text = if ipv6 { format!("fd07:{network}::{last}") } else { format!("10.7.{network}.{last}") };
    text.parse().expect("an address")
}

impl Routed {
    /// Makes the hosts. Only the router's end of the second link has the MTU of the path. The router drops datagrams
    /// to ports of programs silently if it is a `firewall`; the port of Falcon is none of them.
    fn new(firewall: bool) -> Result<Self> {
        let (hosts, router) = ([Namespace::new()?, Namespace::new()?], Namespace::new()?);
        router.run(|| {
            ["ipv4/ip_forward", "ipv6/conf/all/forwarding"]
                .iter()
                .try_for_each(|name| std::fs::write(format!("/proc/sys/net/{name}"), "1"))
        })?;
        for (network, host) in hosts.iter().enumerate() {
            let port = format!("port{network}");
            let [mac, routers] = [1, 2].map(|end| MacAddress([2, 0, 0, 0, end, network as u8]));
            let end = |namespace, name, mac| VethEnd { namespace, name, mac, merge: true };
            veth::connect(end(host, "veth0", mac), end(&router, &port, routers), DEFAULT_MTU)?;
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
        router.ip(&format!("link set port1 mtu {PATH_MTU}\n"))?;
        if firewall {
            for version in ["-4", "-6"] {
                let rule = [version, "rule", "add", "ipproto", "udp", "dport", "1024-65534", "blackhole"];
                router.command("ip", rule)?;
            }
        }
        Ok(Self { hosts, _router: router })
    }
}

/// A node with its connection manager. The fields are dropped in this order.
struct End<'a> {
    host: &'a Namespace,
    manager: ConnectionManager<NodeHost>,
    node: Node,
    /// Its threads are inside the host, as all sockets of the manager must be.
    runtime: Runtime,
}

impl<'a> End<'a> {
    fn up(host: &'a Namespace, address: IpAddr) -> Result<Self> {
        let timing = Timing::default();
        let options = ManagerOptions { port: 0, tuning: Setup::CONSTANT, timing, limits: Limits::default() };
        host.run(|| {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
            let node = Node::up(NodeOptions::new("veth0", address))?;
            let start = ConnectionManager::start(NodeHost::new(node.clone()), options);
            let (manager, _) = runtime.block_on(start)?;
            Ok(Self { host, manager, node, runtime })
        })
    }

    /// Connects to the other end.
    fn connect(&self, peer: &Self) -> Result<()> {
        let to = peer.manager.address();
        self.host.run(|| {
            let terms = Terms::default();
            self.runtime.block_on(self.manager.connect(to.ip(), to.port(), terms)).map(drop)
        })?;
        checks::wait_until("the other end knows", || peer.manager.sessions().len() == 1);
        Ok(())
    }

    fn session(&self) -> SessionInfo {
        self.manager.sessions().pop().expect("connected")
    }

    fn connection(&self) -> Connection {
        self.node.connection(Cid(self.session().local_cid)).expect("connected")
    }
}

/// Sends 100 KB from one end to the other and reads them back.
fn there_and_back(from: &End<'_>, to: &End<'_>) -> Result<()> {
    const LENGTH: usize = 100_000;
    let (local, remote) =
        (from.node.register(LENGTH, Access::LOCAL)?, to.node.register(LENGTH, Access::ALL)?);
    let sent = pattern(LENGTH, 4);
    local.write(0, &sent)?;
    checks::block_on(from.connection().write(&local, 0, remote.key(), 0, LENGTH as u64))?;
    assert!(checks::contents(&remote, LENGTH) == sent, "WRITE");
    local.write(0, &vec![0; LENGTH])?;
    checks::block_on(from.connection().read(&local, 0, remote.key(), 0, LENGTH as u64))?;
    assert!(checks::contents(&local, LENGTH) == sent, "READ");
    Ok(())
}

/// RFC 8899: both ends find the MTU of a link behind a router, and every packet of full size arrives in both directions.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_mtu_of_a_link_behind_a_router_is_found() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let routed = Routed::new(false)?;
        let [a, b] = &routed.hosts;
        let (a, b) = (End::up(a, address(0, true, ipv6))?, End::up(b, address(1, true, ipv6))?);
        assert_eq!((a.node.device().mtu, b.node.device().mtu), (DEFAULT_MTU, DEFAULT_MTU));
        a.connect(&b)?;
        for end in [&a, &b] {
            let SessionInfo { mtu, path_mtu, .. } = end.session();
            assert_eq!((mtu, path_mtu), (PATH_MTU, Some(PATH_MTU)));
            let segment = end.connection().max_segment();
            assert!(segment < PATH_MTU && PATH_MTU - segment < 136, "{segment}");
        }
        there_and_back(&a, &b)?;
        there_and_back(&b, &a)?;
    }
    Ok(())
}

/// A firewall that drops probes silently does not prevent the connection. The MTU of the interfaces is used, and the log
/// says so.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_firewall_that_drops_probes_leaves_the_mtu_of_the_interfaces() -> Result<()> {
    need_root();
    let routed = Routed::new(true)?;
    let [a, b] = &routed.hosts;
    let (a, b) = (End::up(a, address(0, true, false))?, End::up(b, address(1, true, false))?);
    a.connect(&b)?;
    for end in [&a, &b] {
        let SessionInfo { mtu, path_mtu, .. } = end.session();
        assert_eq!((mtu, path_mtu), (DEFAULT_MTU, None));
    }
    let told = b.manager.events().into_iter().any(|event| event.text.contains("no probe of 1280 bytes"));
    assert!(told, "{:?}", b.manager.events());
    // Packets of Falcon pass, as long as they are shorter than the link.
    let (local, remote) = (a.node.register(1000, Access::LOCAL)?, b.node.register(1000, Access::ALL)?);
    local.write(0, &[7; 1000])?;
    checks::block_on(a.connection().write(&local, 0, remote.key(), 0, 1000))?;
    assert_eq!(checks::contents(&remote, 1000), [7; 1000]);
    Ok(())
}
