//! The handshake for the accepting end.

use std::net::SocketAddr;
use std::sync::Arc;

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use transport_common::ids::RKey;

use super::admission::{Place, Source};
use super::agreement::{Agreement, Terms, agree, check, make_offer};
use super::blocked::Blocked;
use super::capabilities::{Introduction, Missing, ProofRegion, Side};
use super::counters::count;
use super::handshake::{Opened, exchange, find_next_hop, tuning};
use super::host::{Host, HostError};
use super::life;
use super::message::{Message, Offer, Rejection, WireError, encode, read_message, shortened};
use super::origin::{Level, Origin};
use super::path_search::{probe_socket, search};
use super::proof;
use super::serve::establish;
use super::session::Session;
use super::shared::Shared;
use crate::common::mutex::lock;

/// The texts for peers whose handshake is ended or rejected because there are too many.
const GAVE_WAY: &str = "the node has too many unfinished handshakes, and this one took too long: try again";
const TURNED_AWAY: &str =
    "this peer has too many unfinished handshakes: wait until one of them ends, then try again";

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
        Err(Declined::ByHost(error)) => {
            count(&shared.counters.declined);
            shared.events.add(origin, Level::Warning, || format!("offer of {peer} declined: {error}"));
            let reason = match error {
                HostError::TableFull => Rejection::TableFull,
                HostError::Refused { .. } => Rejection::Node,
            };
            reject(&mut stream, reason, error.for_peer()).await;
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
            shared.counters.wire_error(&error);
            shared.events.add(origin, Level::Warning, || format!("handshake of {peer} failed: {error}"));
            let reason = match error {
                WireError::Version(_) => Rejection::Version,
                WireError::Capability(_) => Rejection::Capability,
                _ => Rejection::Offer,
            };
            reject(&mut stream, reason, &error.for_peer()).await;
        }
    }
}

/// Why the accepting end opened no connection.
pub(super) enum Declined {
    /// This end rejects the offer. The text is for both ends.
    Answered(Rejection, String),
    /// The node cannot open its half.
    ByHost(HostError),
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

impl From<Missing> for Declined {
    fn from(missing: Missing) -> Self {
        Self::Answered(Rejection::Capability, missing.to_string())
    }
}

impl From<HostError> for Declined {
    fn from(error: HostError) -> Self {
        Self::ByHost(error)
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
    let (theirs, peer_offer) = match first {
        Message::Hello { introduction, offer, .. } => (introduction, offer),
        Message::Alive { cid, peer_cid, spi } => return Err(Declined::Alive { cid, peer_cid, spi }),
        _ => return Err(WireError::Garbage("the first message is not hello".into()).into()),
    };
    place.heard();
    check_share(shared, Source::of(peer.ip()))?;
    let mut introduction = Introduction::default();
    introduction.set_rack_tlp(shared.tuning.rack_tlp);
    check(&peer_offer).map_err(|text| Declined::Answered(Rejection::Offer, text))?;
    let reservation = shared.host.reserve_cid()?;
    let cid = H::reserved(&reservation);
    let mut own = make_offer(&shared.host.local(), cid, Terms::of(&peer_offer), shared.host.regions());
    let region = theirs.capabilities.path_proof.and_then(|_| proof::region(shared));
    introduction.capabilities.path_proof = region.as_ref().map(|(_, key)| ProofRegion { rkey: key.0 });
    let socket = match theirs.capabilities.path_search {
        Some(probe) => {
            probe.check().map_err(|text| Declined::Answered(Rejection::Offer, text))?;
            probe_socket(shared).await
        }
        None => None,
    };
    introduction.capabilities.path_search = socket.as_ref().map(|(_, probe)| *probe);
    let common = introduction.in_common(&theirs, Side::Accepting)?;
    let path_mtu = match (socket, common.path_search) {
        (Some(socket), Some(probe)) => {
            search(shared, stream, socket, (peer, probe), &mut own, &peer_offer).await?
        }
        _ => None,
    };
    // The clock in the offer is that of now, not of the time before the search.
    own.time = shared.host.local().clock_ps;
    let mut agreement = agree(&own, &peer_offer, &common, peer.ip(), tuning(shared, stream))
        .map_err(|text| Declined::Answered(Rejection::Offer, text))?;
    agreement.path_mtu = path_mtu;
    find_next_hop(shared, &mut agreement).await;
    // This end opens before it answers, because the peer's first packet may follow at once.
    shared.host.open(reservation, &agreement)?;
    let opened = Opened::new(shared, cid);
    let accept = Message::Accept { introduction, offer: Box::new(own), path_mtu };
    match exchange(shared, stream, &accept).await? {
        Message::Ready => {}
        _ => return Err(WireError::Garbage("the second message is not ready".into()).into()),
    }
    if let Some(ProofRegion { rkey }) = common.path_proof
        && let Some(blocked) = proof::prove(shared, stream, &agreement, RKey(rkey)).await?
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

/// Sends the reason to the peer, and closes the connection so that the peer can still read it.
async fn reject(stream: &mut TcpStream, reason: Rejection, text: &str) {
    try_reject(stream, reason, text);
    let _ = stream.shutdown().await; // it does not wait; an error means that the peer has closed already
}
