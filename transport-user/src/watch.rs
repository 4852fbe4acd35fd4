//! Whether the node still is what it was: its program on the interface, its engine at work.
//!
//! Another node, or anybody with the right to do so, can take the program off the interface; then nothing is received
//! any more, while the engine would go on sending. The kernel tells nobody: of an XDP link that is attached, detached or
//! replaced there is no rtnetlink message for its interface (Linux 6.18). So a thread looks at the link, four times a
//! second, which costs a system call.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Error;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(250);
/// How long somebody waits at most who wants a look.
const PATIENCE: Duration = Duration::from_millis(250);

/// Why a node went down by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// Another program is attached to the interface, or none.
    #[error(
        "the node's XDP program was taken off \"{interface}\"{}: the node has gone down; `tiercel up` takes the interface \
         back, with --force if something else is attached", successor(*.by)
    )]
    Detached {
        /// The interface.
        interface: String,
        /// Id of the XDP program that is attached now.
        by: Option<u32>,
    },
    /// The interface was removed, or moved to another network namespace.
    #[error(
        "interface \"{interface}\" is gone: the node has gone down; bring it up again when the interface is back"
    )]
    InterfaceGone {
        /// The interface.
        interface: String,
    },
    /// The engine thread cannot go on.
    #[error("the engine has stopped: {reason}")]
    Engine {
        /// Why, and what to do.
        reason: String,
    },
}

fn successor(program: Option<u32>) -> String {
    program.map(|id| format!(" and program {id} put in its place")).unwrap_or_default()
}

/// What can be looked at.
pub(crate) trait Watched: Send + Sync + 'static {
    /// Looks; takes what is lost to its end. False once there is nothing more to watch.
    fn look(&self) -> bool;
}

/// The thread that looks.
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
    /// Starts the thread; it ends with what it watches.
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

    /// Waits for a look that begins now, or for [`PATIENCE`].
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
        // The thread itself brings a node down that is lost.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the thread that watches the interface panicked");
        }
    }
}
