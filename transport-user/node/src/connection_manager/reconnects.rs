//! The lost connections that are being set up again, and those that have taken their places.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Instant;

pub use tiercel::status::Reconnecting;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use transport_common::ids::Cid;

use super::agreement::Terms;
use crate::common::mutex::lock;

/// Lost connections whose successors are remembered.
const REMEMBERED: usize = 256;

/// The lost connections.
#[derive(Debug, Default)]
pub(super) struct Reconnects {
    state: Mutex<State>,
    /// Wakes the task that sets them up again.
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: HashMap<Cid, Attempt>,
    /// Lost connections and those that took their places, oldest first.
    done: VecDeque<(Cid, Cid)>,
    /// Whether the node goes down.
    stopped: bool,
}

#[derive(Debug)]
struct Attempt {
    peer: SocketAddr,
    lost: Instant,
    attempts: u64,
    error: Option<String>,
    terms: Terms,
    /// The task that sets it up again, once it has begun.
    task: Option<AbortHandle>,
}

/// A lost connection, and how to set it up again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) cid: Cid,
    pub(super) peer: SocketAddr,
    pub(super) terms: Terms,
}

impl Reconnects {
    /// Returns those that are being set up again, by CID.
    pub(super) fn list(&self) -> Vec<Reconnecting> {
        let state = lock(&self.state);
        let shown = |(cid, attempt): (&Cid, &Attempt)| Reconnecting {
            cid: cid.0,
            peer: attempt.peer,
            since_s: attempt.lost.elapsed().as_secs(),
            attempts: attempt.attempts,
            error: attempt.error.clone(),
        };
        let mut all: Vec<_> = state.under_way.iter().map(shown).collect();
        all.sort_by_key(|reconnecting| reconnecting.cid);
        all
    }

    /// Takes a connection that was lost and is to be set up again. From now on it is in the list.
    pub(super) fn lost(&self, cid: Cid, peer: SocketAddr, terms: Terms) {
        let mut state = lock(&self.state);
        if state.stopped {
            return;
        }
        let attempt = Attempt { peer, lost: Instant::now(), attempts: 0, error: None, terms, task: None };
        state.under_way.insert(cid, attempt);
        self.news.notify_one();
    }

    /// Waits until a connection may have been lost.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    /// Begins a task for each connection that has none. The task cannot end before it is known here: it needs the lock for
    /// that.
    pub(super) fn begin(&self, spawn: impl Fn(Lost) -> AbortHandle) {
        for (cid, attempt) in &mut lock(&self.state).under_way {
            let Attempt { peer, terms, .. } = *attempt;
            attempt.task.get_or_insert_with(|| spawn(Lost { cid: *cid, peer, terms }));
        }
    }

    /// Returns the connection that took the place of a lost one, or of one that took its place.
    pub(super) fn successor(&self, cid: Cid) -> Option<Cid> {
        let state = lock(&self.state);
        let mut last = None;
        // They are in the order of time, so one pass follows a chain.
        for (old, new) in &state.done {
            if *old == last.unwrap_or(cid) {
                last = Some(*new);
            }
        }
        last
    }

    /// Gives a connection up. Returns false if it is not being set up again.
    pub(super) fn stop(&self, cid: Cid) -> bool {
        let attempt = lock(&self.state).under_way.remove(&cid);
        attempt.map(Attempt::abort).is_some()
    }

    /// Gives all of them up, and begins no other.
    pub(super) fn stop_all(&self) {
        let mut state = lock(&self.state);
        state.stopped = true;
        state.under_way.drain().for_each(|(_, attempt)| attempt.abort());
    }

    /// Records that an attempt failed. Returns whether the reason is another than that of the attempt before.
    pub(super) fn failed(&self, cid: Cid, error: &str) -> bool {
        let mut state = lock(&self.state);
        let Some(attempt) = state.under_way.get_mut(&cid) else { return false };
        attempt.attempts += 1;
        attempt.error.replace(error.to_owned()).as_deref() != Some(error)
    }

    pub(super) fn succeeded(&self, old: Cid, new: Cid) {
        let mut state = lock(&self.state);
        state.under_way.remove(&old);
        if state.done.len() == REMEMBERED {
            state.done.pop_front();
        }
        state.done.push_back((old, new));
    }
}

impl Attempt {
    fn abort(self) {
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_is_the_last_of_its_line() {
        let reconnects = Reconnects::default();
        for (old, new) in [(1, 257), (2, 258), (257, 513)] {
            reconnects.succeeded(Cid(old), Cid(new));
        }
        let of = |cid| reconnects.successor(Cid(cid)).map(|cid| cid.0);
        assert_eq!([of(1), of(2), of(257), of(513)], [Some(513), Some(258), Some(513), None]);
        for old in 1000..2000 {
            reconnects.succeeded(Cid(old), Cid(old + 10_000));
        }
        assert_eq!(lock(&reconnects.state).done.len(), REMEMBERED);
    }
}
