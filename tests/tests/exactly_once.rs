//! What must never happen twice, on real hosts: an IV, and an atomic.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use falcon_conformance::Parts;
use tiercel::{Access, Connection, MemoryRegion, PostError, Tuning};
use tiercel_node::{EngineMode, EngineOptions};
use tiercel_tests::checks::{block_on, settle};
use tiercel_tests::nodes::{Setup, TwoNodes, connect, node};
use tiercel_tests::{Bridge, Pair, need_root};
use transport_common::ids::Cid;
use transport_common::queues::{Completion, Verb, WorkFlags, WorkRequest};
use transport_common::wire::{FalconHeader, PacketType};

/// How long operations may take in all. A busy machine needs a part of it.
const PATIENCE: Duration = Duration::from_secs(300);

/// Posts fetch-adds of 1 until `posted` have been posted, and takes their completions. Stops early when `stop` says so.
/// Returns how many were posted, and how many completed well.
fn increment(
    connection: &Connection,
    counter: &MemoryRegion,
    local: &MemoryRegion,
    total: u64,
    mut stop: impl FnMut(u64) -> bool,
) -> Result<[u64; 2]> {
    let work = WorkRequest {
        opcode: Verb::FETCH_ADD,
        length: 8,
        local_offset: local.local_offset(0, 8)?,
        rkey: counter.key().0,
        swap_or_add: 1,
        flags: WorkFlags::SIGNALED,
        ..WorkRequest::default()
    };
    let mut completions = [Completion::default(); 64];
    let (begin, mut posted, mut completed) = (Instant::now(), 0, 0);
    while completed < total && !stop(completed) {
        while posted < total {
            match connection.post(work) {
                Ok(_) => posted += 1,
                Err(PostError::QueueFull) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let taken = connection.poll(&mut completions);
        for completion in &completions[..taken] {
            ensure!((completion.status, completion.ulp_code) == (0, 0), "{completion:?}");
        }
        completed += taken as u64;
        ensure!(begin.elapsed() < PATIENCE, "{completed} of {total} fetch-adds are complete");
    }
    Ok([posted, completed])
}

fn counter_of(region: &MemoryRegion) -> Result<u64> {
    let mut bytes = [0; 8];
    region.read(0, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// F-8.4.3: a million fetch-adds of 1 through loss, duplication and reordering, while the node that sends them restarts
/// with some of them on their way. Each that completed counts once, and no other counts twice.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_million_increments_count_once() -> Result<()> {
    const FABRIC: &str = "seed=3,loss=0.1%,duplicate=0.5%,reorder=0.5%,scope=udp";
    const ROUNDS: u64 = 4;
    const EACH: u64 = 250_000;
    need_root();
    let pair = Pair::through(FABRIC.parse()?)?;
    let tuning = Tuning { rto: Duration::from_millis(5), ..Setup::CONSTANT };
    let setup = Setup { ordered: false, tuning, ..Setup::default() };
    let b = node(&pair.b, EngineOptions::default(), setup)?;
    let counter = b.register(8, Access::ALL)?;
    let (mut done, mut begun) = (0, 0);
    for round in 0..ROUNDS {
        let last = round + 1 == ROUNDS;
        let a = node(&pair.a, EngineOptions::default(), setup)?;
        let local = a.register(8, Access::LOCAL)?;
        let cids = [10, 11].map(|cid| Cid(cid + 2 * round as u32));
        let [at_a, at_b] = connect([(&a, cids[0]), (&b, cids[1])], setup)?;
        // The last round ends well, so the rest of the million is in it.
        let total = if last { ROUNDS * EACH - done } else { EACH };
        let cut = |completed| !last && completed >= EACH - 1000;
        let before = counter_of(&counter)?;
        let [posted, completed] =
            increment(&at_a, &counter, &local, total, cut).with_context(|| format!("round {round}"))?;
        done += completed;
        if last {
            settle(&a);
            settle(&b);
            assert_eq!(counter_of(&counter)? - before, total, "each of the last round, once");
        } else {
            drop((at_a, local, a));
        }
        begun += posted;
        at_b.close();
        block_on(at_b.closed());
        let counted = counter_of(&counter)?;
        assert!((done..=begun).contains(&counted), "{counted} increments, {done} completed, {begun} begun");
    }
    assert_eq!(done, ROUNDS * EACH);
    Ok(())
}

/// A remote atomic is one access for the processor as well: an application that adds to the same word with its own
/// instructions loses nothing, and nor does the peer.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_remote_atomic_is_atomic_for_the_local_processor() -> Result<()> {
    const REMOTE: u64 = 100_000;
    need_root();
    let nodes = TwoNodes::up(Pair::direct()?, Setup { ordered: false, ..Setup::default() })?;
    let (local, counter) = (nodes.a.register(8, Access::LOCAL)?, nodes.b.register(8, Access::ALL)?);
    let over = AtomicBool::new(false);
    // SAFETY: the region is mapped while `counter` lives, its begin is aligned, and all accesses to the word are atomic.
    let word = unsafe { AtomicU64::from_ptr(counter.as_ptr().cast()) };
    let own = thread::scope(|scope| {
        let application = scope.spawn(|| {
            let mut added = 0u64;
            while !over.load(Relaxed) {
                word.fetch_add(1 << 32, SeqCst);
                added += 1;
            }
            added
        });
        let ran = increment(&nodes.at_a, &counter, &local, REMOTE, |_| false);
        over.store(true, Relaxed);
        let added = application.join().expect("adding does not panic");
        ran.map(|_| added)
    })?;
    let found = word.load(SeqCst);
    assert!(own > REMOTE, "both added at the same time: {own}");
    assert_eq!((found & 0xffff_ffff, found >> 32), (REMOTE, own & 0xffff_ffff));
    Ok(())
}

/// D-90: a connection's IVs are assigned under its lock, so none is used twice, although the engine sends on one CPU and
/// the wire program answers on another.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn no_iv_is_used_twice_on_two_cpus() -> Result<()> {
    const ROUNDS: usize = 100;
    /// Few enough for the capture's buffer.
    const OPERATIONS: usize = 200;
    need_root();
    let bridge = Bridge::new()?;
    let setup = Setup { ordered: false, ..Setup::default() };
    // Frames are received on the CPU of the engine that sent them. So the wire program of A runs on CPU 0.
    let pinned = |cpu| EngineOptions { mode: EngineMode::Busy, cpu: Some(cpu), ..EngineOptions::default() };
    let cpus = thread::available_parallelism()?.get();
    ensure!(cpus > 1, "this test needs two CPUs");
    let (a, b) = (node(&bridge.a, pinned(1), setup)?, node(&bridge.b, pinned(0), setup)?);
    let [at_a, at_b] = connect([(&a, Cid(10)), (&b, Cid(11))], setup)?;
    let (at_home, abroad) = (a.register(4096, Access::ALL)?, b.register(4096, Access::ALL)?);
    let capture = bridge.capture(|_, frame| {
        let parts = Parts::of(frame)?;
        let kind = match parts.header? {
            FalconHeader::PushData(_) => PacketType::PushData,
            FalconHeader::PullData(_) => PacketType::PullData,
            FalconHeader::Ack(_) => PacketType::Back,
            _ => PacketType::PullRequest,
        };
        Some((parts.psp.iv.0, kind))
    })?;
    let (mut ivs, mut pushes, mut answers, mut frames) = (HashSet::new(), 0u64, 0u64, 0usize);
    for _ in 0..ROUNDS {
        let forth = async {
            let writes = (0..OPERATIONS).map(|_| at_a.write(&at_home, 0, abroad.key(), 0, 64));
            futures_util::future::try_join_all(writes).await
        };
        let back = async {
            let reads = (0..OPERATIONS).map(|_| at_b.read(&abroad, 1024, at_home.key(), 1024, 64));
            futures_util::future::try_join_all(reads).await
        };
        let (forth, back) = block_on(async { tokio::join!(forth, back) });
        forth?;
        back?;
        for (iv, kind) in capture.take() {
            frames += 1;
            assert!(ivs.insert(iv), "IV {iv} is used twice, the second time by {kind:?}");
            pushes += u64::from(kind == PacketType::PushData);
            answers += u64::from(kind == PacketType::PullData);
        }
    }
    let all = (ROUNDS * OPERATIONS) as u64;
    assert_eq!(ivs.len(), frames);
    // A few frames may be missing in the capture. It cannot show them as copies.
    assert!(pushes > all / 2 && answers > all / 2, "{pushes} pushes and {answers} answers of {all} each");
    Ok(())
}
