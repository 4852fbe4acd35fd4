//! The node file: the configuration of a node, and its static connections.
//!
//! ```toml
//! [node]
//! interface = "veth0"
//! address   = "10.7.0.1"
//! memory    = "1GiB"                # what its regions share; without it, 256MiB
//! patience  = "5s"                  # after which a peer of which nothing arrives counts as dead
//!
//! [[connection]]
//! local_cid = 5
//! peer_cid  = 10
//! peer_address = "10.7.0.2"
//! peer_mac     = "02:00:00:00:00:02"
//! ordered   = true
//! security  = { mode = "plaintext", tx_spi = 1, rx_spi = 2 }
//! tx = { request_psn = 100, data_psn = 300, rsn = 1 }
//! rx = { request_psn = 500, data_psn = 700, rsn = 1 }
//! tunnel = { local = "fd01::1", peer = "fd01::2" }    # inner addresses; without it, transport mode
//!
//! [connection.congestion]           # also [node.congestion], the default of all connections
//! algorithm = "swift"               # swift, dcqcn, newreno, fixed, or a custom algorithm of the program
//! placement = "kernel"              # constant, kernel, user
//! profile   = "rack"
//!
//! [profile.rack]                    # any of congestion::CongestionParameters
//! base_delay_target = "20us"
//! max_fcwnd = 128
//!
//! [node.engine]                     # the options of the engine thread
//! mode = "sleeping"                 # or "busy"
//!
//! [node.limits]                     # what peers may use
//! connections_per_source = 128
//!
//! [node.receive]                    # where peers may store and fetch files; without it, nowhere
//! directory = "/srv/inbox"
//! max_total = "100GiB"              # also max_file, and overwrite = true
//!
//! [node.rate_update]                # options of the rate update engine in user space
//! thresholds = [256, 512, 768]
//! ```
//!
//! Every field is checked. All mistakes of a file are reported together, each with its line.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display};
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeTable;
use transport_common::connection::Initial;
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::limits;
use transport_common::queues::CONNECTIONS;
use transport_common::security::RemoteTime;
use transport_common::units::Picoseconds;

mod congestion;
mod node_tables;
mod reader;
#[cfg(test)]
mod tests;
mod tuning;

use congestion::Names;
pub use node_tables::ReceiveOptions;
pub use reader::Complaint;
pub(crate) use reader::is_host;
use reader::{Complaints, Reader};

use crate::congestion::{Algorithms, CongestionControl, CongestionParameters};
use crate::connection_manager::{DEFAULT_PATIENCE, Limits, PATIENCE};
use crate::engine::EngineOptions;
use crate::mac::Mac;
use crate::memory;
use crate::node::NodeOptions;
use crate::parameters::{ConnectionSecurity, LocalCid, OpenConnection, PLAINTEXT_VERSION, Tuning, Ulp};
use crate::rate_update::RateUpdateOptions;
use crate::segmentation::{LARGEST_MTU, smallest_mtu};
use crate::tunnel::Tunnel;

/// Default TCP port of the connection manager.
pub const DEFAULT_CONTROL_PORT: u16 = 4792;
/// Largest size of a node file, bytes. A larger file is not read.
const LARGEST_FILE: u64 = 1 << 20;
/// Smallest and largest MTU in bytes: the least that carries a Falcon packet over IPv4, and the most that a node serves. The
/// node compares with its address and its interface.
const MTU_RANGE: (u64, u64) = (smallest_mtu(false) as u64, LARGEST_MTU as u64);
/// Longest name of an interface in Linux, bytes, without the final zero.
const LONGEST_INTERFACE: usize = 15;
/// Longest name of a node, bytes. The path of its socket must fit 108 bytes.
const LONGEST_NAME: usize = 64;

/// A whole node file.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFile {
    /// The node itself.
    pub node: NodeSection,
    /// Static connections, which are set up without the connection manager, in the order of the file.
    pub connections: Vec<StaticConnection>,
    /// Profiles: parameters of congestion control by name.
    pub profiles: BTreeMap<String, CongestionParameters>,
}

/// The table `[node]`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSection {
    /// Interface to attach to.
    pub interface: String,
    /// The node's address, for Falcon packets and for the connection manager.
    pub address: IpAddr,
    /// IP MTU in bytes, at most [`LARGEST_MTU`]. If absent, the node uses the MTU of the interface, as far as it can serve it.
    pub mtu: Option<u32>,
    /// Bytes of memory that the node's regions share.
    pub memory: u64,
    /// Whether to use the card's receive timestamps. If absent, the node uses them where they are available.
    pub hardware_timestamps: Option<bool>,
    /// Name of the node and of its socket. If the file has none, this is the name of the interface.
    pub name: String,
    /// TCP port of the connection manager.
    pub control_port: u16,
    /// Tuning of connections that have no tuning of their own.
    pub tuning: Tuning,
    /// The rate update engine in user space.
    pub rate_update: RateUpdateOptions,
    /// The engine thread.
    pub engine: EngineOptions,
    /// Limits for peers.
    pub limits: Limits,
    /// Time after which a peer counts as dead if nothing of it arrives. It holds for connections that this node opens, unless
    /// they have their own.
    pub patience: Duration,
    /// Where peers may store and fetch files, if anywhere.
    pub receive: Option<ReceiveOptions>,
}

/// The table `[[connection]]`: a connection on which both ends agree without the connection manager.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticConnection {
    /// CID that the peer writes into packets to us.
    pub local_cid: Cid,
    /// CID that we write into packets to the peer.
    pub peer_cid: Cid,
    /// The peer's address, of the same IP version as the node's.
    pub peer_address: IpAddr,
    /// The peer's MAC address, or the next hop's.
    pub peer_mac: Mac,
    /// Whether it follows when the kernel's neighbour table has another MAC address of the next hop. Unless the table says so, it
    /// keeps the address that is written there.
    pub follow_next_hop: bool,
    /// Whether requests are delivered and completed in RSN order.
    pub ordered: bool,
    /// The upper layer protocol, RDMA unless the table names another.
    pub ulp: Ulp,
    /// The inner addresses in tunnel mode, if the table has them (F-7.1.2-1).
    pub tunnel: Option<Tunnel>,
    /// The security association.
    pub security: Security,
    /// Destination function that packets to us must have (D-15).
    pub local_function: u32,
    /// Destination function that we write into packets to the peer.
    pub peer_function: u32,
    /// First sequence numbers of our packets.
    pub tx: Initial,
    /// First sequence numbers of the peer's packets.
    pub rx: Initial,
    /// Tuning of this end.
    pub tuning: Tuning,
}

/// The table `security` of a static connection, in plaintext mode (D-83).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Security {
    /// SPI of packets we send.
    pub tx_spi: Spi,
    /// SPI of packets we receive.
    pub rx_spi: Spi,
    /// Whether a UDP checksum is sent (D-91).
    pub checksum: bool,
    /// First Remote Time in picoseconds, if known (D-87).
    pub remote_time: Option<RemoteTime>,
}

/// Why a node file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read the node file {}: {source}; check the path given to --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is too large for a node file.
    #[error("{} is not a node file: it is larger than 1 MiB; check the path given to --config", .0.display())]
    TooLong(PathBuf),
    /// The file is not a text file.
    #[error("{} is not a text file (UTF-8), so it is not a node file; check the path given to --config", .0.display())]
    NotText(PathBuf),
    /// The file has mistakes.
    #[error("{} cannot be used:\n{}", path.display(), Lines(path, complaints))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All mistakes, sorted by line.
        complaints: Vec<Complaint>,
    },
}

/// Complaints, one per line, each with the name of the file in front.
struct Lines<'a>(&'a Path, &'a [Complaint]);

impl Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, complaint) in self.1.iter().enumerate() {
            let end = if index + 1 == self.1.len() { "" } else { "\n" };
            write!(f, "  {}, {complaint}{end}", self.0.display())?;
        }
        Ok(())
    }
}

impl NodeFile {
    /// Reads and checks a file that names built-in algorithms only.
    ///
    /// # Errors
    /// The file is unreadable, too large, not text, or has mistakes. The error has all mistakes.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        Self::load_with(path, &Algorithms::new())
    }

    /// Reads and checks a file for a node that has these algorithms.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_with(path: &Path, algorithms: &Algorithms) -> Result<Self, FileError> {
        let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
        // A device or a pipe has no end, whatever length it tells.
        let mut source = Vec::new();
        let opened = std::fs::File::open(path).map_err(unreadable)?;
        opened.take(LARGEST_FILE + 1).read_to_end(&mut source).map_err(unreadable)?;
        if source.len() as u64 > LARGEST_FILE {
            return Err(FileError::TooLong(path.to_owned()));
        }
        let source = String::from_utf8(source).map_err(|_| FileError::NotText(path.to_owned()))?;
        Self::parse_with(&source, algorithms)
            .map_err(|complaints| FileError::Invalid { path: path.to_owned(), complaints })
    }

    /// Reads and checks the text of a file that names built-in algorithms only.
    ///
    /// # Errors
    /// All mistakes in the text, sorted by line.
    pub fn parse(source: &str) -> Result<Self, Vec<Complaint>> {
        Self::parse_with(source, &Algorithms::new())
    }

    /// Reads and checks the text of a file for a node that has these algorithms.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    pub fn parse_with(source: &str, algorithms: &Algorithms) -> Result<Self, Vec<Complaint>> {
        let mut complaints = Complaints::new(source);
        let (document, errors) = DeTable::parse_recoverable(source);
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            complaints.add(at, "", format!("not TOML: {}", error.message()));
        }
        if complaints.len() > 0 {
            // Further complaints would only be consequences of the wrong syntax.
            return Err(complaints.into_sorted());
        }
        let mut file = Reader::new(document.get_ref(), "", 0..0, &mut complaints);
        let names = Names { profiles: congestion::read_profiles(&mut file), algorithms };
        let node = file.table("node", |table| NodeSection::read(table, &names));
        let node = file.require("node", node, "{ interface = \"eth0\", address = \"10.7.0.1\" }");
        let base = node.as_ref().map_or_else(Tuning::default, |node| node.tuning);
        let own = node.as_ref().map(|node| (node.address, node.interface.as_str()));
        let mut owners = HashMap::new();
        let mut number = 0;
        let connections = file.tables("connection", |table| {
            number += 1;
            StaticConnection::read(table, (base, &names), own, &mut owners, number)
        });
        file.finish();
        match node {
            Some(node) if complaints.len() == 0 => {
                Ok(Self { node, connections, profiles: names.profiles.into_iter().collect() })
            }
            _ => Err(complaints.into_sorted()),
        }
    }
}

impl NodeSection {
    /// Returns the section with this interface and address, and with defaults for everything else.
    pub fn new(interface: String, address: IpAddr) -> Self {
        let name = interface.clone();
        Self {
            interface,
            address,
            mtu: None,
            memory: memory::DEFAULT,
            hardware_timestamps: None,
            name,
            control_port: DEFAULT_CONTROL_PORT,
            tuning: Tuning::default(),
            rate_update: RateUpdateOptions::default(),
            engine: EngineOptions::default(),
            limits: Limits::default(),
            patience: DEFAULT_PATIENCE,
            receive: None,
        }
    }

    /// Returns the options with which the node is brought up.
    pub fn options(&self) -> NodeOptions {
        NodeOptions {
            mtu: self.mtu,
            memory: self.memory,
            hardware_timestamps: self.hardware_timestamps,
            rate_update: self.rate_update,
            engine: self.engine,
            ..NodeOptions::new(self.interface.clone(), self.address)
        }
    }

    fn read(table: &mut Reader<'_, '_>, names: &Names<'_>) -> Option<Self> {
        let interface = table.string("interface");
        let interface = table.require("interface", interface, "\"eth0\"");
        let address = table.address("address", interface.as_deref());
        let address = table.require("address", address, "\"10.7.0.1\"");
        let mtu = table.integer("mtu", MTU_RANGE.0, MTU_RANGE.1).map(|mtu| mtu as u32);
        let memory = table.size("memory", memory::DEFAULT, memory::MOST);
        let hardware_timestamps = table.boolean("hardware_timestamps");
        let name = table.string("name");
        let port = table.integer("control_port", 1, u64::from(u16::MAX));
        let patience = table.duration("patience", *PATIENCE.start(), *PATIENCE.end());
        let tuning = read_tuning(table, Tuning::default(), names);
        let rate_update = table.table("rate_update", congestion::read_rate_update);
        let engine = table.table("engine", node_tables::read_engine);
        let limits = table.table("limits", node_tables::read_limits);
        let receive = table.table("receive", node_tables::read_receive);
        let is_interface =
            |name: &str| !name.is_empty() && name.len() <= LONGEST_INTERFACE && !name.contains(['/', ' ']);
        if interface.as_deref().is_some_and(|name| !is_interface(name)) {
            table.complain("interface", "is not the name of an interface: use a name that `ip link` shows");
        }
        if name.as_deref().is_some_and(|name| !is_name(name)) {
            table.complain(
                "name",
                format!(
                    "allowed: 1 to {LONGEST_NAME} letters, digits, dots, dashes and underscores, no dot first"
                ),
            );
        }
        let (interface, address) = (interface?, address?);
        Some(Self {
            name: name.unwrap_or_else(|| interface.clone()),
            mtu,
            memory: memory.unwrap_or(memory::DEFAULT),
            hardware_timestamps,
            control_port: port.map_or(DEFAULT_CONTROL_PORT, |port| port as u16),
            tuning,
            rate_update: rate_update.unwrap_or_default(),
            engine: engine.unwrap_or_default(),
            limits: limits.unwrap_or_default(),
            patience: patience.unwrap_or(DEFAULT_PATIENCE),
            receive,
            ..Self::new(interface, address)
        })
    }
}

/// Reads the tables `congestion` and `tuning` of a node or a connection. Fields that are absent come from `base`.
fn read_tuning(table: &mut Reader<'_, '_>, mut base: Tuning, names: &Names<'_>) -> Tuning {
    let congestion = |table: &mut Reader<'_, '_>| -> Option<CongestionControl> {
        Some(congestion::read(table, &base.congestion, names))
    };
    base.congestion = table.table("congestion", congestion).unwrap_or(base.congestion);
    table.table("tuning", |table| Some(tuning::read(table, base))).unwrap_or(base)
}

/// Returns whether `name` can be the name of a node. The name is also a part of a file name.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.chars().all(plain)
}

impl StaticConnection {
    fn read(
        table: &mut Reader<'_, '_>,
        (base, names): (Tuning, &Names<'_>),
        own: Option<(IpAddr, &str)>,
        owners: &mut HashMap<u32, (Cid, usize)>,
        number: usize,
    ) -> Option<Self> {
        let local_cid = table.integer("local_cid", 1, u64::from(Cid::MAX));
        let local_cid = table.require("local_cid", local_cid, "5");
        let peer_cid = table.integer("peer_cid", 0, u64::from(Cid::MAX));
        let peer_cid = table.require("peer_cid", peer_cid, "10");
        let peer_address = table.address("peer_address", own.map(|(_, interface)| interface));
        let peer_address = table.require("peer_address", peer_address, "\"10.7.0.2\"");
        let peer_mac = table.mac("peer_mac");
        let peer_mac = table.require("peer_mac", peer_mac, "\"02:00:00:00:00:02\"");
        let follow_next_hop = table.boolean("follow_next_hop").unwrap_or(false);
        let ordered = table.boolean("ordered");
        let ordered = table.require("ordered", ordered, "true");
        let ulp = read_ulp(table);
        let tunnel = table.table("tunnel", read_tunnel);
        let security = table.table("security", Security::read);
        let security =
            table.require("security", security, "{ mode = \"plaintext\", tx_spi = 1, rx_spi = 2 }");
        let function = |value: Option<u64>| value.map_or(0, |value| value as u32);
        let local_function = function(table.integer("local_function", 0, limits::FUNCTION.most));
        let peer_function = function(table.integer("peer_function", 0, limits::FUNCTION.most));
        let tx = table.table("tx", read_initial);
        let tx = table.require("tx", tx, INITIAL_EXAMPLE);
        let rx = table.table("rx", read_initial);
        let rx = table.require("rx", rx, INITIAL_EXAMPLE);
        let tuning = read_tuning(table, base, names);

        if let Some(cid) = local_cid {
            check_slot(table, Cid(cid as u32), owners, number);
        }
        match (own.map(|(address, _)| address), peer_address) {
            (Some(own), Some(peer)) if own == peer => {
                table.complain("peer_address", "is the address of this node: write the peer's address");
            }
            (Some(own), Some(peer)) if own.is_ipv4() != peer.is_ipv4() => {
                table.complain("peer_address", format!("must have the IP version of node.address ({own})"));
            }
            _ => {}
        }
        Some(Self {
            local_cid: Cid(local_cid? as u32),
            peer_cid: Cid(peer_cid? as u32),
            peer_address: peer_address?,
            peer_mac: peer_mac?,
            follow_next_hop,
            ordered: ordered?,
            ulp,
            tunnel,
            security: security?,
            local_function,
            peer_function,
            tx: tx?,
            rx: rx?,
            tuning,
        })
    }
}

/// Complains if another connection of the file has the same CID, or the same slot in the connection table.
fn check_slot(table: &mut Reader<'_, '_>, cid: Cid, owners: &mut HashMap<u32, (Cid, usize)>, number: usize) {
    let slots = CONNECTIONS as u32;
    let (other, owner) = *owners.entry(cid.0 % slots).or_insert((cid, number));
    if owner == number {
        return;
    }
    let text = if other == cid {
        format!("{} is used by connection[{owner}]: each connection needs its own CID", cid.0)
    } else {
        format!(
            "{} shares table slot {} with CID {} of connection[{owner}]: choose a CID with another remainder modulo {slots}",
            cid.0,
            cid.0 % slots,
            other.0
        )
    };
    table.complain("local_cid", text);
}

fn read_ulp(table: &mut Reader<'_, '_>) -> Ulp {
    let Some(name) = table.string("ulp") else { return Ulp::Rdma };
    name.parse().unwrap_or_else(|_| {
        table.complain("ulp", "must be \"rdma\" or \"block\"");
        Ulp::Rdma
    })
}

fn read_tunnel(table: &mut Reader<'_, '_>) -> Option<Tunnel> {
    let local = table.address("local", None);
    let local = table.require("local", local, "\"192.168.7.1\"");
    let peer = table.address("peer", None);
    let peer = table.require("peer", peer, "\"192.168.7.2\"");
    let tunnel = Tunnel { local: local?, peer: peer? };
    tunnel.check().map_err(|text| table.complain("peer", text)).ok()?;
    Some(tunnel)
}

const INITIAL_EXAMPLE: &str = "{ request_psn = 100, data_psn = 300, rsn = 1 }";

fn read_initial(table: &mut Reader<'_, '_>) -> Option<Initial> {
    let mut number = |name| {
        let value = table.integer(name, 0, u64::from(u32::MAX));
        table.require(name, value, "0").map(|value| value as u32)
    };
    let (request_psn, data_psn, rsn) = (number("request_psn"), number("data_psn"), number("rsn"));
    Some(Initial { request_psn: Psn(request_psn?), data_psn: Psn(data_psn?), rsn: Rsn(rsn?) })
}

impl StaticConnection {
    /// Returns the options with which the node opens the connection. `max_segment` is the bound in bytes on which
    /// both ends agreed, if they did.
    pub fn to_open(&self, local_cid: LocalCid, max_segment: Option<u32>) -> OpenConnection {
        OpenConnection {
            local_cid,
            follow_next_hop: self.follow_next_hop,
            ordered: self.ordered,
            ulp: self.ulp,
            tunnel: self.tunnel,
            security: ConnectionSecurity {
                psp_version: PLAINTEXT_VERSION,
                tx_spi: self.security.tx_spi,
                rx_spi: self.security.rx_spi,
                checksum: self.security.checksum,
                remote_time: self.security.remote_time,
            },
            local_function: self.local_function,
            peer_function: self.peer_function,
            tx: self.tx,
            rx: self.rx,
            max_segment,
            tuning: self.tuning,
            ..OpenConnection::new(self.peer_cid, self.peer_address, self.peer_mac)
        }
    }
}

impl Security {
    fn read(table: &mut Reader<'_, '_>) -> Option<Self> {
        let mode = table.string("mode");
        let mode = table.require("mode", mode, "\"plaintext\"");
        match mode.as_deref() {
            Some("plaintext") | None => {}
            Some("psp") => table.complain("mode", "\"psp\" is not available yet; use \"plaintext\""),
            Some(other) => table.complain("mode", format!("\"{other}\" is unknown; allowed: \"plaintext\"")),
        }
        // SPI 0 means "not configured": every packet would be rejected (F-9.2.2.3-8).
        let mut spi = |name, example| {
            let value = table.integer(name, 1, u64::from(u32::MAX));
            table.require(name, value, example).map(|value| Spi(value as u32))
        };
        let (tx_spi, rx_spi) = (spi("tx_spi", "1"), spi("rx_spi", "2"));
        let checksum = table.boolean("checksum").unwrap_or(true);
        let remote_time =
            table.integer("remote_time", 0, u64::MAX).map(|iv| RemoteTime::from(Picoseconds(iv)));
        mode?;
        Some(Self { tx_spi: tx_spi?, rx_spi: rx_spi?, checksum, remote_time })
    }
}
