//! Hosts and their connections.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Deref;

use anyhow::{Context, ensure};
use fabric_model::{Fabric, FabricConfig, Port, Topology};

use super::switch::LiveFabric;
use crate::Namespace;
use crate::veth::{self, DEFAULT_MTU, MacAddress, Offload, VethEnd};

/// Bytes of a frame that the MTU does not include: the Ethernet header.
pub(super) const ETHERNET: usize = 14;

/// A host: a namespace with one interface. It dereferences to its namespace: `host.run(...)`, `host.command(...)`.
///
/// Host `n` (from 0) is `02:00:00:00:00:<n+1>`, `10.7.0.<n+1>/16` and `fd07::<n+1>/64`. All hosts know each
/// other's addresses; nothing needs to be resolved.
#[derive(Debug)]
pub struct Host {
    namespace: Namespace,
    /// The interface's Ethernet address.
    pub mac: MacAddress,
    /// The interface's IPv4 address.
    pub ipv4: Ipv4Addr,
    /// The interface's IPv6 address.
    pub ipv6: Ipv6Addr,
}

impl Host {
    /// The name of every host's interface.
    pub const INTERFACE: &str = "veth0";

    pub(super) fn new(index: u16) -> anyhow::Result<Self> {
        let [high, low] = (index + 1).to_be_bytes();
        Ok(Self {
            namespace: Namespace::new()?,
            mac: MacAddress([2, 0, 0, 0, high, low]),
            ipv4: Ipv4Addr::new(10, 7, high, low),
            ipv6: Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, index + 1),
        })
    }

    /// The namespace of the host.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn end(&self) -> VethEnd<'_> {
        // Merging enables NAPI, so that a peer's XDP can transmit to this host before it has a program itself.
        VethEnd { namespace: &self.namespace, name: Self::INTERFACE, mac: self.mac, merge: true }
    }

    /// Sets the host's addresses, and adds those of the others to its neighbour table.
    pub(super) fn configure<'a>(&self, all: impl Iterator<Item = &'a Host>) -> anyhow::Result<()> {
        let interface = Self::INTERFACE;
        let mut script = format!(
            "addr add {}/16 dev {interface}\naddr add {}/64 dev {interface} nodad\n",
            self.ipv4, self.ipv6
        );
        for Host { mac, ipv4, ipv6, .. } in all.filter(|host| host.mac != self.mac) {
            for address in [ipv4.to_string(), ipv6.to_string()] {
                script += &format!("neigh add {address} lladdr {mac} dev {interface} nud permanent\n");
            }
        }
        self.namespace.ip(&script)
    }
}

impl Host {
    /// Whether the interface merges what it receives, which it does at first. If it does not, and no XDP program is there,
    /// XDP at the other end cannot send to it.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn merge(&self, merge: bool) -> anyhow::Result<()> {
        Ok(self.namespace.run(|| veth::set_offload(Self::INTERFACE, Offload::Merge, merge))?)
    }

    /// Returns whether the interface merges what it receives.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn merges(&self) -> anyhow::Result<bool> {
        Ok(self.namespace.run(|| veth::merges(Self::INTERFACE))?)
    }
}

impl Deref for Host {
    type Target = Namespace;
    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

/// Two hosts.
#[derive(Debug)]
pub struct Pair {
    // The first field, so that it stops before its cables are removed.
    fabric: Option<LiveFabric>,
    /// The namespace of the bridge, which lives as long as the hosts.
    _bridge: Option<Namespace>,
    /// Port 0 of the fabric, `10.7.0.1`.
    pub a: Host,
    /// Port 1 of the fabric, `10.7.0.2`.
    pub b: Host,
}

impl Pair {
    /// Makes two hosts with only a cable between them.
    ///
    /// On veth, `XDP_TX` on one host needs an XDP program on the other.
    ///
    /// # Errors
    /// Without root or `ip` (iproute2).
    pub fn direct() -> anyhow::Result<Self> {
        Self::direct_with_mtu(DEFAULT_MTU)
    }

    /// [`direct`](Self::direct) with an MTU of its own, in bytes. Above 3506 there is no native XDP.
    ///
    /// # Errors
    /// As [`direct`](Self::direct).
    pub fn direct_with_mtu(mtu: u32) -> anyhow::Result<Self> {
        let (a, b) = (Host::new(0)?, Host::new(1)?);
        veth::connect(a.end(), b.end(), mtu)?;
        a.configure([&a, &b].into_iter())?;
        b.configure([&a, &b].into_iter())?;
        Ok(Self { fabric: None, _bridge: None, a, b })
    }

    /// Makes two hosts on a bridge, as containers are connected: the bridge's ends of the cables have no XDP program and
    /// do not merge, so they take no frames from the hosts' XDP.
    ///
    /// # Errors
    /// As [`direct`](Self::direct).
    pub fn bridged() -> anyhow::Result<Self> {
        const BRIDGE: &str = "bridge";
        let (a, b, bridge) = (Host::new(0)?, Host::new(1)?, Namespace::new()?);
        bridge.ip(&format!(
            "link add {BRIDGE} type bridge forward_delay 0\nlink set {BRIDGE} mtu {DEFAULT_MTU}\n"
        ))?;
        for (name, host, last) in [("port0", &a, 0), ("port1", &b, 1)] {
            let mac = MacAddress([2, 1, 0, 0, 0, last]);
            veth::connect(host.end(), VethEnd { namespace: &bridge, name, mac, merge: false }, DEFAULT_MTU)?;
            bridge.ip(&format!("link set {name} master {BRIDGE}\n"))?;
        }
        bridge.ip(&format!("link set {BRIDGE} up\n"))?;
        a.configure([&a, &b].into_iter())?;
        b.configure([&a, &b].into_iter())?;
        Ok(Self { fabric: None, _bridge: Some(bridge), a, b })
    }

    /// Makes two hosts with a fabric between them. The link towards `b` is that of port 1.
    ///
    /// # Errors
    /// Without root, `ip` or `tc` (iproute2), or if the configuration names another port.
    pub fn through(config: FabricConfig) -> anyhow::Result<Self> {
        Self::through_with_mtu(config, DEFAULT_MTU)
    }

    /// [`through`](Self::through) with an MTU of its own, in bytes, up to 3506.
    ///
    /// # Errors
    /// As [`through`](Self::through).
    pub fn through_with_mtu(config: FabricConfig, mtu: u32) -> anyhow::Result<Self> {
        Self::over_with_mtu(Topology::star(2), config, mtu)
    }

    /// Makes two hosts at the switches of `topology`, which has two ports. The path between them depends on a
    /// hash of fields of the packets, see [`FlowHash`](fabric_model::FlowHash). The switches share one
    /// namespace, and one thread serves them all.
    ///
    /// # Errors
    /// As [`through`](Self::through), or if the topology does not have two ports.
    pub fn over(topology: Topology, config: FabricConfig) -> anyhow::Result<Self> {
        Self::over_with_mtu(topology, config, DEFAULT_MTU)
    }

    fn over_with_mtu(topology: Topology, config: FabricConfig, mtu: u32) -> anyhow::Result<Self> {
        ensure!(topology.hosts() == 2, "a pair needs two ports, not {}", topology.hosts());
        let Network { fabric, hosts } = Network::with_mtu(topology, config, mtu)?;
        let [a, b] = <[Host; 2]>::try_from(hosts).expect("two hosts were asked for");
        Ok(Self { fabric: Some(fabric), _bridge: None, a, b })
    }

    /// Returns the fabric between the hosts; `None` if there is only a cable.
    pub fn fabric(&self) -> Option<&LiveFabric> {
        self.fabric.as_ref()
    }
}

/// Any number of hosts at the switches of a topology.
#[derive(Debug)]
pub struct Network {
    // The first field, so that it stops before its cables are removed.
    /// The switches; host `n` is at port `n`.
    pub fabric: LiveFabric,
    /// The hosts.
    pub hosts: Vec<Host>,
}

impl Network {
    /// Makes `hosts` hosts and the switch between them.
    ///
    /// # Errors
    /// As [`Pair::through`].
    pub fn star(hosts: u16, config: FabricConfig) -> anyhow::Result<Self> {
        Self::with_mtu(Topology::star(hosts), config, DEFAULT_MTU)
    }

    /// Makes a host for each port of `topology`, with an MTU in bytes, up to 3506.
    ///
    /// # Errors
    /// As [`Pair::through`].
    pub fn with_mtu(topology: Topology, config: FabricConfig, mtu: u32) -> anyhow::Result<Self> {
        let hosts = topology.hosts();
        ensure!(hosts <= 1024, "{hosts} hosts are more than one thread can serve; 1024 is the limit");
        let mut fabric = Fabric::with_topology(topology, config)?;
        let hosts = (0..hosts).map(Host::new).collect::<anyhow::Result<Vec<_>>>()?;
        let switch = Namespace::new()?;
        let mut interfaces = Vec::new();
        for (port, host) in (0..).zip(&hosts) {
            fabric.learn(host.mac.0, Port(port));
            interfaces.push(plug_in(&switch, host, port, mtu)?);
        }
        hosts.iter().try_for_each(|host| host.configure(hosts.iter()))?;
        let frame_size = mtu as usize + ETHERNET;
        let fabric = LiveFabric::start(fabric, switch, &interfaces, frame_size)
            .context("cannot start the live fabric")?;
        Ok(Self { fabric, hosts })
    }
}

/// Makes the cable from a host to the switch, where it ends at `port<number>`. Returns the index of that end.
pub(super) fn plug_in(switch: &Namespace, host: &Host, port: u16, mtu: u32) -> anyhow::Result<u32> {
    let name = format!("port{port}");
    let [high, low] = port.to_be_bytes();
    // Merged segments would be longer than the MTU of the cable on which they leave.
    let mac = MacAddress([2, 1, 0, 0, high, low]);
    let end = VethEnd { namespace: switch, name: &name, mac, merge: false };
    veth::connect(host.end(), end, mtu)?;
    // No address resolution, because the switch is not a host. With a queue attached, veth tells the sender
    // that the host's ring is full. Without one, it drops frames silently.
    switch.ip(&format!("link set {name} arp off\n"))?;
    switch.command("tc", ["qdisc", "add", "dev", &name, "root", "pfifo"])?;
    Ok(switch.run(|| veth::interface_index(&name))?)
}
