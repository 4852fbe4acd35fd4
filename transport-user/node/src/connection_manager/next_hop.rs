//! Follows the next hops of connections.
//!
//! Each connection has the MAC address of its next hop, because XDP sends without the kernel's neighbour table. When another
//! router takes over, the address in that table changes, and the connection goes on with it: what was sent to the old one is sent
//! again like any lost packet. The watch of the data path compares the two when the kernel says that a neighbour or a route has
//! changed, when a connection is new, and while one is stalled. An end that only acknowledges never stalls, so it depends on the
//! first.

use std::collections::HashMap;
use std::net::IpAddr;

use tiercel::Mac;
use tiercel::backend::is_host;
use transport_common::ids::Cid;

use super::Shared;
use super::admission::Source;
use super::events::{Level, Origin};
use super::host::Host;
use super::path_watch::PathState;

/// What was compared.
#[derive(Default)]
pub(super) struct NextHops {
    /// Whether next hops may have changed since the last round.
    changed: bool,
    /// The generation of each connection whose next hop was compared since it was opened. The address may have changed during
    /// its handshake.
    compared: HashMap<Cid, u32>,
    /// What the kernel has answered in this round.
    answers: HashMap<IpAddr, Option<Mac>>,
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

    /// Gives a connection the next hop that the kernel has, if it is another one. Returns whether it is.
    pub(super) fn follow<H: Host>(&mut self, shared: &Shared<H>, state: &PathState, stalled: bool) -> bool {
        let PathState { cid, generation, peer, next_hop: before, follows, failed, .. } = *state;
        if !follows || failed {
            return false;
        }
        let is_new = self.compared.insert(cid, generation) != Some(generation);
        if !(self.changed || is_new || stalled) {
            return false;
        }
        let known = self.answers.entry(peer).or_insert_with(|| shared.host.known_next_hop(peer, stalled));
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
