//! Copies files between nodes. WRITE, READ or SEND carries the content. The session of the connection manager
//! carries the messages between the two ends, which are called steps.
//!
//! The source cuts the file into chunks, and at most `slots` of them are outstanding. The sink stores them in
//! order and reports each, which frees its slot. The source hashes the bytes that it reads, and the sink the bytes
//! that it writes. The file gets its name only if the two hashes are equal. Until then it is a hidden `.part` file
//! in the same directory. If a killed node left such a file, the next copy to the same target removes it.
//!
//! All file work runs on a lane of the transfer ([`super::disk`]): while a file system does not answer, the transfer goes on
//! to talk with its peer and its client.

use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tiercel::backend::memory;
use tiercel::control::answer::Copied;
use tiercel::control::file_name::{LONGEST_NAME, is_file_name};
use tiercel::control::{Failure, FailureKind};
use tokio::sync::mpsc;
use transport_common::ids::Cid;

use super::super::server::ProgressSender;
use super::disk::{FileSystem, Job, Lane, NoAnswer};
use crate::common::mutex::lock;
use crate::connection_manager::{FileMessage, PeerSource, Sparse};

mod fetch;
mod file_kind;
mod layout;
mod part;
mod reading;
mod sink;
mod source;
#[cfg(test)]
mod tests;
mod trouble;
mod turns;
mod verbs;
mod writing;

pub(super) use fetch::fetch;
pub(super) use file_kind::kind;
use layout::Layout;
pub(super) use part::Place;
pub(super) use reading::{Origin, READ_FIRST, read_whole};
pub(super) use sink::{Sink, sink};
pub(super) use source::{Source, source};
pub(super) use trouble::Trouble;
pub(super) use turns::Turns;
pub(crate) use verbs::{Arrival, Buffer, ReceivePermit, Span, Verbs};
pub(super) use writing::Target;

/// Transfers of a node at the same time.
const TRANSFERS: usize = 16;
/// Capacity of the queue of steps, per transfer: two for every slot, and a few for the start and the end.
const STEPS: usize = 2 * MOST_SLOTS as usize + 8;
/// Most chunks that may be outstanding.
const MOST_SLOTS: u32 = 128;
/// Most registered memory that one transfer may use, bytes. The sources of this library use at most 4 MiB.
const MOST_MEMORY: u64 = 8 << 20;
/// Transfers at the same time that peers began: in total, and per peer.
const SERVED: usize = 8;
const SERVED_EACH: usize = 2;
// Transfers that peers began leave at least three quarters of the node's memory free.
const _: () = assert!(SERVED as u64 * MOST_MEMORY <= memory::DEFAULT / 4);
/// A transfer fails if the peer sends no step for this time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Like [`PATIENCE`], for a transfer that the peer began. It is shorter, because the transfer uses memory and no
/// local client waits for it.
const SERVED_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time for which a failed transfer waits for its outstanding operations.
const RELEASE: Duration = Duration::from_secs(2);
/// An end that its file system or its turn keeps waiting says so after this time, and again and again.
const SAY_WAITING: Duration = Duration::from_secs(3);
/// Longest time for which a failed transfer by SEND waits until its receives are used up.
const DRAIN: Duration = Duration::from_secs(5);
/// The current transfers. Delivers arriving steps to their transfer.
#[derive(Debug, Default)]
pub(super) struct Transfers(Mutex<HashMap<(Cid, u64), Route>>);

#[derive(Debug)]
struct Route {
    steps: mpsc::Sender<FileMessage>,
    /// The peer that began the transfer. `None` if this node began it.
    begun_by: Option<PeerSource>,
    /// Set if the queue of steps was full.
    overrun: Arc<AtomicBool>,
}

/// The steps of one transfer. Dropping it ends the transfer.
#[derive(Debug)]
pub(super) struct Steps<'t> {
    transfers: &'t Transfers,
    key: (Cid, u64),
    receiver: mpsc::Receiver<FileMessage>,
    overrun: Arc<AtomicBool>,
    patience: Duration,
    /// A step that came before this end was ready for it.
    early: Option<FileMessage>,
}

impl Transfers {
    /// Starts to receive the steps of a transfer that this node begins.
    ///
    /// # Errors
    /// The number is in use, or there are too many transfers.
    pub(super) fn enter(&self, cid: Cid, transfer: u64) -> Result<Steps<'_>, Failure> {
        self.begin((cid, transfer), None)
    }

    /// Starts to receive the steps of a transfer that a peer began.
    ///
    /// # Errors
    /// The number is in use, or there are too many transfers: in total, of all peers, or of this peer.
    pub(super) fn serve(&self, cid: Cid, transfer: u64, peer: IpAddr) -> Result<Steps<'_>, Failure> {
        self.begin((cid, transfer), Some(PeerSource::of(peer)))
    }

    fn begin(&self, (cid, transfer): (Cid, u64), begun_by: Option<PeerSource>) -> Result<Steps<'_>, Failure> {
        let mut routes = lock(&self.0);
        if let Some(peer) = begun_by {
            let served = routes.values().filter(|route| route.begun_by.is_some()).count();
            let of_peer = routes.values().filter(|route| route.begun_by == Some(peer)).count();
            if served >= SERVED || of_peer >= SERVED_EACH {
                let text = format!(
                    "the node serves {served} transfers of its peers, {of_peer} of them for {peer} (at most {SERVED}, and \
                     {SERVED_EACH} for each): wait for one to end, then copy again"
                );
                return Err(Failure::new(FailureKind::Node, text));
            }
        }
        if routes.len() >= TRANSFERS {
            return Err(Failure::new(
                FailureKind::Node,
                format!("the node already has {TRANSFERS} transfers: wait for one to end, then copy again"),
            ));
        }
        if routes.contains_key(&(cid, transfer)) {
            return Err(Failure::new(FailureKind::Node, "the number of the transfer is in use: copy again"));
        }
        let (steps, receiver) = mpsc::channel(STEPS);
        let overrun = Arc::<AtomicBool>::default();
        routes.insert((cid, transfer), Route { steps, begun_by, overrun: Arc::clone(&overrun) });
        let patience = if begun_by.is_some() { SERVED_PATIENCE } else { PATIENCE };
        Ok(Steps { transfers: self, key: (cid, transfer), receiver, overrun, patience, early: None })
    }

    /// Delivers a step to its transfer. Returns the step if there is no such transfer. If the queue of steps is
    /// full, the transfer ends: the peer sent more steps than a transfer has.
    pub(super) fn deliver(&self, cid: Cid, step: FileMessage) -> Option<FileMessage> {
        let key = (cid, step.transfer());
        let mut routes = lock(&self.0);
        let Some(route) = routes.get(&key) else { return Some(step) };
        if route.steps.try_send(step).is_err() {
            route.overrun.store(true, Ordering::Relaxed);
            routes.remove(&key);
        }
        None
    }

    /// Ends all transfers of a connection that has ended.
    pub(super) fn connection_ended(&self, cid: Cid) {
        lock(&self.0).retain(|(of, _), _| *of != cid);
    }
}

impl Steps<'_> {
    /// Returns the number of the transfer.
    pub(super) fn transfer(&self) -> u64 {
        self.key.1
    }

    fn cid(&self) -> Cid {
        self.key.0
    }

    /// Waits for the next step of the peer, at most the patience of this transfer.
    ///
    /// # Errors
    /// The peer ended the transfer, the peer sent no step in time, or the connection ended.
    pub(super) async fn next(&mut self) -> Result<FileMessage, Trouble> {
        self.next_within(Some(self.patience)).await
    }

    /// Waits for the next step of the peer, which has a reason to be silent if `patience` is `None`.
    async fn next_within(&mut self, patience: Option<Duration>) -> Result<FileMessage, Trouble> {
        if let Some(step) = self.early.take() {
            return Ok(step);
        }
        loop {
            let step = match patience {
                None => self.receiver.recv().await,
                Some(patience) => {
                    let step = tokio::time::timeout(patience, self.receiver.recv()).await;
                    step.map_err(|_| Trouble::PeerSilent(patience))?
                }
            };
            match step {
                Some(FileMessage::Waiting { .. }) => {}
                Some(FileMessage::Abort { text, posted, .. }) => {
                    return Err(Trouble::PeerAborted(text, posted));
                }
                Some(step) => return Ok(step),
                None if self.overrun.load(Ordering::Relaxed) => return Err(Trouble::TooManySteps),
                None => return Err(Trouble::ConnectionEnded),
            }
        }
    }

    /// Waits until the peer ends the transfer, which it may do at any time, or the connection ends. The next step of the peer
    /// is kept; while it waits, nothing behind it is heard.
    async fn peer_gives_up(&mut self) -> Trouble {
        while self.early.is_none() {
            match self.next_within(None).await {
                Ok(step) => self.early = Some(step),
                Err(trouble) => return trouble,
            }
        }
        std::future::pending().await
    }
}

/// Adds to a failure that `left` work requests (`what` names their kind) of a connection are still outstanding, and what
/// to do.
fn with_leftovers(mut failure: Failure, cid: Cid, left: u64, what: &str) -> Failure {
    if left > 0 {
        failure.text.push_str(&format!(
            "; {left} {what} of the transfer are still outstanding, which blocks connection {0}: close it with `tiercel conn \
             close {0}`, then connect again",
            cid.0
        ));
    }
    failure
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        lock(&self.transfers.0).remove(&self.key);
    }
}

/// What a transfer needs of its node: the connection, and the lane for its file work.
pub(super) struct Means<'m, V: Verbs> {
    pub(super) verbs: &'m Arc<V>,
    pub(super) files: &'m Arc<dyn FileSystem>,
    pub(super) lane: &'m Lane,
    pub(super) progress: &'m ProgressSender,
}

impl<V: Verbs> Means<'_, V> {
    async fn tell(&self, step: FileMessage) -> Result<(), Trouble> {
        if self.verbs.tell(step).await { Ok(()) } else { Err(Trouble::NoSession) }
    }

    /// Waits for something of this node that may take long. Tells the peer from time to time that this end is there, and
    /// hears the peer if it gives up meanwhile.
    async fn wait_for<T>(&self, steps: &mut Steps<'_>, what: impl Future<Output = T>) -> Result<T, Trouble> {
        tokio::select! {
            biased;
            outcome = self.wait_deaf(steps.transfer(), what) => outcome,
            trouble = steps.peer_gives_up() => Err(trouble),
        }
    }

    /// Like [`Means::wait_for`], for what the peer must not stop.
    async fn wait_deaf<T>(&self, transfer: u64, what: impl Future<Output = T>) -> Result<T, Trouble> {
        let mut what = std::pin::pin!(what);
        loop {
            tokio::select! {
                biased;
                outcome = &mut what => return Ok(outcome),
                () = self.progress.unwanted() => return Err(Trouble::Cancelled),
                () = tokio::time::sleep(SAY_WAITING) => self.tell(FileMessage::Waiting { transfer }).await?,
            }
        }
    }
}

/// Waits for the job, if there is one, and takes it away.
async fn ended<T>(job: &mut Option<Job<T>>) -> Result<T, NoAnswer> {
    let Some(running) = job else { return std::future::pending().await };
    let outcome = running.ended().await;
    *job = None;
    outcome
}

/// Checks the name of a file that a peer stores or fetches: a path of plain names, the first of them not hidden.
///
/// # Errors
/// The text says what is allowed.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    if is_file_name(name) && !name.starts_with('.') {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "\"{}\" cannot be the name of a file on a node: use names of 1 to {LONGEST_NAME} bytes, with slashes between those of \
         directories, without backslashes and control characters, and no dot at the beginning",
        name.escape_debug()
    )))
}

/// The chunks of what crosses: their number, and the position of each in it and in the buffer.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    length: u64,
    chunk: u32,
    slots: u32,
}

impl Chunks {
    /// Cuts `length` bytes into chunks. There are at most as many slots as chunks, so that a small file
    /// uses little memory.
    fn new(length: u64, chunk: u32, slots: u32) -> Self {
        let count = length.div_ceil(u64::from(chunk.max(1))).max(1);
        Self { length, chunk, slots: u64::from(slots).min(count) as u32 }
    }

    fn count(self) -> u64 {
        self.length.div_ceil(u64::from(self.chunk))
    }

    fn position(self, index: u64) -> u64 {
        index * u64::from(self.chunk)
    }

    fn size(self, index: u64) -> u64 {
        u64::from(self.chunk).min(self.length - self.position(index))
    }

    /// Returns the span of chunk `index` in the buffer: the start of its slot, and the length of the chunk.
    fn span(self, index: u64) -> Span {
        Span { offset: (index % u64::from(self.slots)) * u64::from(self.chunk), length: self.size(index) }
    }

    fn memory(self) -> u64 {
        u64::from(self.chunk) * u64::from(self.slots)
    }
}
