//! The TCP connection of an established connection: heartbeats, changes of regions, steps of file transfers, and
//! the end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncRead;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::agreement::{Agreement, Terms};
use super::counters::count;
use super::file_message::FileMessage;
use super::host::{Health, Host};
use super::life;
use super::message::{
    Ending, Message, Offer, RegionAdvertisement, WireError, decode, read_frame, write_message,
};
use super::notices::SessionNotices;
use super::options::heartbeat;
use super::origin::Level;
use super::path_check;
use super::path_signals::PathCheck;
use super::round_trip::{round_trip_of, sends_again};
use super::session::{Life, Mtus, OUTGOING, Session};
use super::shared::Shared;
use crate::common::mutex::lock;

/// Stores a session and starts to serve it.
pub(super) fn establish<H: Host>(
    shared: &Arc<Shared<H>>,
    stream: TcpStream,
    peer: SocketAddr,
    agreement: &Agreement,
    peer_offer: Offer,
    dialled: Option<Terms>,
) {
    let (outgoing, queue) = mpsc::channel(OUTGOING);
    let connection = &agreement.connection;
    // The connecting end decides.
    let patience = match dialled {
        Some(terms) => terms.patience.unwrap_or(shared.timing.patience),
        None => peer_offer.patience(),
    };
    let longest_stall = path_check::longest_stall(&shared.tuning, &connection.tuning, round_trip_of(&stream));
    let session = Arc::new(Session {
        local_cid: connection.local_cid,
        peer_cid: connection.peer_cid,
        peer,
        dialled,
        patience,
        life: Life::default(),
        rx_spi: connection.security.rx_spi,
        tx_spi: connection.security.tx_spi,
        mtus: Mutex::new(Mtus { agreed: agreement.mtu, path: agreement.path_mtu }),
        peer_regions: Mutex::new(peer_offer.regions),
        path: PathCheck::new(agreement.path_mtu.is_some(), longest_stall),
        outgoing,
    });
    lock(&shared.sessions).insert(connection.local_cid, Arc::clone(&session));
    if dialled.is_none() {
        shared.incoming.add(&session);
    }
    count(&shared.counters.established);
    let way = if dialled.is_some() { "to" } else { "from" };
    let text = || {
        format!(
            "connection {} {way} {peer}: peer's CID {}, MTU {} ({}), {}, ulp {}{}",
            connection.local_cid.0,
            connection.peer_cid.0,
            agreement.mtu,
            if agreement.path_mtu.is_some() { "of the path" } else { "that of the path was not found" },
            if connection.ordered { "ordered" } else { "unordered" },
            connection.ulp,
            connection.tunnel.map_or_else(String::new, |tunnel| format!(", tunnel {tunnel}")),
        )
    };
    shared.events.add(session.origin(), Level::Note, text);
    tokio::spawn(serve(Arc::clone(shared), session, stream, queue));
}

/// The texts of the last message of a session that its manager does not end.
const CLOSED: &str = "closed";
const FAILED: &str = "packet delivery failed";

/// How a session ended.
enum End {
    /// The peer sent `Close`.
    ByPeer(Ending, String),
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
            Self::ByPeer(reason, _) => !matches!(reason, Ending::User | Ending::Closed),
            Self::Here => false,
            Self::Path(_) | Self::Fatal | Self::Broken(_) => true,
        }
    }
}

/// Serves a session until it ends. Then closes the connection and removes the session.
async fn serve<H: Host>(
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
        shared.reconnects.lost(session.local_cid, session.peer, terms);
    }
    lock(&shared.sessions).remove(&session.local_cid);
    record(&shared, &session, &end, outstanding);
    notices.ended();
}

fn record<H: Host>(shared: &Shared<H>, session: &Session, end: &End, outstanding: usize) {
    let counters = &shared.counters;
    let name = format!("connection {} with {}", session.local_cid.0, session.peer);
    let (level, text) = match end {
        End::ByPeer(_, text) => {
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
            counters.wire_error(error);
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
            Message::Close { reason, text } => return End::ByPeer(reason, text),
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
    while timeout(heartbeat(session.patience), passed.as_mut()).await.is_err() {
        session.life.heard();
    }
}

async fn transmit<H: Host>(
    shared: &Shared<H>,
    session: &Session,
    mut outgoing: mpsc::Receiver<Message>,
    stream: &mut OwnedWriteHalf,
) -> End {
    let mut told = None;
    let cid = session.local_cid;
    let mut ticks = interval(shared.timing.heartbeat.min(heartbeat(session.patience)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            _ = ticks.tick() => {
                // The heartbeat before this one.
                if sends_again(stream.as_ref()) {
                    session.path.is_unheard();
                }
                match shared.host.health(cid) {
                    Health::Open => news(shared.host.regions(), &mut told),
                    Health::Fatal => Message::close(Ending::Failed, FAILED),
                    Health::Closed => Message::close(Ending::Closed, CLOSED),
                }
            }
            message = outgoing.recv() => {
                message.unwrap_or_else(|| Message::close(Ending::Closed, CLOSED))
            }
        };
        let last = if let Message::Close { reason, .. } = message { Some(reason) } else { None };
        let fatal = last.is_some() && shared.host.health(cid) == Health::Fatal;
        // After an outage TCP takes longer than the outage was.
        let written = write_message(stream, &message, 2 * session.patience).await;
        match (last, written) {
            _ if fatal => return End::Fatal,
            (Some(Ending::Path), _) => {
                return session.path.cause().map_or(End::Here, |cause| End::Path(cause.to_owned()));
            }
            (Some(_), _) => return End::Here,
            (None, Ok(())) => {}
            (None, Err(error)) => return End::Broken(error),
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
