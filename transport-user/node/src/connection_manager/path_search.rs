//! The search for the MTU of the path as a part of the handshake.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::host::Host;
use super::message::{Message, Offer, WireError, read_message, write_message};
use super::node_state::socket_address;
use super::path_mtu::ProbeSocket;
use super::path_reports::{LEAST_MTU, ProbeOffer};
use super::round_trip::round_trip_of;
use super::shared::Shared;

/// Opens a socket for probes of the path. Without one, the MTU of the interfaces is used.
pub(super) async fn probe_socket<H: Host>(shared: &Shared<H>) -> Option<(ProbeSocket, ProbeOffer)> {
    let local = shared.host.local();
    let own_end = socket_address(local.address, 0, local.interface_index);
    let open = async {
        let socket = ProbeSocket::open(own_end).await?;
        let offer = socket.offer()?;
        std::io::Result::Ok((socket, offer))
    };
    let warn = |error: &std::io::Error| shared.events.flood(|| format!("cannot probe paths: {error}"));
    open.await.inspect_err(warn).ok()
}

/// The search of the connecting end. Tells the peer the result, and answers its probes until it answers.
pub(super) async fn search_from_here<H: Host>(
    shared: &Shared<H>,
    stream: &mut TcpStream,
    socket: ProbeSocket,
    (peer, probe): (SocketAddr, ProbeOffer),
    mtu: u32,
) -> Result<Message, WireError> {
    let mut prober = socket.towards(peer, probe).await?;
    let found = prober.find(mtu, round_trip_of(stream)).await;
    write_message(stream, &Message::Path { mtu: found }, shared.timing.patience).await?;
    tokio::select! {
        answer = read_message(stream, shared.timing.patience) => answer,
        never = prober.answer() => match never {},
    }
}

/// The search of the accepting end for a peer that searches as well. Lowers the MTU of `own` to what was found, and returns the
/// MTU of the path in both directions.
pub(super) async fn search<H: Host>(
    shared: &Shared<H>,
    stream: &mut TcpStream,
    (socket, probe): (ProbeSocket, ProbeOffer),
    (peer, peer_probe): (SocketAddr, ProbeOffer),
    own: &mut Offer,
    peer_offer: &Offer,
) -> Result<Option<u32>, WireError> {
    let mut prober = socket.towards(peer, peer_probe).await?;
    write_message(stream, &Message::Probe { probe }, shared.timing.patience).await?;
    let most = own.mtu.min(peer_offer.mtu);
    let there = prober.find(most, round_trip_of(stream)).await;
    let answer = tokio::select! {
        answer = read_message(stream, shared.timing.patience) => answer?,
        never = prober.answer() => match never {},
    };
    let Message::Path { mtu: here } = answer else {
        return Err(WireError::Garbage("the second message is not path".into()));
    };
    if here.is_some_and(|mtu| mtu < LEAST_MTU) {
        return Err(WireError::Garbage("the MTU of the path is below 1280".into()));
    }
    let here = here.map(|mtu| mtu.min(most));
    for (way, mtu) in [("from", here), ("to", there)] {
        own.limit(mtu, peer.is_ipv6());
        if mtu.is_none() {
            shared.events.flood(|| {
                format!(
                    "no probe of {LEAST_MTU} bytes crosses the path {way} {}: the MTU of the interfaces is used, or {LEAST_MTU} if \
                     Falcon packets of that size do not pass; if a firewall drops UDP between the nodes, let it pass",
                    peer.ip()
                )
            });
        }
    }
    Ok(here.zip(there).map(|(here, there)| here.min(there)))
}
