//! The connection manager: opens and closes connections over TCP, out of band.
//!
//! It listens on the node's address. The connecting end sends its [`Offer`]. Both ends search for the largest packet that
//! crosses the path between them. The accepting end opens its half and answers with its own offer. The connecting end
//! opens its half and sends `Ready`. Then both ends prove by Falcon packets that the data path carries them. After that, the
//! TCP connection shows that the peer is alive (the module `life`). When it breaks, or nothing of the peer arrives for the
//! patience of the connection, or the data path no longer carries its packets, the Falcon connection is closed and all
//! outstanding operations complete with `DeadConn` (D-89).
//!
//! An unknown peer can use only few resources of the node. Handshakes and connections are limited in number (in
//! total and per source), size and time. A silent peer does not keep others out. Every failure has a counter, and
//! the node goes on serving. In plaintext mode (D-83) peers are not authenticated: any host that reaches the port
//! can connect. Bind the node to a trusted network.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tiercel::Tuning;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use transport_common::ids::Cid;

mod acceptance;
mod admission;
mod agreement;
mod attempt;
mod connect_error;
mod counters;
mod events;
mod handshake;
mod host;
mod life;
mod log_limit;
pub(crate) mod message;
mod next_hop;
mod node_host;
mod notices;
mod path_check;
mod path_mtu;
mod path_search;
mod path_watch;
mod proof;
mod reconnect;
mod round_trip;
mod security_watch;
mod session;
mod smaller_mtu;
#[cfg(test)]
mod tests;

pub use admission::Limits;
pub(crate) use admission::Source as PeerSource;
use admission::{Admission, Admitted, Dialing};
pub use agreement::{Agreement, PATIENCE, Terms};
pub use connect_error::ConnectError;
pub use counters::ManagerStatistics;
use counters::{Counters, count};
pub use events::Event;
use events::EventLog;
pub(crate) use events::{Level, Origin};
pub use host::{Health, Host, HostError, LocalEnd};
pub(crate) use message::shortened;
pub use message::{
    FileMessage, LARGEST_MESSAGE, Message, Offer, PROTOCOL, RegionAdvertisement, Rejection, SecurityOffer,
    Sparse, VERSION, Via, WireError,
};
pub use node_host::NodeHost;
use notices::NoticeQueue;
pub use notices::{Notice, Notices};
use path_check::PathCheck;
pub use path_mtu::ProbeOffer;
pub use path_watch::PathState;
pub use proof::{Blocked, Proof};
pub use reconnect::Reconnecting;
use reconnect::Reconnects;
pub use round_trip::round_trip_of;
pub use security_watch::Refusals;
pub use session::DEFAULT_PATIENCE;
pub use session::SessionInfo;
use session::{Mtus, Session, farewell};

use crate::common::mutex::lock;
use crate::common::open_files;

/// Length of the queue of TCP connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Options of the connection manager.
#[derive(Clone, Copy, Debug)]
pub struct ManagerOptions {
    /// TCP port to listen on. With 0 the system chooses a port.
    pub port: u16,
    /// Tuning of the connections that the manager opens.
    pub tuning: Tuning,
    /// Heartbeats and time limits.
    pub timing: Timing,
    /// Limits for peers.
    pub limits: Limits,
}

/// Heartbeats and time limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Longest time between heartbeats. Default 500 ms. There are at least ten in the time of the patience.
    pub heartbeat: Duration,
    /// A peer of which nothing arrives for this time, neither a whole message nor a Falcon packet, counts as dead. So does
    /// one that does not read for twice the time. Default 5 s. The connecting end decides for both ends, by
    /// [`Terms::patience`] or by this. A handshake may take this time for each of its messages.
    pub patience: Duration,
    /// A peer that connects and does not send its first message within this time is disconnected. Default 1 s.
    pub first_message: Duration,
}

/// Why the manager could not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for the connection manager: {source}; {}", self.remedy())]
pub struct StartError {
    /// The address on which it should listen.
    pub address: SocketAddr,
    /// The system's reason.
    pub source: std::io::Error,
}

impl StartError {
    fn remedy(&self) -> &'static str {
        match self.source.kind() {
            ErrorKind::AddrNotAvailable => {
                "the interface does not have this address: use one that `ip address` shows, or add this one"
            }
            ErrorKind::AddrInUse => {
                "another program listens there, perhaps another node (`tiercel down` stops it): choose another port with \
                 --control-port or node.control_port"
            }
            ErrorKind::PermissionDenied => {
                "run as root, or choose a port above 1023 with --control-port or node.control_port"
            }
            _ => "choose another port with --control-port or node.control_port",
        }
    }
}

/// A socket that listens for a manager that starts later. Peers that connect before that wait.
pub(crate) struct ListeningPlace {
    listener: TcpListener,
    local: SocketAddr,
}

impl ListeningPlace {
    /// Binds the socket and listens. Needs a runtime.
    pub(crate) fn take(address: IpAddr, port: u16, interface_index: u32) -> Result<Self, StartError> {
        let address = socket_address(address, port, interface_index);
        let listen = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            let local = listener.local_addr()?;
            Ok(Self { listener, local })
        };
        listen().map_err(|source| StartError { address, source })
    }
}

/// The state that all tasks of the manager share.
struct Shared<H> {
    host: H,
    tuning: Tuning,
    timing: Timing,
    sessions: Mutex<HashMap<Cid, Arc<Session>>>,
    limits: Limits,
    admission: Arc<Admission>,
    dialing: Dialing,
    /// Connections whose data path is being proven.
    proving: Mutex<HashSet<Cid>>,
    counters: Counters,
    events: EventLog,
    notices: NoticeQueue,
    reconnects: Reconnects,
}

/// The connection manager of a node. Dropping it stops listening. [`ConnectionManager::shut_down`] also closes all
/// connections and informs their peers.
pub struct ConnectionManager<H: Host> {
    shared: Arc<Shared<H>>,
    local: SocketAddr,
    listener: JoinHandle<()>,
    watches: [JoinHandle<()>; 2],
}

impl<H: Host> ConnectionManager<H> {
    /// Starts listening on the node's address. The returned receiver gets the notices for the node.
    ///
    /// # Errors
    /// The manager cannot listen on the address.
    pub async fn start(host: H, options: ManagerOptions) -> Result<(Self, Notices), StartError> {
        let end = host.local();
        let place = ListeningPlace::take(end.address, options.port, end.interface_index)?;
        Ok(Self::start_at(place, host, options))
    }

    /// Starts with a socket that already listens.
    pub(crate) fn start_at(place: ListeningPlace, host: H, options: ManagerOptions) -> (Self, Notices) {
        let ListeningPlace { listener, local } = place;
        let (notices, receiver) = NoticeQueue::new();
        let shared = Arc::new(Shared {
            host,
            tuning: options.tuning,
            timing: options.timing,
            sessions: Mutex::default(),
            limits: options.limits,
            admission: Admission::new(options.limits),
            dialing: Dialing::default(),
            proving: Mutex::default(),
            counters: Counters::default(),
            events: EventLog::default(),
            notices,
            reconnects: Reconnects::default(),
        });
        let listener = tokio::spawn(listen(Arc::clone(&shared), listener));
        let watches = [
            tokio::spawn(security_watch::watch(Arc::clone(&shared))),
            tokio::spawn(path_watch::watch(Arc::clone(&shared))),
        ];
        (Self { shared, local, listener, watches }, receiver)
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.local
    }

    /// Connects to a peer's manager and returns this end's CID once both ends are open.
    ///
    /// # Errors
    /// See [`ConnectError`]. In that case, everything is cleaned up.
    pub async fn connect(&self, peer: IpAddr, port: u16, terms: Terms) -> Result<Cid, ConnectError> {
        handshake::connect(&self.shared, peer, port, terms).await
    }

    /// Closes a connection and informs the peer, or gives up a lost one that is being set up again. Returns false if
    /// neither has this CID.
    pub async fn close(&self, cid: Cid) -> bool {
        if self.shared.reconnects.stop(cid) {
            self.shared.events.note(format!("connection {}, which was lost, is given up", cid.0));
            return true;
        }
        self.close_because(cid, session::BY_USER).await
    }

    async fn close_because(&self, cid: Cid, reason: &str) -> bool {
        let Some(session) = self.session(cid) else { return false };
        // The datapath closes first, so that it sends nothing more. A session that has just ended has closed it
        // already.
        self.shared.host.close(cid);
        let _ = session.outgoing.send(farewell(reason)).await;
        true
    }

    /// Sends a step of a file transfer to the peer of a connection. Returns false if the session has ended.
    pub async fn send_file_step(&self, cid: Cid, step: FileMessage) -> bool {
        match self.session(cid) {
            Some(session) => session::send_step(&session, step).await,
            None => false,
        }
    }

    /// Sends a step of a file transfer like [`Self::send_file_step`], but without waiting. Returns false if there is no
    /// space for it as well: the peer does not read.
    pub(crate) fn try_send_file_step(&self, cid: Cid, step: FileMessage) -> bool {
        self.session(cid).is_some_and(|session| session.outgoing.try_send(Message::File { step }).is_ok())
    }

    /// Logs what came of something that the peer of a connection began. The log has only so much space for each peer.
    pub(crate) fn log_of_peer(&self, peer: IpAddr, level: Level, text: impl FnOnce() -> String) {
        self.shared.events.log(Origin::Peer(PeerSource::of(peer)), level, text);
    }

    /// Returns the lost connections that are being set up again, by the CID that they had.
    pub fn reconnecting(&self) -> Vec<Reconnecting> {
        self.shared.reconnects.list()
    }

    /// Returns whether a connection is set up again when it is lost.
    pub(crate) fn reconnects(&self, cid: Cid) -> bool {
        self.session(cid).is_some_and(|session| session.dialled.is_some_and(|terms| terms.reconnect))
    }

    /// Returns the connection that has taken the place of a lost one.
    pub fn successor(&self, lost: Cid) -> Option<Cid> {
        self.shared.reconnects.successor(lost)
    }

    /// Returns all sessions, sorted by local CID.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let mut all: Vec<_> = lock(&self.shared.sessions).values().map(|session| session.info()).collect();
        all.sort_by_key(|session| session.local_cid);
        all
    }

    /// Returns the peer's address of the TCP connection of a session.
    pub fn peer(&self, cid: Cid) -> Option<SocketAddr> {
        self.session(cid).map(|session| session.peer)
    }

    /// Returns the counters since the start.
    pub fn statistics(&self) -> ManagerStatistics {
        self.shared.counters.read()
    }

    /// Returns the latest events, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.shared.events.list()
    }

    /// Returns the host of the manager.
    pub fn host(&self) -> &H {
        &self.shared.host
    }

    /// Stops listening, closes all connections of the manager and informs their peers.
    pub async fn shut_down(&self) {
        self.listener.abort();
        self.shared.reconnects.stop_all();
        let sessions: Vec<_> = lock(&self.shared.sessions).keys().copied().collect();
        for cid in sessions {
            self.close_because(cid, session::GOING_DOWN).await;
        }
        let deadline = tokio::time::Instant::now() + self.shared.timing.patience;
        while !lock(&self.shared.sessions).is_empty() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn session(&self, cid: Cid) -> Option<Arc<Session>> {
        lock(&self.shared.sessions).get(&cid).cloned()
    }
}

impl<H: Host> Drop for ConnectionManager<H> {
    fn drop(&mut self) {
        self.listener.abort();
        self.watches.iter().for_each(JoinHandle::abort);
        self.shared.reconnects.stop_all();
    }
}

/// Accepts peers, one task each, until it is aborted.
async fn listen<H: Host>(shared: Arc<Shared<H>>, listener: TcpListener) {
    let mut complaints = open_files::Complaints::default();
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // These are few. As events of strangers, they could be suppressed by those who use up the descriptors.
                if let Some(text) = complaints.failed("a peer", &error, std::time::Instant::now()) {
                    shared.events.warn(text);
                }
                tokio::time::sleep(open_files::PAUSE).await;
                continue;
            }
        };
        if complaints.ended() {
            shared.events.warn("peers are accepted again".to_owned());
        }
        count(&shared.counters.tcp_accepted);
        let origin = Origin::Stranger(PeerSource::of(peer.ip()));
        let place = match shared.admission.admit(peer.ip()) {
            Admitted::Free(place) => place,
            Admitted::Displacing(place, source) => {
                let text = || format!("a handshake of {source} is ended to make place for {peer}");
                shared.events.add(origin, Level::Warning, text);
                place
            }
            Admitted::Refused => {
                count(&shared.counters.refused_busy);
                let most = shared.limits.handshakes_per_source;
                let text = || format!("{peer} rejected: it has {most} unfinished handshakes");
                shared.events.add(origin, Level::Warning, text);
                acceptance::turn_away(&stream);
                continue;
            }
        };
        tokio::spawn(acceptance::accept(Arc::clone(&shared), stream, peer, place));
    }
}

/// Stores a session and starts to serve it.
fn establish<H: Host>(
    shared: &Arc<Shared<H>>,
    stream: TcpStream,
    peer: SocketAddr,
    agreement: &Agreement,
    peer_offer: Offer,
    dialled: Option<Terms>,
) {
    let (outgoing, queue) = mpsc::channel(session::OUTGOING);
    let connection = &agreement.connection;
    // The connecting end decides. One that says nothing has the patience of every release, and hears often enough of this
    // end whatever this end's patience is.
    let patience = match dialled {
        Some(terms) => terms.patience,
        None => peer_offer.patience(),
    };
    let longest_stall = path_check::longest_stall(&shared.tuning, &connection.tuning, round_trip_of(&stream));
    // A node that proves the data path also searches for the path's MTU again.
    let peer_searches = agreement.path_mtu.is_some() && peer_offer.proof.is_some();
    let session = Arc::new(Session {
        local_cid: connection.local_cid,
        peer_cid: connection.peer_cid,
        peer,
        dialled,
        patience: patience.unwrap_or(shared.timing.patience),
        life: life::Life::default(),
        rx_spi: connection.security.rx_spi,
        tx_spi: connection.security.tx_spi,
        mtus: Mutex::new(Mtus { agreed: agreement.mtu, path: agreement.path_mtu }),
        peer_regions: Mutex::new(peer_offer.regions),
        path: PathCheck::new(peer_searches, longest_stall),
        outgoing,
    });
    lock(&shared.sessions).insert(connection.local_cid, Arc::clone(&session));
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
    tokio::spawn(session::serve(Arc::clone(shared), session, stream, queue));
}

fn count_wire_error(counters: &Counters, error: &WireError) {
    match error {
        WireError::Ended(_) => {}
        WireError::Silent(_) => count(&counters.silent),
        WireError::TooLong(_) => count(&counters.oversize),
        WireError::Garbage(_) => count(&counters.garbage),
        WireError::Version(_) => count(&counters.wrong_version),
    }
}

/// Makes a socket address. A link-local IPv6 address is valid on one interface only, so it needs the interface's
/// index.
fn socket_address(address: IpAddr, port: u16, interface_index: u32) -> SocketAddr {
    match address {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, interface_index).into()
        }
        _ => SocketAddr::new(address, port),
    }
}
