//! The handshake for the connecting end, and what both ends do alike.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tiercel::Tuning;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use transport_common::ids::{Cid, RKey};

use super::agreement::{Agreement, LEAST_MTU, PATIENCE, Terms, agree};
use super::attempt::Attempt;
use super::connect_error::{ConnectError, classify};
use super::counters::count;
use super::host::Host;
use super::message::{Message, PROTOCOL, VERSION, WireError, read_message, write_message};
use super::path_search::{probe_socket, search_from_here};
use super::proof;
use super::round_trip::round_trip_of;
use super::{Shared, establish, socket_address};

/// A connection that this end has opened. Dropping it closes the connection, unless the handshake has succeeded.
pub(super) struct Opened<'a, H: Host> {
    shared: &'a Shared<H>,
    cid: Option<Cid>,
}

impl<'a, H: Host> Opened<'a, H> {
    pub(super) fn new(shared: &'a Shared<H>, cid: Cid) -> Self {
        Self { shared, cid: Some(cid) }
    }

    /// The handshake has succeeded.
    pub(super) fn keep(mut self) {
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
    let opened = Opened::new(shared, cid);
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
pub(super) fn tuning<H: Host>(shared: &Shared<H>, stream: &TcpStream) -> Tuning {
    match round_trip_of(stream) {
        Some(round_trip) => shared.tuning.for_round_trip(round_trip),
        None => shared.tuning,
    }
}

/// The TCP connection has just used the neighbour table, which also knows the way through a router; where it does not
/// answer, the MAC address that the peer named is taken.
pub(super) async fn find_next_hop<H: Host>(shared: &Shared<H>, agreement: &mut Agreement) {
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

pub(super) async fn exchange<H: Host>(
    shared: &Shared<H>,
    stream: &mut TcpStream,
    message: &Message,
) -> Result<Message, WireError> {
    write_message(stream, message, shared.timing.patience).await?;
    read_message(stream, shared.timing.patience).await
}
