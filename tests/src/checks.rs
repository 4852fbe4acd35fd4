//! Common parts of the tests of running nodes: time limits, data patterns, and the idle state.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tiercel::{Connection, ConnectionInfo, MemoryRegion};
use tiercel_node::{Node, Pools};
use transport_common::counters::Counter;

/// The time after which a test fails. It does not measure speed, because the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a future to completion on a runtime of its own.
///
/// # Panics
/// If it does not end within [`PATIENCE`].
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    block_on_for(PATIENCE, future)
}

/// Runs a future that takes long, also without other work on the machine.
///
/// # Panics
/// If it does not end within `patience`.
pub fn block_on_for<T>(patience: Duration, future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let patient = async { tokio::time::timeout(patience, future).await };
    runtime.expect("a runtime").block_on(patient).expect("the operations end")
}

/// Waits for a condition.
///
/// # Panics
/// If it does not become true within [`PATIENCE`].
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "timeout while waiting for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns bytes without a short period, so that misplaced data are noticed.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut word = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes()
    };
    (0..length.div_ceil(8)).flat_map(|_| word()).take(length).collect()
}

/// Writes a pattern at the start of a region and returns it.
///
/// # Panics
/// If the region is shorter.
pub fn fill(region: &MemoryRegion, length: usize, seed: u64) -> Vec<u8> {
    let bytes = pattern(length, seed);
    region.write(0, &bytes).expect("in bounds");
    bytes
}

/// Returns the first bytes of a region.
///
/// # Panics
/// If the region is shorter.
pub fn contents(region: &MemoryRegion, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    region.read(0, &mut bytes).expect("in bounds");
    bytes
}

/// Returns all counters of a node.
///
/// # Panics
/// If the node is down.
pub fn counters(node: &Node) -> BTreeMap<String, u64> {
    node.stats().expect("the node is up").counters
}

/// Returns one counter of a node.
///
/// # Panics
/// If the node is down.
pub fn counter(node: &Node, counter: Counter) -> u64 {
    counters(node)[counter.name()]
}

/// Returns what a connection still has to do or to give back; empty when idle.
fn unfinished(connection: &ConnectionInfo) -> Vec<(&'static str, u64)> {
    let c = connection;
    let all = [
        ("request_tx.unacknowledged", c.request_tx.unacknowledged),
        ("request_tx.to_retransmit", c.request_tx.to_retransmit),
        ("data_tx.unacknowledged", c.data_tx.unacknowledged),
        ("data_tx.to_retransmit", c.data_tx.to_retransmit),
        ("request_rx.received", c.request_rx.received),
        ("data_rx.received", c.data_rx.received),
        ("data_rx.acknowledged", c.data_rx.acknowledged),
        ("responses", c.responses.used),
        ("send_queue", c.send_queue.used),
        ("receive_queue", c.receive_queue.used),
        ("completion_queue", c.completion_queue.used),
        ("operations_waiting", c.operations_waiting as u32),
        ("transactions", c.next_rsn.wrapping_sub(c.base_rsn)),
    ];
    all.into_iter().filter(|(_, used)| *used != 0).map(|(name, used)| (name, used.into())).collect()
}

/// Returns what a node and its connections still have to give back; empty when idle.
fn unreturned(node: &Node) -> Vec<(&'static str, u64)> {
    let mut all: Vec<_> = node.connections().iter().flat_map(unfinished).collect();
    let cells = pools(node).cells_in_use;
    if cells != 0 {
        all.push(("cells", cells));
    }
    all
}

/// Waits until a node has every receive cell back and its connections have empty windows and queues.
///
/// # Panics
/// If this does not happen within [`PATIENCE`].
pub fn settle(node: &Node) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = unreturned(node);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "the node is not idle: {left:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a node's pools have the same contents as before.
///
/// # Panics
/// If this does not happen within [`PATIENCE`].
pub fn given_back(node: &Node, before: &Pools) {
    wait_until("regions, memory and cells are given back", || {
        let now = pools(node);
        (now.regions, now.memory_used, now.cells_in_use)
            == (before.regions, before.memory_used, before.cells_in_use)
    });
}

/// Returns the occupancy of a node's pools.
///
/// # Panics
/// If the node is down.
pub fn pools(node: &Node) -> Pools {
    node.stats().expect("the node is up").pools
}

/// Returns the connection's counts.
///
/// # Panics
/// If it is closed.
pub fn info(connection: &Connection) -> ConnectionInfo {
    connection.info().expect("the connection exists")
}
