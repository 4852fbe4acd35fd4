//! The state that all handles of a node share: its memory, its doorbell, its poller.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::Error;
use crate::grace::Quiescence;
use crate::maps::Maps;
use crate::memory::Pool;
use crate::poller::Poller;
use crate::rate_update::RateUpdate;
use crate::statistics::ConnectionStatistics;

/// The common part of a node's handles. It exists longer than the node itself if a handle of a region or a
/// connection exists. The datapath is stopped by then.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) maps: Arc<Maps>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) doorbell: Doorbell,
    pub(crate) poller: Poller,
    /// Waits until no program copies data for a connection or a region that has ended.
    pub(crate) grace: Arc<dyn Quiescence>,
    /// The rate update engine in user space.
    pub(crate) rate_update: RateUpdate,
    /// Sums over the connections that have ended.
    pub(crate) ended: Mutex<ConnectionStatistics>,
    /// Whether the node was brought down, or its engine has failed permanently.
    pub(crate) down: AtomicBool,
}

impl Shared {
    /// Makes the shared state around the maps of a loaded object.
    pub(crate) fn new(
        maps: Maps,
        rate_update: RateUpdate,
        grace: Arc<dyn Quiescence>,
    ) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            pool: Arc::new(Pool::new(maps.memory.bytes())),
            maps: Arc::new(maps),
            doorbell: Doorbell::new()?,
            poller: Poller::default(),
            grace,
            rate_update,
            ended: Mutex::default(),
            down: AtomicBool::new(false),
        }))
    }

    /// Returns whether the datapath is stopped.
    pub(crate) fn is_down(&self) -> bool {
        self.down.load(SeqCst)
    }

    /// Notifies the engine that connection `slot` has work. Makes a system call only if the engine sleeps.
    pub(crate) fn ring(&self, slot: usize) {
        if self.maps.node().ring_posted(slot as u32) {
            self.doorbell.wake();
        }
    }
}

/// The event that wakes the engine thread.
#[derive(Debug)]
pub(crate) struct Doorbell(EventFd);

impl Doorbell {
    fn new() -> Result<Self, Error> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags);
        event.map(Self).map_err(|e| Error::system("create the engine's doorbell", e))
    }

    /// Wakes the engine, now or when it sleeps the next time.
    pub(crate) fn wake(&self) {
        // This fails only if the counter is at its limit, and then the engine wakes as well.
        let _ = self.0.write(1);
    }

    /// Clears earlier wake-ups.
    pub(crate) fn reset(&self) {
        // This fails if there was no wake-up, which is no error.
        let _ = self.0.read();
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
