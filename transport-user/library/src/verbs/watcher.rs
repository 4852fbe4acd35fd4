//! What is told of a change: tasks, and whoever sleeps on a descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Tasks that wait for a change, and a descriptor that becomes readable with one if somebody sleeps on it.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    tasks: Notify,
    event: OnceLock<EventFd>,
    /// Whether somebody sleeps on the descriptor, or is about to.
    sleeps: AtomicBool,
}

impl Watcher {
    /// Returns a future that ends with the next change.
    pub(crate) fn notified(&self) -> Notified<'_> {
        self.tasks.notified()
    }

    /// Tells of a change.
    pub(crate) fn tell(&self) {
        self.tasks.notify_waiters();
        if self.sleeps.swap(false, SeqCst)
            && let Some(event) = self.event.get()
        {
            // This fails only if the counter is at its limit, and then the descriptor is readable as well.
            let _ = event.write(1);
        }
    }

    /// Returns the descriptor, and makes it if there is none.
    pub(crate) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if self.event.get().is_none() {
            // Of two that make one at the same time, the first is kept.
            let _ = self.event.set(new_event()?);
        }
        Ok(self.event.get().expect("just made").as_fd())
    }

    /// Makes the descriptor unreadable, until the next change. The caller looks for changes from before afterwards.
    pub(crate) fn fall_asleep(&self) {
        if let Some(event) = self.event.get() {
            // This fails if it was not readable, which is no error.
            let _ = event.read();
        }
        self.sleeps.store(true, SeqCst);
    }

    /// Takes [`Self::fall_asleep`] back.
    pub(crate) fn stay_awake(&self) {
        self.sleeps.store(false, SeqCst);
    }

    /// Returns whether somebody sleeps on the descriptor.
    pub(crate) fn sleeps(&self) -> bool {
        self.sleeps.load(SeqCst)
    }
}

/// Makes an event of which no read or write waits.
pub(crate) fn new_event() -> nix::Result<EventFd> {
    EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    #[test]
    fn only_a_sleeper_finds_its_descriptor_readable() {
        let watcher = Watcher::default();
        let readable = || {
            let event = watcher.descriptor().expect("a descriptor");
            poll(&mut [PollFd::new(event, PollFlags::POLLIN)], PollTimeout::ZERO).expect("it polls") == 1
        };
        watcher.tell();
        assert!(!readable(), "nobody slept");
        watcher.fall_asleep();
        assert!(watcher.sleeps() && !readable());
        watcher.tell();
        assert!(!watcher.sleeps() && readable());
        watcher.fall_asleep();
        assert!(!readable(), "it sleeps again");
        watcher.stay_awake();
        watcher.tell();
        assert!(!readable());
    }
}
