//! The handshake, for the connecting and for the accepting end.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use transport_common::ids::{Cid, RKey};

use super::admission::{Place, Source};
use super::agreement::{Agreement, LEAST_MTU, PATIENCE, Terms, agree, check, make_offer};
use super::attempt::Attempt;
use super::counters::count;
use super::events::{Level, Origin};
use super::host::{Host, HostError};
use super::life;
use super::message::{
    Message, Offer, PROTOCOL, Rejection, VERSION, WireError, encode, read_message, shortened, write_message,
};
use super::path_search::{probe_socket, search, search_from_here};
use super::proof::{self, Blocked};
use super::round_trip::round_trip_of;
use super::session::Session;
use super::{Shared, count_wire_error, establish, lock, socket_address};
use crate::parameters::Tuning;

/// The texts for peers whose handshake is ended or rejected because there are too many.
const GAVE_WAY: &str = "the node has too many unfinished handshakes, and this one took too long: try again";
const TURNED_AWAY: &str =
    "this peer has too many unfinished handshakes: wait until one of them ends, then try again";

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No program listens at the address of the peer.
    #[error("{peer} refused: no node listens there; start one with `tiercel up`, or check address and port")]
    Refused {
        /// The peer.
        peer: SocketAddr,
    },
    /// The peer does not answer.
    #[error("{peer} does not answer: check that the host is up and the port is not filtered")]
    Timeout {
        /// The peer.
        peer: SocketAddr,
    },
    /// The network reports an error.
    #[error("cannot connect to {peer}: {source}; {}", remedy(source))]
    Network {
        /// The peer.
        peer: SocketAddr,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The peer rejected the connection.
    #[error("{peer} declined: {text}")]
    Rejected {
        /// The peer.
        peer: SocketAddr,
        /// The reason, for programs.
        reason: Rejection,
        /// The reason, as the peer's text.
        text: String,
    },
    /// The peer violated the protocol, or the TCP connection ended.
    #[error("{peer} is not a Tiercel connection manager, or it failed during the handshake: {source}")]
    Protocol {
        /// The peer.
        peer: SocketAddr,
        /// The error.
        source: WireError,
    },
    /// The peer's offer cannot be accepted.
    #[error("the offer of {peer} cannot be accepted: {text}")]
    Offer {
        /// The peer.
        peer: SocketAddr,
        /// The reason.
        text: String,
    },
    /// The data path does not carry Falcon packets, though TCP reaches the peer.
    #[error("TCP reaches {peer}, but {blocked}")]
    DataPath {
        /// The peer.
        peer: SocketAddr,
        /// What does not pass.
        blocked: Blocked,
    },
    /// The address is that of this node, or has another IP version.
    #[error(
        "{peer} cannot be a peer of this node ({own}): use the address of another host, of the same IP version"
    )]
    Unsuitable {
        /// The peer.
        peer: IpAddr,
        /// This node's address.
        own: IpAddr,
    },
    /// The patience cannot be used.
    #[error("a patience of this length cannot be kept: choose one from 100 ms to 1 h")]
    Patience,
    /// This end could not open its half.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// A connection that this end has opened. Dropping it closes the connection, unless the handshake has succeeded.
struct Opened<'a, H: Host> {
    shared: &'a Shared<H>,
    cid: Option<Cid>,
}

impl<H: Host> Opened<'_, H> {
    fn keep(mut self) {
        self.cid = None;
    }
}

impl<H: Host> Drop for Opened<'_, H> {
    fn drop(&mut self) {
        if let Some(cid) = self.cid {
            self.shared.host.close(cid);
        }
    }
}

/// Connects to a peer, agrees with it on a connection, and opens it.
pub(super) async fn connect<H: Host>(
    shared: &Arc<Shared<H>>,
    address: IpAddr,
    port: u16,
    terms: Terms,
) -> Result<Cid, ConnectError> {
    let local = shared.host.local();
    if address == local.address || address.is_ipv4() != local.address.is_ipv4() {
        return Err(ConnectError::Unsuitable { peer: address, own: local.address });
    }
    let _turn = shared.dialing.permit(address).await;
    let rack_tlp = terms.rack_tlp.unwrap_or(shared.tuning.rack_tlp);
    let patience = terms.patience.unwrap_or(shared.timing.patience);
    if !PATIENCE.contains(&patience) {
        return Err(ConnectError::Patience);
    }
    let terms = Terms { rack_tlp: Some(rack_tlp), patience: Some(patience), ..terms };
    let mut attempt = Attempt::first(terms);
    loop {
        let outcome = connect_once(shared, address, port, attempt).await;
        match &outcome {
            Ok(cid) => tell_limit(shared, *cid, attempt),
            Err(error) => {
                if let Some(next) = attempt.after(error) {
                    attempt = next;
                    continue;
                }
            }
        }
        return outcome;
    }
}

/// Tells why a connection has a smaller MTU than its path seemed to carry.
fn tell_limit<H: Host>(shared: &Shared<H>, cid: Cid, attempt: Attempt) {
    if let Some(blocked) = attempt.too_long() {
        shared.events.warn(format!("connection {} has an MTU of {LEAST_MTU}: {blocked}", cid.0));
    }
}

/// Connects to a peer in one way.
async fn connect_once<H: Host>(
    shared: &Arc<Shared<H>>,
    address: IpAddr,
    port: u16,
    attempt: Attempt,
) -> Result<Cid, ConnectError> {
    let local = shared.host.local();
    let reservation = shared.host.reserve_cid()?;
    let cid = H::reserved(&reservation);
    let peer = socket_address(address, port, local.interface_index);
    let own_end = socket_address(local.address, 0, local.interface_index);
    let mut stream = match timeout(shared.timing.patience, dial(own_end, peer)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(classify(peer, error)),
        Err(_) => return Err(ConnectError::Timeout { peer }),
    };
    // The clock in the offer is that of now, not of the time before the wait.
    let mut offer = attempt.offer(&shared.host.local(), cid, shared.host.regions());
    let region = if attempt.proves() { proof::region(shared) } else { None };
    offer.proof = region.as_ref().map(|(_, key)| key.0);
    let socket = if attempt.searches() { probe_socket(shared, own_end).await } else { None };
    offer.probe = socket.as_ref().map(|(_, probe)| *probe);
    let hello =
        Message::Hello { protocol: PROTOCOL.into(), version: VERSION, offer: Box::new(offer.clone()) };
    let answer = match (exchange(shared, &mut stream, &hello).await, socket) {
        (Ok(Message::Probe { probe }), Some((socket, _))) => {
            probe.check().map_err(|text| ConnectError::Offer { peer, text })?;
            search_from_here(shared, &mut stream, socket, (peer, probe), offer.mtu).await
        }
        (answer, _) => answer,
    };
    let (peer_offer, path_mtu) = match answer.map_err(|source| ConnectError::Protocol { peer, source })? {
        Message::Accept { offer, path_mtu } => (*offer, path_mtu),
        Message::Reject { reason, text } => {
            return Err(ConnectError::Rejected { peer, reason, text: text.escape_debug().to_string() });
        }
        _ => {
            let source = WireError::Garbage("the answer is neither accept nor reject".into());
            return Err(ConnectError::Protocol { peer, source });
        }
    };
    let mut agreement = agree(&offer, &peer_offer, address, tuning(shared, &stream))
        .and_then(|agreement| match attempt.terms().are_kept_by(&peer_offer) {
            true => Ok(agreement),
            false => Err("the peer changed the ordering, the upper layer protocol or the tunnel".to_owned()),
        })
        .map_err(|text| ConnectError::Offer { peer, text })?;
    // The peer's offer has the MTU of the path if both ends found it.
    agreement.path_mtu = path_mtu.map(|_| agreement.mtu);
    find_next_hop(shared, &mut agreement).await;
    shared.host.open(reservation, &agreement)?;
    let opened = Opened { shared: shared.as_ref(), cid: Some(cid) };
    write_message(&mut stream, &Message::Ready, shared.timing.patience)
        .await
        .map_err(|source| ConnectError::Protocol { peer, source })?;
    if let (Some(_), Some(peers)) = (&region, peer_offer.proof) {
        let proven = proof::prove(shared, &mut stream, &agreement, RKey(peers)).await;
        if let Some(blocked) = proven.map_err(|source| ConnectError::Protocol { peer, source })? {
            count(&shared.counters.unproven);
            return Err(ConnectError::DataPath { peer, blocked });
        }
    }
    opened.keep();
    establish(shared, stream, peer, &agreement, peer_offer, Some(attempt.terms()));
    Ok(cid)
}

/// The tuning of a connection to the peer of `stream`: what follows the path starts from the round trip time of TCP.
fn tuning<H: Host>(shared: &Shared<H>, stream: &TcpStream) -> Tuning {
    match round_trip_of(stream) {
        Some(round_trip) => shared.tuning.for_round_trip(round_trip),
        None => shared.tuning,
    }
}

/// The TCP connection has just used the neighbour table, which also knows the way through a router; where it does not
/// answer, the MAC address that the peer named is taken.
async fn find_next_hop<H: Host>(shared: &Shared<H>, agreement: &mut Agreement) {
    if let Some(next_hop) = shared.host.next_hop(agreement.connection.peer_address).await {
        agreement.connection.peer_mac = next_hop;
    }
}

/// Connects by TCP from the node's address, because the peer takes the source address of the TCP connection for
/// our Falcon address.
pub(super) async fn dial(own_end: SocketAddr, peer: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if peer.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(own_end)?;
    let stream = socket.connect(peer).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn classify(peer: SocketAddr, source: std::io::Error) -> ConnectError {
    match source.kind() {
        ErrorKind::ConnectionRefused => ConnectError::Refused { peer },
        ErrorKind::TimedOut => ConnectError::Timeout { peer },
        _ => ConnectError::Network { peer, source },
    }
}

fn remedy(source: &std::io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::HostUnreachable => {
            "no host answers for this address: check that the host is up, on the same network and has this address"
        }
        ErrorKind::NetworkUnreachable => "there is no route to it: see `ip route get`, and add a route",
        ErrorKind::AddrNotAvailable => {
            "the node's address is no longer on its interface: add it again (`ip address add`)"
        }
        _ => "check the interface (`ip link`), the route to the peer (`ip route get`) and the firewall",
    }
}

async fn exchange<H: Host>(
    shared: &Shared<H>,
    stream: &mut TcpStream,
    message: &Message,
) -> Result<Message, WireError> {
    write_message(stream, message, shared.timing.patience).await?;
    read_message(stream, shared.timing.patience).await
}

/// Serves one peer that connected. Counts and logs every outcome.
pub(super) async fn accept<H: Host>(
    shared: Arc<Shared<H>>,
    mut stream: TcpStream,
    peer: SocketAddr,
    place: Place,
) {
    let outcome = tokio::select! {
        biased;
        outcome = answer(&shared, &mut stream, peer, &place) => outcome,
        () = place.displaced() => Err(Declined::GaveWay),
    };
    drop(place);
    let origin = Origin::Stranger(Source::of(peer.ip()));
    match outcome {
        Ok((agreement, offer)) => establish(&shared, stream, peer, &agreement, offer, None),
        Err(Declined::Alive { cid, peer_cid, spi }) => {
            count(&shared.counters.asked);
            send_last(&stream, &life::answer(&shared, peer, cid, peer_cid, spi));
        }
        Err(Declined::Answered(reason, text)) => {
            count(&shared.counters.declined);
            shared.events.add(origin, Level::Warning, || format!("offer of {peer} declined: {text}"));
            reject(&mut stream, reason, &text).await;
        }
        Err(Declined::GaveWay) => {
            count(&shared.counters.displaced);
            reject(&mut stream, Rejection::Busy, GAVE_WAY).await;
        }
        Err(Declined::Unproven(blocked)) => {
            count(&shared.counters.unproven);
            let text = || format!("{peer} is not connected, although TCP reaches it: {blocked}");
            shared.events.add(origin, Level::Warning, text);
        }
        Err(Declined::Broken(error)) => {
            if matches!(error, WireError::Ended(_)) {
                count(&shared.counters.broken_off);
            }
            count_wire_error(&shared.counters, &error);
            shared.events.add(origin, Level::Warning, || format!("handshake of {peer} failed: {error}"));
            let reason =
                if matches!(error, WireError::Version(_)) { Rejection::Version } else { Rejection::Offer };
            reject(&mut stream, reason, &error.to_string()).await;
        }
    }
}

/// Why the accepting end opened no connection.
pub(super) enum Declined {
    /// This end rejects the offer.
    Answered(Rejection, String),
    /// The peer violated the protocol, or the TCP connection ended.
    Broken(WireError),
    /// The data path does not carry Falcon packets. The peer knows it too.
    Unproven(Blocked),
    /// Another handshake took the place of this one.
    GaveWay,
    /// It is no handshake, but a sign of life of a peer that has a connection.
    Alive {
        /// CID of the connection here, and at the peer.
        cid: u32,
        peer_cid: u32,
        /// SPI of packets to this end.
        spi: u32,
    },
}

impl From<WireError> for Declined {
    fn from(error: WireError) -> Self {
        Self::Broken(error)
    }
}

async fn answer<H: Host>(
    shared: &Shared<H>,
    stream: &mut TcpStream,
    peer: SocketAddr,
    place: &Place,
) -> Result<(Agreement, Offer), Declined> {
    stream.set_nodelay(true).map_err(WireError::from)?;
    let first = read_message(stream, shared.timing.first_message).await?;
    let peer_offer = match first {
        Message::Hello { offer, .. } => offer,
        Message::Alive { cid, peer_cid, spi } => return Err(Declined::Alive { cid, peer_cid, spi }),
        _ => return Err(WireError::Garbage("the first message is not hello".into()).into()),
    };
    place.heard();
    check_share(shared, Source::of(peer.ip()))?;
    let reservation = shared.host.reserve_cid().map_err(declined_by_host)?;
    let cid = H::reserved(&reservation);
    // Offered only in answer to an offer, which an older peer does not make.
    let rack_tlp = peer_offer.rack_tlp && shared.tuning.rack_tlp;
    let terms = Terms { rack_tlp: Some(rack_tlp), ..Terms::of(&peer_offer) };
    let mut own = make_offer(&shared.host.local(), cid, terms, shared.host.regions());
    check(&peer_offer).map_err(|text| Declined::Answered(Rejection::Offer, text))?;
    let region = if peer_offer.proof.is_some() { proof::region(shared) } else { None };
    own.proof = region.as_ref().map(|(_, key)| key.0);
    let path_mtu = search(shared, stream, peer, &mut own, &peer_offer).await?;
    // The clock in the offer is that of now, not of the time before the search.
    own.time = shared.host.local().clock_ps;
    let mut agreement = agree(&own, &peer_offer, peer.ip(), tuning(shared, stream))
        .map_err(|text| Declined::Answered(Rejection::Offer, text))?;
    agreement.path_mtu = path_mtu;
    find_next_hop(shared, &mut agreement).await;
    // This end opens before it answers, because the peer's first packet may follow at once.
    shared.host.open(reservation, &agreement).map_err(declined_by_host)?;
    let opened = Opened { shared, cid: Some(cid) };
    match exchange(shared, stream, &Message::Accept { offer: Box::new(own), path_mtu }).await? {
        Message::Ready => {}
        _ => return Err(WireError::Garbage("the second message is not ready".into()).into()),
    }
    if let (Some(_), Some(peers)) = (&region, peer_offer.proof)
        && let Some(blocked) = proof::prove(shared, stream, &agreement, RKey(peers)).await?
    {
        return Err(Declined::Unproven(blocked));
    }
    opened.keep();
    Ok((agreement, *peer_offer))
}

/// Checks that a source does not exceed its limit of connections, so that it cannot fill the connection table.
fn check_share<H: Host>(shared: &Shared<H>, source: Source) -> Result<(), Declined> {
    let of_source =
        |session: &&Arc<Session>| !session.connected_here() && Source::of(session.peer.ip()) == source;
    let established = lock(&shared.sessions).values().filter(of_source).count();
    let most = shared.limits.connections_per_source;
    // `begun` includes this handshake.
    if established + shared.admission.begun(source) <= most {
        return Ok(());
    }
    let text = format!(
        "{source} already has {established} connections to this node, and {most} are allowed per peer: close one"
    );
    Err(Declined::Answered(Rejection::TableFull, text))
}

/// Rejects a peer that may not begin a handshake.
pub(super) fn turn_away(stream: &TcpStream) {
    try_reject(stream, Rejection::Busy, TURNED_AWAY);
}

/// Sends the reason only if that does not block. A task that waited for a peer to read it would have no place among the
/// handshakes any more, so there could be any number.
fn try_reject(stream: &TcpStream, reason: Rejection, text: &str) {
    send_last(stream, &Message::Reject { reason, text: shortened(text) });
}

/// Sends the last message of a handshake, if that does not block.
fn send_last(stream: &TcpStream, message: &Message) {
    if let Ok(frame) = encode(message) {
        // The few messages of a handshake leave space in the send buffer. If not, the peer only sees the end of the
        // connection.
        let _ = SockRef::from(stream).send(&frame);
    }
}

fn declined_by_host(error: HostError) -> Declined {
    let reason = match error {
        HostError::TableFull => Rejection::TableFull,
        HostError::Refused(_) => Rejection::Node,
    };
    Declined::Answered(reason, error.to_string())
}

/// Sends the reason to the peer, and closes the connection so that the peer can still read it.
async fn reject(stream: &mut TcpStream, reason: Rejection, text: &str) {
    try_reject(stream, reason, text);
    let _ = stream.shutdown().await; // it does not wait; an error means that the peer has closed already
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_out_of_reach_has_its_remedy() {
        let peer = SocketAddr::from(([10, 7, 0, 9], 4792));
        let text = |code| classify(peer, std::io::Error::from_raw_os_error(code)).to_string();
        assert!(text(libc::EHOSTUNREACH).contains("check that the host is up"));
        assert!(text(libc::ENETUNREACH).contains("ip route get"));
    }
}
