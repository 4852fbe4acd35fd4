//! The node's address on its interface.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::node::error::NodeError;
use crate::node::interface::netlink::{AddressState, Interface, Netlink, OwnAddress};

/// How long a node that comes up waits for the check of its address for duplicates. The kernel needs one to two seconds from
/// the moment at which the link has a carrier, and on a busy machine it needed eight.
const LONGEST_CHECK: Duration = Duration::from_secs(20);
/// Time between two looks at the address.
const LOOK: Duration = Duration::from_millis(50);

/// Returns the addresses of the interface. If the node's address is an IPv6 address that is still checked for duplicates, as
/// at boot, this waits for the end of the check: nobody can bind the address before. Blocks the thread meanwhile.
pub(crate) fn await_check(
    netlink: &Netlink,
    interface: &Interface,
    address: IpAddr,
) -> Result<Vec<IpAddr>, NodeError> {
    let begin = Instant::now();
    let mut told = false;
    loop {
        let addresses = netlink.addresses(interface.index);
        let addresses = addresses.map_err(|error| NodeError::system("list the addresses", error))?;
        let name = || interface.name.clone();
        match state(&addresses, address) {
            None => {
                // Falcon packets still arrive, but the kernel does not answer a peer that asks for our MAC address.
                tracing::warn!(interface = interface.name, %address, "the interface does not have the node's address");
            }
            Some(AddressState::Usable) => {}
            Some(AddressState::Duplicate) => {
                return Err(NodeError::AddressDuplicate { address, interface: name() });
            }
            Some(AddressState::Tentative) if begin.elapsed() >= LONGEST_CHECK => {
                let seconds = LONGEST_CHECK.as_secs();
                return Err(NodeError::AddressTentative { address, interface: name(), seconds });
            }
            Some(AddressState::Tentative) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::info!(interface = interface.name, %address, "waiting for the check for duplicates");
                }
                std::thread::sleep(LOOK);
                continue;
            }
        }
        return Ok(addresses.into_iter().map(|own| own.address).collect());
    }
}

/// Returns the state of an address, if it is one of `addresses`.
fn state(addresses: &[OwnAddress], address: IpAddr) -> Option<AddressState> {
    addresses.iter().find(|own| own.address == address).map(|own| own.state)
}
