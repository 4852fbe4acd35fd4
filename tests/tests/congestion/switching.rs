//! Changes of congestion control while traffic flows.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tiercel::congestion::{AlgorithmChoice, AlgorithmId, Placement};
use tiercel::{CongestionControl, Error};
use tiercel_tests::checks::{PATIENCE, block_on, block_on_for, info};

use crate::algorithms::{KERNEL, USER};
use crate::traffic::Traffic;

/// Changes between kernel and user space in both directions lose nothing.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn every_algorithm_in_every_place_while_traffic_flows() -> Result<()> {
    let traffic = Traffic::new(KERNEL)?;
    let connection = &traffic.nodes.at_a;
    let switches = async {
        for algorithm in AlgorithmId::ALL {
            for placement in [Placement::User, Placement::Kernel, Placement::User, Placement::Constant] {
                let algorithm = AlgorithmChoice::BuiltIn(algorithm);
                let control = CongestionControl { algorithm, placement, ..KERNEL };
                connection.set_congestion(control).await?;
                assert_eq!(connection.congestion(), control);
                let before = info(connection).statistics.congestion_results;
                let results = || info(connection).statistics.congestion_results - before;
                tokio::time::sleep(Duration::from_millis(1)).await;
                if placement == Placement::Constant {
                    assert_eq!(results(), 0, "{algorithm:?}");
                    continue;
                }
                let begun = Instant::now();
                while results() <= 5 {
                    ensure!(begun.elapsed() < PATIENCE, "{algorithm:?} {placement:?}: {} results", results());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
        Ok(())
    };
    block_on_for(5 * PATIENCE, traffic.during(switches))?;
    let status = traffic.nodes.a.rate_update()?;
    assert_eq!((status.connections, status.panics), (0, 0), "nobody is left in user space");
    println!("switched: {status:?}");
    traffic.at_rest();
    Ok(())
}

/// New limits take effect after the change.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn parameters_change_while_traffic_flows() -> Result<()> {
    let traffic = Traffic::new(KERNEL)?;
    let connection = &traffic.nodes.at_a;
    for placement in [Placement::Kernel, Placement::User] {
        let mut narrow = CongestionControl { placement, ..KERNEL };
        narrow.parameters.max_fcwnd = 4.0;
        narrow.parameters.max_ncwnd = 8;
        narrow.parameters.min_rto = Duration::from_millis(50);
        block_on(async {
            traffic.during(async { Ok(connection.set_congestion(narrow).await?) }).await?;
            let results = info(connection).statistics.congestion_results;
            traffic
                .until("results", |_| info(connection).statistics.congestion_results > results + 3)
                .await?;
            let now = info(connection);
            assert!(now.fcwnd <= 4.0 && now.ncwnd <= 8 && now.rto_ns >= 49_000_000, "{now:?}");
            connection.set_congestion(KERNEL).await?;
            anyhow::Ok(())
        })?;
    }
    traffic.at_rest();
    Ok(())
}

/// Two changes at the same time: both end, and what was requested last is in force.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn of_two_changes_the_last_stays() -> Result<()> {
    let traffic = Traffic::new(KERNEL)?;
    let connection = &traffic.nodes.at_a;
    block_on(async {
        for _ in 0..20 {
            let (one, other) = tokio::join!(
                connection.set_congestion(USER),
                connection.set_congestion(CongestionControl::CONSTANT)
            );
            one.and(other)?;
            assert_eq!(connection.congestion(), CongestionControl::CONSTANT);
        }
        traffic.chunk().await
    })?;
    traffic.at_rest();
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn what_cannot_be_is_refused_and_changes_nothing() -> Result<()> {
    let traffic = Traffic::new(KERNEL)?;
    let connection = &traffic.nodes.at_a;
    let refused = |control| block_on(connection.set_congestion(control)).expect_err("refused");
    let custom = AlgorithmChoice::Custom("nobody's");
    assert!(matches!(
        refused(CongestionControl { algorithm: custom, ..KERNEL }),
        Error::AlgorithmPlacement { .. }
    ));
    assert!(matches!(
        refused(CongestionControl { algorithm: custom, ..USER }),
        Error::UnknownAlgorithm { name: "nobody's", .. }
    ));
    let mut wrong = KERNEL;
    wrong.parameters.min_fcwnd = 0.0;
    let error = refused(wrong);
    assert_eq!(error.to_string(), "congestion control: min_fcwnd must be 1/1024 to 2047.999 packets");
    assert_eq!(connection.congestion(), KERNEL);

    block_on(async {
        connection.close();
        connection.closed().await;
    });
    assert!(matches!(refused(USER), Error::UnknownCid(_)));
    assert_eq!(traffic.nodes.a.rate_update()?.connections, 0);
    Ok(())
}
