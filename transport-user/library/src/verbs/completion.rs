//! Completion queues: one place to wait for the completions of several connections.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock};
use std::time::Instant;

use transport_common::ids::Cid;
use transport_common::queues::Completion;

use crate::common::error::Error;
use crate::verbs::connection::{Connection, SPIN};
use crate::verbs::connections::{Core, Interest};
use crate::verbs::watcher::Watcher;

/// Collects the completions of posted work requests and receives of its attached connections.
///
/// It does not take completions that belong to futures of [`Connection`]'s operations. Clones refer to the same
/// queue.
#[derive(Clone, Debug, Default)]
pub struct CompletionQueue {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    connections: RwLock<Vec<Arc<Core>>>,
    /// Index of the connection at which the next poll starts, so that a busy connection does not starve the
    /// others.
    turn: AtomicUsize,
    changed: Arc<Watcher>,
}

impl CompletionQueue {
    /// Makes a queue without connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Attaches a connection: the queue collects its completions from now on.
    pub fn attach(&self, connection: &Connection) {
        let mut connections = self.inner.connections.write().expect("no panic under the lock");
        if !connections.iter().any(|core| Arc::ptr_eq(core, connection.core())) {
            connection.core().watch(&self.inner.changed);
            connections.push(Arc::clone(connection.core()));
        }
        drop(connections);
        // A waiting task must also wait for this connection.
        self.inner.changed.tell();
    }

    /// Takes completions of one connection that has some. Returns its CID and the number of completions, or `None`
    /// if no connection has any.
    pub fn poll(&self, completions: &mut [Completion]) -> Option<(Cid, usize)> {
        let connections = self.inner.connections.read().expect("no panic under the lock");
        let turn = self.inner.turn.fetch_add(1, Relaxed);
        for n in 0..connections.len() {
            let core = &connections[(turn.wrapping_add(n)) % connections.len()];
            let taken = Connection::new(Arc::clone(core)).poll(completions);
            if taken != 0 {
                return Some((core.local_cid, taken));
            }
        }
        None
    }

    /// Returns whether a completion may still come: a connection is alive, or has completions that were not taken.
    pub fn is_alive(&self) -> bool {
        let connections = self.inner.connections.read().expect("no panic under the lock");
        connections.iter().any(|core| core.has_completions() || core.may_complete())
    }

    /// Waits for the next completion. Returns it and the CID of its connection. Returns `None` if no attached
    /// connection is alive and all completions were taken. This is cancel-safe.
    pub async fn next(&self) -> Option<(Cid, Completion)> {
        let start = Instant::now();
        while start.elapsed() < SPIN {
            if let Some(completion) = self.take() {
                return Some(completion);
            }
            tokio::task::yield_now().await;
        }
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let cores = self.inner.connections.read().expect("no panic under the lock").clone();
            let _interest: Vec<Interest<'_>> = cores.iter().map(|core| core.interest()).collect();
            // The order matters: completions from before the last connection died are still taken.
            let alive = cores.iter().any(|core| core.may_complete());
            if let Some(completion) = self.take() {
                return Some(completion);
            }
            if !alive {
                return None;
            }
            changed.await;
        }
    }

    /// Returns a descriptor on which a thread can sleep until there may be completions, for programs that wait for other
    /// things as well.
    ///
    /// # Errors
    /// [`Error::System`] if the process may open no more descriptors.
    pub fn event(&self) -> Result<CompletionEvent, Error> {
        let made = self.inner.changed.descriptor().map(drop);
        made.map_err(|e| Error::system("make the descriptor of a completion queue", e))?;
        Ok(CompletionEvent { queue: self.clone() })
    }

    fn take(&self) -> Option<(Cid, Completion)> {
        let mut one = [Completion::default()];
        self.poll(&mut one).map(|(cid, _)| (cid, one[0]))
    }
}

/// A descriptor that becomes readable when a [`CompletionQueue`] may have completions.
///
/// Use it with `poll`, `epoll`, or an event loop such as tokio's (`AsyncFd`). Only [`Self::arm`] makes it unreadable: the
/// program does not read it. All events of one queue have one descriptor, so one thread or task may sleep on it.
///
/// While the queue is not armed, it costs the datapath one load per step, and a program that polls makes no system calls. So
/// a program polls while there is work, and sleeps only then:
///
/// ```no_run
/// # use tiercel::{Completion, CompletionQueue, Error};
/// use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
/// use std::os::fd::AsFd;
///
/// # fn handle(_: &[Completion]) {}
/// fn serve(queue: &CompletionQueue) -> Result<(), Error> {
///     let event = queue.event()?;
///     let mut completions = [Completion::default(); 64];
///     loop {
///         while let Some((_, taken)) = queue.poll(&mut completions) {
///             handle(&completions[..taken]);
///         }
///         if event.arm() {
///             // Descriptors of the program's other work go beside this one.
///             let mut sources = [PollFd::new(event.as_fd(), PollFlags::POLLIN)];
///             poll(&mut sources, PollTimeout::NONE).expect("valid descriptors");
///         } else if !queue.is_alive() {
///             return Ok(());
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct CompletionEvent {
    queue: CompletionQueue,
}

impl CompletionEvent {
    /// Makes the descriptor unreadable until there may be completions, or until a connection of the queue has another state.
    /// Returns whether the program may sleep. Otherwise completions wait for [`CompletionQueue::poll`], or none will come
    /// ([`CompletionQueue::is_alive`]).
    ///
    /// The descriptor may become readable without completions, for instance because another thread has taken them.
    #[must_use]
    pub fn arm(&self) -> bool {
        let inner = &self.queue.inner;
        inner.changed.fall_asleep();
        let connections = inner.connections.read().expect("no panic under the lock");
        // The order matters: whatever comes from here on is told, and what was there before is found.
        connections.iter().for_each(|core| core.arm());
        let asleep = connections.iter().all(|core| core.may_sleep());
        if !asleep || !connections.iter().any(|core| core.may_complete()) {
            inner.changed.stay_awake();
            return false;
        }
        // A connection's poller sees to the rest.
        connections.iter().for_each(|core| core.shared.poller.attend());
        true
    }
}

impl AsFd for CompletionEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.inner.changed.descriptor().expect("it was made with the event")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for core in self.connections.get_mut().expect("no panic under the lock") {
            core.unwatch(&self.changed);
        }
    }
}
