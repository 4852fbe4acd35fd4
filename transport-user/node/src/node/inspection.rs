//! The look at the interface before a node comes up on it.

use std::net::IpAddr;

use tiercel::backend::{max_segment, memory, node_mtu, smallest_mtu};
use tiercel::{Device, LARGEST_MTU, Mac};
use transport_common::datapath::{mac_word, words};
use transport_common::queues::NodeConfig;

use super::options::{NATIVE_MTU, NodeOptions};
use crate::node::error::NodeError;
use crate::node::interface::netlink::{Interface, Netlink};
use crate::node::interface::own_address;
use crate::node::xdp::attach_mode::AttachMode;

/// Checks that a node can run on the interface. Returns the interface and the description of the device.
pub(super) fn inspect(netlink: &Netlink, options: &NodeOptions) -> Result<(Interface, Device), NodeError> {
    let name = || options.interface.clone();
    let failed = |error| NodeError::system("list the interfaces", error);
    let interfaces = netlink.interfaces().map_err(failed)?;
    let Some(interface) = interfaces.iter().find(|i| i.name == options.interface) else {
        let available = interfaces.into_iter().map(|i| i.name).collect();
        return Err(NodeError::UnknownInterface { name: name(), available });
    };
    if interface.loopback {
        return Err(NodeError::Loopback { name: name() });
    }
    let Some(mac) = interface.mac.filter(|_| interface.ethernet) else {
        return Err(NodeError::NotEthernet { name: name() });
    };
    if !interface.up {
        return Err(NodeError::InterfaceDown { name: name() });
    }
    if options.attach == AttachMode::Native && interface.mtu > NATIVE_MTU {
        return Err(NodeError::InterfaceMtu { name: name(), mtu: interface.mtu, limit: NATIVE_MTU });
    }
    let address = options.address;
    if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
        return Err(NodeError::BadAddress { address });
    }
    match options.mtu {
        Some(mtu) if mtu > LARGEST_MTU => {
            return Err(NodeError::MtuAboveLargest {
                mtu,
                limit: node_mtu(interface.mtu, None),
                name: name(),
            });
        }
        Some(mtu) if mtu > interface.mtu => {
            return Err(NodeError::MtuAboveInterface { name: name(), mtu, limit: interface.mtu });
        }
        _ => {}
    }
    let mtu = node_mtu(interface.mtu, options.mtu);
    let minimum = smallest_mtu(address.is_ipv6());
    if mtu < minimum {
        return Err(NodeError::MtuTooSmall { mtu, minimum });
    }
    let addresses = own_address::await_check(netlink, interface, address)?;
    let device = Device {
        interface: name(),
        index: interface.index,
        kind: interface.kind.clone(),
        mac: Mac(mac),
        mtu,
        interface_mtu: interface.mtu,
        max_segment: max_segment(mtu, address.is_ipv6(), 0),
        address,
        carrier: interface.carrier,
        memory: memory::whole_banks(options.memory)?,
        addresses,
    };
    Ok((interface.clone(), device))
}

/// Returns what the datapath knows of the node.
pub(super) fn node_config(device: &Device) -> NodeConfig {
    let config = NodeConfig {
        mac_word: mac_word(&device.mac.0),
        interface_index: device.index,
        memory: device.memory,
        ..NodeConfig::default()
    };
    match device.address {
        IpAddr::V4(v4) => NodeConfig { ipv4: u32::from_ne_bytes(v4.octets()), ..config },
        IpAddr::V6(v6) => NodeConfig { ipv6: words(&v6.octets()), ..config },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_datapath_learns_one_address() {
        let mut device = Device::for_tests();
        let config = node_config(&device);
        assert_eq!(
            (config.ipv4.to_ne_bytes(), config.ipv6, config.interface_index),
            ([10, 7, 0, 1], [0; 2], 2)
        );
        assert_eq!(config.mac_word.to_ne_bytes(), [2, 0, 0, 0, 0, 1, 0, 0]);
        device.address = "fd00::1".parse().expect("an address");
        let config = node_config(&device);
        assert_eq!((config.ipv4, config.ipv6[1].to_ne_bytes()[7]), (0, 1));
    }
}
