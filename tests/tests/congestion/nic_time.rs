//! NIC time: the four delays in the output for users (F-10.1-3, F-10.1-4).

use anyhow::{Context, Result};
use tiercel_tests::checks::{block_on, info, wait_until};

use crate::algorithms::KERNEL;
use crate::traffic::Traffic;

#[test]
#[ignore = "needs root: cargo xtask test"]
fn delays_are_measured_and_one_way_delays_need_synchronised_clocks() -> Result<()> {
    let traffic = Traffic::new(KERNEL)?;
    let acknowledged = |t: &Traffic| info(&t.nodes.at_a).statistics.acks_received;
    block_on(traffic.until("acknowledgements", |t| acknowledged(t) >= 50))?;
    let delays = info(&traffic.nodes.at_a).delays;
    assert!(
        delays.full.last_ns > 0 && delays.full.minimum_ns <= delays.full.smoothed_ns.max(delays.full.last_ns)
    );
    // The fabric delay does not include the time at the peer.
    assert!(delays.fabric.minimum_ns <= delays.full.minimum_ns);
    assert_eq!((delays.forward, delays.reverse), (None, None));
    assert!(delays.one_way_refused.is_some_and(|reason| reason.contains("synchronised_clocks")));
    let counted = || traffic.nodes.a.stats().expect("the node is up").delays;
    let mut stats = counted();
    // The datapath counts one after the other.
    wait_until("each delay is counted in both", || {
        stats = counted();
        stats.full.count == stats.fabric.count
    });
    assert!(stats.full.count >= 50);
    assert!(
        stats.full.p50_ns > 0
            && stats.full.p50_ns <= stats.full.p99_ns
            && stats.full.p99_ns <= stats.full.max_ns
    );
    assert_eq!((stats.forward, stats.reverse), (None, None));

    // Both hosts are on this machine, so they have one clock.
    let mut synchronised = KERNEL;
    synchronised.parameters.synchronised_clocks = true;
    block_on(traffic.nodes.at_a.set_congestion(synchronised))?;
    // How many packets an acknowledgement is for depends on how busy the machine is.
    let measured = |_: &Traffic| counted().forward.is_some_and(|forward| forward.count >= 50);
    block_on(traffic.until("one-way delays", measured))?;
    let delays = info(&traffic.nodes.at_a).delays;
    let (forward, reverse) = (delays.forward.context("declared")?, delays.reverse.context("declared")?);
    assert!(forward.minimum_ns + reverse.minimum_ns <= delays.full.minimum_ns + 2 * 132, "{delays:?}");
    assert_eq!(delays.one_way_refused, None);
    traffic.at_rest();
    Ok(())
}
