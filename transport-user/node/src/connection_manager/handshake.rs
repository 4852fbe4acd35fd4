//! The handshake for the connecting end, and what both ends do alike.

use std::net::IpAddr;
use std::sync::Arc;

use tiercel::Tuning;
use tokio::net::TcpStream;
use tokio::time::timeout;
use transport_common::ids::{Cid, RKey};

use super::agreement::{Agreement, Terms, agree, make_offer};
use super::blocked::Blocked;
use super::capabilities::{Introduction, ProofRegion, Side};
use super::connect_error::{ConnectError, broken, classify};
use super::counters::count;
use super::dialing::dial;
use super::host::Host;
use super::message::{Message, PROTOCOL, WireError, read_message, write_message};
use super::node_state::socket_address;
use super::options::PATIENCE;
use super::path_reports::LEAST_MTU;
use super::path_search::{probe_socket, search_from_here};
use super::proof;
use super::round_trip::round_trip_of;
use super::serve::establish;
use super::shared::Shared;

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
    let mut too_long = None;
    loop {
        match connect_once(shared, address, port, terms, too_long).await {
            // The search may have found nothing, because a firewall drops its probes.
            Err(ConnectError::DataPath { blocked, .. }) if blocked.begins_above(LEAST_MTU) => {
                too_long = Some(blocked);
            }
            outcome => {
                if let (Ok(cid), Some(blocked)) = (&outcome, too_long) {
                    let text = format!("connection {} has an MTU of {LEAST_MTU}: {blocked}", cid.0);
                    shared.events.warn(text);
                }
                return outcome;
            }
        }
    }
}

/// Connects to a peer once. The terms leave nothing open. `too_long` is what the data path did not carry with a larger MTU
/// than the smallest.
async fn connect_once<H: Host>(
    shared: &Arc<Shared<H>>,
    address: IpAddr,
    port: u16,
    terms: Terms,
    too_long: Option<Blocked>,
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
    let mut offer = make_offer(&shared.host.local(), cid, terms, shared.host.regions());
    offer.limit(too_long.map(|_| LEAST_MTU), local.address.is_ipv6());
    let mut own = introduction(terms);
    let region = proof::region(shared);
    own.capabilities.path_proof = region.as_ref().map(|(_, key)| ProofRegion { rkey: key.0 });
    let socket = probe_socket(shared).await;
    own.capabilities.path_search = socket.as_ref().map(|(_, probe)| *probe);
    let hello = Message::Hello {
        protocol: PROTOCOL.into(),
        introduction: own.clone(),
        offer: Box::new(offer.clone()),
    };
    let answer = match (exchange(shared, &mut stream, &hello).await, socket) {
        (Ok(Message::Probe { probe }), Some((socket, _))) => {
            probe.check().map_err(|text| ConnectError::Offer { peer, text })?;
            search_from_here(shared, &mut stream, socket, (peer, probe), offer.mtu).await
        }
        (answer, _) => answer,
    };
    let answer = answer.map_err(|error| broken(peer, error))?;
    let (theirs, peer_offer, path_mtu) = match answer {
        Message::Accept { introduction, offer, path_mtu } => (introduction, *offer, path_mtu),
        Message::Reject { reason, text } => {
            return Err(ConnectError::Rejected { peer, reason, text: text.escape_debug().to_string() });
        }
        _ => {
            let source = WireError::Garbage("the answer is neither accept nor reject".into());
            return Err(ConnectError::Protocol { peer, source });
        }
    };
    let common = own
        .in_common(&theirs, Side::Connecting)
        .map_err(|missing| ConnectError::Capability { peer, missing })?;
    let mut agreement = agree(&offer, &peer_offer, &common, address, tuning(shared, &stream))
        .and_then(|agreement| match terms.are_kept_by(&peer_offer) {
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
        .map_err(|error| broken(peer, error))?;
    if let Some(ProofRegion { rkey }) = common.path_proof {
        let proven = proof::prove(shared, &mut stream, &agreement, RKey(rkey)).await;
        if let Some(blocked) = proven.map_err(|error| broken(peer, error))? {
            count(&shared.counters.unproven);
            return Err(ConnectError::DataPath { peer, blocked });
        }
    }
    opened.keep();
    establish(shared, stream, peer, &agreement, peer_offer, Some(terms));
    Ok(cid)
}

/// Returns what this end is able to do, and what a connection with these terms cannot do without.
fn introduction(terms: Terms) -> Introduction {
    let mut own = Introduction::default();
    own.set_rack_tlp(terms.rack_tlp == Some(true));
    own.require(terms.ulp);
    if terms.tunnel.is_some() {
        own.require("tunnel");
    }
    own
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

pub(super) async fn exchange<H: Host>(
    shared: &Shared<H>,
    stream: &mut TcpStream,
    message: &Message,
) -> Result<Message, WireError> {
    write_message(stream, message, shared.timing.patience).await?;
    read_message(stream, shared.timing.patience).await
}
