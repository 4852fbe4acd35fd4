//! An application that overwrites the page which it shares with the kernel, while its neighbours work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tiercel::{Access, Connection, ConnectionState, MemoryRegion};
use tiercel_node::Node;
use tiercel_tests::checks::{block_on, contents, counter, fill, given_back, pattern, pools, wait_until};
use tiercel_tests::nodes::{Setup, TwoNodes};
use tiercel_tests::simulation::scribbler::{Own, overwrite};
use tiercel_tests::{Pair, need_root};
use transport_common::counters::Counter;
use transport_common::ids::Cid;
use transport_common::queues::{Completion, Verb, WorkRequest};

/// For how long the application overwrites its page, at least.
const HOSTILE: Duration = Duration::from_secs(6);
/// How often it does so, at least. A thread that never ran would show nothing.
const LEAST: u64 = 20_000;
/// How often it does so in the page of one connection.
const EACH: usize = 200;
/// The neighbour's operations, at least, while that goes on.
const NEIGHBOURS: u64 = 2_000;
const BYTES: usize = 16 << 10;

/// What the application did.
#[derive(Debug, Default)]
struct Done {
    times: AtomicU64,
    connections: AtomicU64,
}

/// Opens a connection again and again until `over`, and writes into its page: anything at any time, and rings the doorbell.
fn scribble(nodes: &TwoNodes, setup: Setup, own: &Own, over: &AtomicBool, done: &Done) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(1);
    let mut taken = [Completion::default(); 16];
    while !over.load(Relaxed) {
        let ends = nodes.connect([Cid(21), Cid(22)], setup)?;
        let hostile = &ends[0];
        done.connections.fetch_add(1, SeqCst);
        // It may have ended before. Whether it has, its page does not tell any more.
        for _ in 0..EACH {
            for _ in 0..rng.random_range(1..12) {
                overwrite(hostile.shared_page(), own, &mut rng);
            }
            // To post rings the doorbell. Whether the queue has room is what its words say.
            let _ = hostile.post(WorkRequest { opcode: Verb::WRITE, length: 8, ..WorkRequest::default() });
            hostile.poll(&mut taken);
            done.times.fetch_add(1, SeqCst);
            if over.load(Relaxed) {
                break;
            }
            if rng.random_bool(0.05) {
                thread::yield_now();
            }
        }
        for end in &ends {
            end.close();
            // Its page may say that it has failed.
            wait_until("it is closed", || end.state() == ConnectionState::Closed);
        }
    }
    Ok(())
}

/// WRITEs a new pattern and READs it back.
async fn round(neighbour: &Connection, local: &MemoryRegion, remote: &MemoryRegion, seed: u64) -> Result<()> {
    let length = neighbour.max_segment().into();
    let sent = fill(local, BYTES / 2, seed);
    neighbour.write(local, 0, remote.key(), 0, length).await.context("WRITE")?;
    neighbour.read(local, BYTES as u64 / 2, remote.key(), 0, length).await.context("READ")?;
    let got = contents(local, BYTES);
    ensure!(got[BYTES / 2..][..length as usize] == sent[..length as usize], "other bytes came back");
    Ok(())
}

/// D-05, F-11: what an application writes into its page ends at most its own connection, ordered or not.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_application_that_overwrites_its_page_harms_nobody() -> Result<()> {
    need_root();
    for ordered in [false, true] {
        beside_a_hostile_application(ordered).with_context(|| format!("ordered: {ordered}"))?;
    }
    Ok(())
}

/// The neighbour and the hostile application have connections of the same order.
fn beside_a_hostile_application(ordered: bool) -> Result<()> {
    let setup = Setup { ordered, ..Setup::default() };
    let nodes = TwoNodes::up(Pair::direct()?, setup)?;
    let before = [pools(&nodes.a), pools(&nodes.b)];
    {
        let at = |node: &Node, access| node.register(BYTES, access);
        let (own, theirs) = (at(&nodes.a, Access::LOCAL)?, at(&nodes.b, Access::ALL)?);
        let (local, remote) = (at(&nodes.a, Access::LOCAL)?, at(&nodes.b, Access::ALL)?);
        let canary = [at(&nodes.a, Access::ALL)?, at(&nodes.b, Access::ALL)?];
        canary.iter().for_each(|region| drop(fill(region, BYTES, 77)));
        let begin = own.local_offset(0, BYTES as u64)?;
        // Both applications are in the node's domain. No READ is longer than 4000 bytes, so it stays in the region. Nothing
        // has the other key.
        let reach = Own {
            regions: vec![(theirs.key().0, BYTES as u64), (u32::MAX, BYTES as u64)],
            local: begin..begin + (BYTES as u64 - 4000),
            keys: vec![own.key().0, u32::MAX],
        };
        let (over, done, begun) = (AtomicBool::new(false), Done::default(), Instant::now());
        let mut rounds = 0;
        let enough =
            |rounds| begun.elapsed() >= HOSTILE && done.times.load(SeqCst) >= LEAST && rounds >= NEIGHBOURS;
        thread::scope(|scope| -> Result<()> {
            let hostile = scope.spawn(|| scribble(&nodes, setup, &reach, &over, &done));
            let mut outcome = Ok(());
            while outcome.is_ok() && !enough(rounds) && !hostile.is_finished() {
                outcome = block_on(round(&nodes.at_a, &local, &remote, rounds));
                rounds += 1;
            }
            over.store(true, SeqCst);
            hostile.join().expect("it does not panic").context("the application")?;
            outcome.with_context(|| format!("round {rounds} of the neighbour"))
        })?;
        assert!(enough(rounds), "ordered {ordered}: {done:?}, {rounds} rounds");
        for region in &canary {
            assert_eq!(contents(region, BYTES), pattern(BYTES, 77), "no other memory was written");
        }
        for node in [&nodes.a, &nodes.b] {
            assert_eq!(counter(node, Counter::LockTimeout), 0, "no step held a lock for long");
            assert_eq!(counter(node, Counter::TransactionTableBroken), 0, "no table was broken");
        }
        block_on(round(&nodes.at_a, &local, &remote, 1)).context("afterwards")?;
    }
    given_back(&nodes.a, &before[0]);
    given_back(&nodes.b, &before[1]);
    Ok(())
}
