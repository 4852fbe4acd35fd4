//! Grace periods: from when on no XDP program can still copy for what has ended.
//!
//! A program that found a connection, a receive or a region before it went away may still copy into its memory on
//! another CPU. So memory, queue pairs and slots are given back in three steps: made unreachable for programs that begin
//! from now on, a grace period, given back. [`bpf_call::Grace`] says why that is enough.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Error;
use crate::shared::Shared;

/// Far longer than a program takes, should the kernel refuse to wait.
const IN_PLACE_OF_A_WAIT: Duration = Duration::from_millis(500);

/// A grace period that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Who gives grace periods to those who may not wait themselves.
pub(crate) trait Quiescence: Send + Sync + std::fmt::Debug {
    /// Asks for a grace period that begins now or later.
    fn begin(&self) -> Ticket;
    /// Whether it is over.
    fn has_passed(&self, ticket: Ticket) -> bool;
}

/// Grace periods of a node, waited for by a thread of their own.
#[derive(Debug)]
pub(crate) struct GracePeriods {
    grace: bpf_call::Grace,
    asked: AtomicU64,
    passed: AtomicU64,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl GracePeriods {
    pub(crate) fn new() -> Result<Arc<Self>, Error> {
        let grace =
            bpf_call::Grace::new().map_err(|e| Error::system("create the maps of grace periods", e))?;
        Ok(Arc::new(Self {
            grace,
            asked: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
        }))
    }

    /// Starts the thread, which tells the node's poller of each period that is over.
    pub(crate) fn start(self: &Arc<Self>, shared: Weak<Shared>) -> Result<(), Error> {
        let this = Arc::clone(self);
        let thread =
            std::thread::Builder::new().name("tiercel-grace".into()).spawn(move || this.serve(&shared));
        let thread = thread.map_err(|e| Error::system("start the thread of grace periods", e))?;
        *self.thread.lock().expect("no panic under the lock") = Some(thread);
        Ok(())
    }

    /// Waits for a grace period: some milliseconds.
    pub(crate) fn wait(&self) {
        if let Err(error) = self.grace.wait() {
            tracing::error!(%error, "the kernel does not wait for running programs");
            std::thread::sleep(IN_PLACE_OF_A_WAIT);
        }
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        let Some(thread) = self.thread.lock().expect("no panic under the lock").take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread of grace periods panicked");
        }
    }

    fn serve(&self, shared: &Weak<Shared>) {
        while !self.stop.load(SeqCst) {
            // Whoever asked before this look is served by the wait that follows it.
            let asked = self.asked.load(SeqCst);
            if asked == self.passed.load(SeqCst) {
                std::thread::park();
                continue;
            }
            self.wait();
            self.passed.store(asked, SeqCst);
            if let Some(shared) = shared.upgrade() {
                shared.poller.kick();
            }
        }
    }
}

impl Quiescence for GracePeriods {
    fn begin(&self) -> Ticket {
        let ticket = Ticket(self.asked.fetch_add(1, SeqCst) + 1);
        if let Some(thread) = &*self.thread.lock().expect("no panic under the lock") {
            thread.thread().unpark();
        }
        ticket
    }

    fn has_passed(&self, ticket: Ticket) -> bool {
        self.passed.load(SeqCst) >= ticket.0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Grace periods that pass when the test says so.
    #[derive(Debug, Default)]
    pub(crate) struct ByHand {
        asked: AtomicU64,
        passed: AtomicU64,
    }

    impl ByHand {
        /// Grace periods that are over as soon as they are asked for.
        pub(crate) fn over() -> Arc<Self> {
            Arc::new(Self { asked: AtomicU64::new(0), passed: AtomicU64::new(u64::MAX) })
        }

        /// Lets all that were asked for pass.
        pub(crate) fn pass(&self) {
            self.passed.store(self.asked.load(SeqCst), SeqCst);
        }
    }

    impl Quiescence for ByHand {
        fn begin(&self) -> Ticket {
            Ticket(self.asked.fetch_add(1, SeqCst) + 1)
        }

        fn has_passed(&self, ticket: Ticket) -> bool {
            self.passed.load(SeqCst) >= ticket.0
        }
    }
}
