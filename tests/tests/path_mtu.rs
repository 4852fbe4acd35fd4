//! The MTU of a path through a router, whose second link carries shorter packets than the interfaces of both hosts.

use anyhow::Result;
use tiercel_tests::checks::{self, pattern};
use tiercel_tests::need_root;
use tiercel_tests::nodes::Setup;
use tiercel_tests::routed::{Dropped, End, Routed};
use transport_user::connection_manager::SessionInfo;
use transport_user::{Access, LARGEST_MTU};

/// The MTU of the router's second link.
const PATH_MTU: u32 = 1400;

/// Sends 100 KB from one end to the other and reads them back.
fn there_and_back(from: &End<'_>, to: &End<'_>) -> Result<()> {
    const LENGTH: usize = 100_000;
    let (local, remote) =
        (from.node.register(LENGTH, Access::LOCAL)?, to.node.register(LENGTH, Access::ALL)?);
    let sent = pattern(LENGTH, 4);
    local.write(0, &sent)?;
    checks::block_on(from.connection().write(&local, 0, remote.key(), 0, LENGTH as u64))?;
    assert!(checks::contents(&remote, LENGTH) == sent, "WRITE");
    local.write(0, &vec![0; LENGTH])?;
    checks::block_on(from.connection().read(&local, 0, remote.key(), 0, LENGTH as u64))?;
    assert!(checks::contents(&local, LENGTH) == sent, "READ");
    Ok(())
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
            let SessionInfo { mtu, path_mtu, .. } = end.session();
            assert_eq!((mtu, path_mtu), (PATH_MTU, Some(PATH_MTU)));
            let segment = end.connection().max_segment();
            assert!(segment < PATH_MTU && PATH_MTU - segment < 136, "{segment}");
        }
        there_and_back(&a, &b)?;
        there_and_back(&b, &a)?;
    }
    Ok(())
}

/// A firewall that drops probes silently does not prevent the connection. Falcon packets of the interfaces' size show whether
/// they pass, and if they do not, the smallest MTU is used.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn behind_a_firewall_that_drops_probes_falcon_packets_show_what_passes() -> Result<()> {
    need_root();
    for (path, agreed) in [(LARGEST_MTU, LARGEST_MTU), (PATH_MTU, 1280)] {
        let routed = Routed::new()?;
        routed.narrow(path)?;
        routed.drop_silently(Dropped::Programs)?;
        let [a, b] = routed.up(false, Setup::CONSTANT)?;
        a.connect(&b)?;
        for end in [&a, &b] {
            let SessionInfo { mtu, path_mtu, .. } = end.session();
            assert_eq!((mtu, path_mtu), (agreed, None));
        }
        b.wait_for_event("no probe of 1280 bytes");
        if path != agreed {
            a.wait_for_event(
                "Falcon packets of 3390 bytes do not pass to the peer or from it, shorter ones do",
            );
        }
        there_and_back(&a, &b)?;
    }
    Ok(())
}
