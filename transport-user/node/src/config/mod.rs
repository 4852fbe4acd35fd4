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

use tiercel::backend::{memory, smallest_mtu};
use tiercel::congestion::{Algorithms, CongestionParameters};
use tiercel::{LARGEST_MTU, Tuning};
use toml::de::DeTable;

mod congestion;
mod node_tables;
mod reader;
mod static_connection;
#[cfg(test)]
mod tests;
mod tuning;

use congestion::Names;
pub use node_tables::ReceiveOptions;
pub use reader::{Complaint, is_name};
use reader::{Complaints, LONGEST_NAME, Reader};

use crate::connection_manager::{DEFAULT_PATIENCE, Limits, PATIENCE};
use crate::node::engine::EngineOptions;
use crate::node::options::NodeOptions;
use crate::node::rate_update::RateUpdateOptions;
pub use crate::parameters::static_connection::{Security, StaticConnection};

/// Default TCP port of the connection manager.
pub const DEFAULT_CONTROL_PORT: u16 = 4792;
/// Largest size of a node file, bytes. A larger file is not read.
const LARGEST_FILE: u64 = 1 << 20;
/// Smallest and largest MTU in bytes: the least that carries a Falcon packet over IPv4, and the most that a node serves. The
/// node compares with its address and its interface.
const MTU_RANGE: (u64, u64) = (smallest_mtu(false) as u64, LARGEST_MTU as u64);
/// Longest name of an interface in Linux, bytes, without the final zero.
const LONGEST_INTERFACE: usize = 15;
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

/// Why a node file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
            static_connection::read(table, (base, &names), own, &mut owners, number)
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
        let tuning = tuning::read_both(table, Tuning::default(), names);
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
