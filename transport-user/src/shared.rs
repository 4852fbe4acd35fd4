//! What everything that belongs to a node holds on to: its memory, its doorbell, its poller.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::Error;
use crate::grace::GracePeriods;
use crate::maps::Maps;
use crate::memory::Pool;
use crate::poller::Poller;
use crate::rate_update::RateUpdate;
use crate::statistics::ConnectionStatistics;

/// The common part of a node's handles. It outlives the node itself while a region or a connection is held; the
/// datapath is gone by then.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) maps: Arc<Maps>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) doorbell: Doorbell,
    pub(crate) poller: Poller,
    /// Waits for programs that still copy for what has ended.
    pub(crate) grace: Arc<GracePeriods>,
    /// The rate update engine in user space.
    pub(crate) rate_update: RateUpdate,
    /// Sums over the connections that have ended.
    pub(crate) ended: Mutex<ConnectionStatistics>,
    /// The node was brought down, or its engine has failed for good.
    pub(crate) down: AtomicBool,
}

impl Shared {
    /// Fresh, around the maps of a loaded object.
    pub(crate) fn new(maps: Maps, rate_update: RateUpdate) -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Self {
            maps: Arc::new(maps),
            pool: Arc::new(Pool::new()),
            doorbell: Doorbell::new()?,
            poller: Poller::default(),
            grace: GracePeriods::new()?,
            rate_update,
            ended: Mutex::default(),
            down: AtomicBool::new(false),
        }))
    }

    /// Whether the datapath is gone.
    pub(crate) fn is_down(&self) -> bool {
        self.down.load(SeqCst)
    }

    /// Tells the engine that connection `slot` has something to do. A system call only while the engine sleeps.
    pub(crate) fn ring(&self, slot: usize) {
        let node = self.maps.node();
        let (word, bit) = (&node.ready[slot / 64], 1 << (slot % 64));
        // What was posted has to be seen before the bit is looked at: the engine clears the bit and then looks for
        // what was posted. While it stands, the engine's cache line stays where it is.
        fence(SeqCst);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, SeqCst);
        }
        // The engine stores `sleeping` before it looks at `ready` for the last time, we the other way round: one of
        // the two sees the other.
        if node.engine_sleeping.load(SeqCst) == 1
            && node.engine_sleeping.compare_exchange(1, 0, SeqCst, SeqCst).is_ok()
        {
            self.doorbell.wake();
        }
    }
}

/// What wakes the engine thread from its sleep.
#[derive(Debug)]
pub(crate) struct Doorbell(EventFd);

impl Doorbell {
    fn new() -> Result<Self, Error> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags);
        event.map(Self).map_err(|e| Error::system("create the engine's doorbell", e))
    }

    /// Wakes the engine, now or when it next falls asleep.
    pub(crate) fn wake(&self) {
        // The only failure is a counter at its limit, and that wakes as well.
        let _ = self.0.write(1);
    }

    /// Forgets wake-ups so far.
    pub(crate) fn reset(&self) {
        // Nothing to read is nothing to forget.
        let _ = self.0.read();
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
