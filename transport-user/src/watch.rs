//! Whether the node still is what it was: its program on the interface, its engine at work.
//!
//! Another node, or anybody with the right to do so, can take the program off the interface; then nothing is received
//! any more, while the engine would go on sending. The kernel tells nobody: of an XDP link that is attached, detached or
//! replaced there is no rtnetlink message for its interface (Linux 6.18). So a thread looks at the link, four times a
//! second, which costs a system call.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::Error;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(250);

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
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Watch {
    /// Starts the thread; it ends with what it watches.
    pub(crate) fn start(&self, watched: Weak<impl Watched>) -> Result<(), Error> {
        let stop = Arc::clone(&self.stop);
        let run = move || {
            while !stop.load(SeqCst) && watched.upgrade().is_some_and(|watched| watched.look()) {
                std::thread::park_timeout(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name("tiercel-watch".into()).spawn(run);
        let thread = thread.map_err(|e| Error::system("start the thread that watches the interface", e))?;
        *self.thread.lock().expect("no panic under the lock") = Some(thread);
        Ok(())
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
