//! A connection on its way between its slot in the datapath and the node.

use crate::connection::Entry;
use crate::shared::{AtomicU32, Slot};

/// [`Exchange::direction`]: from the slot.
pub const READ: u32 = 0;
/// [`Exchange::direction`]: into the slot.
pub const WRITE: u32 = 1;

/// What the program that carries it out returns. As a verdict on a frame it is `XDP_PASS`, which nobody looks at.
pub const DONE: u32 = 2;

/// What the node asks of the datapath, which carries it out under the connection's lock.
#[repr(C)]
pub struct Exchange {
    /// Connection slot.
    pub slot: AtomicU32,
    /// [`READ`] or [`WRITE`].
    pub direction: AtomicU32,
    /// The connection.
    pub entry: Slot<Entry>,
}
