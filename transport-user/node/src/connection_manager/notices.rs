//! The notices of the manager for the node.
//!
//! Each connection may have only a few notices that the node has not taken. If it has them, the session reads nothing
//! more from its peer, and TCP makes the peer wait. So a peer that sends more steps of file transfers than the node
//! takes holds up itself only.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use transport_common::ids::Cid;

use super::file_message::FileMessage;

/// Steps of file transfers of one connection that the node has not taken.
const STEPS: usize = 64;

/// A notice from the manager to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The peer of a connection sent a step of a file transfer.
    File(Cid, FileMessage),
    /// A connection ended.
    Ended(Cid),
    /// A connection that was lost was set up again, as its terms say.
    Replaced {
        /// The CID that the lost connection had.
        lost: Cid,
        /// The CID of the new connection.
        by: Cid,
    },
}

/// The queue of notices for the node.
#[derive(Debug)]
pub struct Notices(mpsc::UnboundedReceiver<Queued>);

/// A notice, and the right of its connection to have it in the queue.
#[derive(Debug)]
struct Queued {
    notice: Notice,
    _place: Option<OwnedSemaphorePermit>,
}

/// The end of the queue at which sessions are made.
#[derive(Debug)]
pub(super) struct NoticeQueue(mpsc::UnboundedSender<Queued>);

/// The end of the queue for one session. It has at most [`STEPS`] places, and one for its end.
#[derive(Debug)]
pub(super) struct SessionNotices {
    queue: mpsc::UnboundedSender<Queued>,
    places: Arc<Semaphore>,
    cid: Cid,
}

impl Notices {
    /// Waits for the next notice. Returns `None` when the manager and all of its sessions are gone.
    pub async fn recv(&mut self) -> Option<Notice> {
        Some(self.0.recv().await?.notice)
    }
}

impl NoticeQueue {
    pub(super) fn new() -> (Self, Notices) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), Notices(receiver))
    }

    /// Tells that a connection takes the place of a lost one.
    pub(super) fn replaced(&self, lost: Cid, by: Cid) {
        // Sending fails only if the node goes down.
        let _ = self.0.send(Queued { notice: Notice::Replaced { lost, by }, _place: None });
    }

    /// Returns the part of a new session.
    pub(super) fn of_session(&self, cid: Cid) -> SessionNotices {
        SessionNotices { queue: self.0.clone(), places: Arc::new(Semaphore::new(STEPS)), cid }
    }
}

impl SessionNotices {
    /// Passes a step on. Waits while the node has not taken the earlier ones.
    pub(super) async fn file(&self, step: FileMessage) {
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        self.put(Notice::File(self.cid, step), place);
    }

    /// Tells that the session has ended. It is the last notice of the session.
    pub(super) fn ended(&self) {
        self.put(Notice::Ended(self.cid), None);
    }

    fn put(&self, notice: Notice, place: Option<OwnedSemaphorePermit>) {
        // Sending fails only if the node goes down.
        let _ = self.queue.send(Queued { notice, _place: place });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// A session whose steps the node does not take waits. Others do not notice it.
    #[tokio::test]
    async fn each_connection_has_places_of_its_own() {
        let (queue, mut notices) = NoticeQueue::new();
        let (greedy, other) = (queue.of_session(Cid(1)), queue.of_session(Cid(2)));
        let step = |transfer| FileMessage::Stored { transfer, index: 0 };
        for transfer in 0..STEPS as u64 {
            assert!(greedy.file(step(transfer)).now_or_never().is_some(), "there is a place for {transfer}");
        }
        assert!(greedy.file(step(99)).now_or_never().is_none());
        assert!(other.file(step(7)).now_or_never().is_some());
        greedy.ended();
        for transfer in 0..STEPS as u64 {
            assert_eq!(notices.recv().await, Some(Notice::File(Cid(1), step(transfer))));
        }
        assert_eq!(notices.recv().await, Some(Notice::File(Cid(2), step(7))));
        assert_eq!(notices.recv().await, Some(Notice::Ended(Cid(1))));
        assert!(greedy.file(step(100)).now_or_never().is_some(), "places come back");
    }
}
