//! A connection whose path or interface carries less than before goes on with shorter packets, if it can.
//!
//! A transaction is one packet, and is sent as it was cut. So the end that learns of the smaller MTU cuts what it has not
//! posted yet for it, and tells the other end to do the same. If nothing longer is on its way, that is all. Otherwise the
//! connection ends with both sizes as the cause, because the longer packets would be sent again in vain.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::host::Host;
use super::message::Message;
use super::origin::Level;
use super::path_reports::{LEAST_MTU, MtuOf, SmallerMtu};
use super::path_signals::{Cause, Source};
use super::session::Session;
use super::shared::Shared;
use crate::common::mutex::lock;

/// How long what is longer may still be on its way, unless its end is known: some round trips. It has been sent, and most likely
/// before the MTU became smaller.
const LAST_CHANCE: Duration = Duration::from_millis(500);
/// Time between two looks at what is on its way.
const LOOK: Duration = Duration::from_millis(10);

/// Returns what this end calls what has the smaller MTU, and what the peer reads, as a text of this end.
fn names(of: MtuOf, source: Source) -> [&'static str; 2] {
    match (of, source) {
        (MtuOf::Path, _) => ["the path"; 2],
        (MtuOf::Node, Source::Peer) => ["the peer's node", "this node"],
        (MtuOf::Node, _) => ["the node", "its node"],
    }
}

/// Goes on with the smaller MTU, or ends the session. It may wait for what is on its way.
pub(super) async fn go_on<H: Host>(
    shared: &Shared<H>,
    session: &Session,
    smaller: SmallerMtu,
    source: Source,
) {
    let SmallerMtu { mtu, of } = smaller;
    let before = lock(&session.mtus).agreed;
    if mtu >= before {
        return;
    }
    let names = names(of, source);
    let ends = |why: &str| {
        let [here, for_peer] = names.map(|name| {
            format!(
                "the MTU of {name} is now {mtu} bytes, and the connection was set up with {before}{why}: connect again"
            )
        });
        Cause { here, for_peer }
    };
    if mtu < LEAST_MTU {
        session.end_with(ends(&format!(". The least is {LEAST_MTU}"))).await;
        return;
    }
    // Sending fails only if the session is ending.
    if source != Source::Peer && session.outgoing.send(Message::Mtu { smaller }).await.is_err() {
        return;
    }
    // A search begins when packets have been sent again and again.
    let end = Instant::now() + if source == Source::Search { Duration::ZERO } else { LAST_CHANCE };
    while !shared.host.narrow(session.local_cid, mtu) {
        if Instant::now() >= end {
            session.end_with(ends(", and longer packets are on their way")).await;
            return;
        }
        sleep(LOOK).await;
    }
    session.shorten(mtu);
    let [name, _] = names;
    let text = || {
        format!(
            "connection {} with {}: the MTU of {name} is now {mtu} bytes, it was {before}: packets are shorter from now on",
            session.local_cid.0, session.peer
        )
    };
    shared.events.add(session.origin(), Level::Warning, text);
}
