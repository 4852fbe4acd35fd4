//! What a connection asks of the engine that runs congestion control in user space.

use transport_common::ids::Cid;

use crate::common::error::Error;
use crate::congestion::CongestionControl;

/// Runs the algorithms of connections that are placed in user space.
pub trait UserPlacement: Send + Sync + std::fmt::Debug {
    /// Runs the algorithm of the connection in `slot` from now on, if `control` places it in user space. Must be called
    /// before `control` is in force.
    fn assign(&self, slot: usize, cid: Cid, control: &CongestionControl) -> Result<(), Error>;
    /// No longer runs it: the connection in `slot` is not placed in user space any more, or has ended.
    fn unassign(&self, slot: usize);
    /// Returns why the algorithm of the connection in `slot` no longer runs, if it has failed.
    fn failure(&self, slot: usize) -> Option<String>;
}
