//! Whether the peer of a session is alive.
//!
//! A peer counts as dead if nothing of it arrives for the patience of the connection. Each message counts, and so does
//! each Falcon packet that the datapath takes.
//!
//! An idle connection has nothing but the heartbeats on its TCP connection. After an outage they come late: TCP waits
//! twice as long after each retransmission, so an outage of 4 s can become a silence of 6 s. Therefore the end that has
//! connected does not rely on that TCP connection. While it hears nothing, it connects again and again and sends
//! [`Message::Alive`], and the peer answers. Both have a sign of life then.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use transport_common::ids::Cid;

use super::dialing::dial;
use super::host::Host;
use super::message::{Message, Rejection, WireError, read_message, write_message};
use super::node_state::socket_address;
use super::options::heartbeat;
use super::session::Session;
use super::shared::Shared;
use crate::common::mutex::lock;

/// Looks in the time of a heartbeat.
const LOOKS: u32 = 2;
/// Looks without a sign of life after which the peer is asked: one heartbeat is missing.
const IN_DOUBT: u32 = 3;
/// Round trips within which a question is answered: one for TCP, one for the question, and others for what is lost.
const ROUND_TRIPS: u32 = 8;

/// Returns when the peer counts as dead.
pub(super) async fn watch<H: Host>(
    shared: &Shared<H>,
    session: &Session,
    round_trip: Option<Duration>,
) -> WireError {
    let ask = async {
        if !session.connected_here() {
            std::future::pending::<()>().await;
        }
        ask(shared, session, round_trip).await
    };
    tokio::select! {
        error = look(shared, session) => error,
        never = ask => match never {},
    }
}

/// Counts the time without a sign of life. A pause of this node is not the peer's silence: what arrived meanwhile is not
/// read yet. So each check adds at most twice the time that it should have waited.
async fn look<H: Host>(shared: &Shared<H>, session: &Session) -> WireError {
    let pause = heartbeat(session.patience) / LOOKS;
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut silence) = (Instant::now(), Duration::ZERO);
    let mut packets = None;
    loop {
        ticks.tick().await;
        let passed = last.elapsed().min(2 * pause);
        last = Instant::now();
        if session.life.heard.swap(false, Ordering::Relaxed) {
            (silence, packets) = (Duration::ZERO, None);
            continue;
        }
        silence += passed;
        if silence < IN_DOUBT * pause {
            continue;
        }
        // Reading the counter costs time, so only a silent peer has it read.
        let now = shared.host.packets_received(session.local_cid);
        if packets.replace(now).is_some_and(|before| before != now) {
            silence = Duration::ZERO;
            continue;
        }
        if silence >= session.patience {
            return WireError::Silent(session.patience);
        }
        session.life.in_doubt.notify_one();
    }
}

/// Asks the peer for a sign of life whenever there is doubt.
async fn ask<H: Host>(shared: &Shared<H>, session: &Session, round_trip: Option<Duration>) -> Infallible {
    let pause = heartbeat(session.patience) / LOOKS;
    let longest = pause.max(ROUND_TRIPS * round_trip.unwrap_or_default());
    loop {
        session.life.in_doubt.notified().await;
        // Whether it arrived or not is seen from the answer. Then or in time, the next one follows.
        let asked = timeout(longest, ask_once(shared, session)).await;
        if let Ok(Ok(Message::Alive { .. })) = asked {
            session.life.heard();
        }
    }
}

async fn ask_once<H: Host>(shared: &Shared<H>, session: &Session) -> Result<Message, WireError> {
    // The permit keeps many connections to one peer from using up its places for handshakes.
    let _turn = shared.dialing.permit(session.peer.ip()).await;
    let local = shared.host.local();
    let own_end = socket_address(local.address, 0, local.interface_index);
    let mut stream = dial(own_end, session.peer).await?;
    let question =
        Message::Alive { cid: session.peer_cid.0, peer_cid: session.local_cid.0, spi: session.tx_spi.0 };
    write_message(&mut stream, &question, session.patience).await?;
    read_message(&mut stream, session.patience).await
}

/// Takes a sign of life of a peer, and returns the answer.
pub(super) fn answer<H: Host>(
    shared: &Shared<H>,
    peer: SocketAddr,
    cid: u32,
    peer_cid: u32,
    spi: u32,
) -> Message {
    let session = lock(&shared.sessions).get(&Cid(cid)).cloned();
    // Only the peer knows the SPI of packets to this end.
    let is_peer = |session: &Session| {
        (session.peer.ip(), session.peer_cid.0, session.rx_spi.0) == (peer.ip(), peer_cid, spi)
    };
    match session.filter(|session| is_peer(session)) {
        Some(session) => {
            session.life.heard();
            Message::Alive { cid: peer_cid, peer_cid: cid, spi: session.tx_spi.0 }
        }
        None => Message::Reject {
            reason: Rejection::Unknown,
            text: "this node has no such connection with the peer: it has ended here".to_owned(),
        },
    }
}
