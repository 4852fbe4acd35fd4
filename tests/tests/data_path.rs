//! A data path that does not carry Falcon packets, while TCP passes: at set-up, and later.

use std::time::{Duration, Instant};

use anyhow::Result;
use tiercel_tests::checks::{self, wait_until};
use tiercel_tests::need_root;
use tiercel_tests::routed::{Dropped, End, Routed, address};
use transport_user::connection_manager::{ConnectError, Event};
use transport_user::{Access, Cid, Connection, LocalCid, OpenConnection, RKey, Tuning};

const THERE: Dropped = Dropped::FalconFrom(0);
const BACK: Dropped = Dropped::FalconFrom(1);

/// A firewall drops Falcon packets in one direction or both: there is no connection, in seconds, and the direction is named at
/// both ends.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_firewall_that_drops_falcon_packets_is_named_at_set_up() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let routed = Routed::new()?;
        let [a, b] = routed.up(ipv6, Tuning::DEFAULT)?;
        for (dropped, seen_by_a, seen_by_b) in [
            (&[THERE, BACK][..], "to the peer or from it", "to the peer or from it"),
            (&[THERE], "to the peer", "from the peer"),
            (&[BACK], "from the peer", "to the peer"),
        ] {
            dropped.iter().try_for_each(|what| routed.drop_silently(*what))?;
            let begin = Instant::now();
            let error = a.try_connect(&b).expect_err("nothing passes");
            assert!(matches!(error, ConnectError::DataPath { .. }), "{error}");
            // The proof ends after two seconds. The rest is for a busy machine.
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
            let text = format!("no Falcon packet passes {seen_by_a}: let UDP port 1000 pass");
            assert!(error.to_string().contains(&text), "{error}");
            b.wait_for_event(&format!("no Falcon packet passes {seen_by_b}: "));
            dropped.iter().try_for_each(|what| routed.forward_again(*what))?;
        }
        wait_until("nothing is left open", || a.node.connections().len() + b.node.connections().len() == 0);
        // An attempt is no connection that could have lost its path.
        let lost = |event: &Event| event.text.contains("have not been acknowledged");
        assert!(!a.manager.events().iter().any(lost), "{:?}", a.manager.events());
        a.connect(&b)?;
        // The proof leaves nothing behind.
        for end in [&a, &b] {
            wait_until("its region is gone", || end.node.regions().is_empty());
        }
    }
    Ok(())
}

/// A packet is sent again this long before anybody doubts, and the end comes some seconds later. Only a machine that stands
/// still takes longer.
const SOON: Duration = Duration::from_secs(20);

/// Writes until an operation fails. Returns how long the last one took.
fn write_until_it_fails(from: &End<'_>, connection: &Connection, key: RKey, length: u64) -> Result<Duration> {
    let local = from.node.register(length as usize, Access::LOCAL)?;
    for _ in 0..1000 {
        let begin = Instant::now();
        if checks::block_on(connection.write(&local, 0, key, 0, length)).is_err() {
            return Ok(begin.elapsed());
        }
    }
    panic!("1000 WRITEs of {length} bytes passed");
}

/// Waits until both ends have no connection any more, and checks that both say why.
fn both_ended([a, b]: [&End<'_>; 2], cause: &str) {
    wait_until("it has ended at both ends", || a.node.connections().len() + b.node.connections().len() == 0);
    a.wait_for_event(cause);
    b.wait_for_event(cause);
}

/// The path's second link shrinks while a connection is open: the next operation of full packets fails in seconds, and so do
/// connection and peer, with both sizes. A new connection has the new size.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_path_that_shrinks_ends_the_connection_and_is_named() -> Result<()> {
    need_root();
    for ipv6 in [false, true] {
        let routed = Routed::new()?;
        let [a, b] = routed.up(ipv6, Tuning::DEFAULT)?;
        let remote = b.node.register(100_000, Access::ALL)?;
        // The end that writes, and the end whose answers to READs are too long.
        for (reads, narrow) in [(false, 1400), (true, 1300)] {
            a.connect(&b)?;
            let before = a.session().mtu;
            let connection = a.connection();
            let local = a.node.register(100_000, Access::LOCAL)?;
            checks::block_on(connection.write(&local, 0, remote.key(), 0, 100_000))?;
            routed.narrow(narrow)?;
            let begin = Instant::now();
            let failed = if reads {
                checks::block_on(connection.read(&local, 0, remote.key(), 0, 100_000)).is_err()
            } else {
                checks::block_on(connection.write(&local, 0, remote.key(), 0, 100_000)).is_err()
            };
            assert!(failed && begin.elapsed() < SOON, "reads {reads}: {:?}", begin.elapsed());
            both_ended([&a, &b], &format!("bytes, and the connection was set up with {before}"));
            // A veth takes 4 bytes more than its MTU from the other end, in place of a VLAN tag. Either end may be the first
            // to know its direction.
            a.wait_for_event(&format!("the MTU of the path is now {}", narrow / 10));
        }
        a.connect(&b)?;
        assert_eq!(a.session().mtu, 1300);
    }
    Ok(())
}

/// The interface of a node shrinks: its connections with longer packets end at once, and new ones have the new size.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn an_interface_that_shrinks_ends_the_connection_and_is_named() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    a.connect(&b)?;
    routed.hosts[0].ip("link set veth0 mtu 1500\n")?;
    both_ended([&a, &b], "the MTU of the node is now 1500 bytes, and the connection was set up with 3390");
    a.wait_for_event("interface veth0: the node's MTU is now 1500 bytes, it was 3390");
    assert_eq!(a.node.device().mtu, 1500);
    a.connect(&b)?;
    assert_eq!(a.session().mtu, 1500);
    Ok(())
}

/// Falcon packets stop passing while TCP goes on: the operation ends in seconds, and the connection at both ends with a cause.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_data_path_that_is_cut_later_ends_the_connection_and_is_named() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    let remote = b.node.register(1000, Access::ALL)?;
    for dropped in [THERE, BACK] {
        a.connect(&b)?;
        routed.drop_silently(dropped)?;
        let took = write_until_it_fails(&a, &a.connection(), remote.key(), 5)?;
        assert!(took < SOON, "{took:?}");
        wait_until("it has ended at both ends", || {
            a.node.connections().len() + b.node.connections().len() == 0
        });
        routed.forward_again(dropped)?;
    }
    for end in [&a, &b] {
        end.wait_for_event("no packet was acknowledged for ");
    }
    a.wait_for_event("no Falcon packet of the peer arrives any more");
    Ok(())
}

/// Another router takes over, with another MAC address, and the kernel's neighbour table knows it.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_router_with_another_mac_address_ends_the_connection_and_is_named() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    let remote = b.node.register(1000, Access::ALL)?;
    a.connect(&b)?;
    let before = a.node.resolve(address(1, true, false))?;
    let gateway = address(0, false, false);
    routed.router.ip("link set port0 address 02:00:00:00:00:99\n")?;
    routed.hosts[0]
        .ip(&format!("neigh replace {gateway} lladdr 02:00:00:00:00:99 dev veth0 nud permanent\n"))?;
    let took = write_until_it_fails(&a, &a.connection(), remote.key(), 5)?;
    assert!(took < SOON, "{took:?}");
    let cause = format!("MAC address 02:00:00:00:00:99 now, and the connection was set up with {before}");
    both_ended([&a, &b], &cause);
    a.connect(&b)?;
    let local = a.node.register(1000, Access::LOCAL)?;
    checks::block_on(a.connection().write(&local, 0, remote.key(), 0, 1000))?;
    Ok(())
}

/// A static connection has no handshake that proves its data path. If it never worked, the first operation shows it in
/// seconds, and events say it.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_static_connection_whose_data_path_never_worked_is_told() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, _b] = routed.up(false, Tuning::DEFAULT)?;
    let peer = address(1, true, false);
    let open = OpenConnection {
        local_cid: LocalCid::Given(Cid(5)),
        ..OpenConnection::new(Cid(10), peer, a.node.resolve(peer)?)
    };
    let connection = a.node.open(open)?;
    let took = write_until_it_fails(&a, &connection, RKey(1), 5)?;
    assert!(took < SOON, "{took:?}");
    a.wait_for_event(&format!("connection 5 to {peer}: its packets have not been acknowledged for "));
    a.wait_for_event("no Falcon packet of the peer has ever arrived");
    a.wait_for_event(&format!("connection 5 to {peer} failed: the peer does not acknowledge its packets"));
    Ok(())
}
