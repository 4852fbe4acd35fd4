//! Nodes of the library on hosts, and connections between them. Most tests use two nodes, one on each host of a
//! pair.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use fabric_model::FlowHash;
use tiercel::{
    CongestionControl, Connection, ConnectionInfo, ConnectionSecurity, LocalCid, OpenConnection, Tuning,
    Tunnel, Ulp,
};
use tiercel_node::rate_update::RateUpdateOptions;
use tiercel_node::{EngineOptions, Node, NodeOptions, Transmit};
use transport_common::connection::Initial;
use transport_common::ids::{Cid, Psn, Rsn};
use transport_common::wire::udp::{FALCON_UDP_PORT, IP_PROTOCOL_UDP};

use crate::{Host, Pair};

/// CID at host A.
pub const CID_A: Cid = Cid(5);
/// CID at host B.
pub const CID_B: Cid = Cid(10);

/// The setup of the nodes and their connection.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Engine of host A.
    pub engine_a: EngineOptions,
    /// Engine of host B.
    pub engine_b: EngineOptions,
    /// Deliver and complete in RSN order.
    pub ordered: bool,
    /// The upper layer protocol.
    pub ulp: Ulp,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// The connection's inner addresses, as host A sees them, in tunnel mode (F-7.1.2-1).
    pub tunnel: Option<Tunnel>,
    /// Send a UDP checksum (D-91).
    pub checksum: bool,
    /// Ask the drivers for receive timestamps.
    pub hardware_timestamps: Option<bool>,
    /// Bytes of memory of each node; `None` stands for the default.
    pub memory: Option<u64>,
    /// How frames leave, whatever the driver takes.
    pub transmit: Option<Transmit>,
    /// Tuning of both ends.
    pub tuning: Tuning,
    /// The rate update engine in user space of both nodes.
    pub rate_update: RateUpdateOptions,
}

impl Setup {
    /// The default tuning, but with constant windows and timeout.
    pub const CONSTANT: Tuning = Tuning { congestion: CongestionControl::CONSTANT, ..Tuning::DEFAULT };
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            engine_a: EngineOptions::default(),
            engine_b: EngineOptions::default(),
            ordered: true,
            ulp: Ulp::Rdma,
            ipv6: false,
            tunnel: None,
            checksum: true,
            hardware_timestamps: None,
            memory: None,
            transmit: None,
            // The fabric of the tests has delays of milliseconds, which congestion control would interpret as
            // congestion.
            tuning: Self::CONSTANT,
            rate_update: RateUpdateOptions::default(),
        }
    }
}

/// Two running nodes and both ends of their connection. Fields are dropped in order: nodes before hosts.
pub struct TwoNodes {
    /// Connection at host A.
    pub at_a: Connection,
    /// Connection at host B.
    pub at_b: Connection,
    /// Node at host A.
    pub a: Node,
    /// Node at host B.
    pub b: Node,
    /// The hosts.
    pub pair: Pair,
}

impl TwoNodes {
    /// Brings both nodes up on `pair` and opens a static connection with sequence numbers close to their wrap.
    ///
    /// # Errors
    /// The error of a node.
    pub fn up(pair: Pair, setup: Setup) -> Result<Self> {
        let a = node(&pair.a, setup.engine_a, setup).context("node A")?;
        let b = node(&pair.b, setup.engine_b, setup).context("node B")?;
        let [at_a, at_b] = connect([(&a, CID_A), (&b, CID_B)], setup)?;
        Ok(Self { at_a, at_b, a, b, pair })
    }

    /// Opens another connection between the nodes, with a CID at A and one at B. Returns its ends at A and at B.
    ///
    /// # Errors
    /// The error of a node.
    pub fn connect(&self, [cid_a, cid_b]: [Cid; 2], setup: Setup) -> Result<[Connection; 2]> {
        connect([(&self.a, cid_a), (&self.b, cid_b)], setup)
    }
}

/// Brings a node up on a host.
///
/// # Errors
/// The error of the node.
pub fn node(host: &Host, engine: EngineOptions, setup: Setup) -> Result<Node> {
    let address: IpAddr = if setup.ipv6 { host.ipv6.into() } else { host.ipv4.into() };
    let options = NodeOptions {
        engine,
        hardware_timestamps: setup.hardware_timestamps,
        transmit: setup.transmit,
        rate_update: setup.rate_update,
        ..NodeOptions::new(Host::INTERFACE, address)
    };
    let options = NodeOptions { memory: setup.memory.unwrap_or(options.memory), ..options };
    Ok(host.run(|| Node::up(options))?)
}

/// Opens a static connection between two nodes, with sequence numbers close to their wrap. Returns the first
/// node's end and the second's.
///
/// # Errors
/// The error of a node.
pub fn connect(ends: [(&Node, Cid); 2], setup: Setup) -> Result<[Connection; 2]> {
    let [(a, cid_a), (b, cid_b)] = ends;
    let [from_a, from_b] = initials();
    let tunnel_of_b = setup.tunnel.map(|Tunnel { local, peer }| Tunnel { local: peer, peer: local });
    let open = |node: &Node, cid, peer: &Node, peer_cid, (tx, rx), tunnel| {
        let base = OpenConnection::new(peer_cid, peer.device().address, peer.device().mac);
        node.open(OpenConnection {
            local_cid: LocalCid::Given(cid),
            ordered: setup.ordered,
            ulp: setup.ulp,
            tunnel,
            tx,
            rx,
            tuning: setup.tuning,
            security: ConnectionSecurity { checksum: setup.checksum, ..base.security },
            ..base
        })
    };
    let at_a = open(a, cid_a, b, cid_b, (from_a, from_b), setup.tunnel).context("open at A")?;
    let at_b = open(b, cid_b, a, cid_a, (from_b, from_a), tunnel_of_b).context("open at B")?;
    Ok([at_a, at_b])
}

/// Returns the first sequence numbers of both ends of a connection, close to their wrap: those of the first
/// node, and of the second.
pub fn initials() -> [Initial; 2] {
    [0, 1].map(|n| Initial {
        request_psn: Psn(0xffff_fff0 + n),
        data_psn: Psn(0xffff_ffe0 + n),
        rsn: Rsn(0xffff_ffd0 + n),
    })
}

/// Returns the fields that a switch hashes in the packets that a connection of `node` sends at present (D-80).
///
/// # Errors
/// If the addresses have different IP versions.
pub fn flow_hash(node: &Node, connection: &ConnectionInfo) -> Result<FlowHash> {
    let ports = [connection.source_port, FALCON_UDP_PORT];
    Ok(match (node.device().address, connection.peer_address) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            FlowHash::ipv4(from.octets(), to.octets(), IP_PROTOCOL_UDP, ports)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            FlowHash::ipv6(from.octets(), to.octets(), IP_PROTOCOL_UDP, connection.flow_label)
        }
        (from, to) => bail!("a connection from {from} to {to} mixes IP versions"),
    })
}
