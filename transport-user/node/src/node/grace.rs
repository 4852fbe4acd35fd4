//! The grace periods of a node, which the kernel ends.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tiercel::Error;
use tiercel::backend::{Quiescence, Ticket};

/// Time to sleep if the kernel refuses to wait. This is far longer than a program runs.
const IN_PLACE_OF_A_WAIT: Duration = Duration::from_millis(500);

/// How to wait until every program that runs now has ended.
trait Wait: Send + Sync + std::fmt::Debug {
    fn wait(&self) -> io::Result<()>;
}

impl Wait for bpf_call::Grace {
    fn wait(&self) -> io::Result<()> {
        Self::wait(self)
    }
}

/// The grace periods of a node. A separate thread waits for them.
#[derive(Debug)]
pub(crate) struct GracePeriods {
    grace: Box<dyn Wait>,
    asked: AtomicU64,
    passed: AtomicU64,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl GracePeriods {
    pub(crate) fn new() -> Result<Arc<Self>, Error> {
        let grace =
            bpf_call::Grace::new().map_err(|e| Error::system("create the maps of grace periods", e))?;
        Ok(Self::over(grace))
    }

    fn over(grace: impl Wait + 'static) -> Arc<Self> {
        Arc::new(Self {
            grace: Box::new(grace),
            asked: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
        })
    }

    /// Starts the thread. It calls `wake` after each period, to wake the node's poller.
    pub(crate) fn start(self: &Arc<Self>, wake: impl Fn() + Send + 'static) -> Result<(), Error> {
        let this = Arc::clone(self);
        let thread =
            std::thread::Builder::new().name("tiercel-grace".into()).spawn(move || this.serve(&wake));
        let thread = thread.map_err(|e| Error::system("start the thread of grace periods", e))?;
        *self.thread.lock().expect("no panic under the lock") = Some(thread);
        Ok(())
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

    fn serve(&self, wake: &impl Fn()) {
        while !self.stop.load(SeqCst) {
            // The wait below serves all requests that were made before this read.
            let asked = self.asked.load(SeqCst);
            if asked == self.passed.load(SeqCst) {
                std::thread::park();
                continue;
            }
            self.wait();
            self.passed.store(asked, SeqCst);
            wake();
        }
    }
}

impl Quiescence for GracePeriods {
    fn wait(&self) {
        if let Err(error) = self.grace.wait() {
            tracing::error!(%error, "the kernel cannot wait for running programs");
            std::thread::sleep(IN_PLACE_OF_A_WAIT);
        }
    }

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
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A wait that ends when the test says so. Tells the test when one begins.
    #[derive(Debug)]
    struct Told {
        begun: mpsc::Sender<()>,
        end: Mutex<mpsc::Receiver<()>>,
    }

    impl Wait for Told {
        fn wait(&self) -> io::Result<()> {
            self.begun.send(()).expect("the test listens");
            self.end.lock().expect("no panic").recv().map_err(io::Error::other)
        }
    }

    /// A period that is requested while a wait goes on needs another one: programs may have started in between.
    #[test]
    fn a_grace_period_is_over_when_a_wait_that_began_after_its_request_is() {
        let ((begun, begins), (end, ends)) = (mpsc::channel(), mpsc::channel());
        let periods = GracePeriods::over(Told { begun, end: Mutex::new(ends) });
        periods.start(|| ()).expect("a thread");
        let first = periods.begin();
        begins.recv().expect("the thread waits");
        assert!(!periods.has_passed(first));
        let second = periods.begin();
        end.send(()).expect("the thread waits");
        begins.recv().expect("the thread waits again");
        assert!(periods.has_passed(first) && !periods.has_passed(second));
        end.send(()).expect("the thread waits");
        while !periods.has_passed(second) {
            std::thread::yield_now();
        }
        periods.stop();
        end.send(()).expect("nobody has taken it");
        periods.wait();
        begins.try_recv().expect("a caller that may block waits itself");
    }

    #[test]
    #[ignore = "needs root: cargo xtask test"]
    fn the_kernel_ends_grace_periods() {
        let periods = GracePeriods::new().expect("root may create maps");
        periods.grace.wait().expect("the kernel waits");
        periods.start(|| ()).expect("a thread");
        let ticket = periods.begin();
        while !periods.has_passed(ticket) {
            std::thread::yield_now();
        }
        periods.stop();
    }
}
