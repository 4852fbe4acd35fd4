//! Reads or writes a whole connection: the request of the node to the datapath.

use crate::connection::Entry;
use crate::shared::{AtomicU32, Slot};

/// Value of [`Exchange::direction`]: copy the connection from the slot.
pub const READ: u32 = 0;
/// Value of [`Exchange::direction`]: copy the connection into the slot.
pub const WRITE: u32 = 1;

/// Return value of the program that carries the request out. As a verdict on a frame it is `XDP_PASS`, which has
/// no effect here.
pub const DONE: u32 = 2;

/// A request of the node, which the datapath carries out under the connection's lock.
#[repr(C)]
pub struct Exchange {
    /// Connection slot.
    pub slot: AtomicU32,
    /// [`READ`] or [`WRITE`].
    pub direction: AtomicU32,
    /// The connection.
    pub entry: Slot<Entry>,
}
