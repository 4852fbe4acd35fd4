//! The thread that polls completion queues while tasks wait for completions.
//!
//! The datapath writes completions from a softirq and does not wake waiting tasks. A waiting task first polls for
//! a short time itself, which is enough for a transfer of a few packets. After that this thread polls, at growing
//! intervals while there are no completions.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use crate::connections::Connections;
use crate::error::Error;
use crate::shared::Shared;

/// Pause between two polls: after a completion, and at most.
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The handle of the poller thread.
#[derive(Debug, Default)]
pub(crate) struct Poller {
    thread: OnceLock<Thread>,
    parked: AtomicBool,
    stop: AtomicBool,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Poller {
    /// Starts the thread.
    pub(crate) fn start(shared: &Arc<Shared>, connections: &Arc<Connections>) -> Result<(), Error> {
        let (weak, watched) = (Arc::downgrade(shared), Arc::clone(connections));
        let handle =
            std::thread::Builder::new().name("tiercel-poller".into()).spawn(move || run(&weak, &watched));
        let handle = handle.map_err(|e| Error::system("start the poller thread", e))?;
        let poller = &shared.poller;
        poller.thread.get_or_init(|| handle.thread().clone());
        *poller.handle.lock().expect("no panic under the lock") = Some(handle);
        Ok(())
    }

    /// Wakes the thread if it is parked, because a task waits. The caller must make its wait visible first.
    pub(crate) fn kick(&self) {
        fence(SeqCst);
        if self.parked.load(SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        let handle = self.handle.lock().expect("no panic under the lock").take();
        let Some(handle) = handle else { return };
        handle.thread().unpark();
        // The last handle of a node may be dropped on this very thread.
        if handle.thread().id() != std::thread::current().id() && handle.join().is_err() {
            tracing::error!("the poller thread panicked");
        }
    }
}

/// The result of a poll of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether tasks wait, or operations are outstanding.
    pub(crate) needed: bool,
    /// Whether there were completions or other changes.
    pub(crate) progress: bool,
}

fn run(shared: &Weak<Shared>, connections: &Connections) {
    let mut pause = SHORTEST_PAUSE;
    // The node stops this thread before it drops the last strong reference.
    while let Some(shared) = shared.upgrade() {
        let poller = &shared.poller;
        if poller.stop.load(SeqCst) {
            return;
        }
        let look = connections.look();
        if look.needed {
            pause = if look.progress { SHORTEST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            std::thread::sleep(pause);
            continue;
        }
        // As with the engine's doorbell: first announce, then check again, then park.
        poller.parked.store(true, SeqCst);
        fence(SeqCst);
        if !connections.look().needed && !poller.stop.load(SeqCst) {
            std::thread::park();
        }
        poller.parked.store(false, SeqCst);
        pause = SHORTEST_PAUSE;
    }
}
