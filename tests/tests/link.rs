//! What a node does when the interface on which it runs changes, and addresses that belong to one interface only.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tiercel::{Access, Cid, Error, Tuning};
use tiercel_node::{AttachMode, EngineOptions, Lost, Node, NodeError, NodeOptions, Transmit};
use tiercel_tests::checks::{block_on, contents, fill, wait_until};
use tiercel_tests::cli::NodeProcess;
use tiercel_tests::nodes::{self, CID_A, CID_B, Setup, node};
use tiercel_tests::routed::{End, Routed};
use tiercel_tests::stopwatch::Stopwatch;
use tiercel_tests::veth::{self, Offload};
use tiercel_tests::{Host, Namespace, Pair, need_root};

fn up(host: &Host) -> Result<Node> {
    node(host, EngineOptions::default(), Setup::default())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_ends_with_a_reason_when_its_mac_address_changes() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let node = up(&pair.a)?;
    let before = node.device().mac;
    pair.a.ip(&format!("link set {} address 02:00:00:00:00:77\n", Host::INTERFACE))?;
    let lost = block_on(node.lost());
    let Lost::MacChanged { interface, from, to } = &lost else { panic!("{lost}") };
    assert_eq!((interface.as_str(), *from, *to), (Host::INTERFACE, before, "02:00:00:00:00:77".parse().ok()));
    assert!(matches!(node.stats(), Err(Error::NodeDown)));
    drop(node);
    // It comes up again with the new one, as soon as the kernel has let go of the old program.
    let mut again = None;
    wait_until("the interface is free for another node", || {
        again = up(&pair.a).ok();
        again.is_some()
    });
    assert_eq!(again.map(|node| node.device().mac), *to);
    Ok(())
}

#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_ends_with_a_reason_when_its_interface_moves_away() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let node = up(&pair.a)?;
    let elsewhere = Namespace::new()?;
    pair.a.ip(&format!("link set {} netns {}\n", Host::INTERFACE, elsewhere.path().display()))?;
    let lost = block_on(node.lost());
    assert!(matches!(lost, Lost::InterfaceGone { .. }), "{lost}");
    // The program left with the node, so another can take the interface where it is now.
    let shown = elsewhere.command("ip", ["link", "show", Host::INTERFACE])?;
    assert!(!shown.contains("prog/xdp"), "{shown}");
    Ok(())
}

/// The name, the carrier and the address are followed. Each change is an event, and the node goes on.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_follows_its_interface() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    a.connect(&b)?;
    let host = &routed.hosts[0];
    // The interface is up, so its name changes only since Linux 6.2.
    host.ip("link set veth0 name eth7\n")?;
    a.wait_for_event("interface veth0 has the name eth7 now");
    assert_eq!(a.node.device().interface, "eth7");
    routed.router.ip("link set port0 down\n")?;
    a.wait_for_event("interface eth7 is down or has no carrier");
    assert!(!a.node.device().carrier);
    routed.router.ip("link set port0 up\n")?;
    a.wait_for_event("interface eth7 is up again");
    wait_until("the device says so", || a.node.device().carrier);
    let address = a.node.device().address;
    host.ip(&format!("addr del {address}/24 dev eth7\n"))?;
    a.wait_for_event(&format!("does not have the node's address {address} any more"));
    host.ip(&format!("addr add {address}/24 dev eth7\n"))?;
    a.wait_for_event(&format!("has the node's address {address} again"));
    assert!(a.node.stats().is_ok());
    Ok(())
}

/// A node that starts at boot waits until the kernel has checked its address for duplicates (RFC 4862). If another host has
/// the address, the node says so.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_tentative_address_is_waited_for_and_a_duplicate_is_named() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let address = "fd78::1".parse().expect("an address");
    let begin_check = |host: &Host| -> Result<()> {
        let setting = format!("/proc/sys/net/ipv6/conf/{}/accept_dad", Host::INTERFACE);
        host.run(|| std::fs::write(setting, "1"))?;
        host.ip(&format!("addr add {address}/64 dev {}\n", Host::INTERFACE))
    };
    let up = |host: &Host| host.run(|| Node::up(NodeOptions::new(Host::INTERFACE, address)));
    begin_check(&pair.a)?;
    wait_until("the check goes on", || {
        let shown = pair.a.command("ip", ["-6", "address", "show", "dev", Host::INTERFACE]);
        let goes_on = shown.is_ok_and(|shown| shown.contains("tentative"));
        if !goes_on {
            // It takes a second or two, and has ended meanwhile.
            pair.a.ip(&format!("addr del {address}/64 dev {}\n", Host::INTERFACE)).expect("it is there");
            begin_check(&pair.a).expect("it can be added again");
        }
        goes_on
    });
    let node = up(&pair.a)?;
    assert!(node.device().addresses.contains(&address));
    // It can be bound at once.
    pair.a.run(|| std::net::TcpListener::bind((address, 4792)))?;
    begin_check(&pair.b)?;
    let error = up(&pair.b).expect_err("A has the address");
    assert!(matches!(error, NodeError::AddressDuplicate { .. }), "{error}");
    Ok(())
}

/// Two hosts with only link-local addresses of IPv6: `fe80::1` and `fe80::2` on the cable. Each has another interface with such
/// an address, which leads nowhere. The kernel takes that one if it is not told which, because its route is older.
fn link_local_pair() -> Result<Pair> {
    let pair = Pair::direct()?;
    for (number, host) in [(1, &pair.a), (2, &pair.b)] {
        let Host { ipv4, ipv6, .. } = host;
        host.ip(&format!(
            "addr del {ipv4}/16 dev veth0\naddr del {ipv6}/64 dev veth0\n\
             link add aside0 type veth peer name aside1\nlink set aside0 up\nlink set aside1 up\n\
             addr add fe80::a{number}/64 dev aside0 nodad\naddr add fe80::{number}/64 dev veth0 nodad\n"
        ))?;
    }
    Ok(pair)
}

fn link_local(number: u16) -> IpAddr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number).into()
}

/// Nodes on link-local addresses find each other on the link of their interface, and connect with and without the connection
/// manager.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn nodes_on_link_local_addresses_connect_over_their_link() -> Result<()> {
    need_root();
    let pair = link_local_pair()?;
    let a = End::up(&pair.a, link_local(1), Tuning::DEFAULT)?;
    let b = End::up(&pair.b, link_local(2), Tuning::DEFAULT)?;
    // Nobody has asked for the neighbour before.
    assert_eq!(a.node.resolve(link_local(2))?, b.node.device().mac);
    a.connect(&b)?;
    assert_eq!((a.session().peer.ip(), b.session().peer.ip()), (link_local(2), link_local(1)));
    assert_eq!(a.session().path_mtu, Some(a.node.device().mtu), "probes of the path pass");
    a.there_and_back(&b)?;
    b.there_and_back(&a)?;
    a.close(&b);

    let setup = Setup { ipv6: true, ..Setup::default() };
    let [at_a, _at_b] = nodes::connect([(&a.node, CID_A), (&b.node, CID_B)], setup)?;
    let (local, remote) = (a.node.register(10_000, Access::LOCAL)?, b.node.register(10_000, Access::ALL)?);
    let sent = fill(&local, 10_000, 19);
    block_on(at_a.write(&local, 0, remote.key(), 0, 10_000))?;
    assert!(contents(&remote, 10_000) == sent, "WRITE: the received data differ from the sent data");
    Ok(())
}

/// The program takes link-local addresses with their interface, as `ip address` and other programs write them: in the node file,
/// in options, and of peers.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn the_program_takes_link_local_addresses_with_their_interface() -> Result<()> {
    need_root();
    let (pair, directory) = (link_local_pair()?, TempDir::new()?);
    let up = |host: &Host, peer: &Host, [own, other]: [u16; 2], options: &[&str]| -> Result<NodeProcess> {
        let path = directory.path().join(format!("{own}.toml"));
        let start = "{ request_psn = 100, data_psn = 300, rsn = 1 }";
        std::fs::write(
            &path,
            format!(
                "[node]\ninterface = \"veth0\"\naddress = \"fe80::{own}%veth0\"\n\n\
                 [[connection]]\nlocal_cid = {own}0\npeer_cid = {other}0\n\
                 peer_address = \"fe80::{other}%veth0\"\npeer_mac = \"{}\"\nordered = true\n\
                 security = {{ mode = \"plaintext\", tx_spi = {own}, rx_spi = {other} }}\n\
                 tx = {start}\nrx = {start}\n",
                peer.mac
            ),
        )?;
        let config = ["--config", path.to_str().context("a plain path")?];
        NodeProcess::up(host, directory.path(), &own.to_string(), &[&config[..], options].concat())
    };
    let a = up(&pair.a, &pair.b, [1, 2], &[])?;
    let b = up(&pair.b, &pair.a, [2, 1], &["--address", "fe80::2%veth0"])?;
    assert_eq!(a.json(&["status"])?["device"]["address"], "fe80::1");
    let key = b.json(&["mr", "register", "4KiB"])?["key"].to_string();
    let moves = |cid: &str, data: &str| -> Result<()> {
        a.ok(&["write", cid, "--rkey", &key, "--data", data])?;
        let length = data.len().to_string();
        assert_eq!(b.ok(&["mr", "read", &key, "--length", &length, "--raw"])?, data);
        Ok(())
    };
    moves("10", "static")?;
    for peer in ["fe80::2%veth0", "[fe80::2%veth0]:4792", "fe80::2"] {
        let connection = a.json(&["conn", "connect", peer])?;
        let cid = connection["local_cid"].to_string();
        moves(&cid, &format!("connected to {peer}"))?;
        a.ok(&["conn", "close", &cid])?;
    }
    let elsewhere = a.run(&["conn", "connect", "fe80::2%aside0"])?;
    assert!(elsewhere.code != 0, "{elsewhere:?}");
    let said = "fe80::2%aside0 is an address on \"aside0\", and the node's interface is \"veth0\"";
    assert!(elsewhere.stderr.contains(said), "{elsewhere:?}");
    Ok(())
}

/// Checks that the connection is the one with this CID, and that it carries data in both directions.
fn goes_on(a: &End<'_>, b: &End<'_>, cid: Cid, after: &str) -> Result<()> {
    ensure!(
        a.node.connection(cid).is_some(),
        "after {after} the connection is gone: {:?}",
        a.manager.events()
    );
    a.there_and_back(b)?;
    b.there_and_back(a)
}

/// The interface gets more queues and fewer, and its offloads change: the connection goes on. A veth runs no XDP program on a new
/// queue until it is attached again, so what arrived there was lost for the node.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_connection_goes_on_when_queues_and_offloads_change() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    a.connect(&b)?;
    let cid = a.connection().cid();
    let (host, router) = (&routed.hosts[0], &routed.router);
    goes_on(&a, &b, cid, "nothing")?;
    for on in [true, false] {
        for offload in Offload::ALL {
            host.run(|| veth::set_offload(Routed::INTERFACE, offload, on))?;
            goes_on(&a, &b, cid, &format!("{offload:?} {on}"))?;
        }
    }
    let (before, most) = host.run(|| veth::queues(Routed::INTERFACE))?;
    if most.contains(&1) {
        // Nothing can change here.
        println!("on a machine with one CPU a veth has one queue: {before:?} of {most:?}");
        return Ok(());
    }
    // A veth with an XDP program must have as many receive queues as the other end has transmit queues. When the router has two,
    // both queues of the node receive its packets.
    let changes = [
        (host, Routed::INTERFACE, [2, 2]),
        (router, "port0", [2, 2]),
        (router, "port0", [1, 1]),
        (host, Routed::INTERFACE, [1, 1]),
    ];
    let followed = || a.manager.events().iter().filter(|event| event.text.contains("receive queues")).count();
    for (at, name, queues) in changes {
        at.run(|| veth::set_queues(name, queues))?;
        assert_eq!(at.run(|| veth::queues(name))?.0, queues, "{name}");
        // The carrier goes and comes back. The node may see that, or only that it has come back.
        wait_until("the carrier is back", || a.node.device().carrier);
        goes_on(&a, &b, cid, &format!("queues {queues:?} of {name}"))
            .with_context(|| format!("{:?}", a.manager.events()))?;
        // It looks four times per second, and must have seen that there were two.
        a.wait_for_event(
            "interface veth0: it has 2 receive queues now, it had 1: the node's program is on all",
        );
        if (name, queues) == (Routed::INTERFACE, [2, 2]) {
            // The second queue goes and comes back, mostly between two checks.
            let before = followed();
            host.run(|| [[1, 1], [2, 2]].into_iter().try_for_each(|queues| veth::set_queues(name, queues)))?;
            wait_until("the node follows", || followed() > before);
        }
    }
    assert!(a.node.stats().is_ok() && b.node.stats().is_ok());
    Ok(())
}

/// A veth takes frames from XDP while the other end polls, and without an XDP program the other end polls because it merges. When
/// somebody switches that off, the node sends by the kernel's stack, until it is on again. The connection goes on.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_connection_goes_on_when_the_other_end_of_the_cable_takes_no_frames_from_xdp() -> Result<()> {
    need_root();
    let routed = Routed::new()?;
    let [a, b] = routed.up(false, Tuning::DEFAULT)?;
    // A veth whose end began to merge before it was up does not tell the other end.
    for port in ["port0", "port1"] {
        for merge in [false, true] {
            routed.router.run(|| veth::set_offload(port, Offload::Merge, merge))?;
        }
    }
    for end in [&a, &b] {
        wait_until("both cables take frames", || {
            end.node.transmit().is_ok_and(|now| now == Transmit::XdpRedirect)
        });
    }
    a.connect(&b)?;
    let cid = a.connection().cid();
    for _ in 0..2 {
        for (merge, way) in [(false, Transmit::Stack), (true, Transmit::XdpRedirect)] {
            routed.router.run(|| veth::set_offload("port0", Offload::Merge, merge))?;
            wait_until("the node follows", || a.node.transmit().is_ok_and(|now| now == way));
            goes_on(&a, &b, cid, &format!("the router's end merges: {merge}"))?;
            // The other cable has not changed.
            assert_eq!(b.node.transmit()?, Transmit::XdpRedirect);
        }
    }
    // An end that polls and has no program is not woken by answers in received frames. Here only answers leave.
    let (local, memory) = (b.node.register(8, Access::LOCAL)?, a.node.register(8, Access::ALL)?);
    let stopwatch = Stopwatch::start();
    for _ in 0..200 {
        block_on(b.connection().write(&local, 0, memory.key(), 0, 8))?;
    }
    stopwatch.taken().check("200 short WRITEs, one after the other,", Duration::from_secs(2));
    Ok(())
}

/// In generic mode the interface of the node itself polls only because it merges. So the node does not leave that switched off.
#[test]
#[ignore = "needs root: cargo xtask test"]
fn a_node_in_generic_mode_keeps_its_interface_polling() -> Result<()> {
    need_root();
    let pair = Pair::direct()?;
    let up = |host: &Host| {
        let address = host.ipv4.into();
        let options =
            NodeOptions { attach: AttachMode::Generic, ..NodeOptions::new(Host::INTERFACE, address) };
        host.run(|| Node::up(options))
    };
    let (a, b) = (up(&pair.a)?, up(&pair.b)?);
    let [at_a, at_b] = nodes::connect([(&a, CID_A), (&b, CID_B)], Setup::default())?;
    let (at_a_memory, at_b_memory) = (a.register(10_000, Access::ALL)?, b.register(10_000, Access::ALL)?);
    for round in 0..2 {
        pair.a.merge(false)?;
        wait_until("the node has switched it on again", || pair.a.merges().is_ok_and(|merges| merges));
        // Frames of B arrive, and answers of A as well.
        let sent = fill(&at_b_memory, 10_000, 2 * round);
        block_on(at_b.write(&at_b_memory, 0, at_a_memory.key(), 0, 10_000))?;
        assert!(contents(&at_a_memory, 10_000) == sent);
        let sent = fill(&at_a_memory, 10_000, 2 * round + 1);
        block_on(at_a.write(&at_a_memory, 0, at_b_memory.key(), 0, 10_000))?;
        assert!(contents(&at_b_memory, 10_000) == sent);
    }
    Ok(())
}
