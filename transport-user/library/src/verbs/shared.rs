//! The state that all handles of a node share: its memory, its datapath, its poller.

use std::sync::{Arc, Mutex};

use super::datapath::Datapath;
use super::grace::Quiescence;
use super::maps::Maps;
use super::memory::Pool;
use super::poller::Poller;
use super::statistics::ConnectionStatistics;
use super::user_placement::UserPlacement;

/// The common part of a node's handles. It exists longer than the node itself if a handle of a region or a
/// connection exists. The datapath is stopped by then.
#[derive(Debug)]
pub struct Shared {
    /// The datapath.
    pub datapath: Arc<Datapath>,
    /// Those of the datapath.
    pub maps: Arc<Maps>,
    /// The memory for regions.
    pub pool: Arc<Pool>,
    /// Polls the completion queues for tasks that wait.
    pub poller: Arc<Poller>,
    /// Waits until no program copies data for a connection or a region that has ended.
    pub(crate) grace: Arc<dyn Quiescence>,
    /// Runs congestion control of connections that are placed in user space.
    pub(crate) user_placement: Arc<dyn UserPlacement>,
    /// Sums over the connections that have ended.
    pub(crate) ended: Mutex<ConnectionStatistics>,
}

impl Shared {
    /// Makes the shared state of the handles of a datapath.
    pub fn new(
        datapath: Arc<Datapath>,
        grace: Arc<dyn Quiescence>,
        user_placement: Arc<dyn UserPlacement>,
    ) -> Arc<Self> {
        let maps = Arc::clone(&datapath.maps);
        Arc::new(Self {
            pool: Arc::new(Pool::new(maps.memory.bytes())),
            datapath,
            maps,
            poller: Arc::default(),
            grace,
            user_placement,
            ended: Mutex::default(),
        })
    }

    /// Returns whether the datapath is stopped.
    pub fn is_down(&self) -> bool {
        self.datapath.is_down()
    }

    /// Notifies the engine that connection `slot` has work. Makes a system call only if the engine sleeps.
    pub(crate) fn ring(&self, slot: usize) {
        self.datapath.ring(slot);
    }
}
