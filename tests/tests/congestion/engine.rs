//! The rate update engine in user space, in normal operation and in failure. It never stops traffic.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result};
use tiercel::congestion::Placement;
use tiercel::{CongestionControl, Tuning};
use tiercel_node::rate_update::{RateUpdateOptions, RateUpdateState, RateUpdateStatus};
use tiercel_tests::checks::{block_on, info, wait_until};
use tiercel_tests::nodes::Setup;

use crate::algorithms::{KERNEL, Misdeed, Nonsense, Sometimes, USER, user};
use crate::traffic::Traffic;

fn status(traffic: &Traffic) -> RateUpdateStatus {
    traffic.nodes.a.rate_update().expect("the node is up")
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn swift_in_the_kernel_is_the_default() -> Result<()> {
    let traffic = Traffic::new(CongestionControl::default())?;
    block_on(traffic.until("results", |t| info(&t.nodes.at_a).statistics.congestion_results >= 20))?;
    let info = info(&traffic.nodes.at_a);
    println!("default: fcwnd {:.3}, delays {:?}", info.fcwnd, info.delays.fabric);
    assert_eq!((info.congestion.algorithm.as_str(), info.congestion.placement), ("swift", Placement::Kernel));
    assert_eq!(info.statistics.congestion_results, info.statistics.congestion_events);
    assert_eq!(info.statistics.congestion_repairs, 0);
    assert_eq!(status(&traffic).state, RateUpdateState::Off, "nobody needs it");
    traffic.at_rest();
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn swift_in_user_space_answers_events() -> Result<()> {
    let traffic = Traffic::new(CongestionControl { event_queue: 3, ..USER })?;
    block_on(traffic.until("results", |t| info(&t.nodes.at_a).statistics.congestion_results >= 100))?;
    let mut now = status(&traffic);
    // The last event may be in the queue and not yet counted. A thread that waits for a CPU looks as if it stalled.
    wait_until("the engine runs, and each event is counted", || {
        now = status(&traffic);
        now.state == RateUpdateState::Running
            && now.verdicts["event_admitted_below_t1"] == now.queues[3].events
    });
    let (status, info) = (now, info(&traffic.nodes.at_a));
    assert_eq!((status.connections, status.panics), (1, 0));
    assert!(status.results >= 100 && status.events >= status.results, "{status:?}");
    assert!(status.queues[3].events >= 100 && status.queues[0].events == 0, "{status:?}");
    assert_eq!((status.repaired, info.statistics.congestion_repairs), (0, 0));
    traffic.at_rest();
    Ok(())
}

/// While the engine sleeps, the windows do not change and events are given up. It continues afterwards.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_engine_that_stalls_does_not_stop_traffic() -> Result<()> {
    let traffic = Traffic::new(CongestionControl::CONSTANT)?;
    let own = traffic.nodes.a.register_algorithm(Sometimes::new(Misdeed::Sleep))?;
    block_on(async {
        traffic.during(async { Ok(traffic.nodes.at_a.set_congestion(user(own)).await?) }).await?;
        traffic.until("the stall is shown", |t| status(t).state == RateUpdateState::Stalled).await?;
        let before = traffic.chunks.load(Relaxed);
        traffic.until("the stall is over", |t| status(t).state == RateUpdateState::Running).await?;
        assert!(traffic.chunks.load(Relaxed) > before, "traffic flows during the stall");
        let results = status(&traffic).results;
        traffic.until("it answers again", |t| status(t).results > results + 20).await
    })?;
    // An event may be given up between the two readings.
    wait_until("both count the same events as lost", || {
        info(&traffic.nodes.at_a).statistics.congestion_lost == status(&traffic).lost
    });
    let status = status(&traffic);
    assert!(status.lost > 0, "{status:?}");
    println!("stalled: {status:?}");
    traffic.at_rest();
    Ok(())
}

/// The last result stays in effect, the failure is counted and shown, and another algorithm can be set.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_algorithm_that_panics_does_not_stop_traffic() -> Result<()> {
    let traffic = Traffic::new(CongestionControl::CONSTANT)?;
    let own = traffic.nodes.a.register_algorithm(Sometimes::new(Misdeed::Panic))?;
    block_on(async {
        traffic.nodes.at_a.set_congestion(user(own)).await?;
        traffic.until("the panic", |t| status(t).panics == 1).await?;
        let held = info(&traffic.nodes.at_a);
        traffic.until("events without answer", |t| status(t).unanswered > 3).await?;
        let now = info(&traffic.nodes.at_a);
        assert_eq!((now.fcwnd, now.ncwnd, now.rto_ns), (held.fcwnd, held.ncwnd, held.rto_ns));
        let failure = now.congestion.failure.context("shown with the connection")?;
        assert_eq!(failure, "sometimes panicked: an algorithm under test panics");
        traffic.until("the engine goes on", |t| status(t).state == RateUpdateState::Running).await?;
        let shown = status(&traffic);
        assert_eq!(shown.failed.len(), 1);
        assert_eq!((shown.failed[0].cid, &shown.failed[0].reason), (traffic.nodes.at_a.cid().0, &failure));
        println!("panicked: {shown:?}");

        traffic.nodes.at_a.set_congestion(USER).await?;
        let results = status(&traffic).results;
        traffic.until("Swift answers", |t| status(t).results > results + 20).await?;
        assert_eq!((info(&traffic.nodes.at_a).congestion.failure, status(&traffic).failed), (None, vec![]));
        anyhow::Ok(())
    })?;
    traffic.at_rest();
    Ok(())
}

/// No event is admitted any more. The next connection in user space starts the engine again.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_dead_engine_does_not_stop_traffic() -> Result<()> {
    let traffic = Traffic::new(CongestionControl::CONSTANT)?;
    let own = traffic.nodes.a.register_algorithm(Sometimes::new(Misdeed::PanicTwice))?;
    block_on(async {
        traffic.nodes.at_a.set_congestion(user(own)).await?;
        traffic.until("it dies", |t| status(t).state == RateUpdateState::Dead).await?;
        let lost = status(&traffic).lost;
        traffic.until("events are refused", |t| status(t).verdicts["event_refused_queue_full"] > 100).await?;
        let dead = status(&traffic);
        // At most the one event that was queued last is lost. Refused events do not count as lost.
        assert_eq!((dead.admission.capacity, dead.lost <= lost + 1), (0, true), "{dead:?}");
        println!("dead: {dead:?}");

        traffic.nodes.at_a.set_congestion(USER).await?;
        traffic.until("it lives again", |t| status(t).results > dead.results + 20).await?;
        traffic.until("it runs", |t| status(t).state == RateUpdateState::Running).await?;
        assert_eq!(status(&traffic).starts, 2);
        anyhow::Ok(())
    })?;
    traffic.at_rest();
    Ok(())
}

/// Windows stay legal, and repairs are counted.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_algorithm_of_random_bits_does_not_stop_traffic() -> Result<()> {
    let traffic = Traffic::new(CongestionControl::CONSTANT)?;
    let own = traffic.nodes.a.register_algorithm(Nonsense(AtomicU32::new(1)))?;
    block_on(async {
        traffic.nodes.at_a.set_congestion(user(own)).await?;
        traffic
            .until("nonsense is repaired", |t| {
                let now = info(&t.nodes.at_a);
                assert!(now.fcwnd >= 1.0 / 1024.0 && now.fcwnd <= 256.0, "fcwnd {}", now.fcwnd);
                assert!((1..=2047).contains(&now.ncwnd), "ncwnd {}", now.ncwnd);
                now.statistics.congestion_repairs >= 100
            })
            .await?;
        println!("nonsense: {:?}", status(&traffic));
        // A gap of half a second may be in effect. A change of the algorithm restores normal values.
        traffic.nodes.at_a.set_congestion(KERNEL).await?;
        traffic.chunk().await
    })?;
    assert!(info(&traffic.nodes.at_a).statistics.path_changes > 0);
    let status = status(&traffic);
    // The change may leave one result, and each event that was given up may have left another.
    assert!(status.repaired >= 100 && status.unexpected <= 1 + status.lost, "{status:?}");
    traffic.at_rest();
    Ok(())
}

/// D-73: above T3 an event needs both predicates; none is admitted while they cannot hold.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_admission_policy_is_the_options() -> Result<()> {
    let rate_update =
        RateUpdateOptions { thresholds: [0; 3], packets: u32::MAX, ..RateUpdateOptions::default() };
    let tuning = Tuning { congestion: USER, ..Tuning::DEFAULT };
    let traffic = Traffic::with(Setup { rate_update, tuning, ..Setup::default() })?;
    let refused = |t: &Traffic| status(t).verdicts["event_refused_above_t3"];
    block_on(traffic.until("events are refused", |t| refused(t) > 20))?;
    let status = status(&traffic);
    assert_eq!((status.results, status.admission.thresholds), (0, [0; 3]));
    assert_eq!(traffic.nodes.at_a.congestion().placement, Placement::User);
    traffic.at_rest();
    Ok(())
}
