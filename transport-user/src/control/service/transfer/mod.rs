//! Copying files between nodes: content by WRITE, READ or SEND, steps over the connection manager's session.
//!
//! The source cuts the file into chunks and lets at most `slots` of them be under way; the sink stores them in order
//! and says so, which frees the slot. Both hash what they read or wrote. The file gets its name only when the two
//! hashes agree; until then it is a hidden `.part` file beside it. One that a killed node left is removed by the next copy
//! to the same file.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use transport_common::ids::Cid;
use transport_common::queues::MEMORY_BYTES;

use super::super::protocol::answer::Copied;
use super::super::protocol::{Failure, FailureKind};
use super::super::server::ProgressSender;
use crate::connection_manager::{FileMessage, PeerSource, Via};

mod part;
mod sink;
mod source;
#[cfg(test)]
mod tests;
mod verbs;

pub(super) use sink::{Sink, sink};
pub(super) use source::{Source, source};
pub(crate) use verbs::{Arrival, Buffer, ReceivePermit, Span, Verbs};

/// Transfers a node takes part in at once.
const TRANSFERS: usize = 16;
/// Steps of one transfer that may wait: two for every slot, and the frame around.
const STEPS: usize = 2 * MOST_SLOTS as usize + 8;
/// Most chunks under way at once.
const MOST_SLOTS: u32 = 128;
/// Most registered memory one transfer may take, bytes. The library's own sources ask for 4 MiB.
const MOST_MEMORY: u64 = 8 << 20;
/// Transfers that peers have begun; and those of one source of them.
const SERVED: usize = 8;
const SERVED_EACH: usize = 2;
// What peers begin leaves three quarters of the node's memory to its owner.
const _: () = assert!(SERVED as u64 * MOST_MEMORY <= MEMORY_BYTES as u64 / 4);
/// A peer that takes no step for so long has given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// As [`PATIENCE`], where the peer began the transfer: nobody here waits for it, and it holds memory.
const SERVED_PATIENCE: Duration = Duration::from_secs(10);
/// How long operations of a transfer that has failed may still take before they are left to themselves.
const RELEASE: Duration = Duration::from_secs(2);
/// Longest name of a file.
const LONGEST_NAME: usize = 200;

/// The transfers under way: who gets the steps that arrive.
#[derive(Debug, Default)]
pub(super) struct Transfers(Mutex<HashMap<(Cid, u64), Route>>);

#[derive(Debug)]
struct Route {
    steps: mpsc::Sender<FileMessage>,
    /// The peer that began the transfer; none if this node did.
    begun_by: Option<PeerSource>,
}

/// Steps of one transfer, as long as it lives.
#[derive(Debug)]
pub(super) struct Steps<'t> {
    transfers: &'t Transfers,
    key: (Cid, u64),
    receiver: mpsc::Receiver<FileMessage>,
    patience: Duration,
}

impl Transfers {
    /// Starts listening for the steps of a transfer that this node begins.
    ///
    /// # Errors
    /// The number is taken, or there are too many.
    pub(super) fn enter(&self, cid: Cid, transfer: u64) -> Result<Steps<'_>, Failure> {
        self.begin((cid, transfer), None)
    }

    /// As [`Self::enter`], of one that a peer has begun.
    ///
    /// # Errors
    /// The number is taken, or there are too many: of all peers, or of this one.
    pub(super) fn serve(&self, cid: Cid, transfer: u64, peer: IpAddr) -> Result<Steps<'_>, Failure> {
        self.begin((cid, transfer), Some(PeerSource::of(peer)))
    }

    fn begin(&self, (cid, transfer): (Cid, u64), begun_by: Option<PeerSource>) -> Result<Steps<'_>, Failure> {
        let mut routes = self.lock();
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
                format!("{TRANSFERS} transfers are under way: try again later"),
            ));
        }
        if routes.contains_key(&(cid, transfer)) {
            return Err(Failure::new(FailureKind::Node, "a transfer has this number already"));
        }
        let (steps, receiver) = mpsc::channel(STEPS);
        routes.insert((cid, transfer), Route { steps, begun_by });
        let patience = if begun_by.is_some() { SERVED_PATIENCE } else { PATIENCE };
        Ok(Steps { transfers: self, key: (cid, transfer), receiver, patience })
    }

    /// Hands a step to its transfer; gives it back when there is none. A peer that sends more steps than a transfer
    /// has loses it.
    pub(super) fn deliver(&self, cid: Cid, step: FileMessage) -> Option<FileMessage> {
        let key = (cid, step.transfer());
        let mut routes = self.lock();
        let Some(route) = routes.get(&key) else { return Some(step) };
        if route.steps.try_send(step).is_err() {
            routes.remove(&key);
        }
        None
    }

    /// Ends all transfers of a connection that has ended.
    pub(super) fn connection_ended(&self, cid: Cid) {
        self.lock().retain(|(of, _), _| *of != cid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Cid, u64), Route>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steps<'_> {
    /// Number of the transfer.
    pub(super) fn transfer(&self) -> u64 {
        self.key.1
    }

    /// Adds to a failure that `left` work requests ("operations", "receives") outlive the transfer, and what to do.
    fn with_leftovers(&self, mut failure: Failure, left: u64, what: &str) -> Failure {
        if left > 0 {
            failure.text.push_str(&format!(
                "; the transfer leaves {left} of its {what} outstanding, which blocks connection {0}: close it with \
                 `tiercel conn close {0}`, then connect anew",
                self.key.0.0
            ));
        }
        failure
    }

    /// The next step of the peer.
    ///
    /// # Errors
    /// The peer gave up, fell silent, or the connection ended.
    pub(super) async fn next(&mut self) -> Result<FileMessage, Failure> {
        match tokio::time::timeout(self.patience, self.receiver.recv()).await {
            Ok(Some(FileMessage::Abort { text, .. })) => {
                Err(Failure::new(FailureKind::File, format!("the peer gave up: {}", text.escape_debug())))
            }
            Ok(Some(step)) => Ok(step),
            Ok(None) => Err(Failure::new(
                FailureKind::Connect,
                "the connection ended during the transfer: connect again",
            )),
            Err(_) => Err(Failure::new(
                FailureKind::Connect,
                format!("the peer took no step for {} s: see its own output", self.patience.as_secs()),
            )),
        }
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        self.transfers.lock().remove(&self.key);
    }
}

/// Asks the peer for a file it keeps and stores it.
pub(super) async fn fetch<V: Verbs>(
    verbs: &V,
    steps: &mut Steps<'_>,
    wanted: (String, Via),
    file: &Path,
    overwrite: bool,
    progress: &ProgressSender,
) -> Result<Copied, Failure> {
    let (name, via) = wanted;
    // Known before the peer moves a byte.
    sink::check_target(file, overwrite)?;
    tell(verbs, FileMessage::Fetch { transfer: steps.transfer(), name: name.clone(), via }).await?;
    let FileMessage::Offer { name: offered, via: by, length, chunk, slots, rkey, .. } = steps.next().await?
    else {
        return Err(out_of_step());
    };
    if offered != name || by != via {
        return Err(out_of_step());
    }
    let target = Sink { file: file.to_owned(), name, via, length, chunk, slots, rkey, overwrite };
    sink(verbs, steps, target, progress).await
}

/// Whether a peer may name a file so: one plain component, nothing hidden.
///
/// # Errors
/// A sentence that says what is allowed.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let plain = !name.contains(['/', '\\']) && !name.contains(char::is_control);
    if plain && !name.is_empty() && name.len() <= LONGEST_NAME && !name.starts_with('.') {
        return Ok(());
    }
    Err(Failure::invalid(format!(
        "\"{}\" cannot be the name of a file at a node: use one component of 1 to {LONGEST_NAME} bytes, without \
         slashes and control characters, not starting with a dot",
        name.escape_debug()
    )))
}

async fn tell<V: Verbs>(verbs: &V, step: FileMessage) -> Result<(), Failure> {
    if verbs.tell(step).await {
        return Ok(());
    }
    Err(Failure::new(
        FailureKind::Connect,
        "the connection has no session with the peer's connection manager: it has ended (connect again with `tiercel conn \
         connect`), or it is static (copy with `tiercel write` and `tiercel read`)",
    ))
}

fn out_of_step() -> Failure {
    Failure::new(
        FailureKind::File,
        "the peer broke the order of a transfer: an older SEND of this connection may have come between, then close \
         the connection and connect anew; if it happens again, install the same release on both nodes",
    )
}

fn unwanted() -> Failure {
    Failure::new(FailureKind::File, "cancelled")
}

fn file_failure(file: &Path, what: &str, error: &io::Error) -> Failure {
    Failure::new(FailureKind::File, format!("cannot {what} {}: {error}", file.display()))
}

/// Where chunk `index` of a file stands, in the file and in its slot.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    length: u64,
    chunk: u32,
    slots: u32,
}

impl Chunks {
    /// Of a file of `length` bytes. A file of few chunks gets no memory for more.
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

    /// The slot of chunk `index`, as long as the chunk.
    fn span(self, index: u64) -> Span {
        Span { offset: (index % u64::from(self.slots)) * u64::from(self.chunk), length: self.size(index) }
    }

    fn memory(self) -> u64 {
        u64::from(self.chunk) * u64::from(self.slots)
    }
}
