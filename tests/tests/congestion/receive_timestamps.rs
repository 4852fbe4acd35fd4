//! Receive timestamps: the program bound to the device, on a driver that supports timestamps and a device
//! without a clock.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use tiercel::Tuning;
use tiercel_node::{AttachMode, Node, NodeError, NodeOptions};
use tiercel_tests::checks::{block_on, info, wait_until};
use tiercel_tests::cli::NodeProcess;
use tiercel_tests::nodes::Setup;
use tiercel_tests::{Host, Pair, need_root};

use crate::algorithms::KERNEL;
use crate::traffic::Traffic;

/// Returns the name of the XDP program on a host's interface.
fn attached(host: &Host) -> Result<Option<String>> {
    let shown = host.command("ip", ["-json", "link", "show", Host::INTERFACE])?;
    let links: Value = serde_json::from_str(&shown)?;
    let Some(id) = links[0]["xdp"]["prog"]["id"].as_u64() else { return Ok(None) };
    let mut programs = aya::programs::loaded_programs().flatten();
    let program =
        programs.find(|program| u64::from(program.id()) == id).context("an attached program is loaded")?;
    Ok(program.name_as_str().map(str::to_owned))
}

fn setup(hardware_timestamps: Option<bool>) -> Setup {
    let tuning = Tuning { congestion: KERNEL, ..Tuning::DEFAULT };
    Setup { tuning, hardware_timestamps, ..Setup::default() }
}

/// veth offers timestamps to XDP, but has none for frames that XDP sent. The bound program asks for each
/// packet, gets none, and uses its own clock.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_program_bound_to_its_device_falls_back_to_software_and_says_so() -> Result<()> {
    let traffic = Traffic::with(setup(Some(true)))?;
    assert_eq!(attached(&traffic.nodes.pair.a)?.as_deref(), Some("wire_stamped"));
    let acknowledged = |t: &Traffic| info(&t.nodes.at_a).statistics.acks_received;
    block_on(traffic.until("acknowledgements", |t| acknowledged(t) >= 50))?;
    traffic.at_rest();
    for node in [&traffic.nodes.a, &traffic.nodes.b] {
        let (mut received, mut stamps) = (0, Value::Null);
        // A last packet may arrive between the two readings.
        wait_until("each packet was asked for its timestamp", || {
            received = node.stats().expect("the node is up").counters["received"];
            stamps = json!(node.receive_timestamps().expect("the node is up"));
            stamps["packets"]["absent"] == received
        });
        assert_eq!((&stamps["source"], &stamps["clock"]), (&json!("software"), &Value::Null), "{stamps}");
        assert!(
            stamps["reason"].as_str().is_some_and(|reason| reason.contains("no clock (PTP)")),
            "{stamps}"
        );
        assert!(received >= 50);
        assert_eq!(
            stamps["packets"],
            json!({ "hardware": 0, "absent": received, "clock_unknown": 0, "in_future": 0, "too_old": 0 })
        );
    }
    // The delays come from software timestamps.
    let delays = info(&traffic.nodes.at_a).delays;
    assert!(delays.full.minimum_ns > 0 && delays.fabric.minimum_ns <= delays.full.minimum_ns, "{delays:?}");
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn without_a_clock_the_driver_is_not_asked_unless_that_is_demanded() -> Result<()> {
    for (wanted, reason) in [(None, "no clock (PTP)"), (Some(false), "hardware_timestamps = false")] {
        let traffic = Traffic::with(setup(wanted))?;
        assert_eq!(attached(&traffic.nodes.pair.a)?.as_deref(), Some("wire"));
        block_on(traffic.chunk())?;
        let stamps = json!(traffic.nodes.a.receive_timestamps()?);
        assert_eq!((&stamps["source"], &stamps["packets"]), (&json!("software"), &Value::Null), "{stamps}");
        assert!(stamps["reason"].as_str().is_some_and(|text| text.contains(reason)), "{stamps}");
        assert_eq!(traffic.nodes.a.stats()?.counters["stamp_absent"], 0);
    }
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn generic_mode_has_no_hardware_timestamps() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let generic = NodeOptions {
        attach: AttachMode::Generic,
        hardware_timestamps: Some(true),
        ..NodeOptions::new(Host::INTERFACE, pair.a.ipv4.into())
    };
    let refused = pair.a.run(|| Node::up(generic.clone())).expect_err("it cannot be");
    assert!(
        matches!(&refused, NodeError::NoHardwareTimestamps { reason, .. } if reason.contains("generic")),
        "{refused}"
    );
    let node = pair.a.run(|| Node::up(NodeOptions { hardware_timestamps: None, ..generic }))?;
    assert!(node.receive_timestamps()?.reason.is_some_and(|reason| reason.contains("generic")));
    Ok(())
}

/// `status` and `conn show` report the timestamps in use, and a killed node leaves nothing behind.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn people_are_told_where_timestamps_come_from() -> Result<()> {
    need_root();
    let (pair, directory) = (Pair::direct()?, TempDir::new()?);
    let up = |host, name, more: &[&str]| NodeProcess::on(host, directory.path(), name, more);
    let mut a = up(&pair.a, "a", &["--hardware-timestamps", "true"])?;
    let b = up(&pair.b, "b", &[])?;
    let connection = a.json(&["conn", "connect", &pair.b.ipv4.to_string()])?;
    let cid = connection["local_cid"].to_string();
    let shown = [a.json(&["status"])?, a.json(&["conn", "show", &cid])?, b.json(&["status"])?];
    for shown in &shown {
        let stamps = &shown["receive_timestamps"];
        assert_eq!(stamps["source"], "software");
        assert!(
            stamps["reason"].as_str().is_some_and(|reason| reason.contains("no clock (PTP)")),
            "{stamps}"
        );
    }
    assert_eq!(shown[0]["receive_timestamps"]["packets"]["hardware"], 0);
    assert_eq!(shown[2]["receive_timestamps"]["packets"], Value::Null);
    assert!(a.ok(&["status"])?.contains("receive_timestamps.source"));

    // Another node recognises the bound program as that of a node.
    let address = pair.a.ipv4.to_string();
    let second = NodeProcess::refused(
        &pair.a,
        directory.path(),
        "second",
        &["--interface", Host::INTERFACE, "--address", &address],
    )?;
    assert!(second.stderr.contains("another Tiercel node"), "{second:?}");
    a.kill()?;
    wait_until("the kernel detaches the program", || {
        attached(&pair.a).is_ok_and(|program| program.is_none())
    });
    Ok(())
}
