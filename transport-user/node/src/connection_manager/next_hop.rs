//! Follows the next hops of connections.
//!
//! Each connection has the MAC address of its next hop, because XDP sends without the kernel's neighbour table. When another
//! router takes over, the address in that table changes, and the connection goes on with it: what was sent to the old one is sent
//! again like any lost packet. The watch of the data path compares the two when the kernel says that a neighbour or a route has
//! changed, when a connection is new, and while one is stalled at either end. Then it also asks who has the address, because the
//! kernel may not notice for many seconds that its entry is wrong. An end that only acknowledges never stalls
//! itself. It asks if TCP has sent its heartbeat again, or if the other end searches, which says that it is stalled. That message
//! alone may come too late: as long as nothing is acknowledged, TCP sends only the oldest one again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tiercel::Mac;
use tiercel::backend::is_host;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use transport_common::ids::Cid;

use super::admission::Source;
use super::host::Host;
use super::node_state::PathState;
use super::origin::{Level, Origin};
use super::shared::Shared;

/// How long a round waits for what is read. Usually the kernel answers at once. While somebody changes interfaces, it may take
/// seconds, and connections that are stalled have to end meanwhile.
const READING: Duration = Duration::from_millis(50);

/// What the kernel says of the next hops to peers.
type Answers = HashMap<IpAddr, Option<Mac>>;

/// What was compared.
#[derive(Default)]
pub(super) struct NextHops {
    /// Whether next hops may have changed since the last round.
    changed: bool,
    /// The generation of each connection whose next hop was compared since it was opened. The address may have changed during
    /// its handshake.
    compared: HashMap<Cid, u32>,
    /// The peers whose next hops have to be read, and whether they are asked for.
    wanted: HashMap<IpAddr, bool>,
    reading: Option<JoinHandle<Answers>>,
    /// What was read in this round.
    answers: Answers,
}

impl NextHops {
    /// Begins a round over all connections.
    pub(super) fn begin(&mut self, changed: bool) {
        self.changed = changed;
        self.answers.clear();
    }

    /// Forgets the connections that have ended.
    pub(super) fn retain(&mut self, all: &[PathState]) {
        self.compared.retain(|cid, _| all.iter().any(|state| state.cid == *cid));
    }

    /// Notes whether the next hop of a connection has to be compared. `stalled`: at this end, or perhaps at the other one.
    pub(super) fn check(&mut self, state: &PathState, stalled: bool) {
        let PathState { cid, generation, peer, follows, failed, .. } = *state;
        if !follows || failed {
            return;
        }
        let is_new = self.compared.insert(cid, generation) != Some(generation);
        if self.changed || is_new || stalled {
            *self.wanted.entry(peer).or_default() |= stalled;
        }
    }

    /// Reads what has to be compared, on a thread that may wait for the kernel. What is late is an answer of a later round.
    pub(super) async fn read<H: Host>(&mut self, shared: &Arc<Shared<H>>) {
        if self.reading.is_none() && !self.wanted.is_empty() {
            let (wanted, shared) = (std::mem::take(&mut self.wanted), Arc::clone(shared));
            let known = move |(peer, ask)| (peer, shared.host.known_next_hop(peer, ask));
            self.reading = Some(spawn_blocking(move || wanted.into_iter().map(known).collect()));
        }
        let Some(reading) = &mut self.reading else { return };
        if let Ok(answers) = timeout(READING, reading).await {
            self.answers = answers.unwrap_or_default();
            self.reading = None;
        }
    }

    /// Gives a connection the next hop that the kernel has, if it is another one. Returns whether it is.
    pub(super) fn follow<H: Host>(&mut self, shared: &Shared<H>, state: &PathState) -> bool {
        let PathState { cid, generation, peer, next_hop: before, follows, failed, .. } = *state;
        if !follows || failed {
            return false;
        }
        let known = self.answers.get(&peer).copied().flatten();
        let Some(mac) = known.filter(|mac| *mac != before && is_host(*mac)) else { return false };
        let changed = shared.host.set_next_hop(cid, generation, mac);
        if changed {
            // A neighbour may cause any number of them.
            let text = || format!("next hop of connection {} is now {mac} instead of {before}", cid.0);
            shared.events.add(Origin::Peer(Source::of(peer)), Level::Warning, text);
        }
        changed
    }
}
