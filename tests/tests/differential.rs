//! Checks that the XDP programs in the kernel and the host's datapath give the same result, bit by bit.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use host_nic::testbed::{connection, node};
use host_nic::{HostConfig, HostNic};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tiercel_tests::differential::{Decider, Harness, Kernel, Program, Source};
use tiercel_tests::simulation::{Profile, Scenario, World, node_config_of};
use tiercel_tests::{Namespace, need_root};
use transport_common::connection::{Endpoint, Path, Snapshot};
use transport_common::counters::Counter;
use transport_common::datapath::exchange::Answer;
use transport_common::ids::Cid;
use transport_common::queues::{Verb, WorkRequest};

/// Number of frames to play, unless `DIFFERENTIAL_FRAMES` sets another. There are a quarter as many services of
/// the engine.
const FRAMES: u64 = 100_000;

/// Returns a number from the environment.
fn setting(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text}: give a whole number")),
        Err(_) => Ok(default),
    }
}

/// Returns the index of an interface that has a receive queue. It is not 1, the index of the loopback interface.
fn interface(namespace: &Namespace) -> Result<u32> {
    namespace.ip("link add case0 type veth peer name case1\nlink set case0 up")?;
    // SAFETY: the argument is a string that ends with 0.
    let index = namespace.run(|| unsafe { libc::if_nametoindex(c"case0".as_ptr()) });
    (index > 1).then_some(index).context("no interface to receive on")
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn kernel_and_host_agree_to_the_bit() -> Result<()> {
    need_root();
    let namespace = Namespace::new()?;
    let interface = interface(&namespace)?;
    namespace.run(|| {
        let seed = setting("DIFFERENTIAL_SEED", 1)?;
        let frames = setting("DIFFERENTIAL_FRAMES", FRAMES)?;
        let wanted = [frames, frames / 4];
        let mut rng = StdRng::seed_from_u64(seed);
        let config = node_config_of(0);
        let mut harness = Harness::new(Kernel::load(config, interface)?, config, &mut rng)?;
        let mut cut = HashSet::new();
        for run in 0.. {
            if harness.played.iter().zip(wanted).all(|(played, wanted)| *played >= wanted) {
                break;
            }
            let profile = if run % 2 == 0 { Profile::Lossy } else { Profile::Exhausting };
            let scenario = Scenario::random(seed.wrapping_mul(1000) + run, profile);
            let mut source = Source::new(&mut harness, &mut rng, wanted, &mut cut);
            World::new(scenario).run(&mut source);
            if let Some(error) = source.error {
                return Err(error.context(format!("simulation {run} of seed {seed}")));
            }
        }
        harness.finish(&mut rng)
    })
}

/// The next hop of a connection changes in the kernel as on the host, nothing else does, and only a request for this very
/// connection changes it.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_next_hop_changes_in_the_kernel_as_on_the_host() -> Result<()> {
    need_root();
    const SLOT: usize = 5;
    let namespace = Namespace::new()?;
    let interface = interface(&namespace)?;
    namespace.run(|| {
        let mut kernel = Kernel::load(node(0), interface)?;
        let mut host = HostNic::new(HostConfig::new(node(0)));
        host.open(SLOT, &connection(0, SLOT));
        kernel.set_entry(SLOT, host.entry(SLOT))?;
        let of_this = host.entry(SLOT).connection.generation;
        let path = Path { destination_mac: [2, 0, 0, 0, 0, 9], ..Path::default() };
        for (cid, generation, expected) in
            [(261, of_this, Answer::Gone), (5, of_this + 1, Answer::Gone), (5, of_this, Answer::Done)]
        {
            let request = Endpoint { path, local_cid: Cid(cid), ..Endpoint::default() };
            let answer = kernel.set_next_hop(SLOT, &request, generation)?;
            assert_eq!(answer, expected as u32, "CID {cid}, generation {generation}");
            assert_eq!(host.set_next_hop(SLOT, &request, generation), expected == Answer::Done);
            assert!(*kernel.entry(SLOT)? == *host.entry(SLOT), "CID {cid}, generation {generation}");
        }
        assert_eq!(host.entry(SLOT).connection.flow.endpoint.path.destination_mac, path.destination_mac);
        Ok(())
    })
}

/// Returns a connection in `slot` of host 0, and a WRITE to it from host 1.
fn write_to(slot: usize) -> Result<(Box<Snapshot>, Vec<u8>)> {
    let [mut own, mut peer] = [0, 1].map(|side| HostNic::new(HostConfig::new(node(side))));
    own.open(slot, &connection(0, slot));
    peer.open(slot, &connection(1, slot));
    peer.post(slot, WorkRequest { opcode: Verb::WRITE, length: 64, rkey: 1, ..WorkRequest::default() })
        .map_err(|_| anyhow::anyhow!("the queue is empty"))?;
    let (_, frame) = peer.engine_frame().context("the doorbell was rung")?;
    let mut entry = Box::new(*own.entry(slot));
    // The kernel's clock is not that of the card: its node was not stopped since.
    entry.connection.service.since = 0;
    Ok((entry, frame))
}

/// Binds the calling thread to the CPU on which it runs.
fn stay_on_a_cpu() -> Result<()> {
    // SAFETY: zero bytes are an empty set, the CPU is within the set's 1024, and 0 is the calling thread.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(usize::try_from(libc::sched_getcpu())?, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    ensure!(result == 0, "cannot bind a thread to its CPU: {}", std::io::Error::last_os_error());
    Ok(())
}

/// If a lock holder never releases a connection's lock, this connection's packets and services are dropped, by every
/// program that takes the lock. No CPU hangs, and no other connection is affected.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_lock_that_stays_held_is_given_up_and_counted() -> Result<()> {
    need_root();
    const SLOT: usize = 5;
    const OTHER: usize = 6;
    const XDP_DROP: u32 = 1;
    const XDP_TX: u32 = 3;
    let namespace = Namespace::new()?;
    let interface = interface(&namespace)?;
    namespace.run(|| {
        // The slot that the engine services is in memory of its CPU, where `redeliver` finds it.
        stay_on_a_cpu()?;
        let mut kernel = Kernel::load(node(0), interface)?;
        let timeouts =
            |kernel: &Kernel| Ok::<_, anyhow::Error>(kernel.counters()?[Counter::LockTimeout as usize]);
        let ready = |kernel: &mut Kernel| kernel.node().ready.bits()[0];
        let (entry, frame) = write_to(SLOT)?;
        let (other_entry, other_frame) = write_to(OTHER)?;
        kernel.set_entry(SLOT, &entry)?;
        kernel.set_entry(OTHER, &other_entry)?;
        kernel.hold_lock(SLOT)?;

        kernel.node().ready.set(SLOT as u32);
        kernel.run(Program::Engine, &[0; 128])?;
        assert_eq!(timeouts(&kernel)?, 1);
        assert_eq!(ready(&mut kernel), 1 << SLOT, "the turn is not lost");

        // The lock was free when the engine found a held request, and is held when `redeliver` wants it.
        kernel.node().ready.clear(SLOT as u32);
        assert_eq!(kernel.run(Program::Redeliver, &[0; 128])?.action, XDP_DROP);
        assert_eq!((timeouts(&kernel)?, ready(&mut kernel)), (2, 1 << SLOT), "the turn is not lost");
        kernel.node().ready.clear(SLOT as u32);

        assert_eq!(kernel.run(Program::Wire, &frame)?.action, XDP_DROP);
        assert_eq!((timeouts(&kernel)?, ready(&mut kernel)), (3, 0), "the peer sends it again");
        assert!(*kernel.entry(SLOT)? == *entry, "nobody changed the connection");
        assert_eq!(kernel.run(Program::Wire, &other_frame)?.action, XDP_TX, "another connection");

        kernel.set_entry(SLOT, &entry)?;
        kernel.node().ready.clear(OTHER as u32);
        kernel.node().ready.set(SLOT as u32);
        kernel.run(Program::Engine, &[0; 128])?;
        kernel.run(Program::Redeliver, &[0; 128])?;
        assert_eq!(ready(&mut kernel), 0);
        assert_eq!(kernel.run(Program::Wire, &frame)?.action, XDP_TX, "an acknowledgement");
        assert_eq!(timeouts(&kernel)?, 3);
        Ok(())
    })
}

/// F-10-1: the same event has the same result, bit by bit, wherever the engine runs.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_million_decisions_of_congestion_control_agree() -> Result<()> {
    need_root();
    let seed = setting("DIFFERENTIAL_SEED", 1)?;
    let mut rng = StdRng::seed_from_u64(seed);
    let decided = Decider::load()?.compare(1_000_000, &mut rng)?;
    println!("{decided} events decided by both");
    Ok(())
}
