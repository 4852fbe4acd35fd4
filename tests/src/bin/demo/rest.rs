//! Checks that windows, queues and pools are empty when the work is done.

use std::time::{Duration, Instant};

use serde::Serialize;
use tiercel::ConnectionInfo;
use tiercel_node::{Node, Pools};
use tiercel_tests::nodes::TwoNodes;

use crate::snapshot::Snapshot;

/// The longest time for the last acknowledgements.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time between two checks. It is longer than the delay of any acknowledgement.
const PAUSE: Duration = Duration::from_millis(10);

/// The number of items left in a window, queue or pool. It must be 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Left {
    pub(crate) link: &'static str,
    pub(crate) host: &'static str,
    pub(crate) what: &'static str,
    pub(crate) value: u64,
}

/// Waits until no packet is in flight and nothing waits for an acknowledgement. Returns false if this does not
/// happen in time.
pub(crate) async fn settle(nodes: &TwoNodes) -> bool {
    let counters = || Snapshot::take(nodes).ok().map(|s| (s.a.counters, s.b.counters, s.fabric));
    let start = Instant::now();
    let mut before = counters();
    while start.elapsed() < PATIENCE {
        tokio::time::sleep(PAUSE).await;
        let now = counters();
        let idle =
            [&nodes.at_a, &nodes.at_b].iter().all(|c| c.info().is_ok_and(|info| in_windows(&info) == 0));
        let crossing =
            nodes.pair.fabric().map_or(0, |f| f.stats().fabric.towards.iter().map(|l| l.in_flight).sum());
        if now.is_some() && now == before && idle && crossing == 0 {
            return true;
        }
        before = now;
    }
    false
}

/// Returns the number of packets in a connection's windows, both sides.
fn in_windows(info: &ConnectionInfo) -> u64 {
    windows(info).iter().map(|(_, value)| value).sum()
}

fn windows(info: &ConnectionInfo) -> [(&'static str, u64); 6] {
    let (request, data) = (&info.request_tx, &info.data_tx);
    let sent = |w: &tiercel::TransmitWindowInfo| u64::from(w.next_psn.wrapping_sub(w.base_psn));
    [
        ("request window: unacknowledged", sent(request)),
        ("data window: unacknowledged", sent(data)),
        ("to retransmit", u64::from(request.to_retransmit + data.to_retransmit)),
        ("request window: received beyond a gap", info.request_rx.received.into()),
        ("data window: received, not acknowledged", info.data_rx.received.into()),
        ("transactions", u64::from(info.next_rsn.wrapping_sub(info.base_rsn))),
    ]
}

/// Returns the contents of the windows, queues and pools of both nodes, except memory and connections, which
/// are still in use.
pub(crate) fn look(link: &'static str, nodes: &TwoNodes) -> Vec<Left> {
    let mut left = Vec::new();
    for (host, node, connection) in [("A", &nodes.a, &nodes.at_a), ("B", &nodes.b, &nodes.at_b)] {
        let mut note = |what, value| left.push(Left { link, host, what, value });
        match connection.info() {
            Ok(info) => {
                windows(&info).into_iter().for_each(|(what, value)| note(what, value));
                note("operations waiting", info.operations_waiting as u64);
            }
            Err(_) => note("connections lost", 1),
        }
        if let Some(pools) = pools(node) {
            note("receive cells", pools.cells_in_use);
            note("send queue entries", pools.send_entries);
            note("posted receives", pools.receive_entries);
            note("completions", pools.completions);
            note("regions", pools.regions as u64);
        } else {
            note("nodes lost", 1);
        }
    }
    left
}

/// Closes both connections and checks that all memory was given back. Then takes the nodes and their hosts down.
pub(crate) fn close(nodes: TwoNodes) -> Vec<Left> {
    let link = if nodes.pair.fabric().is_some() { "fabric" } else { "direct" };
    let TwoNodes { at_a, at_b, a, b, pair: _hosts } = nodes;
    let mut left = Vec::new();
    for (host, node, connection) in [("A", a, at_a), ("B", b, at_b)] {
        connection.close();
        drop(connection);
        let start = Instant::now();
        let is_empty = |pools: &Pools| pools.connections == 0 && pools.memory_used == 0;
        while !pools(&node).is_some_and(|pools| is_empty(&pools)) && start.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
        }
        let pools = pools(&node).unwrap_or_default();
        let mut note = |what, value| left.push(Left { link, host, what, value });
        note("connections after close", pools.connections as u64);
        note("bytes of memory after close", pools.memory_used);
        note("receive cells after close", pools.cells_in_use);
    }
    left
}

fn pools(node: &Node) -> Option<Pools> {
    node.stats().ok().map(|stats| stats.pools)
}
