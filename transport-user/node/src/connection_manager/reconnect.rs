//! Sets lost connections up again, for those who have asked for it.
//!
//! The connection that takes the place of a lost one is another incarnation: it has another CID and other sequence
//! numbers, and nothing that was outstanding is repeated. Whoever wants an operation repeated has its completion in error.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use tiercel::status::Reconnecting;
use tokio::task::AbortHandle;
use transport_common::ids::Cid;

use super::agreement::Terms;
use super::host::Host;
use super::{Shared, handshake, lock};

/// Pause after the first attempt that fails. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Lost connections whose successors are remembered.
const REMEMBERED: usize = 256;

/// The lost connections.
#[derive(Debug, Default)]
pub(super) struct Reconnects(Mutex<State>);

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
    task: Option<AbortHandle>,
}

impl Reconnects {
    /// Returns those that are being set up again, by CID.
    pub(super) fn list(&self) -> Vec<Reconnecting> {
        let state = lock(&self.0);
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

    /// Returns the connection that took the place of a lost one, or of one that took its place.
    pub(super) fn successor(&self, cid: Cid) -> Option<Cid> {
        let state = lock(&self.0);
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
        let attempt = lock(&self.0).under_way.remove(&cid);
        attempt.map(Attempt::abort).is_some()
    }

    /// Gives all of them up, and begins no other.
    pub(super) fn stop_all(&self) {
        let mut state = lock(&self.0);
        state.stopped = true;
        state.under_way.drain().for_each(|(_, attempt)| attempt.abort());
    }

    /// Records that an attempt failed. Returns whether the reason is another than that of the attempt before.
    fn failed(&self, cid: Cid, error: &str) -> bool {
        let mut state = lock(&self.0);
        let Some(attempt) = state.under_way.get_mut(&cid) else { return false };
        attempt.attempts += 1;
        attempt.error.replace(error.to_owned()).as_deref() != Some(error)
    }

    fn succeeded(&self, old: Cid, new: Cid) {
        let mut state = lock(&self.0);
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

/// Begins to set up a lost connection again, in a task.
pub(super) fn begin<H: Host>(shared: &Arc<Shared<H>>, lost: Cid, peer: SocketAddr, terms: Terms) {
    let mut state = lock(&shared.reconnects.0);
    if state.stopped {
        return;
    }
    let attempt = Attempt { peer, lost: Instant::now(), attempts: 0, error: None, task: None };
    state.under_way.insert(lost, attempt);
    // The task cannot end before it is known here: it needs the lock for that.
    let task = tokio::spawn(again(Arc::clone(shared), lost, peer, terms)).abort_handle();
    if let Some(attempt) = state.under_way.get_mut(&lost) {
        attempt.task = Some(task);
    }
}

async fn again<H: Host>(shared: Arc<Shared<H>>, lost: Cid, peer: SocketAddr, terms: Terms) {
    let mut pause = FIRST_PAUSE;
    loop {
        match handshake::connect(&shared, peer.ip(), peer.port(), terms).await {
            Ok(cid) => {
                shared.reconnects.succeeded(lost, cid);
                shared.events.note(format!(
                    "connection {} takes the place of connection {}, which was lost",
                    cid.0, lost.0
                ));
                shared.notices.replaced(lost, cid);
                return;
            }
            Err(error) => {
                let error = error.to_string();
                if shared.reconnects.failed(lost, &error) {
                    shared.events.warn(format!("connection {} cannot be set up again yet: {error}", lost.0));
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(LONGEST_PAUSE);
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
        assert_eq!(lock(&reconnects.0).done.len(), REMEMBERED);
    }
}
