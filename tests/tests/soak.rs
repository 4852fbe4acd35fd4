//! Mixed operations on 64 connections at once, for minutes or hours, through loss, reordering, RNR and restarts of a node.
//!
//! `TIERCEL_SOAK_SECONDS=3600` makes it an hour; without it, four rounds.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tiercel::{Access, Connection, MemoryRegion, OperationError, Tuning, Ulp};
use tiercel_node::Node;
use tiercel_tests::checks::{given_back, pattern, pools, settle};
use tiercel_tests::nodes::{Setup, connect, node};
use tiercel_tests::operations::all;
use tiercel_tests::{Pair, need_root};
use transport_common::ids::Cid;

/// Set to run longer than [`USUAL`].
const SECONDS: &str = "TIERCEL_SOAK_SECONDS";
const USUAL: Duration = Duration::from_secs(32);
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

#[test]
#[ignore = "needs root: cargo xtask test"]
fn mixed_operations_survive_loss_and_restarts() -> Result<()> {
    need_root();
    let length = match std::env::var(SECONDS) {
        Ok(seconds) => {
            Duration::from_secs(seconds.parse().with_context(|| format!("{SECONDS} is not a number"))?)
        }
        Err(_) => USUAL,
    };
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
