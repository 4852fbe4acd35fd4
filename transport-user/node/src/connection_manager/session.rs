//! The TCP connection of an established connection: heartbeats, changes of regions, steps of file transfers, and
//! the end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use tiercel::status::SessionInfo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use transport_common::ids::{Cid, Spi};

use super::admission::Source;
use super::agreement::Terms;
use super::counters::count;
use super::events::{Level, Origin};
use super::host::{Health, Host};
use super::life::{self, Life};
use super::message::{
    FileMessage, Message, RegionAdvertisement, WireError, decode, read_frame, shortened, write_message,
};
use super::notices::SessionNotices;
use super::path_check::{self, PathCheck};
use super::round_trip::round_trip_of;
use super::{Shared, Timing, lock, reconnect};

/// Time after which a peer of which nothing arrives counts as dead, unless it is set.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(5);
/// The reasons in the last message of a session. With the first two, a user wanted the end.
pub(super) const BY_USER: &str = "closed by its user";
const CLOSED: &str = "closed";
const FAILED: &str = "packet delivery failed";
pub(super) const GOING_DOWN: &str = "its node goes down";

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

    pub(super) fn connected_here(&self) -> bool {
        self.dialled.is_some()
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

/// How a session ended.
enum End {
    /// The peer sent `Close`.
    ByPeer(String),
    /// This end sent `Close`.
    Here,
    /// This end sent `Close`, because the data path does not carry the connection's packets any more. The cause.
    Path(String),
    /// Packet delivery of this end failed.
    Fatal,
    /// The TCP connection broke, or the peer was silent or violated the protocol.
    Broken(WireError),
}

impl End {
    /// Returns whether the connection was lost: nobody wanted the end.
    fn is_loss(&self) -> bool {
        match self {
            Self::ByPeer(text) => text != BY_USER && text != CLOSED,
            Self::Here => false,
            Self::Path(_) | Self::Fatal | Self::Broken(_) => true,
        }
    }
}

/// Serves a session until it ends. Then closes the connection and removes the session.
pub(super) async fn serve<H: Host>(
    shared: Arc<Shared<H>>,
    session: Arc<Session>,
    stream: TcpStream,
    outgoing: mpsc::Receiver<Message>,
) {
    let notices = shared.notices.of_session(session.local_cid);
    let round_trip = round_trip_of(&stream);
    let (mut from_peer, mut to_peer) = stream.into_split();
    let end = tokio::select! {
        end = receive(&session, &notices, &mut from_peer) => end,
        end = transmit(&shared, &session, outgoing, &mut to_peer) => end,
        error = life::watch(&shared, &session, round_trip) => End::Broken(error),
        never = path_check::follow(&shared, &session) => match never {},
    };
    let outstanding = shared.host.outstanding(session.local_cid);
    shared.host.close(session.local_cid);
    if let Some(terms) = session.dialled.filter(|terms| terms.reconnect && end.is_loss()) {
        reconnect::begin(&shared, session.local_cid, session.peer, terms);
    }
    lock(&shared.sessions).remove(&session.local_cid);
    record(&shared, &session, &end, outstanding);
    notices.ended();
}

fn record<H: Host>(shared: &Shared<H>, session: &Session, end: &End, outstanding: usize) {
    let counters = &shared.counters;
    let name = format!("connection {} with {}", session.local_cid.0, session.peer);
    let (level, text) = match end {
        End::ByPeer(text) => {
            count(&counters.closed_by_peer);
            (Level::Note, format!("{name} closed by the peer: {}", text.escape_debug()))
        }
        End::Here => {
            count(&counters.closed_here);
            (Level::Note, format!("{name} closed"))
        }
        End::Path(cause) => {
            count(&counters.path_lost);
            (Level::Warning, format!("{name} ended: {cause}"))
        }
        End::Fatal => {
            count(&counters.fatal);
            (Level::Warning, format!("{name} failed: the peer does not acknowledge its packets"))
        }
        End::Broken(error) => {
            count(&counters.peer_died);
            super::count_wire_error(counters, error);
            (Level::Warning, format!("{name} lost: {error}"))
        }
    };
    let text = match outstanding {
        0 => text,
        1 => format!("{text}; 1 outstanding operation completed with DeadConn"),
        more => format!("{text}; {more} outstanding operations completed with DeadConn"),
    };
    shared.events.add(session.origin(), level, || text);
}

async fn receive(session: &Session, notices: &SessionNotices, stream: &mut (impl AsyncRead + Unpin)) -> End {
    loop {
        // The watch over the peer's life ends a session whose peer sends nothing.
        let message = match read_frame(stream).await.and_then(|frame| decode(&frame)) {
            Ok(message) => message,
            Err(error) => return End::Broken(error),
        };
        session.life.heard();
        match message {
            Message::Heartbeat => {}
            Message::Regions { regions } => *lock(&session.peer_regions) = regions,
            Message::Close { text } => return End::ByPeer(text),
            Message::File { step } => pass_on(session, notices, step).await,
            Message::Probe { probe } => {
                if let Err(text) = session.path.peer_probes(probe) {
                    return End::Broken(WireError::Garbage(text));
                }
            }
            Message::Mtu { smaller } => {
                if let Err(text) = session.path.peer_has_smaller_mtu(smaller) {
                    return End::Broken(WireError::Garbage(text));
                }
            }
            Message::Hello { .. }
            | Message::Path { .. }
            | Message::Accept { .. }
            | Message::Reject { .. }
            | Message::Alive { .. }
            | Message::Ready
            | Message::Proof { .. } => {
                return End::Broken(WireError::Garbage("a second handshake".into()));
            }
        }
    }
}

/// Passes a step to the node. While the node does not take it, nothing of the peer is read, so its silence is not its own.
async fn pass_on(session: &Session, notices: &SessionNotices, step: FileMessage) {
    let passed = notices.file(step);
    tokio::pin!(passed);
    while timeout(life::heartbeat(session.patience), passed.as_mut()).await.is_err() {
        session.life.heard();
    }
}

async fn transmit<H: Host>(
    shared: &Shared<H>,
    session: &Session,
    mut outgoing: mpsc::Receiver<Message>,
    stream: &mut (impl AsyncWrite + Unpin),
) -> End {
    let mut told = None;
    let cid = session.local_cid;
    let mut ticks = interval(shared.timing.heartbeat.min(life::heartbeat(session.patience)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            _ = ticks.tick() => match shared.host.health(cid) {
                Health::Open => news(shared.host.regions(), &mut told),
                Health::Fatal => farewell(FAILED),
                Health::Closed => farewell(CLOSED),
            },
            message = outgoing.recv() => message.unwrap_or_else(|| farewell(CLOSED)),
        };
        let last = matches!(message, Message::Close { .. });
        let fatal = last && shared.host.health(cid) == Health::Fatal;
        // After an outage TCP takes longer than the outage was.
        match write_message(stream, &message, 2 * session.patience).await {
            _ if fatal => return End::Fatal,
            _ if last => return session.path.ended_by(&message).map_or(End::Here, End::Path),
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
            heartbeat: life::heartbeat(DEFAULT_PATIENCE),
            patience: DEFAULT_PATIENCE,
            first_message: Duration::from_secs(1),
        }
    }
}

/// Sends a step of a file transfer. Waits while the queue of the session is full. Returns false if the session has
/// ended.
pub(super) async fn send_step(session: &Session, step: FileMessage) -> bool {
    session.outgoing.send(Message::File { step }).await.is_ok()
}
