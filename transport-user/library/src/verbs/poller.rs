//! The thread that polls completion queues while tasks wait for completions.
//!
//! The datapath writes completions from a softirq and does not wake waiting tasks. A waiting task first polls for
//! a short time itself, which is enough for a transfer of a few packets. After that this thread polls, at growing
//! intervals while there are no completions.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use crate::common::error::Error;

/// Pause between two polls: after a completion, and at most.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The result of a poll of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether tasks wait, or operations are outstanding.
    pub needed: bool,
    /// Whether there were completions or other changes.
    pub progress: bool,
}

/// The handle of the poller thread.
#[derive(Debug, Default)]
pub struct Poller {
    thread: OnceLock<Thread>,
    parked: AtomicBool,
    stop: AtomicBool,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Poller {
    /// Starts the thread. It polls by `look`, and ends when that returns `None`.
    pub fn start(self: &Arc<Self>, look: impl Fn() -> Option<Look> + Send + 'static) -> Result<(), Error> {
        let this = Arc::clone(self);
        let handle = std::thread::Builder::new().name("tiercel-poller".into()).spawn(move || this.run(&look));
        let handle = handle.map_err(|e| Error::system("start the poller thread", e))?;
        self.thread.get_or_init(|| handle.thread().clone());
        *self.handle.lock().expect("no panic under the lock") = Some(handle);
        Ok(())
    }

    /// Wakes the thread if it is parked, because a task waits. The caller must make its wait visible first.
    pub fn kick(&self) {
        fence(SeqCst);
        if self.parked.load(SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Ends the thread and waits for it.
    pub fn stop(&self) {
        self.stop.store(true, SeqCst);
        let handle = self.handle.lock().expect("no panic under the lock").take();
        let Some(handle) = handle else { return };
        handle.thread().unpark();
        // The last handle of a node may be dropped on this very thread.
        if handle.thread().id() != std::thread::current().id() && handle.join().is_err() {
            tracing::error!("the poller thread panicked");
        }
    }

    fn run(&self, look: &impl Fn() -> Option<Look>) {
        let mut pause = SHORTEST_PAUSE;
        while !self.stop.load(SeqCst) {
            let Some(found) = look() else { return };
            if found.needed {
                pause = if found.progress { SHORTEST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
                std::thread::sleep(pause);
                continue;
            }
            // As with the engine's doorbell: first announce, then check again, then park.
            self.parked.store(true, SeqCst);
            fence(SeqCst);
            let Some(found) = look() else { return };
            if !found.needed && !self.stop.load(SeqCst) {
                std::thread::park();
            }
            self.parked.store(false, SeqCst);
            pause = SHORTEST_PAUSE;
        }
    }
}
