//! The thread that checks whether the node still works: its program is attached to the interface, and its engine
//! runs.
//!
//! Another node, or any process with the necessary rights, can detach the program from the interface. Then nothing
//! is received any more, but the engine would go on sending. The kernel sends no rtnetlink message when an XDP
//! link of an interface is attached, detached or replaced (Linux 6.18). So a thread checks the link four times per
//! second. Each check is one system call.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tiercel::{Error, Mac};

/// Time between two checks.
const PERIOD: Duration = Duration::from_millis(250);
/// The longest time that a caller waits for a check.
const PATIENCE: Duration = Duration::from_millis(250);

/// Why a node went down by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// Another program is attached to the interface, or none.
    #[error(
        "the node's XDP program was detached from \"{interface}\"{}: the node has gone down; bring it up again with `tiercel \
         up`, and with --force if another program is attached", successor(*.by)
    )]
    Detached {
        /// The interface.
        interface: String,
        /// Id of the XDP program that is attached now.
        by: Option<u32>,
    },
    /// The interface was removed, or moved to another network namespace.
    #[error(
        "interface \"{interface}\" no longer exists: the node has gone down; bring it up again when the interface is back"
    )]
    InterfaceGone {
        /// The interface.
        interface: String,
    },
    /// The MAC address of the interface has changed, or it has none any more.
    #[error(
        "the MAC address of \"{interface}\" has changed from {from} to {}: the node has gone down, because all its packets had \
         the old one; bring it up again with `tiercel up`", .to.map_or("none".to_owned(), |mac| mac.to_string())
    )]
    MacChanged {
        /// The interface.
        interface: String,
        /// The address with which the node came up.
        from: Mac,
        /// The address now.
        to: Option<Mac>,
    },
    /// The engine thread has failed.
    #[error("the engine has stopped: {reason}")]
    Engine {
        /// The reason, and what to do.
        reason: String,
    },
}

fn successor(program: Option<u32>) -> String {
    program.map(|id| format!(" and replaced by program {id}")).unwrap_or_default()
}

/// An object that the thread can check.
pub(crate) trait Watched: Send + Sync + 'static {
    /// Checks the object, and shuts it down if it cannot go on. Returns false if there is nothing more to check.
    fn look(&self) -> bool;
}

/// The thread that checks.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    looks: Arc<Looks>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How often was looked.
#[derive(Debug, Default)]
struct Looks {
    begun_and_ended: Mutex<(u64, u64)>,
    ended: Condvar,
}

impl Looks {
    fn begin(&self) {
        self.begun_and_ended.lock().expect("no panic under the lock").0 += 1;
    }

    fn end(&self) {
        self.begun_and_ended.lock().expect("no panic under the lock").1 += 1;
        self.ended.notify_all();
    }
}

impl Watch {
    /// Starts the thread. It ends when the object is dropped or needs no more checks.
    pub(crate) fn start(&self, watched: Weak<impl Watched>) -> Result<(), Error> {
        let stop = Arc::clone(&self.stop);
        let looks = Arc::clone(&self.looks);
        let look = move || {
            looks.begin();
            let goes_on = watched.upgrade().is_some_and(|watched| watched.look());
            looks.end();
            goes_on
        };
        let run = move || {
            while !stop.load(SeqCst) && look() {
                std::thread::park_timeout(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name("tiercel-watch".into()).spawn(run);
        let thread = thread.map_err(|e| Error::system("start the thread that watches the interface", e))?;
        *self.thread.lock().expect("no panic under the lock") = Some(thread);
        Ok(())
    }

    /// Waits for a check that begins now, or for [`PATIENCE`].
    pub(crate) fn look_now(&self) {
        let looks = self.looks.begun_and_ended.lock().expect("no panic under the lock");
        let next = looks.0 + 1;
        if let Some(thread) = &*self.thread.lock().expect("no panic under the lock") {
            thread.thread().unpark();
        }
        let done = self.looks.ended.wait_timeout_while(looks, PATIENCE, |looks| looks.1 < next);
        drop(done.expect("no panic under the lock"));
    }

    /// Ends the thread and waits for it.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        let Some(thread) = self.thread.lock().expect("no panic under the lock").take() else { return };
        thread.thread().unpark();
        // This may run on the thread itself, which brings a node down that cannot go on.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the thread that watches the interface panicked");
        }
    }
}
