//! What a session does when its connection is stalled: it probes the path again, and goes on with shorter packets
//! ([`super::smaller_mtu`]), or ends the connection with a cause.

use std::convert::Infallible;
use std::time::Duration;

use tiercel::Tuning;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use transport_common::wire::udp::FALCON_UDP_PORT;

use super::host::Host;
use super::message::Message;
use super::path_mtu::LONGEST_SEARCH;
use super::path_reports::{MtuOf, ProbeOffer, SmallerMtu};
use super::path_search::probe_socket;
use super::path_signals::{Cause, Heard, Source, Stall};
use super::session::Session;
use super::shared::Shared;
use super::smaller_mtu::go_on;
use crate::common::mutex::lock;

/// Time between two searches of one end that found nothing new.
const AGAIN: Duration = Duration::from_secs(5);
/// A connection ends only after so many searches in a row have found that the path carries less than its MTU: probes are lost
/// like other packets.
const SEARCHES: u32 = 2;
/// Shortest time after which a stalled connection is given up.
const SHORTEST_STALL: Duration = Duration::from_secs(2);

/// Returns how long a connection may be stalled: as long as packet delivery tries on a path whose round trip time stays what
/// it was at set-up. A longer timeout is a guess until delays are measured.
pub(super) fn longest_stall(chosen: &Tuning, agreed: &Tuning, round_trip: Option<Duration>) -> Duration {
    let parameters = agreed.congestion.parameters;
    let mut timeout = chosen.rto;
    if parameters.adaptive_timeout {
        timeout = timeout.max(parameters.min_rto).max(round_trip.unwrap_or_default() * 5 / 4);
    }
    timeout.saturating_mul(2 * (agreed.max_retransmit_attempts + 1)).max(SHORTEST_STALL)
}

/// Follows the data path of a session until the session ends.
pub(super) async fn follow<H: Host>(shared: &Shared<H>, session: &Session) -> Infallible {
    let path = &session.path;
    let (mut stalls, mut smaller) = (path.stall.subscribe(), path.smaller_mtus());
    // The interface may have changed during the handshake.
    path.interface_has_mtu(shared.host.local().mtu);
    let mut incoming = path.incoming.lock().await;
    let mut next_search = Instant::now();
    loop {
        let asked = tokio::select! {
            asked = incoming.recv() => asked,
            _ = stalls.changed() => None,
            _ = smaller.changed() => {
                let news = *smaller.borrow_and_update();
                if let Some((smaller, source)) = news {
                    go_on(shared, session, smaller, source).await;
                }
                continue;
            }
        };
        let stall = *stalls.borrow_and_update();
        if let Some(Stall { lasts, heard }) = stall
            && lasts >= path.longest_stall
        {
            session.end_with(given_up(lasts, heard)).await;
            continue;
        }
        let wants = stall.is_some() && path.peer_searches && Instant::now() >= next_search;
        if asked.is_none() && !wants {
            continue;
        }
        if let Some(mtu) = smaller_mtu(shared, session, asked, &mut incoming).await {
            go_on(shared, session, SmallerMtu { mtu, of: MtuOf::Path }, Source::Search).await;
        }
        next_search = Instant::now() + AGAIN;
    }
}

fn given_up(lasts: Duration, heard: Heard) -> Cause {
    let lasts = lasts.as_secs_f64();
    match heard {
        Heard::Never | Heard::NoLonger => Cause {
            here: format!(
                "no packet was acknowledged for {lasts:.1} s, and no Falcon packet of the peer arrives: the peer is down, or UDP \
                 port {FALCON_UDP_PORT} does not pass any more"
            ),
            for_peer: format!(
                "no packet of the peer was acknowledged for {lasts:.1} s, and no Falcon packet of this node reaches it: UDP port \
                 {FALCON_UDP_PORT} does not pass any more"
            ),
        },
        Heard::Some => Cause {
            here: format!(
                "its oldest packet was not acknowledged for {lasts:.1} s, while other packets of the peer arrive: the path loses \
                 long packets, or most packets"
            ),
            for_peer: format!(
                "the oldest packet of the peer was not acknowledged for {lasts:.1} s, while other packets of this node reach it: \
                 the path loses long packets, or most packets"
            ),
        },
    }
}

/// Searches for the MTU of the path in the direction of the peer. Returns it if it is smaller than that of the connection.
async fn smaller_mtu<H: Host>(
    shared: &Shared<H>,
    session: &Session,
    mut asked: Option<ProbeOffer>,
    incoming: &mut mpsc::Receiver<ProbeOffer>,
) -> Option<u32> {
    let (mut largest, agreed) = (0, lock(&session.mtus).agreed);
    for _ in 0..SEARCHES {
        let found = search(shared, session, asked.take(), incoming).await?;
        if found >= agreed {
            return None;
        }
        largest = found.max(largest);
    }
    Some(largest)
}

/// Searches once, and answers the peer's probes. `asked` is where the peer takes probes, if it began. Returns `None` if no
/// probe passed.
async fn search<H: Host>(
    shared: &Shared<H>,
    session: &Session,
    asked: Option<ProbeOffer>,
    incoming: &mut mpsc::Receiver<ProbeOffer>,
) -> Option<u32> {
    let (socket, own) = probe_socket(shared).await?;
    session.outgoing.send(Message::Probe { probe: own }).await.ok()?;
    let theirs = match asked {
        Some(theirs) => theirs,
        None => timeout(LONGEST_SEARCH, incoming.recv()).await.ok()??,
    };
    let mut prober = socket.towards(session.peer, theirs).await.ok()?;
    let agreed = lock(&session.mtus).agreed;
    let found = prober.find(agreed, None).await;
    // The peer may have begun later.
    tokio::spawn(async move { timeout(LONGEST_SEARCH, prober.answer()).await.err() });
    found
}

#[cfg(test)]
mod tests {
    use super::super::message::shortened;
    use super::*;
    use tiercel::congestion::CongestionControl;

    /// What the peer reads is true there: this end is "the peer". All of it crosses.
    #[test]
    fn the_peer_reads_words_of_its_own() {
        let causes = [Heard::Never, Heard::NoLonger, Heard::Some].map(|heard| given_up(AGAIN, heard));
        for Cause { here, for_peer } in causes {
            assert_ne!(here, for_peer);
            assert!(for_peer.contains(" of the peer ") && !for_peer.contains("peer is down"), "{for_peer}");
            assert_eq!(shortened(&for_peer), for_peer);
        }
    }

    /// A dead peer is noticed after two seconds with the default tuning, as in the datapath. What the user chose counts, and
    /// a long path.
    #[test]
    fn the_longest_stall_is_that_of_packet_delivery() {
        let chosen = Tuning::DEFAULT;
        let of = |chosen: &Tuning, millis| {
            let round_trip = Duration::from_millis(millis);
            longest_stall(chosen, &chosen.for_round_trip(round_trip), Some(round_trip)).as_millis()
        };
        assert_eq!([0, 1, 50, 100, 1000].map(|millis| of(&chosen, millis)), [2002, 2002, 2125, 2750, 27500]);
        let chosen = Tuning { max_retransmit_attempts: 9999, ..Tuning::DEFAULT };
        assert_eq!(of(&chosen, 0), 20_000);
        let constant = CongestionControl::CONSTANT;
        let chosen = Tuning { rto: Duration::from_micros(10), congestion: constant, ..Tuning::DEFAULT };
        assert_eq!(of(&chosen, 100), 2000);
    }
}
