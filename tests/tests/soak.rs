//! What takes minutes or hours, and a short part of it without the variables below.
//!
//! Mixed operations on 64 connections at once, through loss, reordering, RNR and restarts of a node:
//! `TIERCEL_SOAK_SECONDS=3600` makes it an hour; without it, four rounds.
//!
//! A node that is stopped: `TIERCEL_STOP_SECONDS=300` makes it five minutes; without it, two seconds.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;
use tiercel::{Access, Connection, MemoryRegion, OperationError, Tuning, Ulp};
use tiercel_node::Node;
use tiercel_tests::checks::{PATIENCE, given_back, pattern, pools, settle, wait_until};
use tiercel_tests::cli::{NodeProcess, Outcome};
use tiercel_tests::nodes::{Setup, connect, node};
use tiercel_tests::operations::all;
use tiercel_tests::{Host, Pair, need_root};
use transport_common::ids::Cid;

/// Set to run longer than [`USUAL`].
const SECONDS: &str = "TIERCEL_SOAK_SECONDS";
const USUAL: Duration = Duration::from_secs(32);
/// Set to stop a node for longer than [`USUAL_STOP`].
const STOP_SECONDS: &str = "TIERCEL_STOP_SECONDS";
const USUAL_STOP: Duration = Duration::from_secs(2);
/// As long as in the simulation. After 281 s, a deadline that has passed looks like one ahead (docs/decisions/time.md).
const LONGEST_STOP: Duration = Duration::from_secs(1000);
/// After each, node B restarts: every second time in the middle of its traffic.
const ROUND: Duration = Duration::from_secs(8);
const CONNECTIONS: u32 = 64;
// No corruption: the fabric keeps a log of it, which would grow.
const FABRIC: &str = "loss=1%,reorder=1%,duplicate=0.1%,scope=udp";
/// Bytes of each region. The first block has the word that fetch-add counts in, the second half receives messages.
const REGION: usize = 64 << 10;
const BLOCK: u64 = 512;
/// By how much the memory of the process in the second half of the rounds may exceed that in the first half.
const GROWTH: u64 = 1 << 20;

/// One connection with its memory, and what happened on it.
struct Course<'a> {
    at_a: &'a Connection,
    at_b: &'a Connection,
    local: MemoryRegion,
    remote: MemoryRegion,
    ulp: Ulp,
    rng: StdRng,
    done: u64,
}

impl Course<'_> {
    async fn run(&mut self, until: Instant) -> Result<(), OperationError> {
        let mut added = 0;
        while Instant::now() < until {
            match self.ulp {
                Ulp::Rdma => {
                    self.there_and_back(1).await?;
                    let found = self.at_a.fetch_add(self.remote.key(), 0, 1).await?;
                    assert_eq!(found, added, "each fetch-add counts once");
                    added += 1;
                    if self.rng.random_bool(0.3) {
                        self.message().await?;
                    }
                }
                Ulp::Block => {
                    let busy = self.rng.random_bool(0.1);
                    self.remote.set_busy(busy);
                    let remote = self.remote.clone();
                    let ready = async {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                        remote.set_busy(false);
                    };
                    tokio::join!(self.there_and_back(BLOCK), ready).0?;
                }
            }
            self.done += 1;
        }
        Ok(())
    }

    /// Writes random bytes to a random place, and reads them back.
    async fn there_and_back(&mut self, unit: u64) -> Result<(), OperationError> {
        let half = REGION as u64 / 2;
        let length = self.rng.random_range(1..=10_000 / unit) * unit;
        let place = (BLOCK + self.rng.random_range(0..half - BLOCK - length)) / unit * unit;
        let sent = pattern(length as usize, self.rng.random());
        self.local.write(0, &sent).expect("in bounds");
        self.at_a.write(&self.local, 0, self.remote.key(), place, length).await?;
        self.at_a.read(&self.local, half, self.remote.key(), place, length).await?;
        assert!(bytes(&self.local, half, length) == sent, "{length} bytes at {place} came back changed");
        Ok(())
    }

    /// Sends a message, sometimes before its receive is posted.
    async fn message(&mut self) -> Result<(), OperationError> {
        let half = REGION as u64 / 2;
        let longest = if self.at_a.is_ordered() { 10_000 } else { self.at_a.max_segment() };
        let (length, late) = (self.rng.random_range(0..=longest), self.rng.random_bool(0.5));
        let (number, sent) = (self.done as u32, pattern(length as usize, self.rng.random()));
        self.local.write(0, &sent).expect("in bounds");
        let receive = async {
            if late {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            self.at_b.post_receive(&self.remote, half, longest, self.done)?;
            self.at_b.receive().await
        };
        let send = self.at_a.send(&self.local, 0, length.into(), Some(number));
        let (sent_well, received) = tokio::join!(send, receive);
        sent_well?;
        let received = received?;
        let told = (received.length, received.immediate, received.wr_id);
        assert_eq!(told, (length, Some(number), self.done), "one message, once");
        assert!(bytes(&self.remote, half, length.into()) == sent, "the message arrived changed");
        Ok(())
    }
}

fn bytes(region: &MemoryRegion, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    region.read(offset, &mut bytes).expect("in bounds");
    bytes
}

fn setup(number: u32) -> Setup {
    let ulp = if number.is_multiple_of(4) { Ulp::Block } else { Ulp::Rdma };
    // The windows are constant. With the usual 1 ms, the copies of 64 connections keep a switch that gets little of the
    // CPU busy until their attempts are exhausted.
    let tuning = Tuning { rto: Duration::from_millis(5), ..Setup::CONSTANT };
    Setup { ordered: number.is_multiple_of(2), ulp, tuning, ..Setup::default() }
}

/// Plays one round. With `cut`, node B goes down in the middle of it. Returns the number of operations that ended well.
async fn round(a: &Node, b: Node, cut: bool, seed: u64) -> Result<u64> {
    let mut ends = Vec::new();
    for number in 1..=CONNECTIONS {
        ends.push(connect([(a, Cid(number)), (&b, Cid(number + 100))], setup(number))?);
    }
    let mut courses = Vec::new();
    for (number, [at_a, at_b]) in (1..).zip(&ends) {
        let (local, remote) = (a.register(REGION, Access::LOCAL)?, b.register(REGION, Access::ALL)?);
        let rng = StdRng::seed_from_u64(seed << 8 | u64::from(number));
        courses.push(Course { at_a, at_b, local, remote, ulp: setup(number).ulp, rng, done: 0 });
    }
    let (b, down) = (Cell::new(Some(b)), Cell::new(false));
    let until = Instant::now() + ROUND;
    let cutter = async {
        if cut {
            tokio::time::sleep(ROUND / 2).await;
            down.set(true);
            drop(b.take());
        }
    };
    let work = all(courses.iter_mut().map(|course| course.run(until)));
    let (results, ()) = tokio::join!(work, cutter);
    for (number, result) in (1..).zip(results) {
        // When its peer is down, an operation fails. All of them end.
        result
            .or_else(|error| if down.get() { Ok(()) } else { Err(error) })
            .with_context(|| format!("connection {number}"))?;
    }
    let done = courses.iter().map(|course| course.done).sum();
    ensure!(courses.iter().all(|course| course.done > 0), "a connection made no progress");
    drop(courses);
    if let Some(b) = b.take() {
        settle(a);
        settle(&b);
    }
    for [at_a, _] in &ends {
        at_a.close();
        at_a.closed().await;
    }
    Ok(done)
}

/// Returns the memory that this process has allocated and not freed, bytes. The resident memory would also count what the
/// allocator keeps for later, which depends on the threads' timing.
fn own_memory() -> u64 {
    // SAFETY: it has no preconditions.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}

/// Returns the time that a variable gives in seconds, if it is set.
fn chosen(variable: &str) -> Result<Option<Duration>> {
    let Ok(seconds) = std::env::var(variable) else { return Ok(None) };
    Ok(Some(Duration::from_secs(seconds.parse().with_context(|| format!("{variable} is not a number"))?)))
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn mixed_operations_survive_loss_and_restarts() -> Result<()> {
    need_root();
    let length = chosen(SECONDS)?.unwrap_or(USUAL);
    let (begin, mut memory) = (Instant::now(), Vec::new());
    let pair = Pair::through(format!("seed=1,{FABRIC}").parse()?)?;
    let a = node(&pair.a, Default::default(), Setup::default())?;
    let before = pools(&a);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut done = 0;
    while begin.elapsed() < length || memory.len() < 4 {
        let number = memory.len() as u64;
        let b = node(&pair.b, Default::default(), Setup::default())?;
        done += runtime
            .block_on(round(&a, b, number % 2 == 1, number))
            .with_context(|| format!("round {number}"))?;
        given_back(&a, &before);
        memory.push(own_memory());
        println!(
            "{:>5} s: {done} operations, {} MiB",
            begin.elapsed().as_secs(),
            memory[number as usize] >> 20
        );
    }
    let most = |rounds: &[u64]| rounds.iter().copied().max().expect("a round");
    let (early, late) = memory.split_at(memory.len() / 2);
    let (early, late) = (most(early), most(late));
    ensure!(late <= early + GROWTH, "the process grew from {early} to {late} bytes: {memory:?}");
    Ok(())
}

/// The CIDs of the static connections of both ends, and whether they use RACK-TLP.
const FIXED: [([u32; 2], bool); 2] = [([5, 10], false), ([6, 11], true)];

/// Brings up the `end`th of two nodes with static connections.
fn with_static_connections(pair: &Pair, directory: &TempDir, end: usize) -> Result<NodeProcess> {
    let (own, peer) = [(&pair.a, &pair.b), (&pair.b, &pair.a)][end];
    let mut text = format!("[node]\ninterface = \"{}\"\naddress = \"{}\"\n", Host::INTERFACE, own.ipv4);
    for (cids, rack_tlp) in FIXED {
        let [local, remote] = [cids[end], cids[1 - end]];
        text += &format!(
            "[[connection]]\nlocal_cid = {local}\npeer_cid = {remote}\npeer_address = \"{}\"\npeer_mac = \"{}\"\n\
             ordered = true\nsecurity = {{ mode = \"plaintext\", tx_spi = {remote}, rx_spi = {local} }}\n\
             tx = {{ request_psn = 100, data_psn = 300, rsn = 1 }}\nrx = {{ request_psn = 100, data_psn = 300, rsn = 1 }}\n\
             tuning = {{ rack_tlp = {rack_tlp} }}\n",
            peer.ipv4, peer.mac
        );
    }
    let name = ["a", "b"][end];
    let file = directory.path().join(format!("{name}.toml"));
    std::fs::write(&file, text)?;
    NodeProcess::up(own, directory.path(), name, &["--config", file.to_str().context("a plain path")?])
}

/// A node is stopped (SIGSTOP) while operations of it wait for the peer. When it goes on, they end: well, or, after their
/// transaction timeout, in error. The connections work in both directions.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_that_was_stopped_goes_on() -> Result<()> {
    need_root();
    let stop = chosen(STOP_SECONDS)?.unwrap_or(USUAL_STOP);
    ensure!(stop <= LONGEST_STOP, "{STOP_SECONDS} is at most {}", LONGEST_STOP.as_secs());
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let up = |end| with_static_connections(&pair, &directory, end);
    let (a, b) = (up(0)?, up(1)?);
    let show = |node: &NodeProcess, cid: u32| node.json(&["conn", "show", &cid.to_string()]);
    let patience = format!("{}s", PATIENCE.as_secs());
    // For the stop, and for what follows.
    let longest = format!("{}s", (stop + PATIENCE).as_secs());
    let (stopped, longest) = (&a, longest.as_str());
    let send =
        move |cid: u32| stopped.run(&["send", &cid.to_string(), "--data", "waits", "--timeout", longest]);
    std::thread::scope(|scope| {
        let sends = FIXED.map(|([cid, _], _)| (cid, scope.spawn(move || send(cid))));
        for (cid, _) in &sends {
            wait_until("the SEND waits for a receive", || {
                show(&a, *cid)
                    .is_ok_and(|shown| shown["transactions"]["initiator"][0]["state"] == "PushDataTx")
            });
        }
        a.stop()?;
        std::thread::sleep(stop);
        a.signal(libc::SIGCONT)?;
        for ([_, cid], _) in FIXED {
            b.ok(&["recv", "post", &cid.to_string()])?;
        }
        let in_time = stop < Tuning::DEFAULT.transaction_timeout / 2;
        for (cid, send) in sends {
            let Outcome { code, stderr, .. } = send.join().expect("no panic")?;
            ensure!(code == 0 || (code == 3 && !in_time), "connection {cid}: exit code {code}: {stderr}");
            ensure!(!stderr.contains("no answer within"), "connection {cid}: {stderr}");
        }
        anyhow::Ok(())
    })?;
    let key = |node: &NodeProcess| {
        Ok::<_, anyhow::Error>(node.json(&["mr", "register", "4KiB"])?["key"].to_string())
    };
    for (end, (from, key)) in [(&a, key(&b)?), (&b, key(&a)?)].into_iter().enumerate() {
        for (cids, _) in FIXED {
            let (cid, data) = (cids[end].to_string(), format!("over {end} by {}", cids[end]));
            from.ok(&["write", &cid, "--rkey", &key, "--data", &data, "--timeout", &patience])?;
            let length = data.len().to_string();
            let read = ["read", &cid, "--rkey", &key, "--length", &length, "--raw", "--timeout", &patience];
            assert_eq!(from.ok(&read)?, data);
            assert_eq!(show(from, cids[end])?["state"], "open");
        }
    }
    Ok(())
}
