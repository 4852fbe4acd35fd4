//! The receives that local programs posted, and the messages that arrived in them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tiercel::control::answer::{Receive, ReceiveState};
use tiercel::control::{Failure, Hex};
use tiercel::{Connection, MemoryRegion, OperationError, Received};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use transport_common::ids::Cid;

use crate::common::mutex::lock;

/// Number of receives that are kept per connection. Beyond it, the oldest completed receives are dropped.
const REMEMBERED: usize = 1024;
/// Bytes of a message that a listing shows.
const PREVIEW: u64 = 64;

/// The receives of all connections.
#[derive(Default)]
pub(super) struct Receives(Mutex<HashMap<Cid, Arc<Book>>>);

/// The receives of one connection.
pub(super) struct Book {
    /// A single permit to post and collect receives. Either the collector of this book or a file transfer has it.
    user: Arc<Semaphore>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    next_id: u64,
    entries: BTreeMap<u64, Entry>,
    collecting: bool,
}

struct Entry {
    region: MemoryRegion,
    offset: u64,
    length: u64,
    outcome: Option<Result<Received, OperationError>>,
}

impl Receives {
    /// Takes the permit for the receives of a connection, for a file transfer. Waits while another transfer has it.
    ///
    /// # Errors
    /// A client has posted receives, which may wait for long, or a transfer that failed left some behind.
    pub(super) async fn take(&self, connection: &Connection) -> Result<OwnedSemaphorePermit, Failure> {
        let (cid, book) = (connection.cid(), self.book(connection.cid()));
        if lock(&book.state).collecting {
            return Err(in_use(cid, connection.is_ordered()));
        }
        let taken = Arc::clone(&book.user).acquire_owned().await;
        taken.map_err(|_| in_use(cid, connection.is_ordered()))
    }

    /// Keeps the permit until the connection is closed, because receives of a transfer are left. Whoever waits for it is
    /// refused.
    pub(super) fn park(&self, connection: &Connection, permit: OwnedSemaphorePermit) {
        permit.forget();
        self.book(connection.cid()).user.close();
    }

    /// Removes the receives of a connection that has ended.
    pub(super) fn connection_ended(&self, cid: Cid) {
        lock(&self.0).remove(&cid);
    }

    /// Returns the receives of a connection.
    pub(super) fn book(&self, cid: Cid) -> Arc<Book> {
        let new =
            || Book { user: Arc::new(Semaphore::new(1)), state: Mutex::default(), changed: Notify::new() };
        Arc::clone(lock(&self.0).entry(cid).or_insert_with(|| Arc::new(new())))
    }
}

fn in_use(cid: Cid, ordered: bool) -> Failure {
    // On an ordered connection, requests left over from a failed transfer block all later requests.
    let remedy = match ordered {
        true => "close the connection to clear them, and connect again",
        false => "close the connection to clear them and connect again, or copy with --via write",
    };
    Failure::invalid(format!(
        "the receives of connection {0} are in use: by `tiercel recv post` (see `tiercel recv list {0}`), by a file \
         transfer, or left over from a transfer that failed; {remedy}",
        cid.0
    ))
}

impl Book {
    /// Posts `count` receives, whose buffers follow one another in the region. Starts a task that collects them,
    /// unless one already runs.
    pub(super) fn post(
        self: &Arc<Self>,
        connection: &Connection,
        region: &MemoryRegion,
        length: u64,
        count: u32,
    ) -> Result<Vec<u64>, Failure> {
        let mut state = lock(&self.state);
        let permit = match state.collecting {
            true => None,
            false => Some(
                Arc::clone(&self.user)
                    .try_acquire_owned()
                    .map_err(|_| in_use(connection.cid(), connection.is_ordered()))?,
            ),
        };
        let mut ids = Vec::new();
        let mut outcome = Ok(());
        for number in 0..u64::from(count) {
            let (id, offset) = (state.next_id, number * length);
            outcome = connection.post_receive(region, offset, length as u32, id);
            if outcome.is_err() {
                break;
            }
            state.next_id += 1;
            state.entries.insert(id, Entry { region: region.clone(), offset, length, outcome: None });
            ids.push(id);
        }
        state.forget_oldest();
        if let Some(permit) = permit.filter(|_| !ids.is_empty()) {
            state.collecting = true;
            tokio::spawn(Arc::clone(self).collect(connection.clone(), permit));
        }
        // If only some could be posted, their IDs are returned: a posted receive cannot be taken back.
        if ids.is_empty() { outcome.map(|()| ids).map_err(Failure::from) } else { Ok(ids) }
    }

    /// Collects completed receives until no more are posted.
    async fn collect(self: Arc<Self>, connection: Connection, permit: OwnedSemaphorePermit) {
        loop {
            let received = connection.receive().await;
            let over = {
                let mut state = lock(&self.state);
                state.record(received);
                state.collecting = state.entries.values().any(|entry| entry.outcome.is_none());
                !state.collecting
            };
            self.changed.notify_waiters();
            if over {
                drop(permit);
                return;
            }
        }
    }

    /// Waits until all of `ids` have completed.
    pub(super) async fn completed(&self, ids: &[u64]) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable(); // from here on, no change is missed
            let open = |id| lock(&self.state).entries.get(id).is_some_and(|entry| entry.outcome.is_none());
            if !ids.iter().any(open) {
                return;
            }
            changed.await;
        }
    }

    /// Returns bytes of the message in a receive of the connection `cid`.
    ///
    /// # Errors
    /// The receive has no message, or fewer bytes.
    pub(super) fn read(&self, cid: u32, id: u64, offset: u64, length: u64) -> Result<Vec<u8>, Failure> {
        let state = lock(&self.state);
        let unknown = || Failure::invalid(format!("receive {id} of connection {cid} has no message"));
        let entry = state.entries.get(&id).ok_or_else(unknown)?;
        let message = entry.message().ok_or_else(unknown)?;
        if offset.checked_add(length).is_none_or(|end| end > message) {
            return Err(Failure::invalid(format!("the message of receive {id} has only {message} bytes")));
        }
        let mut bytes = vec![0; length as usize];
        entry.region.read(entry.offset + offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns all receives.
    pub(super) fn list_all(&self) -> Vec<Receive> {
        let ids: Vec<u64> = lock(&self.state).entries.keys().copied().collect();
        self.list(&ids)
    }

    /// Returns the receives with these ids.
    pub(super) fn list(&self, ids: &[u64]) -> Vec<Receive> {
        let state = lock(&self.state);
        ids.iter().filter_map(|id| state.entries.get(id).map(|entry| entry.show(*id))).collect()
    }
}

impl State {
    fn record(&mut self, received: Result<Received, OperationError>) {
        let mut open = self.entries.iter_mut().filter(|(_, entry)| entry.outcome.is_none());
        match received {
            Ok(received) => {
                if let Some(entry) = self.entries.get_mut(&received.wr_id) {
                    entry.outcome = Some(Ok(received));
                }
            }
            Err(error @ OperationError::Completion { .. }) => {
                // Receives are used in the order in which they were posted.
                if let Some((_, entry)) = open.next() {
                    entry.outcome = Some(Err(error));
                }
            }
            Err(error) => open.for_each(|(_, entry)| entry.outcome = Some(Err(error.clone()))),
        }
    }

    fn forget_oldest(&mut self) {
        while self.entries.len() > REMEMBERED {
            let completed = self.entries.iter().find(|(_, entry)| entry.outcome.is_some()).map(|(id, _)| *id);
            let Some(id) = completed else { return };
            self.entries.remove(&id);
        }
    }
}

impl Entry {
    /// Returns the length of the message in the buffer, if one arrived.
    fn message(&self) -> Option<u64> {
        match &self.outcome {
            Some(Ok(received)) if !received.by_write => Some(self.length.min(received.length.into())),
            _ => None,
        }
    }

    fn show(&self, id: u64) -> Receive {
        let state = match &self.outcome {
            None => ReceiveState::Posted,
            Some(Ok(_)) => ReceiveState::Received,
            Some(Err(_)) => ReceiveState::Failed,
        };
        let received = self.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok());
        let failure =
            self.outcome.as_ref().and_then(|outcome| outcome.as_ref().err()).cloned().map(Failure::from);
        let preview = self.message().and_then(|length| {
            let mut bytes = vec![0; PREVIEW.min(length) as usize];
            self.region.read(self.offset, &mut bytes).is_ok().then_some(Hex(bytes))
        });
        Receive {
            id,
            state,
            length: self.length,
            bytes: received.map(|received| received.length),
            immediate: received.and_then(|received| received.immediate),
            by_write: received.map(|received| received.by_write),
            hex: preview,
            status: failure.as_ref().and_then(|failure| failure.status),
            ulp_code: failure.as_ref().and_then(|failure| failure.ulp_code),
            error: failure.map(|failure| failure.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_way_to_copy_is_named_only_where_it_is_not_blocked_as_well() {
        assert!(in_use(Cid(5), false).text.ends_with("or copy with --via write"));
        let ordered = in_use(Cid(5), true).text;
        assert!(ordered.ends_with("connect again") && !ordered.contains("--via"), "{ordered}");
    }
}
