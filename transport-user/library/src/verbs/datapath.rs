//! What the threads and the handles of a node have of its datapath: the maps and the doorbell.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::maps::Maps;
use crate::common::error::Error;

/// The datapath of a node. It exists longer than the node itself if a handle of a region or a connection exists. It is
/// stopped by then.
#[derive(Debug)]
pub struct Datapath {
    /// The maps.
    pub maps: Arc<Maps>,
    /// What wakes the engine.
    pub doorbell: Doorbell,
    /// Whether the node was brought down, or its engine has failed permanently.
    down: AtomicBool,
}

impl Datapath {
    /// Makes it around the maps of a loaded object.
    pub fn new(maps: Maps) -> Result<Arc<Self>, Error> {
        let (maps, doorbell) = (Arc::new(maps), Doorbell::new()?);
        Ok(Arc::new(Self { maps, doorbell, down: AtomicBool::new(false) }))
    }

    /// Returns whether it is stopped.
    pub fn is_down(&self) -> bool {
        self.down.load(SeqCst)
    }

    /// Notes that it is stopped.
    pub fn set_down(&self) {
        self.down.store(true, SeqCst);
    }

    /// Notifies the engine that connection `slot` has work. Makes a system call only if the engine sleeps.
    pub fn ring(&self, slot: usize) {
        if self.maps.node().ring_posted(slot as u32) {
            self.doorbell.wake();
        }
    }
}

/// The event that wakes the engine thread.
#[derive(Debug)]
pub struct Doorbell(EventFd);

impl Doorbell {
    fn new() -> Result<Self, Error> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags);
        event.map(Self).map_err(|e| Error::system("create the engine's doorbell", e))
    }

    /// Wakes the engine, now or when it sleeps the next time.
    pub fn wake(&self) {
        // This fails only if the counter is at its limit, and then the engine wakes as well.
        let _ = self.0.write(1);
    }

    /// Clears earlier wake-ups.
    pub fn reset(&self) {
        // This fails if there was no wake-up, which is no error.
        let _ = self.0.read();
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
