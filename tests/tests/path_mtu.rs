//! The MTU of a path through a router that carries shorter packets than the interfaces of both hosts.

use std::time::Duration;

use anyhow::Result;
use tiercel::{LARGEST_MTU, Tuning};
use tiercel_node::connection_manager::{ConnectError, SessionInfo};
use tiercel_tests::checks::wait_until;
use tiercel_tests::need_root;
use tiercel_tests::nodes::Setup;
use tiercel_tests::routed::{Dropped, End, Routed};
use tiercel_tests::stopwatch::Stopwatch;

/// The MTU of the path.
const PATH_MTU: u32 = 1400;
/// The smallest MTU of a connection.
const LEAST_MTU: u32 = 1280;
/// How long a connection takes at most if its data path does not carry what it should (docs/limits.md, "How soon an end is
/// noticed"): two proofs, of the size that was tried first and of the smallest.
const SET_UP: Duration = Duration::from_secs(5);
/// What each end calls the direction in which the packets of host 0, or of host 1, are lost. Host 0 is the first end.
const DIRECTIONS: [(usize, &str, &str); 2] =
    [(0, "to the peer", "from the peer"), (1, "from the peer", "to the peer")];

fn sizes(end: &End<'_>) -> (u32, Option<u32>) {
    let SessionInfo { mtu, path_mtu, .. } = end.session();
    (mtu, path_mtu)
}

/// RFC 8899: both ends find the MTU of a link behind a router, and every packet of full size arrives in both directions.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_mtu_of_a_link_behind_a_router_is_found() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let routed = Routed::new()?;
        routed.narrow(PATH_MTU)?;
        let [a, b] = routed.up(ipv6, Setup::CONSTANT)?;
        assert_eq!((a.node.device().mtu, b.node.device().mtu), (LARGEST_MTU, LARGEST_MTU));
        a.connect(&b)?;
        for end in [&a, &b] {
            assert_eq!(sizes(end), (PATH_MTU, Some(PATH_MTU)));
            let segment = end.connection().max_segment();
            assert!(segment < PATH_MTU && PATH_MTU - segment < 136, "{segment}");
        }
        a.there_and_back(&b)?;
        b.there_and_back(&a)?;
    }
    Ok(())
}

/// A firewall that drops probes silently does not prevent the connection. Falcon packets of the interfaces' size show whether
/// they pass, and if they do not, the smallest MTU is used.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn behind_a_firewall_that_drops_probes_falcon_packets_show_what_passes() -> Result<()> {
    need_root();
    for (path, agreed) in [(LARGEST_MTU, LARGEST_MTU), (PATH_MTU, LEAST_MTU)] {
        let routed = Routed::new()?;
        routed.narrow(path)?;
        routed.drop_silently(Dropped::Programs)?;
        let [a, b] = routed.up(false, Setup::CONSTANT)?;
        a.connect(&b)?;
        for end in [&a, &b] {
            assert_eq!(sizes(end), (agreed, None));
        }
        b.wait_for_event("no probe of 1280 bytes");
        if path != agreed {
            a.wait_for_event(
                "Falcon packets of 3390 bytes do not pass to the peer or from it, shorter ones do",
            );
        }
        a.there_and_back(&b)?;
    }
    Ok(())
}

/// Packets that are too long are lost in one direction, without a word. Both ends use the size that this direction carries.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_direction_that_carries_less_decides_for_both() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let routed = Routed::new()?;
        let [a, b] = routed.up(ipv6, Setup::CONSTANT)?;
        for host in 0..2 {
            let dropped = Dropped::LongFrom(host, PATH_MTU);
            routed.drop_silently(dropped)?;
            a.connect(&b)?;
            for end in [&a, &b] {
                assert_eq!(sizes(end), (PATH_MTU, Some(PATH_MTU)), "from host {host}, IPv6 {ipv6}");
            }
            a.there_and_back(&b)?;
            b.there_and_back(&a)?;
            a.close(&b);
            routed.forward_again(dropped)?;
        }
        // With the whole path back, so is its size.
        a.connect(&b)?;
        assert_eq!(sizes(&a), (LARGEST_MTU, Some(LARGEST_MTU)));
    }
    Ok(())
}

/// Only Falcon packets of full size are lost, in one direction, so probes and TCP show nothing. The proof of the data path does:
/// the connection has the smallest MTU, and both ends name direction and size.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn falcon_packets_of_full_size_that_pass_in_one_direction_only_are_named() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let routed = Routed::new()?;
        let [a, b] = routed.up(ipv6, Tuning::DEFAULT)?;
        for (host, seen_by_a, seen_by_b) in DIRECTIONS {
            let dropped = Dropped::LongFalconFrom(host, PATH_MTU);
            routed.drop_silently(dropped)?;
            let stopwatch = Stopwatch::start();
            a.connect(&b)?;
            stopwatch.taken().check("a connection with the smallest MTU", SET_UP);
            for end in [&a, &b] {
                assert_eq!(sizes(end), (LEAST_MTU, Some(LEAST_MTU)), "from host {host}, IPv6 {ipv6}");
            }
            let blocked = format!("Falcon packets of {LARGEST_MTU} bytes do not pass");
            let cid = a.session().local_cid;
            a.wait_for_event(&format!(
                "connection {cid} has an MTU of {LEAST_MTU}: {blocked} {seen_by_a}, shorter ones do"
            ));
            b.wait_for_event(&format!(
                "is not connected, although TCP reaches it: {blocked} {seen_by_b}, shorter ones do"
            ));
            a.there_and_back(&b)?;
            b.there_and_back(&a)?;
            a.close(&b);
            routed.forward_again(dropped)?;
        }
    }
    Ok(())
}

/// In one direction not even Falcon packets of the smallest MTU pass, only short ones: there is no connection, in seconds, and both
/// ends name direction and size.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn falcon_packets_of_the_smallest_mtu_that_pass_in_one_direction_only_are_named() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    for (host, seen_by_a, seen_by_b) in DIRECTIONS {
        // The short packet of a proof has a block of 512 bytes.
        let dropped = Dropped::LongFalconFrom(host, 1000);
        routed.drop_silently(dropped)?;
        let stopwatch = Stopwatch::start();
        let error = a.try_connect(&b).expect_err("no packet of full size passes");
        stopwatch.taken().check("the refusal", SET_UP);
        assert!(matches!(error, ConnectError::DataPath { .. }), "{error}");
        let blocked = format!("Falcon packets of {LEAST_MTU} bytes do not pass");
        let text = format!("{blocked} {seen_by_a}, shorter ones do: raise the MTU of the links");
        assert!(error.to_string().contains(&text), "{error}");
        b.wait_for_event(&format!("{blocked} {seen_by_b}, shorter ones do"));
        wait_until("nothing is left open", || a.is_idle() && b.is_idle());
        routed.forward_again(dropped)?;
    }
    a.connect(&b)?;
    assert_eq!(sizes(&a), (LARGEST_MTU, Some(LARGEST_MTU)));
    Ok(())
}
