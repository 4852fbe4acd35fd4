//! The node file: what a node is, and its static connections.
//!
//! ```toml
//! [node]
//! interface = "veth0"
//! address   = "10.7.0.1"
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
//!
//! [connection.congestion]           # also [node.congestion], for all connections that say nothing else
//! algorithm = "swift"               # swift, dcqcn, newreno, fixed, or one of the program's own
//! placement = "kernel"              # constant, kernel, user
//! profile   = "rack"
//!
//! [profile.rack]                    # any of congestion::CongestionParameters
//! base_delay_target = "20us"
//! max_fcwnd = 128
//!
//! [node.rate_update]                # of the rate update engine in user space
//! thresholds = [256, 512, 768]
//! ```
//!
//! Every field is checked, and every mistake of a file is reported at once, with its line.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use toml::de::DeTable;
use transport_common::connection::Initial;
use transport_common::ids::{Cid, Psn, Rsn, Spi};
use transport_common::limits;
use transport_common::queues::CONNECTIONS;

mod congestion;
mod reader;
#[cfg(test)]
mod tests;
mod tuning;

use congestion::Names;
pub use reader::Complaint;
pub(crate) use reader::is_host;
use reader::{Complaints, Reader};

use crate::congestion::{Algorithms, CongestionControl, CongestionParameters};
use crate::mac::Mac;
use crate::node::NodeOptions;
use crate::parameters::{ConnectionSecurity, LocalCid, OpenConnection, PLAINTEXT_VERSION, Tuning};
use crate::rate_update::RateUpdateOptions;

/// TCP port of the connection manager unless the file names another.
pub const DEFAULT_CONTROL_PORT: u16 = 4792;
/// Largest node file; anything longer is not one.
const LARGEST_FILE: u64 = 1 << 20;
/// Smallest and largest MTU in bytes: IPv6's minimum, and the largest a live frame carries.
const MTU_RANGE: (u64, u64) = (1280, 3498);
/// Longest name of an interface in Linux, without the final zero.
const LONGEST_INTERFACE: usize = 15;
/// Longest name of a node; its socket's path must fit 108 bytes.
const LONGEST_NAME: usize = 64;

/// A whole node file.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeFile {
    /// The node itself.
    pub node: NodeSection,
    /// Connections set up by other means than the connection manager, in the file's order.
    pub connections: Vec<StaticConnection>,
    /// Parameters of congestion control by name.
    pub profiles: BTreeMap<String, CongestionParameters>,
}

/// `[node]`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSection {
    /// Interface to attach to.
    pub interface: String,
    /// Own address: where Falcon packets and the connection manager's peers arrive.
    pub address: IpAddr,
    /// IP MTU in bytes; the interface's when absent.
    pub mtu: Option<u32>,
    /// Whether to use the card's receive timestamps; where there are any when absent.
    pub hardware_timestamps: Option<bool>,
    /// Name of the node and of its socket; the interface's name when absent.
    pub name: String,
    /// TCP port of the connection manager.
    pub control_port: u16,
    /// Tuning of connections that bring none of their own.
    pub tuning: Tuning,
    /// The rate update engine in user space.
    pub rate_update: RateUpdateOptions,
}

/// `[[connection]]`: everything both ends have agreed on by other means.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticConnection {
    /// What the peer writes into packets to us.
    pub local_cid: Cid,
    /// What we write into packets to the peer.
    pub peer_cid: Cid,
    /// The peer's address, of the same family as the node's.
    pub peer_address: IpAddr,
    /// The peer's MAC address, or the next hop's.
    pub peer_mac: Mac,
    /// Requests are delivered and completed in RSN order.
    pub ordered: bool,
    /// The security association.
    pub security: Security,
    /// Destination function expected in packets to us (D-15).
    pub local_function: u32,
    /// Destination function written into packets to the peer.
    pub peer_function: u32,
    /// First sequence numbers we send with.
    pub tx: Initial,
    /// First sequence numbers the peer sends with.
    pub rx: Initial,
    /// Tuning of this end.
    pub tuning: Tuning,
}

/// `security` of a static connection, in plaintext mode (D-83).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Security {
    /// SPI of packets we send.
    pub tx_spi: Spi,
    /// SPI of packets we receive.
    pub rx_spi: Spi,
    /// Whether a UDP checksum is sent (D-91).
    pub checksum: bool,
    /// First Remote Time in picoseconds, when known (D-87).
    pub remote_time: Option<u64>,
}

/// Why a node file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read at all.
    #[error("cannot read the node file {}: {source}; check the path given to --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too long to be one.
    #[error("{} is larger than 1 MiB and thus no node file; check the path given to --config", .0.display())]
    TooLong(PathBuf),
    /// It is not one.
    #[error("{} is not a text file (UTF-8) and thus no node file; check the path given to --config", .0.display())]
    NotText(PathBuf),
    /// It holds mistakes.
    #[error("{} cannot be used:\n{}", path.display(), Lines(path, complaints))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All of them, by line.
        complaints: Vec<Complaint>,
    },
}

/// Complaints, one a line, each starting with the file's name.
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
    /// Unreadable, too long, or every mistake in it at once.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        Self::load_with(path, &Algorithms::new())
    }

    /// [`load`](Self::load) for a node that has these algorithms.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with(path: &Path, algorithms: &Algorithms) -> Result<Self, FileError> {
        let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(unreadable)?.len() > LARGEST_FILE {
            return Err(FileError::TooLong(path.to_owned()));
        }
        let source = std::fs::read(path).map_err(unreadable)?;
        let source = String::from_utf8(source).map_err(|_| FileError::NotText(path.to_owned()))?;
        Self::parse_with(&source, algorithms)
            .map_err(|complaints| FileError::Invalid { path: path.to_owned(), complaints })
    }

    /// Checks the text of a file that names built-in algorithms only.
    ///
    /// # Errors
    /// Every mistake in it, by line.
    pub fn parse(source: &str) -> Result<Self, Vec<Complaint>> {
        Self::parse_with(source, &Algorithms::new())
    }

    /// [`parse`](Self::parse) for a node that has these algorithms.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(source: &str, algorithms: &Algorithms) -> Result<Self, Vec<Complaint>> {
        let mut complaints = Complaints::new(source);
        let (document, errors) = DeTable::parse_recoverable(source);
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            complaints.add(at, "", format!("not TOML: {}", error.message()));
        }
        if complaints.len() > 0 {
            return Err(complaints.into_sorted()); // what follows from a broken syntax is only noise
        }
        let mut file = Reader::new(document.get_ref(), "", 0..0, &mut complaints);
        let names = Names { profiles: congestion::read_profiles(&mut file), algorithms };
        let node = file.table("node", |table| NodeSection::read(table, &names));
        let node = file.require("node", node, "{ interface = \"eth0\", address = \"10.7.0.1\" }");
        let base = node.as_ref().map_or_else(Tuning::default, |node| node.tuning);
        let address = node.as_ref().map(|node| node.address);
        let mut owners = HashMap::new();
        let mut number = 0;
        let connections = file.tables("connection", |table| {
            number += 1;
            StaticConnection::read(table, (base, &names), address, &mut owners, number)
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
    /// The node itself, as a file of nothing else would describe it.
    pub fn new(interface: String, address: IpAddr) -> Self {
        let name = interface.clone();
        Self {
            interface,
            address,
            mtu: None,
            hardware_timestamps: None,
            name,
            control_port: DEFAULT_CONTROL_PORT,
            tuning: Tuning::default(),
            rate_update: RateUpdateOptions::default(),
        }
    }

    /// What the node is brought up with.
    pub fn options(&self) -> NodeOptions {
        NodeOptions {
            mtu: self.mtu,
            hardware_timestamps: self.hardware_timestamps,
            rate_update: self.rate_update,
            ..NodeOptions::new(self.interface.clone(), self.address)
        }
    }

    fn read(table: &mut Reader<'_, '_>, names: &Names<'_>) -> Option<Self> {
        let interface = table.string("interface");
        let interface = table.require("interface", interface, "\"eth0\"");
        let address = table.address("address");
        let address = table.require("address", address, "\"10.7.0.1\"");
        let mtu = table.integer("mtu", MTU_RANGE.0, MTU_RANGE.1).map(|mtu| mtu as u32);
        let hardware_timestamps = table.boolean("hardware_timestamps");
        let name = table.string("name");
        let port = table.integer("control_port", 1, u64::from(u16::MAX));
        let tuning = read_tuning(table, Tuning::default(), names);
        let rate_update = table.table("rate_update", congestion::read_rate_update);
        let is_interface =
            |name: &str| !name.is_empty() && name.len() <= LONGEST_INTERFACE && !name.contains(['/', ' ']);
        if interface.as_deref().is_some_and(|name| !is_interface(name)) {
            table.complain("interface", "is no name of an interface: take one that `ip link` shows");
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
            hardware_timestamps,
            control_port: port.map_or(DEFAULT_CONTROL_PORT, |port| port as u16),
            tuning,
            rate_update: rate_update.unwrap_or_default(),
            ..Self::new(interface, address)
        })
    }
}

/// The tables `congestion` and `tuning` of a node or a connection; what they leave out comes from `base`.
fn read_tuning(table: &mut Reader<'_, '_>, mut base: Tuning, names: &Names<'_>) -> Tuning {
    let congestion = |table: &mut Reader<'_, '_>| -> Option<CongestionControl> {
        Some(congestion::read(table, &base.congestion, names))
    };
    base.congestion = table.table("congestion", congestion).unwrap_or(base.congestion);
    table.table("tuning", |table| Some(tuning::read(table, base))).unwrap_or(base)
}

/// Whether `name` can name a node, and with it a file.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.chars().all(plain)
}

impl StaticConnection {
    fn read(
        table: &mut Reader<'_, '_>,
        (base, names): (Tuning, &Names<'_>),
        own_address: Option<IpAddr>,
        owners: &mut HashMap<u32, (Cid, usize)>,
        number: usize,
    ) -> Option<Self> {
        let local_cid = table.integer("local_cid", 1, u64::from(Cid::MAX));
        let local_cid = table.require("local_cid", local_cid, "5");
        let peer_cid = table.integer("peer_cid", 0, u64::from(Cid::MAX));
        let peer_cid = table.require("peer_cid", peer_cid, "10");
        let peer_address = table.address("peer_address");
        let peer_address = table.require("peer_address", peer_address, "\"10.7.0.2\"");
        let peer_mac = table.mac("peer_mac");
        let peer_mac = table.require("peer_mac", peer_mac, "\"02:00:00:00:00:02\"");
        let ordered = table.boolean("ordered");
        let ordered = table.require("ordered", ordered, "true");
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
        match (own_address, peer_address) {
            (Some(own), Some(peer)) if own == peer => {
                table.complain("peer_address", "is this node's own address: write the peer's");
            }
            (Some(own), Some(peer)) if own.is_ipv4() != peer.is_ipv4() => {
                table.complain("peer_address", format!("must be of the same family as node.address ({own})"));
            }
            _ => {}
        }
        Some(Self {
            local_cid: Cid(local_cid? as u32),
            peer_cid: Cid(peer_cid? as u32),
            peer_address: peer_address?,
            peer_mac: peer_mac?,
            ordered: ordered?,
            security: security?,
            local_function,
            peer_function,
            tx: tx?,
            rx: rx?,
            tuning,
        })
    }
}

/// Complains when another connection of the file has the CID, or its slot in the connection table.
fn check_slot(table: &mut Reader<'_, '_>, cid: Cid, owners: &mut HashMap<u32, (Cid, usize)>, number: usize) {
    let slots = CONNECTIONS as u32;
    let (other, owner) = *owners.entry(cid.0 % slots).or_insert((cid, number));
    if owner == number {
        return;
    }
    let text = if other == cid {
        format!("{} is taken by connection[{owner}]: each connection needs its own", cid.0)
    } else {
        format!(
            "{} shares table slot {} with CID {} of connection[{owner}]: choose one with another remainder by {slots}",
            cid.0,
            cid.0 % slots,
            other.0
        )
    };
    table.complain("local_cid", text);
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
    /// What the node opens it with; `max_segment` in bytes where the peer's is known.
    pub fn to_open(&self, local_cid: LocalCid, max_segment: Option<u32>) -> OpenConnection {
        OpenConnection {
            local_cid,
            ordered: self.ordered,
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
        // 0 means "not configured" and rejects every packet (F-9.2.2.3-8).
        let mut spi = |name, example| {
            let value = table.integer(name, 1, u64::from(u32::MAX));
            table.require(name, value, example).map(|value| Spi(value as u32))
        };
        let (tx_spi, rx_spi) = (spi("tx_spi", "1"), spi("rx_spi", "2"));
        let checksum = table.boolean("checksum").unwrap_or(true);
        let remote_time = table.integer("remote_time", 0, u64::MAX);
        mode?;
        Some(Self { tx_spi: tx_spi?, rx_spi: rx_spi?, checksum, remote_time })
    }
}
