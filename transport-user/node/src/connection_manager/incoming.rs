//! The connections that peers have opened, for a server that awaits them.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use super::session::{Session, SessionInfo};
use crate::common::mutex::lock;

/// Connections that wait to be accepted.
const QUEUE: usize = 64;

/// Why [`accept`](super::ConnectionManager::accept) returns no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// So many connections did not fit the queue, because nobody accepted them. They work like all others:
    /// [`sessions`](super::ConnectionManager::sessions) has them. The next call goes on with the oldest one in the queue.
    #[error("{0} connections were not accepted in time")]
    Missed(u64),
    /// The manager is shut down.
    #[error("the connection manager is shut down")]
    Closed,
}

/// The queue of connections that peers have opened, oldest first.
#[derive(Default)]
pub(super) struct Incoming {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Weak<Session>>,
    missed: u64,
    closed: bool,
}

impl Incoming {
    /// Adds a connection. If the queue is full, the oldest one leaves it.
    pub(super) fn add(&self, session: &Arc<Session>) {
        let mut state = lock(&self.state);
        if state.queue.len() == QUEUE {
            // What has ended need not be accepted.
            state.queue.retain(|session| session.strong_count() > 0);
        }
        if state.queue.len() == QUEUE {
            state.queue.pop_front();
            state.missed += 1;
        }
        state.queue.push_back(Arc::downgrade(session));
        self.news.notify_one();
    }

    /// Ends the stream.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.news.notify_waiters();
    }

    /// Waits for the next connection. Nothing is lost if the call is given up: what it takes, it returns at once.
    pub(super) async fn next(&self) -> Result<SessionInfo, AcceptError> {
        loop {
            // It listens before it checks, so it misses nothing that is added meanwhile.
            let mut news = pin!(self.news.notified());
            news.as_mut().enable();
            if let Some(next) = self.take() {
                return next;
            }
            news.await;
        }
    }

    fn take(&self) -> Option<Result<SessionInfo, AcceptError>> {
        let mut state = lock(&self.state);
        if state.missed > 0 {
            return Some(Err(AcceptError::Missed(std::mem::take(&mut state.missed))));
        }
        while let Some(session) = state.queue.pop_front() {
            if let Some(session) = session.upgrade() {
                return Some(Ok(session.info()));
            }
        }
        state.closed.then_some(Err(AcceptError::Closed))
    }
}
