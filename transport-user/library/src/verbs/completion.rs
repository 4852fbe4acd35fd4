//! Completion queues: one place to wait for the completions of several connections.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock};
use std::time::Instant;

use tokio::sync::Notify;
use transport_common::ids::Cid;
use transport_common::queues::Completion;

use crate::verbs::connection::{Connection, SPIN};
use crate::verbs::connections::{Core, Interest};

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
    changed: Arc<Notify>,
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
        self.inner.changed.notify_waiters();
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

    fn take(&self) -> Option<(Cid, Completion)> {
        let mut one = [Completion::default()];
        self.poll(&mut one).map(|(cid, _)| (cid, one[0]))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for core in self.connections.get_mut().expect("no panic under the lock") {
            core.unwatch(&self.changed);
        }
    }
}
