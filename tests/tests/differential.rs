//! The XDP programs in the kernel and the host's datapath give the same result, bit by bit.

use std::collections::HashSet;

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tiercel_tests::differential::{Decider, Harness, Kernel, Source};
use tiercel_tests::simulation::{Profile, Scenario, World, node_config_of};
use tiercel_tests::{Namespace, need_root};

/// Frames and turns of the engine to play.
const WANTED: [u64; 2] = [100_000, 25_000];

/// Index of an interface that has a receive queue and is not the loopback interface's 1.
fn interface(namespace: &Namespace) -> Result<u32> {
    namespace.ip("link add case0 type veth peer name case1\nlink set case0 up")?;
    // SAFETY: a string that ends with 0.
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
        let seed = std::env::var("DIFFERENTIAL_SEED").map_or(Ok(1), |text| text.parse())?;
        let mut rng = StdRng::seed_from_u64(seed);
        let config = node_config_of(0);
        let mut harness = Harness::new(Kernel::load(config, interface)?, config, &mut rng)?;
        let mut cut = HashSet::new();
        for run in 0.. {
            if harness.played.iter().zip(WANTED).all(|(played, wanted)| *played >= wanted) {
                break;
            }
            let profile = if run % 2 == 0 { Profile::Lossy } else { Profile::Exhausting };
            let scenario = Scenario::random(seed.wrapping_mul(1000) + run, profile);
            let mut source = Source::new(&mut harness, &mut rng, WANTED, &mut cut);
            World::new(scenario).run(&mut source);
            if let Some(error) = source.error {
                return Err(error.context(format!("simulation {run} of seed {seed}")));
            }
        }
        harness.finish(&mut rng)
    })
}

/// F-10-1: wherever an engine runs, the same event has the same result, to the bit.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_million_decisions_of_congestion_control_agree() -> Result<()> {
    need_root();
    let seed = std::env::var("DIFFERENTIAL_SEED").map_or(Ok(1), |text| text.parse())?;
    let mut rng = StdRng::seed_from_u64(seed);
    let decided = Decider::load()?.compare(1_000_000, &mut rng)?;
    println!("{decided} events decided by both");
    Ok(())
}
