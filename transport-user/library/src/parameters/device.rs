//! The interface of a node, as connections see it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use transport_common::queues::DEFAULT_MEMORY;

use crate::common::mac::Mac;

/// The interface on which a node runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name of the interface.
    pub interface: String,
    /// Index of the interface.
    pub index: u32,
    /// Kind of a virtual interface ("veth"). `None` for hardware.
    pub kind: Option<String>,
    /// MAC address of the interface.
    pub mac: Mac,
    /// IP MTU of new connections, bytes: that of the interface, that of the options, or
    /// [`LARGEST_MTU`](crate::LARGEST_MTU), whichever is smallest.
    pub mtu: u32,
    /// IP MTU of the interface, bytes.
    #[serde(default)]
    pub interface_mtu: u32,
    /// Largest user data of one transaction at this MTU, bytes.
    pub max_segment: u32,
    /// Bytes of memory that the node's regions share.
    pub memory: u64,
    /// The node's address.
    pub address: IpAddr,
    /// Whether the interface is up and has a carrier.
    #[serde(default)]
    pub carrier: bool,
    /// All addresses of the interface that can be used.
    pub addresses: Vec<IpAddr>,
}

impl Device {
    /// A veth, for tests of this crate and of the node.
    #[doc(hidden)]
    pub fn for_tests() -> Self {
        let address = [10, 7, 0, 1].into();
        Self {
            interface: "veth0".to_owned(),
            index: 2,
            kind: Some("veth".to_owned()),
            mac: Mac([2, 0, 0, 0, 0, 1]),
            mtu: 3390,
            interface_mtu: 3498,
            max_segment: 3264,
            memory: DEFAULT_MEMORY,
            address,
            carrier: true,
            addresses: vec![address],
        }
    }
}
