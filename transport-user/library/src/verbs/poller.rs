//! The thread that waits for completions on behalf of tasks, and of those that sleep on a descriptor.
//!
//! A waiting task first polls for a short time itself, which is enough for a transfer of a few packets. After that this
//! thread waits: it arms the completion queues, looks at them once more, and sleeps on the ring by which the programs tell of
//! completions in armed queues. It does not read what the ring says, because it looks at all queues. So it does no harm if
//! the ring was full: a reader that has not emptied it yet looks afterwards. What has no notice, such as the end of
//! a grace period, is polled.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;

use crate::common::error::Error;
use crate::verbs::watcher::new_event;

/// Pause between two polls: after a completion, and at most.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// Longest sleep on the ring while somebody waits: the applications can overwrite the words by which they are woken.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// The result of a poll of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether somebody waits, or operations are outstanding.
    pub needed: bool,
    /// Whether something is awaited of which the datapath gives no notice.
    pub timed: bool,
    /// Whether there were completions or other changes.
    pub progress: bool,
}

/// The ring by which the programs tell of completions in armed queues. It is readable while it is not empty.
pub trait Notices: AsFd + Send + 'static {
    /// Empties the ring.
    fn clear(&mut self);
}

/// The thread is awake: it will look.
const AWAKE: u8 = 0;
/// The thread sleeps, at most for [`LONGEST_SLEEP`], with armed queues.
const WAITING: u8 = 1;
/// The thread sleeps, because nobody needs it.
const PARKED: u8 = 2;

/// The handle of the poller thread.
#[derive(Debug, Default)]
pub struct Poller {
    /// What wakes the thread, in addition to the ring.
    bell: OnceLock<EventFd>,
    state: AtomicU8,
    stop: AtomicBool,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Poller {
    /// Starts the thread. It polls by `look`, whose argument says whether to arm the queues, and ends when that returns
    /// `None`.
    pub fn start(
        self: &Arc<Self>,
        look: impl Fn(bool) -> Option<Look> + Send + 'static,
        mut notices: impl Notices,
    ) -> Result<(), Error> {
        let bell = new_event().map_err(|e| Error::system("create the poller's event", e))?;
        self.bell.get_or_init(|| bell);
        let this = Arc::clone(self);
        let run = move || this.run(&look, &mut notices);
        let handle = std::thread::Builder::new().name("tiercel-poller".into()).spawn(run);
        let handle = handle.map_err(|e| Error::system("start the poller thread", e))?;
        *self.handle.lock().expect("no panic under the lock") = Some(handle);
        Ok(())
    }

    /// Wakes the thread if it sleeps, because a task waits. The caller must make its wait visible first.
    pub fn kick(&self) {
        fence(SeqCst);
        if self.state.load(SeqCst) != AWAKE {
            self.ring();
        }
    }

    /// Like [`Self::kick`], for a caller that has armed its queues itself: it only needs a thread that sees to the rest from
    /// time to time.
    pub(crate) fn attend(&self) {
        fence(SeqCst);
        if self.state.load(SeqCst) == PARKED {
            self.ring();
        }
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            // This fails only if the counter is at its limit, and then the thread wakes as well.
            let _ = bell.write(1);
        }
    }

    /// Ends the thread and waits for it.
    pub fn stop(&self) {
        self.stop.store(true, SeqCst);
        let handle = self.handle.lock().expect("no panic under the lock").take();
        let Some(handle) = handle else { return };
        self.ring();
        // The last handle of a node may be dropped on this very thread.
        if handle.thread().id() != std::thread::current().id() && handle.join().is_err() {
            tracing::error!("the poller thread panicked");
        }
    }

    fn run(&self, look: &impl Fn(bool) -> Option<Look>, notices: &mut impl Notices) {
        let mut pause = SHORTEST_PAUSE;
        while !self.stop.load(SeqCst) {
            // Also while there is much to do, so that the ring does not fill up.
            notices.clear();
            let Some(found) = look(false) else { return };
            if found.needed && (found.progress || found.timed) {
                pause = if found.progress { SHORTEST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
                std::thread::sleep(pause);
                continue;
            }
            pause = SHORTEST_PAUSE;
            // As with the engine's doorbell: first announce, then check again, then sleep. What is in the ring is no news
            // afterwards, because the check comes later.
            self.state.store(if found.needed { WAITING } else { PARKED }, SeqCst);
            fence(SeqCst);
            self.silence();
            notices.clear();
            let Some(again) = look(true) else { return };
            let same = (again.needed, again.timed, again.progress) == (found.needed, false, false);
            if same && !self.stop.load(SeqCst) {
                self.sleep(notices, again.needed.then_some(LONGEST_SLEEP));
            }
            self.state.store(AWAKE, SeqCst);
        }
    }

    /// Clears earlier wake-ups.
    fn silence(&self) {
        // This fails if there was none, which is no error.
        let _ = self.bell.get().map(EventFd::read);
    }

    /// Sleeps until there is a notice or a kick, at most for `limit`.
    fn sleep(&self, notices: &impl Notices, limit: Option<Duration>) {
        let Some(bell) = self.bell.get() else { return };
        let mut sources = [bell.as_fd(), notices.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        // If this fails, the thread looks again.
        let _ = ppoll(&mut sources, limit.map(TimeSpec::from_duration), None);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// A ring that is an event.
    struct Ring(Arc<EventFd>);

    impl AsFd for Ring {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl Notices for Ring {
        fn clear(&mut self) {
            let _ = self.0.read();
        }
    }

    /// A thread that nobody needs sleeps without a limit. Each notice and each kick makes it look, and arm once more.
    #[test]
    fn a_sleeping_poller_looks_after_a_notice_and_after_a_kick() {
        let (poller, armed) = (Arc::<Poller>::default(), Arc::<AtomicU64>::default());
        let ring = Arc::new(new_event().expect("an event"));
        let counted = Arc::clone(&armed);
        let look = move |arm: bool| {
            counted.fetch_add(arm.into(), SeqCst);
            Some(Look::default())
        };
        poller.start(look, Ring(Arc::clone(&ring))).expect("it starts");
        let looks = |times: u64| {
            while armed.load(SeqCst) < times || poller.state.load(SeqCst) != PARKED {
                std::thread::yield_now();
            }
        };
        looks(1);
        for round in 1..=50 {
            ring.write(1).expect("a notice");
            looks(2 * round);
            poller.kick();
            looks(2 * round + 1);
        }
        poller.stop();
        assert!(ring.read().is_err(), "the ring is empty");
        assert_eq!(armed.load(SeqCst), 101, "it slept in between");
    }
}
