//! Reads or writes a whole connection: the request of the node to the datapath.

use crate::connection::Entry;
use crate::shared::{AtomicU32, Slot};

/// What an exchange does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// Copies the connection from the slot.
    Read = 0,
    /// Copies the connection into the slot.
    Write = 1,
}

/// Return value of the program that carries the request out. It is also a verdict on the frame of the call, which has
/// no effect: nobody sends that frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Answer {
    /// There is no such slot, or its lock could not be taken: `XDP_ABORTED`.
    Failed = 0,
    /// The request is carried out: `XDP_PASS`.
    Done = 2,
}

/// A request of the node, which the datapath carries out under the connection's lock.
#[repr(C)]
pub struct Exchange {
    /// Connection slot.
    pub slot: AtomicU32,
    /// A [`Direction`]. Any other value counts as [`Direction::Read`], which changes no connection.
    pub direction: AtomicU32,
    /// The connection.
    pub entry: Slot<Entry>,
}
