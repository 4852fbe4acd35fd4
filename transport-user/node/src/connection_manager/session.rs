//! A session: what is known of a connection with a peer, as long as its TCP connection lives.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use tiercel::status::SessionInfo;
use tokio::sync::{Notify, mpsc};
use transport_common::ids::{Cid, Spi};

use super::admission::Source;
use super::agreement::Terms;
use super::file_message::FileMessage;
use super::message::{Ending, Message, RegionAdvertisement};
use super::origin::Origin;
use super::path_signals::{Cause, PathCheck};
use crate::common::mutex::lock;

/// Capacity of the queue of messages to send, per session. If the queue is full, the sender waits.
pub(super) const OUTGOING: usize = 64;

/// A session of the manager.
pub(super) struct Session {
    pub(super) local_cid: Cid,
    pub(super) peer_cid: Cid,
    pub(super) peer: SocketAddr,
    /// The terms of the connection, if this end is the connecting end.
    pub(super) dialled: Option<Terms>,
    /// Time after which the peer counts as dead if nothing of it arrives.
    pub(super) patience: Duration,
    pub(super) life: Life,
    /// SPI of Falcon packets to this end, and to the peer.
    pub(super) rx_spi: Spi,
    pub(super) tx_spi: Spi,
    pub(super) mtus: Mutex<Mtus>,
    pub(super) peer_regions: Mutex<Vec<RegionAdvertisement>>,
    pub(super) outgoing: mpsc::Sender<Message>,
    pub(super) path: PathCheck,
}

/// What the packets of a connection must fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mtus {
    /// IP MTU that both ends use, bytes. It only becomes smaller.
    pub(super) agreed: u32,
    /// Largest IP packet that crosses the path, bytes, if it is known.
    pub(super) path: Option<u32>,
}

impl Session {
    /// Returns who causes its events. The user causes those of connections that the node has opened.
    pub(super) fn origin(&self) -> Origin {
        if self.connected_here() { Origin::Node } else { Origin::Peer(Source::of(self.peer.ip())) }
    }

    /// Takes a smaller MTU, which the host has taken.
    pub(super) fn shorten(&self, mtu: u32) {
        let mut mtus = lock(&self.mtus);
        mtus.agreed = mtu;
        mtus.path = mtus.path.map(|path| path.min(mtu));
    }

    /// Ends the session with a cause of its data path. The peer is told.
    pub(super) async fn end_with(&self, cause: Cause) {
        let message = Message::close(Ending::Path, &cause.for_peer);
        if self.path.ends(cause) {
            // Sending fails only if the session is ending.
            let _ = self.outgoing.send(message).await;
        }
    }

    pub(super) fn connected_here(&self) -> bool {
        self.dialled.is_some()
    }

    /// Sends a step of a file transfer. Waits while the queue of the session is full. Returns false if the session has
    /// ended.
    pub(super) async fn send_step(&self, step: FileMessage) -> bool {
        self.outgoing.send(Message::File { step }).await.is_ok()
    }

    pub(super) fn info(&self) -> SessionInfo {
        let Mtus { agreed: mtu, path: path_mtu } = *lock(&self.mtus);
        SessionInfo {
            local_cid: self.local_cid.0,
            peer_cid: self.peer_cid.0,
            peer: self.peer,
            connected_here: self.connected_here(),
            patience_ms: self.patience.as_millis() as u64,
            reconnects: self.dialled.is_some_and(|terms| terms.reconnect),
            mtu,
            path_mtu,
            peer_regions: lock(&self.peer_regions).clone(),
        }
    }
}

/// What is known about a peer's life.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Whether there was a sign of life since the last check.
    pub(super) heard: AtomicBool,
    /// Wakes whoever asks the peer.
    pub(super) in_doubt: Notify,
}

impl Life {
    /// Records a sign of life.
    pub(super) fn heard(&self) {
        self.heard.store(true, Ordering::Relaxed);
    }
}
