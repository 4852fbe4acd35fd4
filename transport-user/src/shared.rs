//! The state that all handles of a node share: its memory, its doorbell, its poller.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
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
            maps: Arc::new(maps),
            pool: Arc::new(Pool::new()),
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
        let node = self.maps.node();
        let (word, bit) = (&node.ready[slot / 64], 1 << (slot % 64));
        // The posted work must be visible before the bit is read: the engine clears the bit and then looks for
        // posted work. If the bit is set already, it is not written again, so that the cache line stays in the
        // engine's cache.
        fence(SeqCst);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
        // The engine writes `engine_sleeping` and then reads `ready` for the last time. This function writes
        // `ready` and then reads `engine_sleeping`. So at least one of the two sees the write of the other.
        if node.engine_sleeping.load(SeqCst) == 1
            && node.engine_sleeping.compare_exchange(1, 0, SeqCst, SeqCst).is_ok()
        {
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
