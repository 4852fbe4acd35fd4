//! Finds out whether a node has an interface.

use crate::node::error::NodeError;
use crate::node::interface::netlink::Netlink;
use crate::node::xdp::loader::of_node;

/// Returns the error that a second node would get if the program of a node is attached to this interface of the calling
/// thread's network namespace. Such a node takes the Falcon packets that arrive there, and nobody else sees them.
///
/// # Errors
/// [`NodeError::NodeRunning`]; [`tiercel::Error::System`] if the kernel does not answer.
pub fn has_no_node(interface: &str) -> Result<(), NodeError> {
    let failed = |error| NodeError::system("list the interfaces", error);
    let interfaces = Netlink::open().and_then(|netlink| netlink.interfaces()).map_err(failed)?;
    match interfaces.iter().find(|there| there.name == interface).and_then(of_node) {
        Some(id) => Err(NodeError::NodeRunning { interface: interface.to_owned(), id }),
        None => Ok(()),
    }
}
