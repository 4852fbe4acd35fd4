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
//!
//! ## Layers
//! A module uses only modules above it in this table; `tests/order.rs` checks it. This module is the last one.
//!
//! | module | what it is |
//! | --- | --- |
//! | `admission`, `dialing`, `round_trip`, `options` | who may begin a handshake; TCP connections to peers; the options |
//! | `origin`, `log_limit`, `events` | events, and how many an origin may cause |
//! | `path_reports`, `path_signals`, `path_mtu`, `blocked` | what ends say of the path, and what follows from it |
//! | `file_message`, `notices` | steps of file transfers, and the notices for the node |
//! | `capabilities`, `message`, `counters` | what ends are able to do, and what they say to each other |
//! | `node_state`, `agreement`, `host`, `node_host` | the node, and what two nodes agree on |
//! | `session`, `reconnects`, `incoming`, `connect_error` | sessions, lost connections, connections of peers; no tasks yet |
//! | `shared` | the state that all tasks share |
//! | `next_hop`, `path_search`, `smaller_mtu`, `proof`, `path_check`, `life` | parts of tasks: the path, the life of a peer |
//! | `security_watch`, `path_watch` | the watches over all connections |
//! | `serve` | the task of a session |
//! | `handshake`, `acceptance`, `listening`, `reconnect` | how sessions begin, at either end and again |
//!
//! A session that is lost does not begin a handshake itself, because handshakes begin sessions: it tells `reconnects`, and
//! the task of `reconnect` begins it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use transport_common::ids::Cid;

mod acceptance;
mod admission;
mod agreement;
mod blocked;
mod capabilities;
mod connect_error;
mod counters;
mod dialing;
mod events;
mod file_message;
mod handshake;
mod host;
mod incoming;
mod life;
mod listening;
mod log_limit;
pub(crate) mod message;
mod next_hop;
mod node_host;
mod node_state;
mod notices;
mod options;
mod origin;
mod path_check;
mod path_mtu;
mod path_reports;
mod path_search;
mod path_signals;
mod path_watch;
mod proof;
mod reconnect;
mod reconnects;
mod round_trip;
mod security_watch;
mod serve;
mod session;
mod shared;
mod smaller_mtu;
#[cfg(test)]
mod tests;

pub use admission::Limits;
pub(crate) use admission::Source as PeerSource;
pub use agreement::{Agreement, Terms};
pub use blocked::Blocked;
pub use capabilities::{
    Capabilities, Choice, Introduction, Missing, Present, ProofRegion, Side, VERSIONS, Versions,
};
pub use connect_error::ConnectError;
pub use counters::ManagerStatistics;
pub use events::Event;
pub use file_message::{FileMessage, Sparse, Via};
pub use host::{Health, Host, HostError};
pub use incoming::AcceptError;
pub(crate) use listening::ListeningPlace;
pub use listening::StartError;
pub(crate) use message::shortened;
pub use message::{
    Ending, LARGEST_MESSAGE, Message, Offer, PROTOCOL, RegionAdvertisement, Rejection, SecurityOffer,
    WireError,
};
pub use node_host::NodeHost;
pub use node_state::{LocalEnd, PathState, Refusals};
pub use notices::{Notice, Notices};
pub use options::{DEFAULT_PATIENCE, ManagerOptions, PATIENCE, Timing};
pub(crate) use origin::{Level, Origin};
pub use path_reports::{MtuOf, ProbeOffer, Proof, SmallerMtu};
pub use reconnects::Reconnecting;
pub use round_trip::round_trip_of;
pub use session::SessionInfo;

use listening::listen;
use session::Session;
use shared::Shared;

use crate::common::mutex::lock;

/// The connection manager of a node. Dropping it stops listening. [`ConnectionManager::shut_down`] also closes all
/// connections and informs their peers.
pub struct ConnectionManager<H: Host> {
    shared: Arc<Shared<H>>,
    local: SocketAddr,
    listener: JoinHandle<()>,
    watches: [JoinHandle<()>; 3],
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
        let (shared, notices) = Shared::new(host, options);
        let listener = tokio::spawn(listen(Arc::clone(&shared), listener));
        let watches = [
            tokio::spawn(security_watch::watch(Arc::clone(&shared))),
            tokio::spawn(path_watch::watch(Arc::clone(&shared))),
            tokio::spawn(reconnect::watch(Arc::clone(&shared))),
        ];
        (Self { shared, local, listener, watches }, notices)
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

    /// Waits for the next connection that a peer has opened and whose handshake has succeeded. Those that this end has
    /// opened are not among them, and nor are those that have ended before they were accepted.
    ///
    /// Nobody has to accept: connections work all the same. At most 64 of them wait here. Beyond that, the oldest one leaves
    /// the queue, and the next call returns how many did. Several tasks may accept; each connection is given to one of them.
    ///
    /// # Cancel safety
    /// This method is cancel safe. If it is used in a `tokio::select!` and another branch completes first, no connection is
    /// lost: another call returns it.
    ///
    /// # Errors
    /// [`AcceptError::Missed`] with the number of connections that were not accepted in time; the next call goes on. After
    /// [`Self::shut_down`], [`AcceptError::Closed`].
    ///
    /// ```no_run
    /// # use tiercel_node::connection_manager::{AcceptError, ConnectionManager, NodeHost};
    /// # async fn serve(manager: ConnectionManager<NodeHost>) {
    /// loop {
    ///     match manager.accept().await {
    ///         Ok(session) => println!("{} has opened connection {}", session.peer, session.local_cid),
    ///         Err(AcceptError::Missed(number)) => eprintln!("{number} connections were missed"),
    ///         Err(_) => break, // the manager was shut down
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn accept(&self) -> Result<SessionInfo, AcceptError> {
        self.shared.incoming.next().await
    }

    /// Closes a connection and informs the peer, or gives up a lost one that is being set up again. Returns false if
    /// neither has this CID.
    pub async fn close(&self, cid: Cid) -> bool {
        if self.shared.reconnects.stop(cid) {
            self.shared.events.note(format!("connection {}, which was lost, is given up", cid.0));
            return true;
        }
        self.close_because(cid, Ending::User, "closed by its user").await
    }

    async fn close_because(&self, cid: Cid, reason: Ending, text: &str) -> bool {
        let Some(session) = self.session(cid) else { return false };
        // The datapath closes first, so that it sends nothing more. A session that has just ended has closed it
        // already.
        self.shared.host.close(cid);
        let _ = session.outgoing.send(Message::close(reason, text)).await;
        true
    }

    /// Sends a step of a file transfer to the peer of a connection. Returns false if the session has ended.
    pub async fn send_file_step(&self, cid: Cid, step: FileMessage) -> bool {
        match self.session(cid) {
            Some(session) => session.send_step(step).await,
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
            self.close_because(cid, Ending::Down, "its node goes down").await;
        }
        let deadline = tokio::time::Instant::now() + self.shared.timing.patience;
        while !lock(&self.shared.sessions).is_empty() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.shared.incoming.close();
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
