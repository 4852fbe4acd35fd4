//! The TCP connection of an established connection: heartbeats, changes of regions, steps of file transfers, and
//! the end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use transport_common::ids::Cid;

use super::events::count;
use super::host::{Health, Host};
use super::message::{
    FileMessage, Message, RegionAdvertisement, WireError, read_message, shortened, write_message,
};
use super::path_check::{self, PathCheck};
use super::{Notice, Shared, Timing, lock};

/// Capacity of the queue of messages to send, per session. If the queue is full, the sender waits.
pub(super) const OUTGOING: usize = 64;

/// Information about a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// This end's CID.
    pub local_cid: u32,
    /// The peer's CID.
    pub peer_cid: u32,
    /// The peer's address of the TCP connection.
    pub peer: SocketAddr,
    /// Whether this end is the connecting end.
    pub connected_here: bool,
    /// IP MTU that both ends use, bytes.
    pub mtu: u32,
    /// Largest IP packet that crosses the path in both directions, bytes, up to the MTU of the interfaces. `None` if it was
    /// not found: the peer does not search, or no probe arrived.
    pub path_mtu: Option<u32>,
    /// Regions that the peer has registered for access by peers.
    pub peer_regions: Vec<RegionAdvertisement>,
}

/// A session of the manager.
pub(super) struct Session {
    pub(super) local_cid: Cid,
    pub(super) peer_cid: Cid,
    pub(super) peer: SocketAddr,
    pub(super) connected_here: bool,
    pub(super) mtu: u32,
    pub(super) path_mtu: Option<u32>,
    pub(super) peer_regions: Mutex<Vec<RegionAdvertisement>>,
    pub(super) outgoing: mpsc::Sender<Message>,
    pub(super) path: PathCheck,
}

impl Session {
    pub(super) fn info(&self) -> SessionInfo {
        SessionInfo {
            local_cid: self.local_cid.0,
            peer_cid: self.peer_cid.0,
            peer: self.peer,
            connected_here: self.connected_here,
            mtu: self.mtu,
            path_mtu: self.path_mtu,
            peer_regions: lock(&self.peer_regions).clone(),
        }
    }
}

/// How a session ended.
enum End {
    /// The peer sent `Close`.
    ByPeer(String),
    /// This end sent `Close`.
    Here,
    /// Packet delivery of this end failed.
    Fatal,
    /// The TCP connection broke, or the peer was silent or violated the protocol.
    Broken(WireError),
}

/// Serves a session until it ends. Then closes the connection and removes the session.
pub(super) async fn serve<H: Host>(
    shared: Arc<Shared<H>>,
    session: Arc<Session>,
    stream: TcpStream,
    outgoing: mpsc::Receiver<Message>,
) {
    let (mut from_peer, mut to_peer) = stream.into_split();
    let end = tokio::select! {
        end = receive(&shared, &session, &mut from_peer) => end,
        end = transmit(&shared, session.local_cid, outgoing, &mut to_peer) => end,
        never = path_check::follow(&shared, &session) => match never {},
    };
    shared.host.close(session.local_cid);
    lock(&shared.sessions).remove(&session.local_cid);
    record(&shared, &session, &end);
    // Sending fails only if the node goes down.
    let _ = shared.notices.send(Notice::Ended(session.local_cid)).await;
}

fn record<H: Host>(shared: &Shared<H>, session: &Session, end: &End) {
    let (counters, events) = (&shared.counters, &shared.events);
    let name = format!("connection {} with {}", session.local_cid.0, session.peer);
    match end {
        End::ByPeer(text) => {
            count(&counters.closed_by_peer);
            events.note(format!("{name} closed by the peer: {}", text.escape_debug()));
        }
        End::Here => match session.path.cause() {
            Some(cause) => {
                count(&counters.path_lost);
                events.warn(format!("{name} ended: {cause}"));
            }
            None => {
                count(&counters.closed_here);
                events.note(format!("{name} closed"));
            }
        },
        End::Fatal => {
            count(&counters.fatal);
            events.warn(format!("{name} failed: the peer does not acknowledge its packets"));
        }
        End::Broken(error) => {
            count(&counters.peer_died);
            super::count_wire_error(counters, error);
            events.warn(format!("{name} lost: {error}; outstanding operations completed with DeadConn"));
        }
    }
}

async fn receive<H: Host>(
    shared: &Shared<H>,
    session: &Session,
    stream: &mut (impl AsyncRead + Unpin),
) -> End {
    loop {
        let message = match read_message(stream, shared.timing.patience).await {
            Ok(message) => message,
            Err(error) => return End::Broken(error),
        };
        match message {
            Message::Heartbeat => {}
            Message::Regions { regions } => *lock(&session.peer_regions) = regions,
            Message::Close { text } => return End::ByPeer(text),
            Message::File { step } => {
                // A correct peer has few outstanding steps. If the queue is full, the peer sends too many, and the
                // session ends instead of waiting.
                if shared.notices.try_send(Notice::File(session.local_cid, step)).is_err() {
                    return End::Broken(WireError::Garbage("more file steps than a transfer has".into()));
                }
            }
            Message::Probe { probe } => {
                if let Err(text) = session.path.peer_probes(probe) {
                    return End::Broken(WireError::Garbage(text));
                }
            }
            Message::Hello { .. }
            | Message::Path { .. }
            | Message::Accept { .. }
            | Message::Reject { .. }
            | Message::Ready
            | Message::Proof { .. } => {
                return End::Broken(WireError::Garbage("a second handshake".into()));
            }
        }
    }
}

async fn transmit<H: Host>(
    shared: &Shared<H>,
    cid: Cid,
    mut outgoing: mpsc::Receiver<Message>,
    stream: &mut (impl AsyncWrite + Unpin),
) -> End {
    let mut told = None;
    let mut ticks = interval(shared.timing.heartbeat);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            _ = ticks.tick() => match shared.host.health(cid) {
                Health::Open => news(shared.host.regions(), &mut told),
                Health::Fatal => farewell("packet delivery failed"),
                Health::Closed => farewell("closed"),
            },
            message = outgoing.recv() => message.unwrap_or_else(|| farewell("closed")),
        };
        let last = matches!(message, Message::Close { .. });
        let fatal = last && shared.host.health(cid) == Health::Fatal;
        match write_message(stream, &message, shared.timing.patience).await {
            _ if fatal => return End::Fatal,
            _ if last => return End::Here,
            Ok(()) => {}
            Err(error) => return End::Broken(error),
        }
    }
}

/// Returns a message with the regions if they have changed, otherwise a heartbeat.
fn news(regions: Vec<RegionAdvertisement>, told: &mut Option<Vec<RegionAdvertisement>>) -> Message {
    if told.as_ref() == Some(&regions) {
        return Message::Heartbeat;
    }
    *told = Some(regions.clone());
    Message::Regions { regions }
}

/// Returns the last message of a session.
pub(super) fn farewell(text: &str) -> Message {
    Message::Close { text: shortened(text) }
}

/// The default times. Tests use shorter ones.
impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(1),
            patience: Duration::from_secs(5),
            first_message: Duration::from_secs(1),
        }
    }
}

/// Sends a step of a file transfer. Waits while the queue of the session is full. Returns false if the session has
/// ended.
pub(super) async fn send_step(session: &Session, step: FileMessage) -> bool {
    session.outgoing.send(Message::File { step }).await.is_ok()
}
